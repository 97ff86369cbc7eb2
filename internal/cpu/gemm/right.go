package gemm

import (
	"fmt"
	"unsafe"
)

// A Right is the weights of a convolution of few filters, a k×n matrix laid
// out for products with images: those have pixels as rows, so that no column
// is computed in vain where the rows of an image are short, and the filters,
// which fill whole vectors, as columns.
type Right[T Float] struct {
	ks      *kernels[T]
	k, n, w int // w is n in whole vectors
	buf     *[]T
}

// FitsRight reports whether a Right can have n columns.
func FitsRight[T Float](n int) bool { return kernelsOf[T]().fitsRight(n) }

func (ks *kernels[T]) fitsRight(n int) bool {
	return ks.pixels != nil && n > 0 && n <= ks.nr() && n%4 == 0
}

// NewRight packs B, k×n. Free releases its memory.
func NewRight[T Float](k, n int, b Mat[T]) *Right[T] { return newRight(kernelsOf[T](), k, n, b) }

func newRight[T Float](ks *kernels[T], k, n int, b Mat[T]) *Right[T] {
	src := nativeSource(b)
	src.check("B", k, n)
	r := &Right[T]{ks: ks, k: k, n: n, w: (n + ks.lanes - 1) / ks.lanes * ks.lanes, buf: buffers[T]().Get().(*[]T)}
	d := grow(r.buf, k*r.w+packSlack)
	clear(d)
	pack(d, src.transposed(), 0, n, 0, k, r.w)
	return r
}

// Free ends the use of r.
func (r *Right[T]) Free() {
	buffers[T]().Put(r.buf)
	r.buf = nil
}

// Times computes n planes on the calling goroutine, each of rows × cols pixels
// and `plane` elements from the one before: pixel (y, x) of plane j is the
// product of column j of B with the elements of a at y·pitch + x from each of
// the starts on.
func (r *Right[T]) Times(rows, cols int, a []T, pitch int, starts *Starts, dst []T, plane int) {
	ks := r.ks
	switch size := rows * cols; {
	case rows <= 0 || cols <= 0:
		return
	case len(starts.at) != r.k:
		panic(fmt.Sprintf("gemm: %d starts for a product over %d", len(starts.at), r.k))
	case len(a) < starts.last+(rows-1)*pitch+cols:
		panic(fmt.Sprintf("gemm: the image has %d elements, %d×%d pixels from %d on need more", len(a), rows, cols, starts.last))
	case r.n > 1 && plane < size || len(dst) < (r.n-1)*plane+size:
		panic(fmt.Sprintf("gemm: %d elements, %d to a plane, cannot hold %d planes of %d×%d", len(dst), plane, r.n, rows, cols))
	}
	s := scratches[T]().Get().(*scratch[T])
	es := int(unsafe.Sizeof(T(0)))
	sums := grow(&s.a, rows*cols*r.w)
	t := &s.t
	t.alpha, t.beta, t.flags = toBits(T(1)), toBits(T(1)), 0
	t.ldc = r.w * es
	t.stepA, t.stepC = pitch*es, cols*t.ldc
	h := (cols-1)/((cols-1)/ks.mr+1) + 1 // equal parts
	for pc := 0; pc < r.k; pc += leftDepth {
		t.k = min(leftDepth, r.k-pc)
		t.starts = unsafe.Pointer(&starts.bytes[pc])
		t.b = unsafe.Pointer(&(*r.buf)[pc*r.w])
		for x := 0; x < cols; x += h {
			at := x
			if pc == 0 { // nothing is added, so that the last may overlap the one before
				at = min(x, cols-h)
			}
			t.a, t.c, t.tiles = unsafe.Pointer(&a[at]), unsafe.Pointer(&sums[at*r.w]), rows
			t.run(ks.pixels[min(h, cols-at)-1][r.w/ks.lanes-1])
		}
		t.flags = flagBeta
	}
	turnPixels(dst, plane, sums, r.w, rows*cols, r.n)
	s.release()
}

// turnPixels copies the n values of each pixel, w apart, to n planes.
func turnPixels[T Float](dst []T, plane int, sums []T, w, pixels, n int) {
	p := turnPixelsFast(dst, plane, sums, w, pixels, n)
	for ; p < pixels; p++ {
		for j, x := range sums[p*w:][:n] {
			dst[j*plane+p] = x
		}
	}
}
