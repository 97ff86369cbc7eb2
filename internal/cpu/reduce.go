package cpu

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// A reducer tells how elements of type T are reduced: to accumulators of type A
// on the way and to an R in the end. base is the position of x[0] in the
// reduced space, which only the arg reductions look at.
type reducer[T, A, R any] struct {
	start  A
	row    func(x []T, base int) A        // of 1 to piece elements, or to segment from a buffer
	column func(acc []A, x []T, base int) // acc[i] takes in x[i]
	merge  func(a, b A) A                 // a comes first
	finish func(A) R
	piece  int // 0 means segment

	// rows, if not nil, does what column does for several pieces at once, which
	// is faster. Where there are fewer, spare stands for the others, or one of
	// them does if it is nil.
	rows  func(acc []A, x *[vec.Rows]*T, ahead int)
	spare []T
	// overflowed, if not nil, tells of what rows has made whether column may do better.
	overflowed func(acc []A) bool
	merges     func(acc, b []A) // merge for several at once; not nil where rows is not
}

const (
	// segment is the length of buffers, and of what most rows see at a time.
	segment = 2048
	// longPiece is for rows that read their elements once, at the speed of memory:
	// each call of them costs as much as some hundred elements.
	longPiece = 16 << 10
	// part is the number of elements of the reduced space that are reduced as
	// one when there are too few results to keep all threads busy. Neither
	// depends on the number of threads, so neither do the results.
	part = 64 << 10
	// fewResults is the number of independent results below which the reduced space is split.
	fewResults = 32
	// columns is the width of a block of accumulators.
	columns = 4096
)

// space is the geometry of a reduction: the axes that are kept and those that
// are reduced, each with the smallest stride last.
type space struct {
	kept, reduced        dims
	keptIn, keptOut, red [op.MaxRank]int // strides in the operand and the result
	results, each        int             // the two spaces' sizes
	first                int             // the operand's offset
}

var spaces = sync.Pool{New: func() any { return new(space) }}

// newSpace sorts axes and merges what lies together.
func newSpace(v *backend.View, axes op.AxisSet) *space {
	type axis struct{ n, in, out int }
	var keptAxes, reducedAxes [op.MaxRank]axis
	kept, reduced := keptAxes[:0], reducedAxes[:0]
	s := spaces.Get().(*space)
	*s = space{results: 1, each: 1, first: v.Offset}
	out := 1
	for i := len(v.Shape) - 1; i >= 0; i-- {
		n := v.Shape[i]
		switch {
		case axes.Has(i):
			s.each *= n
			if n != 1 {
				reduced = append(reduced, axis{n, v.Strides[i], 0})
			}
		default:
			s.results *= n
			if n != 1 {
				kept = append(kept, axis{n, v.Strides[i], out})
			}
			out *= n
		}
	}
	pack := func(l []axis, d *dims, in, out *[op.MaxRank]int) {
		// Largest stride first; repeated elements count as far apart.
		slices.SortStableFunc(l, func(a, b axis) int { return cmp.Compare(distance(b.in), distance(a.in)) })
		for _, a := range l {
			if k := d.rank - 1; k >= 0 && in[k] == a.n*a.in && out[k] == a.n*a.out {
				d.shape[k] *= a.n
				in[k], out[k] = a.in, a.out
				continue
			}
			d.shape[d.rank], in[d.rank], out[d.rank] = a.n, a.in, a.out
			d.rank++
		}
		if d.rank == 0 {
			d.rank, d.shape[0] = 1, 1
		}
	}
	var none [op.MaxRank]int
	pack(kept, &s.kept, &s.keptIn, &s.keptOut)
	pack(reduced, &s.reduced, &s.red, &none)
	return s
}

func distance(stride int) int {
	if stride == 0 {
		return math.MaxInt
	}
	return max(stride, -stride)
}

// byColumns reports whether neighbours in memory belong to different results.
func (s *space) byColumns() bool {
	k, r := s.kept.rank-1, s.reduced.rank-1
	if s.kept.shape[k] == 1 {
		return false
	}
	return s.reduced.shape[r] == 1 || distance(s.keptIn[k]) < distance(s.red[r])
}

