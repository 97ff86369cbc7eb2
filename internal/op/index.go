package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Indices are int32 or int64; one outside its range is an error that the
// kernel reports (data-dependent, so on an asynchronous device it surfaces at
// the next wait). Negative indices are outside.
func init() {
	define(Def{ID: Gather, Name: "gather", Attrs: Axis{}, Family: IndexFamily, Batch: leading, Arity: 2, DTypes: []dtype.Set{dtype.Any, dtype.Indices},
		Doc: "result[i][j] = x[index[i][j]][j] for axis 0, and so on; index has x's rank and is no larger on the other axes",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			return Spec{in[0].DType, in[1].Shape}, checkGather(in[0].Shape, in[1].Shape, a.(Axis).Axis)
		}})
	scatter := func(a Attrs, in []Spec) (Spec, error) {
		if in[0].DType != in[2].DType {
			return Spec{}, Problemf(ErrDType, "x is %s and src is %s", in[0].DType, in[2].DType)
		}
		if !slices.Equal(in[1].Shape, in[2].Shape) {
			return Spec{}, Problemf(ErrShape, "index has shape %s and src %s; they must be equal", ShapeString(in[1].Shape), ShapeString(in[2].Shape))
		}
		return in[0], checkGather(in[0].Shape, in[1].Shape, a.(Axis).Axis)
	}
	define(Def{ID: ScatterAdd, Name: "scatter_add", Attrs: Axis{}, Family: IndexFamily, Batch: leading, Arity: 3, DTypes: []dtype.Set{dtype.Numbers, dtype.Indices, dtype.Numbers}, Infer: scatter,
		Doc: "a copy of x with result[index[i][j]][j] += src[i][j] for axis 0, and so on, in the order of src's elements"})
	define(Def{ID: Scatter, Name: "scatter", Attrs: Axis{}, Family: IndexFamily, Batch: leading, Arity: 3, DTypes: []dtype.Set{dtype.Any, dtype.Indices, dtype.Any}, Infer: scatter,
		Doc: "a copy of x with result[index[i][j]][j] = src[i][j] for axis 0, and so on; of several elements for one place the last along the axis stays"})
	define(Def{ID: Take, Name: "take", Attrs: Axis{}, Family: IndexFamily, Batch: Batch{Kind: BatchOwn}, Arity: 2, DTypes: []dtype.Set{dtype.Any, dtype.Indices},
		Doc: "whole slices of x along the axis, chosen by an index of any shape, which takes the axis's place",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			s := takeShape(in[0].Shape, in[1].Shape, a.(Axis).Axis)
			return Spec{in[0].DType, s}, CheckShape(s)
		}})
	define(Def{ID: IndexAdd, Name: "index_add", Attrs: Axis{}, Family: IndexFamily, Batch: Batch{Kind: BatchOwn}, Arity: 3, DTypes: []dtype.Set{dtype.Numbers, dtype.Indices, dtype.Numbers},
		Doc: "a copy of x with src's slices added at the places that index names: take's transpose, in the order of src's elements",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if in[0].DType != in[2].DType {
				return Spec{}, Problemf(ErrDType, "x is %s and src is %s", in[0].DType, in[2].DType)
			}
			if want := takeShape(in[0].Shape, in[1].Shape, a.(Axis).Axis); !slices.Equal(want, in[2].Shape) {
				return Spec{}, Problemf(ErrShape, "src has shape %s; x %s with index %s wants %s", ShapeString(in[2].Shape), ShapeString(in[0].Shape), ShapeString(in[1].Shape), ShapeString(want))
			}
			return in[0], nil
		}})
	define(Def{ID: Concat, Name: "concat", Attrs: Axis{}, Family: IndexFamily, Batch: leading, Arity: -1, DTypes: []dtype.Set{dtype.Any},
		Doc: "operands one after the other along the axis",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if err := sameDType(in, 0); err != nil {
				return Spec{}, err
			}
			ax := a.(Axis).Axis
			out := slices.Clone(in[0].Shape)
			for i, s := range in[1:] {
				if len(s.Shape) != len(out) {
					return Spec{}, Problemf(ErrShape, "operand %d has shape %s, operand 0 %s: they differ in rank", i+1, ShapeString(s.Shape), ShapeString(in[0].Shape))
				}
				for j, n := range s.Shape {
					if j == ax {
						out[j] += n
					} else if n != out[j] {
						return Spec{}, Problemf(ErrShape, "operand %d has shape %s, operand 0 %s: they may differ only on axis %d", i+1, ShapeString(s.Shape), ShapeString(in[0].Shape), ax)
					}
				}
			}
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
	define(Def{ID: Padded, Name: "pad", Attrs: Pad{}, Family: IndexFamily, Batch: leading, Arity: 1, DTypes: []dtype.Set{dtype.Any},
		Doc: "a constant before, between and after the elements of each axis",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			p := a.(Pad)
			out := make([]int, len(in[0].Shape))
			for i, n := range in[0].Shape {
				if p.Low.D[i] < 0 || p.High.D[i] < 0 || p.Interior.D[i] < 0 {
					return Spec{}, Problemf(ErrArgument, "negative padding on axis %d; use a slice to cut", i)
				}
				out[i] = p.Low.D[i] + n + max(0, n-1)*p.Interior.D[i] + p.High.D[i]
			}
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
	define(Def{ID: CumSum, Name: "cumsum", Attrs: Axis{}, Family: IndexFamily, Batch: leading, Arity: 1, DTypes: []dtype.Set{dtype.Numbers},
		Doc:   "running sum along the axis, from the end if reversed",
		Infer: func(_ Attrs, in []Spec) (Spec, error) { return in[0], nil }})
	for id, name := range map[ID]string{CumMax: "cummax", CumMin: "cummin"} {
		what := map[ID]string{CumMax: "largest", CumMin: "smallest"}[id]
		define(Def{ID: id, Name: name, Attrs: Axis{}, Family: IndexFamily, Batch: leading, Arity: 1, DTypes: []dtype.Set{dtype.Numbers},
			Doc:   "the position of the last " + what + " element so far along the axis; a NaN counts as " + what + "; int64",
			Infer: func(_ Attrs, in []Spec) (Spec, error) { return Spec{dtype.Int64, in[0].Shape}, nil }})
	}
	define(Def{ID: ArgSort, Name: "argsort", Attrs: Axis{}, Family: IndexFamily, Batch: leading, Arity: 1, DTypes: []dtype.Set{dtype.Any},
		Doc:   "the positions that sort the axis, stably, NaN last in ascending order and first in descending; int64",
		Infer: func(_ Attrs, in []Spec) (Spec, error) { return Spec{dtype.Int64, in[0].Shape}, nil }})
}

func takeShape(x, idx []int, axis int) []int {
	out := slices.Clone(x[:axis])
	out = append(out, idx...)
	return append(out, x[axis+1:]...)
}

func checkGather(x, idx []int, axis int) error {
	if len(x) != len(idx) {
		return Problemf(ErrShape, "index has shape %s and x %s: they differ in rank", ShapeString(idx), ShapeString(x))
	}
	for i := range x {
		if i != axis && idx[i] > x[i] {
			return Problemf(ErrShape, "index has shape %s, larger than x %s on axis %d", ShapeString(idx), ShapeString(x), i)
		}
	}
	return nil
}
