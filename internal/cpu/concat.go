package cpu

import (
	"math"
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerWidths(op.Concat, concat[uint8], concat[uint16], concat[uint32], concat[uint64])
	registerWidths(op.Padded, pad[uint8], pad[uint16], pad[uint32], pad[uint64])
}

func concat[W word](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	axis := c.Attrs.(op.Axis).Axis
	dst := elements[W](&c.Out, n)
	outer, size, inner := outerInner(c.Out.Shape, axis)
	at := 0
	for i := range c.In {
		v := &c.In[i]
		length := v.Shape[axis] * inner
		if length == 0 {
			continue
		}
		src, s := dense[W](v)
		if outer == 1 {
			pool.For(length, grainCheap, func(lo, hi int) { copy(dst[at+lo:at+hi], src[lo:hi]) })
		} else {
			pool.For(outer, max(1, grainCheap/length), func(lo, hi int) {
				for o := lo; o < hi; o++ {
					copy(dst[o*size*inner+at:][:length], src[o*length:])
				}
			})
		}
		release(s)
		at += length
	}
	return nil
}

func pad[W word](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	a, v := c.Attrs.(op.Pad), &c.In[0]
	dst := elements[W](&c.Out, n)
	value := W(scalarBits(c.Out.DType, a.Value))
	pool.For(n, grainCheap, func(lo, hi int) { fillWords(dst[lo:hi], value) })
	if v.Elements() == 0 {
		return nil
	}
	r := len(v.Shape)
	if r == 0 {
		copyView(dst, v)
		return nil
	}
	src := whole[W](v)
	d := dims{rank: r}
	copy(d.shape[:], v.Shape)
	var from, to [op.MaxRank]int
	copy(from[:], v.Strides)
	first := 0
	for i, st := range op.Strides(c.Out.Shape) {
		to[i] = st * (1 + a.Interior.D[i])
		first += st * a.Low.D[i]
	}
	inner := d.shape[r-1]
	pool.For(v.Elements()/inner, max(1, grainCheap/inner), func(lo, hi int) {
		var index [op.MaxRank]int
		d.at(lo*inner, &index)
		for range hi - lo {
			f, t := v.Offset+dot(&index, &from, r), first+dot(&index, &to, r)
			if from[r-1] == 1 && to[r-1] == 1 {
				copy(dst[t:t+inner], src[f:f+inner])
			} else {
				for range inner {
					dst[t] = src[f]
					f += from[r-1]
					t += to[r-1]
				}
			}
			d.step(&index, 1)
		}
	})
	return nil
}

// scalarBits returns the bits of a number in an element type.
func scalarBits(d dtype.DType, x float64) uint64 {
	switch d {
	case dtype.Bool:
		return uint64(b2u(x != 0))
	case dtype.Uint8:
		return uint64(one(saturated[uint8, float64](0, 255), x))
	case dtype.Int32:
		return uint64(uint32(one(saturated[int32, float64](-1<<31, 1<<31-1), x)))
	case dtype.Int64:
		return uint64(one(saturated[int64, float64](-1<<63, 1<<63-1), x))
	case dtype.Float32:
		return uint64(math.Float32bits(float32(x)))
	case dtype.Float64:
		return math.Float64bits(x)
	default:
		return uint64(halfTypes[slices.IndexFunc(halfTypes, func(h halfType) bool { return h.dtype == d })].bits(x))
	}
}

// one applies a loop to one element.
func one[R, A any](loop loop1[R, A], x A) R {
	var r [1]R
	loop(r[:], []A{x})
	return r[0]
}
