package cpu

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerWidths(op.Gather, indexed(gather[uint8]), indexed(gather[uint16]), indexed(gather[uint32]), indexed(gather[uint64]))
	registerWidths(op.Take, indexed(take[uint8]), indexed(take[uint16]), indexed(take[uint32]), indexed(take[uint64]))
	registerWidths(op.Scatter, indexed(scatterSet[uint8]), indexed(scatterSet[uint16]), indexed(scatterSet[uint32]), indexed(scatterSet[uint64]))
	registerScatter(op.ScatterAdd, scatterAdd[uint8], scatterAdd[int32], scatterAdd[int64], scatterAdd[float32], scatterAdd[float64])
}

// indexed makes a kernel of an op whose second operand holds places along an axis
// of the first. They are checked even where there is nothing to compute; run gets
// them where there is.
func indexed(run func(c *backend.Call, axis int, idx []int64)) kernel {
	return func(c *backend.Call) error {
		axis := c.Attrs.(op.Axis).Axis
		idx, s, err := indices(&c.In[1], c.In[0].Shape[axis], axis)
		if err != nil {
			return err
		}
		if c.Out.Elements() > 0 {
			run(c, axis, idx)
		}
		release(s)
		return nil
	}
}

// wideIndices returns an index operand as dense int64. The scratch may be nil.
func wideIndices(v *backend.View) ([]int64, *scratch) {
	n := v.Elements()
	if n == 0 {
		return nil, nil
	}
	if v.DType == dtype.Int64 {
		return denseOf[int64](v)
	}
	narrow, t := denseOf[int32](v)
	s, wide := scratchOf[int64](n)
	converted(wide, narrow)
	release(t)
	return wide, s
}

// indices returns an index operand as dense int64, after checking that all are
// in [0, limit). The scratch may be nil.
func indices(v *backend.View, limit, axis int) ([]int64, *scratch, error) {
	idx, s := wideIndices(v)
	n := len(idx)
	if n == 0 {
		return nil, nil, nil
	}
	var mu sync.Mutex
	bad := n
	pool.For(n, grainCheap, func(lo, hi int) {
		for i, x := range idx[lo:hi] {
			if uint64(x) >= uint64(limit) {
				mu.Lock()
				bad = min(bad, lo+i)
				mu.Unlock()
				return
			}
		}
	})
	if bad < n {
		err := outOfRange(idx[bad], v.Shape, bad, limit, axis)
		release(s)
		return nil, nil, err
	}
	return idx, s, nil
}

func outOfRange(x int64, shape []int, at, limit, axis int) error {
	place := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		place[i] = at % shape[i]
		at /= shape[i]
	}
	valid := fmt.Sprintf("valid are 0 to %d", limit-1)
	if limit == 0 {
		valid = "the axis is empty"
	}
	return op.Problemf(op.ErrIndex, "index %d at %s of the index tensor is out of range for axis %d of size %d; %s",
		x, op.ShapeString(place), axis, limit, valid)
}

// gather reads x at index along the axis and at the result's own place on the others.
func gather[W word](c *backend.Call, axis int, idx []int64) {
	n := c.Out.Elements()
	x := &c.In[0]
	src, dst := whole[W](x), elements[W](&c.Out, n)
	d := dims{rank: len(c.Out.Shape)}
	copy(d.shape[:], c.Out.Shape)
	var strides [op.MaxRank]int
	copy(strides[:], x.Strides)
	along := strides[axis]
	strides[axis] = 0
	last := d.rank - 1
	inner, step := d.shape[last], strides[last]
	pool.For(n/inner, max(1, grainCheap/inner), func(lo, hi int) {
		var index [op.MaxRank]int
		d.at(lo*inner, &index)
		for row := lo; row < hi; row++ {
			at := x.Offset + dot(&index, &strides, d.rank)
			to := dst[row*inner : (row+1)*inner]
			for j, k := range idx[row*inner : (row+1)*inner] {
				to[j] = src[at+int(k)*along]
				at += step
			}
			d.step(&index, 1)
		}
	})
}

// take copies slices of x.
func take[W word](c *backend.Call, axis int, idx []int64) {
	v := &c.In[0]
	outer, size, inner := outerInner(v.Shape, axis)
	x, t := dense[W](v)
	defer release(t)
	dst := elements[W](&c.Out, c.Out.Elements())
	k := len(idx)
	pool.For(outer*k, max(1, grainCheap/inner), func(lo, hi int) {
		for lo < hi {
			o, j := lo/k, lo%k
			n := min(hi-lo, k-j)
			from, to := x[o*size*inner:(o+1)*size*inner], dst[lo*inner:(lo+n)*inner]
			if inner == 1 {
				for i, at := range idx[j : j+n] {
					to[i] = from[at]
				}
			} else {
				vec.Take(bytesIn(to), bytesIn(from), idx[j:j+n], inner*int(unsafe.Sizeof(to[0])))
			}
			lo += n
		}
	})
}

