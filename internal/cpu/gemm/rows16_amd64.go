package gemm

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

// fast copies rows of a, or joins those of a and b, with vector code and says how many.
func (r *Rows16) fast(dst, a, b []uint16) int {
	if vec.CPU() < vec.AVX2 || r.Width < 8 || r.Every > 2 {
		return 0
	}
	rows := r.Rows
	if r.Every == 2 { // one more element of each row is read
		have := len(a)
		if b != nil {
			have = min(have, len(b))
		}
		if (rows-1)*r.StepSrc+2*r.Width > have {
			rows--
		}
		if rows == 0 {
			return 0
		}
	}
	bytes := func(x []uint16) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }
	switch {
	case b == nil && r.Every == 1:
		copyRows(bytes(dst), bytes(a), r.Width, rows, 2*r.StepDst, 2*r.StepSrc)
	case b == nil:
		everyOther(bytes(dst), bytes(a), r.Width, rows, 2*r.StepDst, 2*r.StepSrc)
	case r.Every == 1:
		joinRows(bytes(dst), bytes(a), bytes(b), r.Width, rows, 2*r.StepDst, 2*r.StepSrc)
	default:
		joinRowsEvery2(bytes(dst), bytes(a), bytes(b), r.Width, rows, 2*r.StepDst, 2*r.StepSrc)
	}
	return rows
}
