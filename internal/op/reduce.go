package op

import "github.com/locusml/locus/dtype"

// ones is the shape of what is left when everything is reduced.
var ones = []int{1, 1, 1, 1, 1, 1, 1, 1}

func init() {
	reduce := func(id ID, name string, set dtype.Set, doc string, empty bool) {
		define(Def{ID: id, Name: name, Attrs: Reduce{}, Family: ReduceFamily, Arity: 1, Batch: leading, DTypes: []dtype.Set{set}, Doc: doc,
			Infer: func(a Attrs, in []Spec) (Spec, error) {
				axes := a.(Reduce).Axes
				if axes == AllAxes(len(in[0].Shape)) && (empty || Elements(in[0].Shape) > 0) {
					return Spec{in[0].DType, ones[:len(in[0].Shape):len(in[0].Shape)]}, nil
				}
				out := make([]int, len(in[0].Shape))
				for i, n := range in[0].Shape {
					out[i] = n
					if axes.Has(i) {
						out[i] = 1
						if n == 0 && !empty {
							return Spec{}, Problemf(ErrShape, "%s over axis %d of shape %s, which is empty, has no value", name, i, ShapeString(in[0].Shape))
						}
					}
				}
				return Spec{in[0].DType, out}, nil
			}})
	}
	reduce(Sum, "sum", dtype.Numbers, "the sum; 0 if empty; float16 and bfloat16 accumulate in float32", true)
	reduce(Prod, "prod", dtype.Numbers, "the product; 1 if empty", true)
	reduce(Max, "max", dtype.Any, "the largest; NaN if one is NaN; of bools: any", false)
	reduce(Min, "min", dtype.Any, "the smallest; NaN if one is NaN; of bools: all", false)
	reduce(LogSumExp, "logsumexp", dtype.Floats, "log Σ eˣ without overflow; -∞ if empty", true)
	reduce(Norm, "norm", dtype.Floats, "√Σx²; 0 if empty; float16 and bfloat16 accumulate in float32", true)

	arg := func(id ID, name, doc string) {
		define(Def{ID: id, Name: name, Attrs: Axis{}, Family: ReduceFamily, Arity: 1, Batch: leading, DTypes: []dtype.Set{dtype.Numbers}, Doc: doc,
			Infer: func(a Attrs, in []Spec) (Spec, error) {
				ax := a.(Axis).Axis
				out := append([]int(nil), in[0].Shape...)
				if out[ax] == 0 {
					return Spec{}, Problemf(ErrShape, "%s over axis %d of shape %s, which is empty, has no value", name, ax, ShapeString(out))
				}
				out[ax] = 1
				return Spec{dtype.Int64, out}, nil
			}})
	}
	arg(ArgMax, "argmax", "position of the first largest along the axis; the first NaN counts as largest; int64")
	arg(ArgMin, "argmin", "position of the first smallest along the axis; the first NaN counts as smallest; int64")
}
