package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Activations are the ops that Linear and ConvAct can end with. It is the only list
// of them: an activation's number, which the public constants and the kernels of
// devices use, is its place here, from 1; 0 is none.
var Activations = []ID{Relu, Gelu, GeluTanh, Silu, Sigmoid, Tanh, Relu6, HardSigmoid, HardSwish, Mish}

// CanEnd reports whether a product can end with act: with one of Activations or,
// if it is Invalid, without.
func CanEnd(act ID) bool { return act == Invalid || slices.Contains(Activations, act) }

func init() {
	define(Def{ID: Linear, Name: "linear", Attrs: Epilogue{}, Family: FusedFamily, Batch: behindFirst(BatchLead), Arity: -1, DTypes: []dtype.Set{dtype.Floats},
		Doc: "act(x·weightᵀ + bias): x (…, in), weight (out, in), optional bias (out); half-precision types sum in float32 and may round before the bias and before the activation",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			ep, ok := a.(Epilogue)
			if !ok {
				return Spec{}, attrError("linear", a)
			}
			if !CanEnd(ep.Act) {
				return Spec{}, Problemf(ErrArgument, "cannot end with %s", ep.Act)
			}
			return LinearSpec(in)
		}})
}

// LinearSpec returns the spec of x·weightᵀ + bias, whatever the element type.
func LinearSpec(in []Spec) (Spec, error) {
	if len(in) != 2 && len(in) != 3 {
		return Spec{}, Problemf(ErrArgument, "takes x, weight and perhaps a bias, got %d operands", len(in))
	}
	if err := sameDType(in, 0); err != nil {
		return Spec{}, err
	}
	x, w := in[0].Shape, in[1].Shape
	if len(x) == 0 || len(w) != 2 || x[len(x)-1] != w[1] {
		return Spec{}, Problemf(ErrShape, "x %s and weight %s do not fit: want (…, in) and (out, in)", ShapeString(x), ShapeString(w))
	}
	if len(in) == 3 && (len(in[2].Shape) != 1 || in[2].Shape[0] != w[0]) {
		return Spec{}, Problemf(ErrShape, "bias has shape %s; weight %s wants %s", ShapeString(in[2].Shape), ShapeString(w), ShapeString(w[:1]))
	}
	out := slices.Clone(x)
	out[len(x)-1] = w[0]
	return Spec{in[0].DType, out}, CheckShape(out)
}
