package gemm

import (
	"fmt"
	"unsafe"
)

// Windows are the k windows of an image that the results of a convolution are computed
// from, as a matrix: a column for each window, a row for each of its elements. An element
// is at row·Step + col of a channel, and windows begin at Starts.
type Windows struct {
	Channels, Rows, Cols int
	Area, Step           int // from one channel, and one row, to the next
	Starts               *Starts
}

// FitsWindows reports whether there are kernels for AddWindows that are worth it: C, of lines×n
// elements, is to stay in the L1 cache.
func FitsWindows[T Float](lines, n int) bool {
	ks := kernelsOf[T]()
	return ks.pixels != nil && lines*Whole[T](n)*int(unsafe.Sizeof(T(0))) <= 48<<10
}

// windowsDepth keeps the columns of B that a tile uses in the L1 cache.
const windowsDepth = 192

// AddWindows adds W·Bᵀ to C on the calling goroutine, for windows W of image a, and a B of n rows,
// ldb elements apart. C has Whole(n) columns, of which those past n are of no use.
func AddWindows[T Float](w *Windows, n int, a, b []T, ldb int, c []T) {
	addWindows(kernelsOf[T](), w, n, a, b, ldb, c)
}

func addWindows[T Float](ks *kernels[T], w *Windows, n int, a, b []T, ldb int, c []T) {
	k, lines := len(w.Starts.at), w.Channels*w.Rows*w.Cols
	if k == 0 || lines == 0 || n <= 0 {
		return
	}
	ldc := (n + ks.lanes - 1) / ks.lanes * ks.lanes
	if last := w.Starts.last + (w.Channels-1)*w.Area + (w.Rows-1)*w.Step + w.Cols; len(a) < last || len(b) < (n-1)*ldb+k || len(c) < lines*ldc {
		panic(fmt.Sprintf("gemm: %d, %d and %d elements are too few for %d windows of %d×%d×%d times %d", len(a), len(b), len(c), k, w.Channels, w.Rows, w.Cols, n))
	}
	es := int(unsafe.Sizeof(T(0)))
	s := scratches[T]().Get().(*scratch[T])
	panel := grow(&s.a, windowsDepth*ks.nr()+packSlack)
	t := &s.t
	t.alpha, t.beta, t.flags = toBits(T(1)), toBits(T(1)), flagBeta
	t.ldc = ldc * es
	t.stepA, t.stepC = w.Step*es, w.Cols*t.ldc
	t.b = unsafe.Pointer(&panel[0])
	src := source[T]{data: b, row: ldb, col: 1}
	most := (w.Cols-1)/((w.Cols-1)/ks.mr+1) + 1 // equal parts
	for pc := 0; pc < k; pc += windowsDepth {
		t.k = min(windowsDepth, k-pc)
		t.starts = unsafe.Pointer(&w.Starts.bytes[pc])
		for j := 0; j < n; j += ks.nr() {
			h := min(ks.nr(), n-j)
			nv := (h-1)/ks.lanes + 1
			pack(panel, src, j, h, pc, t.k, nv*ks.lanes)
			for i := range w.Channels {
				for x := 0; x < w.Cols; x += most {
					t.a, t.c, t.tiles = unsafe.Pointer(&a[i*w.Area+x]), unsafe.Pointer(&c[(i*w.Rows*w.Cols+x)*ldc+j]), w.Rows
					t.run(ks.pixels[min(most, w.Cols-x)-1][nv-1])
				}
			}
		}
	}
	s.release()
}
