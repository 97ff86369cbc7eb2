package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerWidths(op.Copy, copyKernel[uint8], copyKernel[uint16], copyKernel[uint32], copyKernel[uint64])
}

func copyKernel[W word](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	copyView(elements[W](&c.Out, n), &c.In[0])
	return nil
}

// copyView copies a view of any strides to contiguous memory.
func copyView[W word](dst []W, v *backend.View) {
	n := len(dst)
	if n == 0 {
		return
	}
	if v.Contiguous() {
		src := elements[W](v, n)
		if n <= grainCheap {
			copy(dst, src)
			return
		}
		pool.For(n, grainCheap, func(lo, hi int) { copy(dst[lo:hi], src[lo:hi]) })
		return
	}
	it := iterators.Get().(*iterator)
	it.most = 0
	it.reset(v.Shape, []backend.View{*v})
	defer it.free()
	if copyTransposed(dst, it) {
		return
	}
	pool.For(n, grainCheap, func(lo, hi int) {
		it.run(lo, hi, func(at, n int, p pieces) {
			copy(dst[at:at+n], unsafe.Slice((*W)(p[0]), n))
		})
	})
}

// copyTransposed copies when the last axis is not contiguous but another one
// is, in tiles of the two. It reports false if that is not the case.
func copyTransposed[W word](dst []W, it *iterator) bool {
	o := &it.operands[0]
	last := it.rank - 1
	axis := -1
	for i := range last {
		if o.strides[i] == 1 && it.shape[i] >= 4 {
			axis = i
		}
	}
	if axis < 0 || o.strides[last] == 0 || it.shape[last] < 4 {
		return false
	}
	src := words[W](o)
	// Axis `axis` has stride 1 in the source, `last` in the result; the others are walked.
	var to [op.MaxRank]int
	for i, n := last, 1; i >= 0; i-- {
		to[i] = n
		n *= it.shape[i]
	}
	rest := dims{}
	var restFrom, restTo [op.MaxRank]int
	for i := range it.rank {
		if i != axis && i != last {
			rest.shape[rest.rank], restFrom[rest.rank], restTo[rest.rank] = it.shape[i], o.strides[i], to[i]
			rest.rank++
		}
	}
	rows, columns := it.shape[axis], it.shape[last]
	from, rowTo := o.strides[last], to[axis]
	rowTiles, matrices := (rows+tileSide-1)/tileSide, len(dst)/(rows*columns)
	pool.For(matrices*rowTiles, max(1, grainCheap/(tileSide*columns)), func(lo, hi int) {
		var index [op.MaxRank]int
		for t := lo; t < hi; t++ {
			rest.at(t/rowTiles, &index)
			r := t % rowTiles * tileSide
			f, d := o.first+dot(&index, &restFrom, rest.rank), dot(&index, &restTo, rest.rank)
			transpose(dst[d+r*rowTo:], rowTo, src, f+r, from, min(tileSide, rows-r), columns)
		}
	})
	return true
}

// Transposing goes in square tiles: of float32, a row of a tile is a cache
// line, and so is a column.
const tileSide = 16

// transpose sets dst[r·pitch + c] to src[at + r + c·from] for up to tileSide rows. A
// tile is read into a buffer by whole cache lines of the source and written from
// there by whole ones of the result: where strides are powers of two, lines of
// either side fight for the same places in the cache and do not last.
func transpose[W any](dst []W, pitch int, src []W, at, from, rows, columns int) {
	var buf [tileSide * tileSide]W
	c0 := 0
	if rows == tileSide {
		for ; c0+tileSide <= columns; c0 += tileSide {
			for c := range tileSide {
				f := at + (c0+c)*from
				*(*[tileSide]W)(buf[c*tileSide:]) = *(*[tileSide]W)(src[f : f+tileSide])
			}
			for r := range tileSide {
				to := (*[tileSide]W)(dst[r*pitch+c0:])
				to[0], to[1], to[2], to[3] = buf[r], buf[tileSide+r], buf[2*tileSide+r], buf[3*tileSide+r]
				to[4], to[5], to[6], to[7] = buf[4*tileSide+r], buf[5*tileSide+r], buf[6*tileSide+r], buf[7*tileSide+r]
				to[8], to[9], to[10], to[11] = buf[8*tileSide+r], buf[9*tileSide+r], buf[10*tileSide+r], buf[11*tileSide+r]
				to[12], to[13], to[14], to[15] = buf[12*tileSide+r], buf[13*tileSide+r], buf[14*tileSide+r], buf[15*tileSide+r]
			}
		}
	}
	for ; c0 < columns; c0 += tileSide { // at the edges
		n := min(tileSide, columns-c0)
		for c := range n {
			copy(buf[c*tileSide:][:rows], src[at+(c0+c)*from:])
		}
		for r := range rows {
			to := dst[r*pitch+c0:][:n]
			for c := range to {
				to[c] = buf[c*tileSide+r]
			}
		}
	}
}

// dense gives a view's elements contiguously: its own memory, or a copy in a
// scratch that the caller frees. The scratch is nil if there is none.
func dense[W word](v *backend.View) ([]W, *scratch) {
	n := v.Elements()
	if n == 0 {
		return nil, nil
	}
	if v.Contiguous() {
		return elements[W](v, n), nil
	}
	s, buf := scratchOf[W](n)
	copyView(buf, v)
	return buf, s
}

// denseOf is dense for a type that is not a word.
func denseOf[T any](v *backend.View) ([]T, *scratch) {
	var z T
	switch unsafe.Sizeof(z) {
	case 1:
		d, s := dense[uint8](v)
		return convert[T](d), s
	case 2:
		d, s := dense[uint16](v)
		return convert[T](d), s
	case 4:
		d, s := dense[uint32](v)
		return convert[T](d), s
	default:
		d, s := dense[uint64](v)
		return convert[T](d), s
	}
}

// release frees scratches; some may be nil.
func release(scratches ...*scratch) {
	for _, s := range scratches {
		if s != nil {
			s.free()
		}
	}
}
