package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Ops of one shape that optimizers apply to every parameter in every step. As
// compositions they would pass over the memory several times.
func init() {
	alike := func(_ Attrs, in []Spec) (Spec, error) {
		if err := sameDType(in, 0); err != nil {
			return Spec{}, err
		}
		for i, s := range in[1:] {
			if !slices.Equal(s.Shape, in[0].Shape) {
				return Spec{}, Problemf(ErrShape, "operand 0 has shape %s, operand %d %s; they must be equal", ShapeString(in[0].Shape), i+1, ShapeString(s.Shape))
			}
		}
		return in[0], nil
	}
	f := []dtype.Set{dtype.Floats}
	define(Def{ID: Blend, Name: "blend", Attrs: Scales{}, Family: FusedFamily, Batch: leading, Arity: 2, DTypes: f, Infer: alike, Doc: "A·a + B·b"})
	define(Def{ID: BlendSquare, Name: "blend_square", Attrs: Scales{}, Family: FusedFamily, Batch: leading, Arity: 2, DTypes: f, Infer: alike, Doc: "A·a + B·b²"})
	define(Def{ID: AdamStep, Name: "adam_step", Attrs: Adam{}, Family: FusedFamily, Batch: leading, Arity: 3, DTypes: f, Infer: alike,
		Doc: "keep·p - rate·m/(√v·root + eps): Adam's update of a parameter p by the averages m and v"})
}
