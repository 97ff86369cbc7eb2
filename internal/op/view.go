package op

import "github.com/locusml/locus/dtype"

func init() {
	one := []dtype.Set{dtype.Any}
	define(Def{ID: Reshape, Name: "reshape", Attrs: Shape{}, Family: ViewFamily, Arity: 1, DTypes: one, Doc: "the same elements in another shape",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			return Spec{in[0].DType, a.(Shape).Shape.Slice()}, nil
		}})
	define(Def{ID: Expand, Name: "expand", Attrs: Shape{}, Family: ViewFamily, Arity: 1, DTypes: one, Doc: "axes of size 1 repeated without copying",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			to, from := a.(Shape).Shape.Slice(), in[0].Shape
			for i := range from {
				j := len(to) - len(from) + i
				if j < 0 || from[i] != to[j] && from[i] != 1 {
					return Spec{}, Problemf(ErrShape, "cannot expand %s to %s", ShapeString(from), ShapeString(to))
				}
			}
			return Spec{in[0].DType, to}, nil
		}})
	define(Def{ID: Permutation, Name: "permute", Attrs: Permute{}, Family: ViewFamily, Arity: 1, DTypes: one, Doc: "axes in another order",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			p := a.(Permute).Perm
			out := make([]int, p.N)
			for i := range out {
				out[i] = in[0].Shape[p.D[i]]
			}
			return Spec{in[0].DType, out}, nil
		}})
	define(Def{ID: Sliced, Name: "slice", Attrs: Slice{}, Family: ViewFamily, Arity: 1, DTypes: one, Doc: "a range with a step of each axis",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			return Spec{in[0].DType, a.(Slice).Len.Slice()}, nil
		}})
	define(Def{ID: DiagonalView, Name: "diagonal", Attrs: Diagonal{}, Family: ViewFamily, Arity: 1, DTypes: one, Doc: "the diagonal of two axes, as a new last axis",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			d := a.(Diagonal)
			var out []int
			for i, n := range in[0].Shape {
				if i != d.A && i != d.B {
					out = append(out, n)
				}
			}
			n, m := in[0].Shape[d.A], in[0].Shape[d.B]
			if d.Offset >= 0 {
				m -= d.Offset
			} else {
				n += d.Offset
			}
			return Spec{in[0].DType, append(out, max(0, min(n, m)))}, nil
		}})
}