// reduction makes a kernel. load, if not nil, converts stored elements.
func reduction[S, T, A, R any](r *reducer[T, A, R], load func([]T, []S)) kernel {
	return func(c *backend.Call) error {
		results := c.Out.Elements()
		if results == 0 {
			return nil
		}
		var axes op.AxisSet
		switch a := c.Attrs.(type) {
		case op.Reduce:
			axes = a.Axes
		case op.Axis:
			axes = op.AxesOf(a.Axis)
		}
		v := &c.In[0]
		dst := elements[R](&c.Out, results)
		each := v.Elements() / results
		switch {
		case each == 0:
			fillWords(dst, r.finish(r.start))
		case load == nil && each < 2*part && trailing(v.Shape, axes) && v.Contiguous():
			reduceContiguous(r, elements[T](v, results*each), dst, each)
		default:
			s := newSpace(v, axes)
			x := source[S, T]{data: whole[S](v), load: load}
			if s.byColumns() {
				reduceColumns(s, r, x, dst)
			} else {
				reduceRows(s, r, x, dst)
			}
			spaces.Put(s)
		}
		return nil
	}
}

// trailing reports whether no kept axis is behind a reduced one.
func trailing(shape []int, axes op.AxisSet) bool {
	seen := false
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if axes.Has(i) {
			seen = true
		} else if seen {
			return false
		}
	}
	return true
}

// reduceContiguous is the common case: results one after the other, each from
// a contiguous row.
func reduceContiguous[T, A, R any](r *reducer[T, A, R], x []T, dst []R, each int) {
	if len(x) <= grainCheap {
		reduceEach(r, x, dst, each)
		return
	}
	pool.For(len(dst), max(1, grainCheap/each), func(lo, hi int) {
		reduceEach(r, x[lo*each:hi*each], dst[lo:hi], each)
	})
}

func reduceEach[T, A, R any](r *reducer[T, A, R], x []T, dst []R, each int) {
	piece := max(r.piece, segment)
	for i := range dst {
		row := x[i*each : (i+1)*each]
		n := min(each, piece)
		acc := r.row(row[:n], 0)
		for n < each {
			m := min(n+piece, each)
			acc = r.merge(acc, r.row(row[n:m], n))
			n = m
		}
		dst[i] = r.finish(acc)
	}
}

// source reads stored elements of type S as T.
type source[S, T any] struct {
	data []S
	load func([]T, []S)
}

// read returns n elements from `from` on; buffers are used where they must be.
func (x *source[S, T]) read(from, stride, n int, raw []S, buf []T) []T {
	if stride == 1 {
		raw = x.data[from : from+n]
	} else {
		raw = raw[:n]
		gatherRowWords(raw, x.data, from, stride)
	}
	if x.load == nil {
		return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), n) // S is T
	}
	x.load(buf[:n], raw)
	return buf[:n]
}

// reduceRows reduces where elements of one result lie next to each other.
func reduceRows[S, T, A, R any](s *space, r *reducer[T, A, R], x source[S, T], dst []R) {
	if s.results >= fewResults || s.each < 2*part {
		pool.For(s.results, max(1, grainCheap/s.each), func(lo, hi int) {
			w := newRowWalk(s, &x)
			var index [op.MaxRank]int
			s.kept.at(lo, &index)
			for range hi - lo {
				acc := reduceRange(&w, s, r, x, s.first+dot(&index, &s.keptIn, s.kept.rank), 0, s.each)
				dst[dot(&index, &s.keptOut, s.kept.rank)] = r.finish(acc)
				s.kept.step(&index, 0)
			}
			w.free()
		})
		return
	}
	parts := (s.each-1)/part + 1
	partial := make([]A, s.results*parts)
	pool.For(len(partial), 1, func(lo, hi int) {
		w := newRowWalk(s, &x)
		var index [op.MaxRank]int
		for i := lo; i < hi; i++ {
			s.kept.at(i/parts, &index)
			p := i % parts * part
			partial[i] = reduceRange(&w, s, r, x, s.first+dot(&index, &s.keptIn, s.kept.rank), p, min(p+part, s.each))
		}
		w.free()
	})
	var index [op.MaxRank]int
	for k := range s.results {
		acc := partial[k*parts]
		for _, p := range partial[k*parts+1 : (k+1)*parts] {
			acc = r.merge(acc, p)
		}
		s.kept.at(k, &index)
		dst[dot(&index, &s.keptOut, s.kept.rank)] = r.finish(acc)
	}
}

// rowWalk has the buffers of one thread.
type rowWalk[S, T any] struct {
	s1, s2 *scratch
	raw    []S
	buf    []T
}

func newRowWalk[S, T any](s *space, x *source[S, T]) rowWalk[S, T] {
	w := rowWalk[S, T]{}
	if s.red[s.reduced.rank-1] != 1 {
		w.s1, w.raw = scratchOf[S](segment)
	}
	if x.load != nil {
		w.s2, w.buf = scratchOf[T](segment)
	}
	return w
}

func (w *rowWalk[S, T]) free() {
	release(w.s1)
	release(w.s2)
}

