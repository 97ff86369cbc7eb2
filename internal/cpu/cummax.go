package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerCum(dtype.Uint8, identity[uint8])
	registerCum(dtype.Int32, identity[int32])
	registerCum(dtype.Int64, identity[int64])
	registerCum(dtype.Float32, identity[float32])
	registerCum(dtype.Float64, identity[float64])
	registerCum(dtype.Float16, dtype.F16.Float32)
	registerCum(dtype.BFloat16, dtype.BF16.Float32)
}

func identity[T any](x T) T { return x }

// registerCum registers both ops for elements of type T, which compare as V.
func registerCum[T any, V number](d dtype.DType, value func(T) V) {
	register(op.CumMax, d, cumPositions(value, func(next, best V) bool { return next >= best || next != next }))
	register(op.CumMin, d, cumPositions(value, func(next, best V) bool { return next <= best || next != next }))
}

// cumPositions makes a kernel that finds, for each place of a line, the position
// of the best element so far: one that is not NaN is never better than NaN.
func cumPositions[T any, V number](value func(T) V, better func(next, best V) bool) kernel {
	return func(c *backend.Call) error {
		total := c.Out.Elements()
		if total == 0 {
			return nil
		}
		axis, v := c.Attrs.(op.Axis).Axis, &c.In[0]
		dst, src := elements[int64](&c.Out, total), whole[T](v)
		n, along := v.Shape[axis], v.Strides[axis]
		_, _, step := outerInner(v.Shape, axis) // the result's stride along the axis
		d := dims{rank: len(v.Shape)}
		copy(d.shape[:], v.Shape)
		d.shape[axis] = 1
		var from, to [op.MaxRank]int
		copy(from[:], v.Strides)
		copy(to[:], op.Strides(c.Out.Shape))
		pool.For(total/n, max(1, grainCheap/n), func(lo, hi int) {
			var index [op.MaxRank]int
			d.at(lo, &index)
			for range hi - lo {
				at, out := v.Offset+dot(&index, &from, d.rank), dot(&index, &to, d.rank)
				best, where := value(src[at]), int64(0)
				for k := range n {
					if x := value(src[at]); better(x, best) {
						best, where = x, int64(k)
					}
					dst[out] = where
					at += along
					out += step
				}
				d.step(&index, 0)
			}
		})
		return nil
	}
}
