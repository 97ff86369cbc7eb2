package gemm

import (
	"fmt"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
)

// A convolution multiplies its weights with patches of an image, a matrix each
// row of which is the image itself from some element on. The functions here
// take such a matrix as it lies, its rows overlapping, instead of a copy.

// Starts says where in a slice the lines of a matrix begin.
type Starts struct {
	at    []int // elements
	bytes []int
	last  int
}

// NewStarts makes Starts for elements of type T.
func NewStarts[T Float](at []int) *Starts {
	s := &Starts{at: at, bytes: make([]int, len(at))}
	for i, a := range at {
		if a < 0 {
			panic(fmt.Sprintf("gemm: line %d begins at %d", i, a))
		}
		s.bytes[i] = a * int(unsafe.Sizeof(T(0)))
		s.last = max(s.last, a)
	}
	return s
}

func kernelsOf[T Float]() *kernels[T] {
	if unsafe.Sizeof(T(0)) == 4 {
		return any(kernelsF32).(*kernels[T])
	}
	return any(kernelsF64).(*kernels[T])
}

// Whole rounds a number of columns up to whole vectors.
func Whole[T Float](n int) int {
	l := kernelsOf[T]().lanes
	return (n + l - 1) / l * l
}

// TileColumns is the width of the tiles that kernels compute.
func TileColumns[T Float]() int { return kernelsOf[T]().nr() }

// leftDepth is how much of k one pass takes: a panel of A and a tile's columns
// of B, whose rows overlap, stay in the L1 cache.
const leftDepth = 288

// A Left is an m×k matrix laid out for products with many others.
type Left[T Float] struct {
	ks    *kernels[T]
	m, k  int
	depth int
	tiles int
	buf   *[]T
}

// NewLeft packs A. Free releases its memory.
func NewLeft[T Float](m, k int, a Mat[T]) *Left[T] { return newLeft(kernelsOf[T](), m, k, a) }

func newLeft[T Float](ks *kernels[T], m, k int, a Mat[T]) *Left[T] {
	parts := (k + leftDepth - 1) / leftDepth
	l := &Left[T]{ks: ks, m: m, k: k, depth: (k + parts - 1) / parts, tiles: (m + ks.mr - 1) / ks.mr, buf: buffers[T]().Get().(*[]T)}
	src := nativeSource(a)
	src.check("A", m, k)
	grow(l.buf, parts*l.stride())
	pool.For(parts, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			pack(l.block(i), src, 0, m, i*l.depth, min(l.depth, k-i*l.depth), ks.mr)
		}
	})
	return l
}

func (l *Left[T]) stride() int { return l.tiles*l.ks.mr*l.depth + packSlack }

func (l *Left[T]) block(i int) []T { return (*l.buf)[:cap(*l.buf)][i*l.stride():][:l.stride()] }

// Free ends the use of l.
func (l *Left[T]) Free() {
	buffers[T]().Put(l.buf)
	l.buf = nil
}

// Times computes C = A·B on the calling goroutine. Row i of B is b from
// rows' start number i on. All of Whole(n) columns are computed: b and c must
// have room for them, and what the last ones hold is of no use.
func (l *Left[T]) Times(n int, b []T, rows *Starts, c []T, ldc int) {
	l.TimesSome(0, l.k, n, b, rows, c, ldc)
}

// TimesSome is Times for columns [k0, k1) of A alone, and as many rows of B.
func (l *Left[T]) TimesSome(k0, k1, n int, b []T, rows *Starts, c []T, ldc int) {
	ks := l.ks
	w := (n + ks.lanes - 1) / ks.lanes * ks.lanes
	switch {
	case n <= 0:
		return
	case k0 < 0 || k1 > l.k || k0 >= k1 || len(rows.at) != k1-k0:
		panic(fmt.Sprintf("gemm: %d rows for columns %d to %d of %d", len(rows.at), k0, k1, l.k))
	case len(b) < rows.last+w:
		panic(fmt.Sprintf("gemm: B has %d elements, %d columns from %d on need %d", len(b), w, rows.last, rows.last+w))
	case l.m > 1 && ldc < w || len(c) < (l.m-1)*ldc+w:
		panic(fmt.Sprintf("gemm: C of %d elements with row stride %d cannot hold %d×%d", len(c), ldc, l.m, w))
	}
	s := scratches[T]().Get().(*scratch[T])
	t := &s.t
	t.alpha, t.beta, t.tail = toBits(T(1)), toBits(T(1)), ks.lanes
	es := int(unsafe.Sizeof(T(0)))
	for k := k0; k < k1; {
		part := k / l.depth
		first := part * l.depth
		t.k = min(first+l.depth, k1) - k
		t.starts = unsafe.Pointer(&rows.bytes[k-k0])
		if k > k0 {
			t.flags = flagBeta
		}
		t.stepA = ks.mr * min(l.depth, l.k-first) * es
		ks.multiplyRows(t, unsafe.Pointer(&l.block(part)[(k-first)*ks.mr]), l.m, b, n, c, ldc)
		k += t.k
	}
	s.release()
}

