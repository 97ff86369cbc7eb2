package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
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
	t := turned[W]{dst, src, o.strides[last], to[axis], rows, columns}
	each := func(m int) (from, to int) { // the places of matrix m
		var index [op.MaxRank]int
		rest.at(m, &index)
		return o.first + dot(&index, &restFrom, rest.rank), dot(&index, &restTo, rest.rank)
	}
	matrices := len(dst) / (rows * columns)
	if t.streams(&restTo, rest.rank) {
		t.stream(matrices, each)
		return true
	}
	strip := 64 / int(unsafe.Sizeof(dst[0])) // a cache line of the source
	strips := (rows-1)/strip + 1
	pool.For(matrices*strips, max(1, grainCheap/(min(rows, strip)*columns)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from, to := each(i / strips)
			r := i % strips * strip
			transpose(dst[to+r*t.pitch:], t.pitch, src, from+r, t.from, min(strip, rows-r), columns)
		}
	})
	return true
}

// turned is a stack of matrices whose columns lie `from` apart in src and whose
// rows lie pitch apart in dst.
type turned[W word] struct {
	dst, src      []W
	from, pitch   int
	rows, columns int
}

// streams reports whether the result is large enough to be written past the
// caches, and all its rows begin at a cache line, which that takes.
func (t *turned[W]) streams(strides *[op.MaxRank]int, rank int) bool {
	high, wide := vec.StreamTile[W]()
	line := 64 / int(unsafe.Sizeof(t.dst[0]))
	if high == 0 || len(t.dst) < vec.StreamBytes/64*line || t.rows < high || t.columns < wide || t.pitch%line != 0 {
		return false
	}
	for _, n := range strides[:rank] {
		if n%line != 0 {
			return false
		}
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(t.dst)))%64 == 0
}

// stream transposes in columns of tiles, which read a few columns of a matrix
// from one end to the other. They are cut where that is more than a task.
func (t *turned[W]) stream(matrices int, each func(m int) (from, to int)) {
	const task = 64 << 10 // elements
	high, wide := vec.StreamTile[W]()
	tall := max(1, task/(high*wide)) * high // rows of a task
	across, down := (t.columns-1)/wide+1, (t.rows-1)/tall+1
	pool.For(matrices*across*down, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from, to := each(i / (across * down))
			c, r := i/down%across*wide, i%down*tall
			from, to = from+c*t.from+r, to+r*t.pitch+c
			width, rows := min(wide, t.columns-c), min(tall, t.rows-r)
			whole := rows &^ (high - 1)
			if width < wide {
				whole = 0
			}
			if whole > 0 {
				vec.TransposeStream(t.dst[to:], t.pitch, t.src, from, t.from, whole/high)
			}
			if whole < rows {
				vec.Transpose(t.dst[to+whole*t.pitch:], t.pitch, t.src, from+whole, t.from, rows-whole, width)
			}
		}
	})
}

// transpose is vec.Transpose for elements of any type.
func transpose[T any](dst []T, pitch int, src []T, at, from, rows, columns int) {
	var z T
	switch unsafe.Sizeof(z) {
	case 1:
		vec.Transpose(convert[uint8](dst), pitch, convert[uint8](src), at, from, rows, columns)
	case 2:
		vec.Transpose(convert[uint16](dst), pitch, convert[uint16](src), at, from, rows, columns)
	case 4:
		vec.Transpose(convert[uint32](dst), pitch, convert[uint32](src), at, from, rows, columns)
	default:
		vec.Transpose(convert[uint64](dst), pitch, convert[uint64](src), at, from, rows, columns)
	}
}

// dense returns a view's elements contiguously: its own memory, or a copy in a
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
