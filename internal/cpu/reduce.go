package cpu

import (
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
	// overflowed, if not nil, reports whether rows has overflowed where column may not.
	overflowed func(acc []A) bool
	merges     func(acc, b []A) // merge for several at once; not nil where rows is not
}

const (
	// segment is the length of buffers, and of what most rows see at a time.
	segment = 2048
	// longPiece is for rows that read their elements once, at the speed of memory:
	// each call of them costs as much as some hundred elements.
	longPiece = 16 << 10
	// part is the number of elements of the reduced space that are reduced as one
	// when there are too few results to keep all threads busy. It does not depend on
	// the number of threads, so the results do not either.
	part = 64 << 10
	// fewResults is the number of independent results below which the reduced space is split.
	fewResults = 32
	// columns is the width of a block of accumulators.
	columns = 4096
)

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

// withRow adds a vectorized row function that reads its elements once, for rows that
// are long enough for it.
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

// withRows adds a function that takes in several pieces at once.
func (r *reducer[T, A, R]) withRows(rows func(acc []A, x *[vec.Rows]*T, ahead int), merges loop2[A, A]) *reducer[T, A, R] {
	r.rows = rows
	r.merges = func(acc, b []A) { merges(acc, acc, b) }
	return r
}
