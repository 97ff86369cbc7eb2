package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerCum(dtype.Uint8, cumLine[uint8])
	registerCum(dtype.Int32, cumLine[int32])
	registerCum(dtype.Int64, cumLine[int64])
	registerCum(dtype.Float32, cumLine[float32])
	registerCum(dtype.Float64, cumLine[float64])
	for _, h := range halfTypes {
		h.cum()
	}
}

// cumulator writes, for each of n elements of a line, the position of the best so
// far. The line begins at x[0] and dst[0], with the given strides.
type cumulator[T any] func(dst []int64, step int, x []T, along, n int, smallest bool)

// cumLine keeps the last of equal elements. One that is not NaN is never better than
// NaN, to which no comparison is true.
func cumLine[T number](dst []int64, step int, x []T, along, n int, smallest bool) {
	best, where := x[0], 0
	if smallest {
		for k := range n {
			if v := x[k*along]; v <= best || v != v {
				best, where = v, k
			}
			dst[k*step] = int64(where)
		}
		return
	}
	for k := range n {
		if v := x[k*along]; v >= best || v != v {
			best, where = v, k
		}
		dst[k*step] = int64(where)
	}
}

// cumHalf compares as float32.
func cumHalf[H half](dst []int64, step int, x []H, along, n int, smallest bool) {
	up, _ := conversions[H]()
	s, line := scratchOf[H](n)
	t, wide := scratchOf[float32](n)
	for k := range n {
		line[k] = x[k*along]
	}
	up(wide, line)
	cumLine(dst, step, wide, 1, n, smallest)
	release(t)
	release(s)
}

func registerCum[T any](d dtype.DType, f cumulator[T]) {
	register(op.CumMax, d, cumPositions(f, false))
	register(op.CumMin, d, cumPositions(f, true))
}

// cumPositions makes a kernel that goes along the lines of an axis.
func cumPositions[T any](f cumulator[T], smallest bool) kernel {
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
		offset := v.Offset
		if along < 0 { // a Go slice does not go backwards
			dense, t := denseOf[T](v)
			defer release(t)
			src, offset, along, from = dense, 0, step, to
		}
		pool.For(total/n, max(1, grainCheap/n), func(lo, hi int) {
			var index [op.MaxRank]int
			d.at(lo, &index)
			for range hi - lo {
				f(dst[dot(&index, &to, d.rank):], step, src[offset+dot(&index, &from, d.rank):], along, n, smallest)
				d.step(&index, 0)
			}
		})
		return nil
	}
}