// reduceRange reduces elements lo to hi of the reduced space of the result whose first
// element is at `at`.
func reduceRange[S, T, A, R any](w *rowWalk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int) A {
	last := s.reduced.rank - 1
	inner, stride := s.reduced.shape[last], s.red[last]
	var index [op.MaxRank]int
	if lo > 0 {
		s.reduced.at(lo, &index)
	}
	column := index[last]
	index[last] = 0
	piece := segment
	if w.raw == nil && w.buf == nil {
		piece = max(piece, r.piece)
	}
	acc, began := r.start, false
	for lo < hi {
		row := at + dot(&index, &s.red, s.reduced.rank)
		for column < inner && lo < hi {
			n := min(piece, inner-column, hi-lo)
			a := r.row(x.read(row+column*stride, stride, n, w.raw, w.buf), lo)
			if began {
				a = r.merge(acc, a)
			}
			acc, began = a, true
			column += n
			lo += n
		}
		column = 0
		s.reduced.step(&index, 1)
	}
	return acc
}

// reduceColumns reduces where neighbours in memory belong to different results: a block
// of accumulators takes in one piece after the other.
func reduceColumns[S, T, A, R any](s *space, r *reducer[T, A, R], x source[S, T], dst []R) {
	if k := s.fold(); r.rows != nil && k > 1 {
		reduceNarrow(s, r, x, dst, k)
		return
	}
	last := s.kept.rank - 1
	inner := s.kept.shape[last]
	blocks := (inner-1)/columns + 1
	width := min(inner, columns)
	tasks := s.results / inner * blocks
	if tasks >= fewResults || s.each*width < 16*part {
		pool.For(tasks, max(1, grainCheap/(s.each*width)), func(lo, hi int) {
			w := newColumnWalk(s, r, &x)
			room, acc := scratchOf[A](width)
			for t := lo; t < hi; t++ {
				at, to, n := s.block(t, blocks)
				reduceBlock(&w, s, r, x, at, 0, s.each, acc[:n])
				finishBlock(&w, s, r, x, dst, at, to, acc[:n])
			}
			room.free()
			w.free()
		})
		return
	}
	step := max(1, 8*part/width) // a part costs a row of accumulators, too
	parts := (s.each-1)/step + 1
	room, partial := scratchOf[A](tasks * parts * width)
	pool.For(tasks*parts, 1, func(lo, hi int) {
		w := newColumnWalk(s, r, &x)
		for i := lo; i < hi; i++ {
			at, _, n := s.block(i/parts, blocks)
			p := i % parts * step
			reduceBlock(&w, s, r, x, at, p, min(p+step, s.each), partial[i*width:i*width+n])
		}
		w.free()
	})
	w := newColumnWalk(s, r, &x)
	for t := range tasks {
		at, to, n := s.block(t, blocks)
		acc := partial[t*parts*width:][:n]
		for p := 1; p < parts; p++ {
			b := partial[(t*parts+p)*width:][:n]
			if r.merges != nil {
				r.merges(acc, b)
				continue
			}
			for j, a := range b {
				acc[j] = r.merge(acc[j], a)
			}
		}
		finishBlock(&w, s, r, x, dst, at, to, acc)
	}
	w.free()
	room.free()
}

// wideRow is the length of rows from which on calls for them cost little.
const wideRow = 1024

// fold is how many rows of a narrow, dense matrix are taken for one.
func (s *space) fold() int {
	inner := s.kept.shape[0]
	if s.kept.rank > 1 || s.reduced.rank > 1 || s.keptIn[0] != 1 || s.red[0] != inner {
		return 1
	}
	return min(wideRow/inner, s.each/vec.Rows)
}

// reduceNarrow reduces the columns of a matrix whose rows are short, taking k
// of them for one row of a matrix with k times as many columns.
func reduceNarrow[S, T, A, R any](s *space, r *reducer[T, A, R], x source[S, T], dst []R, k int) {
	inner := s.kept.shape[0]
	width, each := k*inner, s.each/k
	wide := *s
	wide.kept.shape[0], wide.reduced.shape[0], wide.red[0] = width, each, width
	step := max(vec.Rows, 8*part/width)
	parts := (each-1)/step + 1
	room, partial := scratchOf[A](parts * width)
	pool.For(parts, 1, func(lo, hi int) {
		w := newColumnWalk(&wide, r, &x)
		for p := lo; p < hi; p++ {
			reduceBlock(&w, &wide, r, x, s.first, p*step, min((p+1)*step, each), partial[p*width:][:width])
		}
		w.free()
	})
	for p := 1; p < parts; p++ {
		r.merges(partial[:width], partial[p*width:][:width])
	}
	acc := partial[:inner]
	for j := 1; j < k; j++ {
		r.merges(acc, partial[j*inner:][:inner])
	}
	w := newColumnWalk(s, r, &x)
	reduceMore(&w, s, r, x, s.first, each*k, s.each, acc)
	finishBlock(&w, s, r, x, dst, s.first, 0, acc)
	w.free()
	room.free()
}

