package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Cell is what a recurrent network does at each step. x is the input, h the state, W
// and U the weights of both; σ is the sigmoid.
//
//	RNN:   h' = tanh(z), or max(z, 0), with z = W·x + b + U·h + c
//	LSTM:  the gates are i, f, k, o = σ, σ, tanh, σ of such sums; cell' = f·cell + i·k, h' = o·tanh(cell')
//	GRU:   r, z = σ of such sums, n = tanh(W·x + b + r·(U·h + c)); h' = n + z·(h - n)
type Cell uint8

// The cells.
const (
	TanhCell Cell = iota
	ReluCell
	LSTMCell
	GRUCell
	numCells
)

func (c Cell) String() string {
	return EnumName("Cell", int(c), "rnn", "relu_rnn", "lstm", "gru")
}

// Gates is how many sums a step takes for each element of the state.
func (c Cell) Gates() int {
	switch c {
	case LSTMCell:
		return 4
	case GRUCell:
		return 3
	}
	return 1
}

// Recurrence is the attribute of Recurrent and RecurrentGrad.
type Recurrence struct {
	Cell    Cell
	Bias    bool // whether there are biases: both
	Reverse bool // from the last step to the first

	GradX, GradState bool // gradients: whether those of x, and of the first state, are wanted
}

// At returns the places of Recurrent's operands behind x, which is 0, and the first
// state, which is 1: of the first cell, the weights W and U and the biases of both,
// -1 where there is none, and how many operands there are.
func (a Recurrence) At() (cell, w, u, biasW, biasU, n int) {
	cell, w, biasW, biasU = -1, 2, -1, -1
	if a.Cell == LSTMCell {
		cell, w = 2, 3
	}
	u, n = w+1, w+2
	if a.Bias {
		biasW, biasU, n = n, n+1, n+2
	}
	return
}

// Saved returns the specs of what Recurrent saves for the gradient, for x (L, N, in)
// and a state of size h: an LSTM's gates (L, N, 4h) and cells (L, N, h), and a GRU's
// gates (L, N, 3h) and what the state contributes to the last of them (L, N, h).
func (a Recurrence) Saved(x Spec, h int) []Spec {
	if a.Cell.Gates() == 1 {
		return nil // the states are enough
	}
	l, n := x.Shape[0], x.Shape[1]
	return []Spec{{x.DType, []int{l, n, a.Cell.Gates() * h}}, {x.DType, []int{l, n, h}}}
}

func init() {
	f := []dtype.Set{dtype.Floats}
	define(Def{ID: Recurrent, Name: "recurrent", Attrs: Recurrence{}, Family: FusedFamily, Batch: Batch{Kind: BatchOwn}, Arity: -1, DTypes: f, Saves: true,
		Doc: "the states (L, N, H) of a recurrent network, an RNN, an LSTM or a GRU as PyTorch defines them, that reads x (L, N, in): operands x, the first state (N, H), an LSTM's first cell (N, H), " +
			"weights (gates·H, in) and (gates·H, H), perhaps both biases (gates·H); behind an LSTM's states comes the last cell, (L+1, N, H) in all; saves the gates, and an LSTM's cells or what the state contributes to a GRU's last gate",
		Infer: func(attrs Attrs, in []Spec) (Spec, error) {
			a, ok := attrs.(Recurrence)
			if !ok {
				return Spec{}, attrError("recurrent", attrs)
			}
			if a.GradX || a.GradState {
				return Spec{}, Problemf(ErrArgument, "asks for gradients")
			}
			return a.spec(in)
		},
		More: func(attrs Attrs, in []Spec) []Spec { return attrs.(Recurrence).Saved(in[0], in[1].Shape[1]) }})
	define(Def{ID: RecurrentGrad, Name: "recurrent_grad", Attrs: Recurrence{}, Family: FusedFamily, Batch: Batch{Kind: BatchComposed}, Arity: -1, DTypes: f, Parts: true,
		Doc: "recurrent's gradients for the weight of the state, the weight of x, the biases, if there are any, and where they are wanted x and the first state and cell " +
			"(operands: gradient, recurrent's operands, its result, and what it saved)",
		Infer: func(attrs Attrs, in []Spec) (Spec, error) {
			a, ok := attrs.(Recurrence)
			if !ok {
				return Spec{}, attrError("recurrent_grad", attrs)
			}
			return a.gradSpec(in)
		},
		More: func(attrs Attrs, in []Spec) []Spec {
			a := attrs.(Recurrence)
			_, w, _, biasW, biasU, n := a.At()
			own := in[1 : 1+n]
			more := []Spec{own[w]}
			if a.Bias {
				more = append(more, own[biasW], own[biasU])
			}
			if a.GradX {
				more = append(more, own[0])
			}
			if a.GradState {
				more = append(more, own[1])
				if a.Cell == LSTMCell {
					more = append(more, own[2])
				}
			}
			return more
		}})
}

