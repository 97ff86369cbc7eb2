package gemm

import "fmt"

// Rows16 are rows of elements of 16 bits: of each of Rows rows every Every-th element, Width
// of them. Distances are in elements.
type Rows16 struct {
	Width, Rows      int
	Every            int // 1 or more
	StepDst, StepSrc int // from one row to the next
}

// check panics if the rows do not fit dst, whose elements have `size` places, or src.
func (r *Rows16) check(dst, src, size int) {
	if r.Every < 1 || r.StepDst < 0 || r.StepSrc < 0 ||
		(r.Rows-1)*r.StepDst+size*r.Width > dst || (r.Rows-1)*r.StepSrc+(r.Width-1)*r.Every+1 > src {
		panic(fmt.Sprintf("gemm: %d and %d elements for %+v", dst, src, *r))
	}
}

// Copy copies the rows.
func (r Rows16) Copy(dst, src []uint16) {
	if r.Rows <= 0 || r.Width <= 0 {
		return
	}
	r.check(len(dst), len(src), 1)
	for y := r.fast(dst, src, nil); y < r.Rows; y++ {
		to, from := dst[y*r.StepDst:][:r.Width], src[y*r.StepSrc:]
		if r.Every == 1 {
			copy(to, from)
			continue
		}
		for i := range to {
			to[i] = from[i*r.Every]
		}
	}
}

// Join stores words of two elements, one of a and one of b, at adjacent places; StepDst counts
// elements, two to a word. Of a b that is nil all elements are 0.
func (r Rows16) Join(dst, a, b []uint16) {
	if r.Rows <= 0 || r.Width <= 0 {
		return
	}
	r.check(len(dst), len(a), 2)
	if b == nil {
		for y := range r.Rows {
			to, from := dst[y*r.StepDst:][:2*r.Width], a[y*r.StepSrc:]
			for i := range r.Width {
				to[2*i], to[2*i+1] = from[i*r.Every], 0
			}
		}
		return
	}
	r.check(len(dst), len(b), 2)
	for y := r.fast(dst, a, b); y < r.Rows; y++ {
		to, p, q := dst[y*r.StepDst:][:2*r.Width], a[y*r.StepSrc:], b[y*r.StepSrc:]
		for i := range r.Width {
			to[2*i], to[2*i+1] = p[i*r.Every], q[i*r.Every]
		}
	}
}
