package vec

import "math"

// SumFoursF32 returns the sum of a, of which four elements each are added as float32
// before the sums are added as float64: the error is at most that of two roundings of
// every element, however many there are. For long slices that is faster than SumF32,
// which waits for memory as well as for the conversions.
func SumFoursF32(a []float32) float64 {
	var s float64
	n := 0
	switch level {
	case AVX512:
		if n = len(a) &^ 255; n > 0 {
			s = sumFoursF32AVX512(&a[0], n)
		}
	case AVX2:
		if n = len(a) &^ 127; n > 0 {
			s = sumFoursF32AVX2(&a[0], n)
		}
	case NEON:
		if n = len(a) &^ 63; n > 0 {
			s = sumFoursF32NEON(&a[0], n)
		}
	}
	if math.IsInf(s, 0) || s != s { // perhaps only the four are too large for float32
		return SumF32(a)
	}
	return s + SumF32(a[n:])
}
