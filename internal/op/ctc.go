package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Alignment is the attribute of CTC and of its gradient.
type Alignment struct{ Blank int }

// The loss of unaligned sequences. A path goes through the labels with blanks around them,
// 2·S+1 states, and stays in a state or goes on by one, or by two over a blank between
// labels that differ.
func init() {
	sets := []dtype.Set{dtype.Floats, dtype.Indices, dtype.Indices, dtype.Indices, dtype.Floats}
	define(Def{ID: CTC, Name: "ctc_loss", Attrs: Alignment{}, Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 4, DTypes: sets, Saves: true,
		Doc: "-log of the probability of each target (N, S) under x (N, T, C), the logarithms of probabilities: the sum over all paths; the last operands are how many steps and labels count (N); " +
			"float32 in half precision; infinite if no path fits; saves the logarithm of the probability of the paths to each state (N, T, 2·S+1); a label or a length out of range is an error",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			return Spec{wideOf(in[0].DType), slices.Clone(in[0].Shape[:min(1, len(in[0].Shape))])}, checkCTC(a, in)
		},
		More: func(_ Attrs, in []Spec) []Spec { return []Spec{ctcStates(in)} }})
	define(Def{ID: CTCGrad, Name: "ctc_loss_grad", Attrs: Alignment{}, Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 7, DTypes: sets,
		Doc: "ctc_loss's gradient for x, -g times the probability that a path is at the label then, 0 where the loss is infinite (operands: those of ctc_loss, the gradient g of each loss, what it saved, and the losses)",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if err := checkCTC(a, in[:4]); err != nil {
				return Spec{}, err
			}
			loss := Spec{wideOf(in[0].DType), in[0].Shape[:1]}
			for i, want := range []Spec{loss, ctcStates(in), loss} {
				if s := in[4+i]; s.DType != want.DType {
					return Spec{}, Problemf(ErrDType, "operand %d is %s; want %s", 4+i, s.DType, want.DType)
				} else if !slices.Equal(s.Shape, want.Shape) {
					return Spec{}, Problemf(ErrShape, "operand %d has shape %s; want %s", 4+i, ShapeString(s.Shape), ShapeString(want.Shape))
				}
			}
			return in[0], nil
		}})
}

func ctcStates(in []Spec) Spec {
	return Spec{wideOf(in[0].DType), []int{in[0].Shape[0], in[0].Shape[1], 2*in[1].Shape[1] + 1}}
}

func checkCTC(a Attrs, in []Spec) error {
	p, ok := a.(Alignment)
	if !ok {
		return attrError("ctc_loss", a)
	}
	x, t := in[0].Shape, in[1].Shape
	if len(x) != 3 || len(t) != 2 || x[0] != t[0] {
		return Problemf(ErrShape, "x has shape %s and the targets %s; want (N, T, C) and (N, S)", ShapeString(x), ShapeString(t))
	}
	if p.Blank < 0 || p.Blank >= x[2] {
		return Problemf(ErrArgument, "the blank is %d; there are %d classes", p.Blank, x[2])
	}
	for i, s := range in[2:4] {
		if !slices.Equal(s.Shape, x[:1]) {
			return Problemf(ErrShape, "operand %d has shape %s; want one length for each of %d sequences", i+2, ShapeString(s.Shape), x[0])
		}
	}
	return CheckShape([]int{x[0], x[1], 2*t[1] + 1})
}
