package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.IndexAdd, dtype.Uint8, indexAdd(nativeLines[uint8]()))
	register(op.IndexAdd, dtype.Int32, indexAdd(nativeLines[int32]()))
	register(op.IndexAdd, dtype.Int64, indexAdd(nativeLines[int64]()))
	register(op.IndexAdd, dtype.Float32, indexAdd(nativeLines[float32]()))
	register(op.IndexAdd, dtype.Float64, indexAdd(nativeLines[float64]()))
	for _, h := range halfTypes {
		register(op.IndexAdd, h.dtype, h.indexAdd)
	}
}

// rangeElements is how much of the result is made at a time: it stays in the
// cache from the copy of the old elements to the last addition.
const rangeElements = 64 << 10

// indexAdd makes a kernel that divides the axis into ranges. One thread computes each
// range and adds in the order of the indices. Half precision is added in float32 and
// rounded once.
func indexAdd[S any, T number](io lineIO[S, T]) kernel {
	return indexed(func(c *backend.Call, axis int, idx []int64) {
		n := c.Out.Elements()
		outer, size, inner := outerInner(c.Out.Shape, axis)
		span := size
		if n+c.In[2].Elements() > grainCheap { // a few ranges at least, however small the result
			span = max(1, min((size+15)/16, rangeElements/inner))
		}
		ranges := (size-1)/span + 1
		order, first, t := inRanges(idx, span, ranges)
		defer release(t)
		var src []S
		if c.In[2].Elements() > 0 {
			var u *scratch
			src, u = denseOf[S](&c.In[2])
			defer release(u)
		}
		old, u := oldElements[S](&c.In[0])
		defer release(u)
		dst := elements[S](&c.Out, n)
		pool.For(outer*ranges, max(1, grainCheap/(span*inner+len(idx)/ranges*inner)), func(lo, hi int) {
			var room *scratch
			var wide []T
			if io.load != nil {
				room, wide = scratchOf[T]((span + 1) * inner)
			}
			for t := lo; t < hi; t++ {
				o, r := t/ranges, t%ranges
				row := r * span
				at := (o*size + row) * inner
				to := dst[at:][:min(span, size-row)*inner]
				if len(old) == 1 {
					fillWords(to, old[0])
				} else {
					copy(to, old[at:])
				}
				mine := order[first[r]:first[r+1]]
				if io.load == nil {
					to := convert[T](to)
					for _, i := range mine {
						addTo(to[(int(idx[i])-row)*inner:][:inner], convert[T](src[(o*len(idx)+i)*inner:][:inner]))
					}
					continue
				}
				if len(mine) == 0 {
					continue
				}
				sum, piece := wide[:len(to)], wide[span*inner:][:inner]
				io.load(sum, to)
				for _, i := range mine {
					io.load(piece, src[(o*len(idx)+i)*inner:][:inner])
					addTo(sum[(int(idx[i])-row)*inner:][:inner], piece)
				}
				io.store(to, sum)
			}
			release(room)
		})
	})
}

// inRanges returns the places in idx of the indices of each range, in order:
// those of range r are order[first[r]:first[r+1]].
func inRanges(idx []int64, span, ranges int) (order, first []int, s *scratch) {
	s, buf := scratchOf[int](len(idx) + ranges + 2)
	order, first = buf[:len(idx)], buf[len(idx):]
	clear(first)
	for _, k := range idx {
		first[int(k)/span+2]++
	}
	for r := range ranges {
		first[r+2] += first[r+1]
	}
	for i, k := range idx { // first[r+1] is where the next index of range r goes
		r := int(k)/span + 1
		order[first[r]] = i
		first[r]++
	}
	return order, first, s
}

// oldElements returns a view's elements in order, or only one where all are the same.
func oldElements[S any](v *backend.View) ([]S, *scratch) {
	for i, n := range v.Shape {
		if n > 1 && v.Strides[i] != 0 {
			return denseOf[S](v)
		}
	}
	return whole[S](v)[v.Offset:][:1], nil
}