// block returns the place of block t of the kept space in the operand and in the result,
// and its width.
func (s *space) block(t, blocks int) (at, to, n int) {
	last := s.kept.rank - 1
	inner := s.kept.shape[last]
	var index [op.MaxRank]int
	c := t % blocks * columns
	s.kept.at(t/blocks*inner+c, &index)
	return s.first + dot(&index, &s.keptIn, s.kept.rank), dot(&index, &s.keptOut, s.kept.rank), min(columns, inner-c)
}

// columnWalk has the buffers of one thread, for as many pieces as are taken in
// at a time.
type columnWalk[S, T any] struct {
	s1, s2 *scratch
	raw    []S
	buf    []T
}

func newColumnWalk[S, T, A, R any](s *space, r *reducer[T, A, R], x *source[S, T]) columnWalk[S, T] {
	w := columnWalk[S, T]{}
	pieces := 1
	if r.rows != nil {
		pieces = vec.Rows
	}
	n := pieces * min(columns, s.kept.shape[s.kept.rank-1])
	if s.keptIn[s.kept.rank-1] != 1 {
		w.s1, w.raw = scratchOf[S](n)
	}
	if x.load != nil {
		w.s2, w.buf = scratchOf[T](n)
	}
	return w
}

func (w *columnWalk[S, T]) free() {
	release(w.s1)
	release(w.s2)
}

// reduceBlock reduces pieces lo to hi into acc.
func reduceBlock[S, T, A, R any](w *columnWalk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int, acc []A) {
	fillWords(acc, r.start)
	reduceMore(w, s, r, x, at, lo, hi, acc)
}

// reduceMore lets acc take in pieces lo to hi.
func reduceMore[S, T, A, R any](w *columnWalk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int, acc []A) {
	if r.rows == nil {
		reducePieces(w, s, r, x, at, lo, hi, acc)
		return
	}
	n, stride := len(acc), s.keptIn[s.kept.rank-1]
	var index [op.MaxRank]int
	s.reduced.at(lo, &index)
	ahead := 0
	if w.raw == nil && w.buf == nil {
		ahead = vec.Rows * s.red[s.reduced.rank-1]
	}
	for lo < hi {
		var rows [vec.Rows]*T
		for i := range rows {
			switch {
			case lo < hi:
				raw, buf := w.raw, w.buf
				if raw != nil {
					raw = raw[i*n:][:n]
				}
				if buf != nil {
					buf = buf[i*n:][:n]
				}
				rows[i] = unsafe.SliceData(x.read(at+dot(&index, &s.red, s.reduced.rank), stride, n, raw, buf))
				s.reduced.step(&index, 0)
				lo++
			case r.spare != nil:
				rows[i] = unsafe.SliceData(r.spare)
			default:
				rows[i] = rows[i-1]
			}
		}
		r.rows(acc, &rows, ahead)
	}
}

// reducePieces is reduceMore one piece at a time.
func reducePieces[S, T, A, R any](w *columnWalk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int, acc []A) {
	stride := s.keptIn[s.kept.rank-1]
	var index [op.MaxRank]int
	s.reduced.at(lo, &index)
	for ; lo < hi; lo++ {
		r.column(acc, x.read(at+dot(&index, &s.red, s.reduced.rank), stride, len(acc), w.raw, w.buf), lo)
		s.reduced.step(&index, 0)
	}
}

func finishBlock[S, T, A, R any](w *columnWalk[S, T], s *space, r *reducer[T, A, R], x source[S, T], dst []R, at, to int, acc []A) {
	if r.overflowed != nil && r.overflowed(acc) {
		fillWords(acc, r.start)
		reducePieces(w, s, r, x, at, 0, s.each, acc)
	}
	stride := s.keptOut[s.kept.rank-1]
	for _, a := range acc {
		dst[to] = r.finish(a)
		to += stride
	}
}

// withRow gives the reducer a vectorized row function that reads its elements
// once, for rows that are long enough for it.
func (r *reducer[T, A, R]) withRow(row func(x []T) A) *reducer[T, A, R] {
	short := r.row
	r.piece = longPiece
	r.row = func(x []T, base int) A {
		if len(x) < 16 {
			return short(x, base)
		}
		return row(x)
	}
	return r
}

// withRows gives it a way to take in several pieces at once.
func (r *reducer[T, A, R]) withRows(rows func(acc []A, x *[vec.Rows]*T, ahead int), merges loop2[A, A]) *reducer[T, A, R] {
	r.rows = rows
	r.merges = func(acc, b []A) { merges(acc, acc, b) }
	return r
}