// multiplyRows computes m rows of Whole(n) columns of C from the panels of A at a, t.stepA
// apart, and the rows of b that begin at t.starts, t.k of them. What else t says holds.
func (ks *kernels[T]) multiplyRows(t *tile, a unsafe.Pointer, m int, b []T, n int, c []T, ldc int) {
	es := int(unsafe.Sizeof(T(0)))
	w := (n + ks.lanes - 1) / ks.lanes * ks.lanes
	t.ldc = ldc * es
	t.stepC = ks.mr * t.ldc
	full, h := m/ks.mr, m%ks.mr
	for j := 0; j < w; j += ks.nr() {
		nv := min(2, (w-j)/ks.lanes)
		t.b = unsafe.Pointer(&b[j])
		t.a, t.c = a, unsafe.Pointer(&c[j])
		if full > 0 {
			t.tiles = full
			t.run(ks.rows[ks.mr-1][nv-1])
		}
		if h > 0 {
			t.a, t.c = unsafe.Add(a, full*t.stepA), unsafe.Pointer(&c[full*ks.mr*ldc+j])
			t.tiles = 1
			t.run(ks.rows[h-1][nv-1])
		}
	}
}

// Interleave stores lines of n elements, the first elements of all of them first: element
// i of line l, which is x[l·stride + i], at i·lines + l. dst needs room for Slack elements
// behind them, which may be overwritten.
func Interleave[T Float](dst, x []T, lines, stride, n int) {
	if n <= 0 || lines <= 0 {
		return
	}
	if stride < 0 || len(x) < (lines-1)*stride+n || len(dst) < lines*n+Slack {
		panic(fmt.Sprintf("gemm: %d and %d elements for %d lines of %d", len(dst), len(x), lines, n))
	}
	src := source[T]{data: x, row: stride, col: 1}
	// Packing takes groups of lines, the last of which must not reach into the first.
	if group := 32 / int(unsafe.Sizeof(T(0))); lines <= group || lines%(group/2) == 0 {
		pack(dst, src, 0, lines, 0, n, lines)
	} else {
		packStrided(dst, src, 0, lines, 0, n, lines)
	}
}

// Slack is how many elements behind its result Interleave may write.
const Slack = packSlack

// tapsDepth keeps the columns of B that a tile uses in the L1 cache.
const tapsDepth = 256

// Taps adds A·B to C on the calling goroutine, for an A whose rows come in
// groups of h: row i of group g is a from g·step + i·row on. B is k×n.
func Taps[T Float](groups, h, n, k int, a []T, row, step int, b []T, ldb int, c []T, ldc int) {
	taps(kernelsOf[T](), groups, h, n, k, a, row, step, b, ldb, c, ldc)
}

func taps[T Float](ks *kernels[T], groups, h, n, k int, a []T, row, step int, b []T, ldb int, c []T, ldc int) {
	if groups <= 0 || h <= 0 || n <= 0 || k <= 0 {
		return
	}
	if row < 0 || step < 0 || len(a) < (groups-1)*step+(h-1)*row+k || len(b) < (k-1)*ldb+n || len(c) < (groups*h-1)*ldc+n || ldc < n {
		panic(fmt.Sprintf("gemm: %d, %d and %d elements are too few for %d×%d rows of %d", len(a), len(b), len(c), groups, h, n))
	}
	s := scratches[T]().Get().(*scratch[T])
	t := &s.t
	es := int(unsafe.Sizeof(T(0)))
	t.alpha, t.beta, t.flags = toBits(T(1)), toBits(T(1)), flagBeta
	t.rowA, t.colA, t.rowB, t.ldc = row*es, es, ldb*es, ldc*es
	t.stepA, t.stepC = step*es, h*t.ldc
	most := (h-1)/((h-1)/ks.mr+1) + 1 // equal parts
	for pc := 0; pc < k; pc += tapsDepth {
		t.k = min(tapsDepth, k-pc)
		for j := 0; j < n; j += ks.nr() {
			w := min(ks.nr(), n-j)
			nv := (w-1)/ks.lanes + 1
			t.tail = w - (nv-1)*ks.lanes
			fs := ks.full
			if t.tail < ks.lanes {
				fs = ks.edge
			}
			t.b = unsafe.Pointer(&b[pc*ldb+j])
			for i := 0; i < h; i += most {
				t.a, t.c, t.tiles = unsafe.Pointer(&a[i*row+pc]), unsafe.Pointer(&c[i*ldc+j]), groups
				t.run(fs[min(most, h-i)-1][nv-1])
			}
		}
	}
	s.release()
}

// AddLines adds A·B to the m×n matrix C, where column j of B is the k elements
// of b from its start number j on.
func AddLines[T Float](m, n, k int, a Mat[T], b []T, columns *Starts, c []T, ldc int) {
	addLines(kernelsOf[T](), m, n, k, a, b, columns, c, ldc)
}

func addLines[T Float](ks *kernels[T], m, n, k int, a Mat[T], b []T, columns *Starts, c []T, ldc int) {
	if len(columns.at) != n {
		panic(fmt.Sprintf("gemm: %d lines for %d columns", len(columns.at), n))
	}
	run(ks, m, n, k, nativeSource(a), source[T]{data: b, row: 1, starts: columns}, c, ldc, &Epilogue[T]{Beta: 1}, pool.Threads())
}
