package sample

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// sequences by steps, batch, inputs, size of the state and how operands lie.
var sequences = []struct {
	l, n, in, h int
	layout      Layout
}{
	{1, 1, 1, 1, Contiguous},
	{2, 1, 3, 2, Contiguous},
	{3, 2, 2, 3, Contiguous},
	{4, 3, 5, 4, Transposed},
	{5, 2, 3, 4, Offset},
	{3, 2, 4, 2, Reversed},
	{12, 3, 2, 2, Contiguous},
	{2, 0, 3, 2, Contiguous}, // no sequences
	{3, 4, 1, 5, BroadcastFirst},
	{2, 17, 40, 33, Contiguous},
	{3, 5, 8, 64, Contiguous},
	{4, 70, 20, 16, Swapped},
	{2, 33, 65, 130, Contiguous},
}

func (b *builder) recurrent() {
	grad := b.def.ID == op.RecurrentGrad
	for i, s := range sequences {
		if max(s.in, s.h) > 100 && b.d != dtype.Float32 && b.d != dtype.BFloat16 {
			continue
		}
		for c := op.TanhCell; c <= op.GRUCell; c++ {
			for k := range 4 {
				if k != (i+int(c))%4 && k != (i+3)%4 && i > 4 {
					continue
				}
				a := op.Recurrence{Cell: c, Bias: k&1 != 0, Reverse: k&2 != 0}
				rows := c.Gates() * s.h
				x, state := []int{s.l, s.n, s.in}, []int{s.n, s.h}
				in := []Operand{b.in(x, s.layout, Ordinary), b.in(state, s.layout, Unit)}
				if c == op.LSTMCell {
					in = append(in, b.in(state, Contiguous, Unit))
				}
				in = append(in, b.in([]int{rows, s.in}, Contiguous, Unit), b.in([]int{rows, s.h}, s.layout, Unit))
				if a.Bias {
					in = append(in, b.in([]int{rows}, paramLayout(i), Unit), b.in([]int{rows}, Contiguous, Unit))
				}
				out, err := op.Get(op.Recurrent).Infer(a, (&Sample{In: in}).Specs())
				if err != nil {
					panic(err) // they fit
				}
				if !grad {
					b.add(a, out.Shape, in...)
					continue
				}
				in = append([]Operand{b.in(out.Shape, s.layout, Ordinary)}, in...)
				for _, saved := range append([]op.Spec{out}, a.Saved(op.Spec{DType: b.d, Shape: x}, s.h)...) {
					in = append(in, Operand{Shape: saved.Shape, DType: saved.DType, Domain: Saved})
				}
				a.GradX, a.GradState = (i+k)%3 != 0, (i+k)%3 != 1
				b.add(a, []int{rows, s.h}, in...)
			}
		}
	}
}

func badRecurrences(id op.ID) []badShape {
	a := op.Recurrence{Cell: op.GRUCell, Bias: true}
	x, h, w, u, bias := []int{4, 2, 5}, []int{2, 3}, []int{9, 5}, []int{9, 3}, []int{9}
	out, gates := []int{4, 2, 3}, []int{4, 2, 9}
	around := func(in ...[]int) []op.Spec {
		if id == op.RecurrentGrad {
			in = append(append([][]int{out}, in...), out, gates, out)
		}
		return specs(in...)
	}
	with := func(f func(a *op.Recurrence)) op.Recurrence {
		a := a
		f(&a)
		return a
	}
	bad := []badShape{
		{"no biases", op.ErrArgument, a, around(x, h, w, u)},
		{"an unknown cell", op.ErrArgument, with(func(a *op.Recurrence) { a.Cell = 9 }), around(x, h, w, u, bias, bias)},
		{"an LSTM without a cell", op.ErrArgument, with(func(a *op.Recurrence) { a.Cell = op.LSTMCell }), around(x, h, w, u, bias, bias)},
		{"another batch", op.ErrShape, a, around(x, []int{3, 3}, w, u, bias, bias)},
		{"a matrix", op.ErrShape, a, around(x[1:], h, w, u, bias, bias)},
		{"no steps", op.ErrShape, a, around([]int{0, 2, 5}, h, w, u, bias, bias)},
		{"weights of another cell", op.ErrShape, a, around(x, h, []int{12, 5}, u, bias, bias)},
		{"weights of another state", op.ErrShape, a, around(x, h, w, []int{9, 4}, bias, bias)},
		{"a bias of the wrong size", op.ErrShape, a, around(x, h, w, u, bias, []int{3})},
		{"attributes of another op", op.ErrArgument, op.Axis{}, around(x, h, w, u, bias, bias)},
	}
	if id == op.Recurrent {
		return append(bad, badShape{"gradients", op.ErrArgument, with(func(a *op.Recurrence) { a.GradX = true }), around(x, h, w, u, bias, bias)})
	}
	full := around(x, h, w, u, bias, bias)
	other := slices.Clone(full)
	other[0].Shape = []int{5, 2, 3}
	gate := slices.Clone(full)
	gate[len(gate)-2].Shape = []int{4, 2, 12}
	return append(bad,
		badShape{"a gradient of another shape", op.ErrShape, a, other},
		badShape{"gates of another cell", op.ErrShape, a, gate},
		badShape{"nothing saved", op.ErrArgument, a, full[:len(full)-1]},
		badShape{"too few operands", op.ErrArgument, a, full[:4]})
}