// bytesIn returns the memory of x.
func bytesIn[W word](x []W) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(x[0])))
}

// adder adds src's elements to dst at idx: shapes as the op's operands have them.
type adder[T number] func(dst, src []T, idx []int64, c *backend.Call)

func registerScatter(id op.ID, u8 adder[uint8], i32 adder[int32], i64 adder[int64], f32 adder[float32], f64 adder[float64]) {
	register(id, dtype.Uint8, scatter(u8))
	register(id, dtype.Int32, scatter(i32))
	register(id, dtype.Int64, scatter(i64))
	register(id, dtype.Float32, scatter(f32))
	register(id, dtype.Float64, scatter(f64))
	for _, h := range halfTypes {
		register(id, h.dtype, h.scatter(f32))
	}
}

func scatter[T number](add adder[T]) kernel {
	return indexed(func(c *backend.Call, _ int, idx []int64) {
		n := c.Out.Elements()
		dst := elements[T](&c.Out, n)
		copyAny(dst, &c.In[0])
		if c.In[2].Elements() > 0 {
			src, t := denseOf[T](&c.In[2])
			add(dst, src, idx, c)
			release(t)
		}
	})
}

// scatterHalf adds in float32 and rounds once.
func scatterHalf[H half](add adder[float32]) kernel {
	up, down := conversions[H]()
	return indexed(func(c *backend.Call, _ int, idx []int64) {
		n := c.Out.Elements()
		dst, t := widened(&c.In[0], up)
		if c.In[2].Elements() > 0 {
			src, t := widened(&c.In[2], up)
			add(dst, src, idx, c)
			t.free()
		}
		down(elements[H](&c.Out, n), dst)
		t.free()
	})
}

// widened returns a half-precision view as dense float32, in a scratch.
func widened[H half](v *backend.View, up func([]float32, []H)) ([]float32, *scratch) {
	s, f := scratchOf[float32](v.Elements())
	if len(f) > 0 {
		d, t := denseOf[H](v)
		pool.For(len(f), grainCheap, func(lo, hi int) { up(f[lo:hi], d[lo:hi]) })
		release(t)
	}
	return f, s
}

// lines is the width of the blocks into which scatters divide the inner axes. One
// thread adds to each element of the result, in order.
const lines = 64

func scatterAdd[T number](dst, src []T, idx []int64, c *backend.Call) {
	overPlaces(c, func(at, along int, place []int) {
		for j, k := range idx[at:][:len(place)] {
			dst[place[j]+int(k)*along] += src[at+j]
		}
	})
}

// scatterSet puts src's elements where index says; the last along the axis stays.
func scatterSet[W word](c *backend.Call, _ int, idx []int64) {
	dst := elements[W](&c.Out, c.Out.Elements())
	copyView(dst, &c.In[0])
	if c.In[2].Elements() == 0 {
		return
	}
	src, t := dense[W](&c.In[2])
	overPlaces(c, func(at, along int, place []int) {
		for j, k := range idx[at:][:len(place)] {
			dst[place[j]+int(k)*along] = src[at+j]
		}
	})
	release(t)
}

// overPlaces visits the elements of a scatter's source in order along the axis, some
// neighbors at a time: the elements from number at on go to place, plus along times
// their index.
func overPlaces(c *backend.Call, visit func(at, along int, place []int)) {
	axis := c.Attrs.(op.Axis).Axis
	shape := c.In[1].Shape
	strides := op.Strides(c.Out.Shape)
	outer, n, inner := outerInner(shape, axis)
	before := dims{rank: axis}
	copy(before.shape[:], shape[:axis])
	behind := dims{rank: len(shape) - axis - 1}
	copy(behind.shape[:], shape[axis+1:])
	var beforeStrides, behindStrides [op.MaxRank]int
	copy(beforeStrides[:], strides[:axis])
	copy(behindStrides[:], strides[axis+1:])
	along := strides[axis]
	blocks := (inner-1)/lines + 1
	pool.For(outer*blocks, max(1, grainCheap/(n*min(inner, lines))), func(lo, hi int) {
		var index [op.MaxRank]int
		var place [lines]int
		for t := lo; t < hi; t++ {
			o, b := t/blocks, t%blocks*lines
			before.at(o, &index)
			base := dot(&index, &beforeStrides, before.rank)
			w := min(lines, inner-b)
			behind.at(b, &index)
			for j := range w {
				place[j] = base + dot(&index, &behindStrides, behind.rank)
				behind.step(&index, 0)
			}
			for i := range n {
				visit((o*n+i)*inner+b, along, place[:w])
			}
		}
	})
}

// copyAny is copyView for a type that is not a word.
func copyAny[T any](dst []T, v *backend.View) {
	switch unsafe.Sizeof(dst[0]) {
	case 1:
		copyView(convert[uint8](dst), v)
	case 2:
		copyView(convert[uint16](dst), v)
	case 4:
		copyView(convert[uint32](dst), v)
	default:
		copyView(convert[uint64](dst), v)
	}
}
