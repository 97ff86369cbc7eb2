package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

func init() {
	define(Def{ID: MatMul, Name: "matmul", Family: MatMulFamily, Arity: 2, DTypes: []dtype.Set{dtype.Numbers},
		Doc: "matrix product of the last two axes; leading axes are one batch shape; float16 and bfloat16 accumulate in float32",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			a, b := in[0].Shape, in[1].Shape
			if err := sameDType(in, 0); err != nil {
				return Spec{}, err
			}
			if len(a) < 2 || len(b) < 2 {
				return Spec{}, Problemf(ErrShape, "wants matrices, got shapes %s and %s", ShapeString(a), ShapeString(b))
			}
			k, k2, n := a[len(a)-1], b[len(b)-2], b[len(b)-1]
			if k != k2 {
				p := Problemf(ErrShape, "inner sizes differ: %s has %d columns, %s has %d rows", ShapeString(a), k, ShapeString(b), k2)
				switch {
				case k == n:
					p.Fix = "transpose operand 1: .T()"
				case a[len(a)-2] == k2:
					p.Fix = "transpose operand 0: .T()"
				}
				return Spec{}, p
			}
			if !slices.Equal(a[:len(a)-2], b[:len(b)-2]) {
				return Spec{}, Problemf(ErrShape, "batch shapes differ: %s and %s", ShapeString(a), ShapeString(b))
			}
			out := a
			if n != k { // square factors share their shape with the result
				out = slices.Clone(a)
				out[len(a)-1] = n
			}
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
}