// spec is Recurrent's rule.
func (a Recurrence) spec(in []Spec) (Spec, error) {
	if a.Cell >= numCells {
		return Spec{}, Problemf(ErrArgument, "there is no %s", a.Cell)
	}
	cell, w, u, biasW, biasU, n := a.At()
	if len(in) != n {
		return Spec{}, Problemf(ErrArgument, "takes %d operands with these attributes, got %d", n, len(in))
	}
	if err := sameDType(in, 0); err != nil {
		return Spec{}, err
	}
	x, h := in[0].Shape, in[1].Shape
	if len(x) != 3 || len(h) != 2 || h[0] != x[1] {
		return Spec{}, Problemf(ErrShape, "x %s and the first state %s do not fit: want (L, N, in) and (N, H)", ShapeString(x), ShapeString(h))
	}
	if x[0] == 0 || x[2] == 0 || h[1] == 0 {
		return Spec{}, Problemf(ErrShape, "x %s and the first state %s: there must be a step, an input and a state", ShapeString(x), ShapeString(h))
	}
	rows := a.Cell.Gates() * h[1]
	for _, o := range []struct {
		at   int
		want []int
	}{{cell, h}, {w, []int{rows, x[2]}}, {u, []int{rows, h[1]}}, {biasW, []int{rows}}, {biasU, []int{rows}}} {
		if o.at >= 0 && !slices.Equal(in[o.at].Shape, o.want) {
			return Spec{}, Problemf(ErrShape, "operand %d has shape %s; want %s", o.at, ShapeString(in[o.at].Shape), ShapeString(o.want))
		}
	}
	steps := x[0]
	if a.Cell == LSTMCell {
		steps++
	}
	out := Spec{in[0].DType, []int{steps, x[1], h[1]}}
	return out, CheckShape(out.Shape)
}

// gradSpec is RecurrentGrad's rule.
func (a Recurrence) gradSpec(in []Spec) (Spec, error) {
	_, _, u, _, _, n := a.At()
	if a.Cell >= numCells {
		return Spec{}, Problemf(ErrArgument, "there is no %s", a.Cell)
	}
	count := n + 2
	if a.Cell.Gates() > 1 {
		count += 2
	}
	if len(in) != count {
		return Spec{}, Problemf(ErrArgument, "takes a gradient, %d operands of recurrent, its result and what it saved, %d in all; got %d", n, count, len(in))
	}
	out, err := a.spec(in[1 : 1+n])
	if err != nil {
		return Spec{}, err
	}
	want := append([]Spec{out}, a.Saved(in[1], in[2].Shape[1])...)
	if err := sameDType(in, 0); err != nil {
		return Spec{}, err
	}
	if !slices.Equal(in[0].Shape, out.Shape) {
		return Spec{}, Problemf(ErrShape, "the gradient has shape %s; recurrent's result has %s", ShapeString(in[0].Shape), ShapeString(out.Shape))
	}
	for i, s := range want {
		if at := 1 + n + i; !slices.Equal(in[at].Shape, s.Shape) {
			return Spec{}, Problemf(ErrShape, "operand %d has shape %s; recurrent returns %s", at, ShapeString(in[at].Shape), ShapeString(s.Shape))
		}
	}
	return in[1+u], nil
}
