package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// The loss of classes is one op: log_softmax and its gradient would write two tensors
// of the size of the scores, of which one number per row is used.
func init() {
	define(Def{ID: CrossEntropy, Name: "cross_entropy", Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 2, DTypes: []dtype.Set{dtype.Floats, dtype.Indices}, Saves: true,
		Doc: "logsumexp(x) - x[class] of each row of x (N, C), the class from the second operand (N); float32 in half precision; " +
			"saves the largest element m of each row and 1/Σeˣ⁻ᵐ; a class outside 0 to C-1 is an error",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			return Spec{wideOf(in[0].DType), slices.Clone(in[1].Shape)}, checkClasses(in[0], in[1])
		},
		More: func(_ Attrs, in []Spec) []Spec {
			s := Spec{wideOf(in[0].DType), slices.Clone(in[1].Shape)}
			return []Spec{s, s}
		}})
	define(Def{ID: CrossEntropyGrad, Name: "cross_entropy_grad", Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 5,
		DTypes: []dtype.Set{dtype.Floats, dtype.Indices, dtype.Floats},
		Doc:    "cross_entropy's gradient for x, g·(eˣ⁻ᵐ·r - [column = class]) (operands: x, the classes, the gradient g of each row, and the saved m and r = 1/Σeˣ⁻ᵐ)",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			if err := checkClasses(in[0], in[1]); err != nil {
				return Spec{}, err
			}
			for i, s := range in[2:] {
				if want := wideOf(in[0].DType); s.DType != want {
					return Spec{}, Problemf(ErrDType, "operand %d is %s; want %s", i+2, s.DType, want)
				}
				if !slices.Equal(s.Shape, in[1].Shape) {
					return Spec{}, Problemf(ErrShape, "operand %d has shape %s; want %s", i+2, ShapeString(s.Shape), ShapeString(in[1].Shape))
				}
			}
			return in[0], nil
		}})
}

// wideOf is the type in which kernels compute with d.
func wideOf(d dtype.DType) dtype.DType {
	if d == dtype.Float64 {
		return d
	}
	return dtype.Float32
}

func checkClasses(x, classes Spec) error {
	if len(x.Shape) != 2 || len(classes.Shape) != 1 || x.Shape[0] != classes.Shape[0] {
		return Problemf(ErrShape, "scores have shape %s and classes %s; want (N, C) and (N)", ShapeString(x.Shape), ShapeString(classes.Shape))
	}
	return nil
}
