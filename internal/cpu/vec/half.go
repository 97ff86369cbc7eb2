package vec

import "github.com/locusml/locus/dtype"

// Widen converts numbers of a half-precision type, given as their bits, to float32.
func Widen(d dtype.DType, dst []float32, src []uint16) {
	if d == dtype.Float16 {
		F16ToF32(dst, src)
	} else {
		BF16ToF32(dst, src)
	}
}

// Narrow rounds numbers to a half-precision type, to nearest, ties to even.
func Narrow(d dtype.DType, dst []uint16, src []float32) {
	if d == dtype.Float16 {
		F32ToF16(dst, src)
	} else {
		F32ToBF16(dst, src)
	}
}
