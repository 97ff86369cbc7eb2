package vec

import "math"

// PowBF16 stores 2^(a·s - t) in bfloat16 and returns the sum of it, not rounded. It is for the
// weights of a softmax: powers should be at most about 1, numbers below 2^-126 may become 0, and
// the error before rounding is up to 2e-7 of a power, or that of the exponent, which is computed
// in float32. The length must be a multiple of 32.
func PowBF16(dst []uint16, a []float32, s, t float32) float32 {
	n := len(dst)
	a = a[:n]
	switch {
	case n == 0:
		return 0
	case n%32 != 0:
		panic("vec: PowBF16 of a length that is not a multiple of 32")
	}
	switch level {
	case AVX512:
		return powBF16AVX512(&dst[0], &a[0], s, t, n)
	case AVX2:
		return powBF16AVX2(&dst[0], &a[0], s, t, n)
	}
	var sum float32
	for i, x := range a {
		p := float32(math.Exp2(float64(x)*float64(s) - float64(t)))
		sum += p
		dst[i] = uint16((math.Float32bits(p) + 0x8000) >> 16)
	}
	return sum
}

// PowGradBF16 stores x = 2^(a·s - t) and x·(b·u - w) in bfloat16; see PowBF16.
func PowGradBF16(p, d []uint16, a, b []float32, s, t, u, w float32) {
	n := len(p)
	d, a, b = d[:n], a[:n], b[:n]
	switch {
	case n == 0:
		return
	case n%32 != 0:
		panic("vec: PowGradBF16 of a length that is not a multiple of 32")
	}
	switch level {
	case AVX512:
		powGradBF16AVX512(&p[0], &d[0], &a[0], &b[0], s, t, u, w, n)
		return
	case AVX2:
		powGradBF16AVX2(&p[0], &d[0], &a[0], &b[0], s, t, u, w, n)
		return
	}
	for i, x := range a {
		x = float32(math.Exp2(float64(x)*float64(s) - float64(t)))
		p[i] = uint16((math.Float32bits(x) + 0x8000) >> 16)
		d[i] = uint16((math.Float32bits(x*(b[i]*u-w)) + 0x8000) >> 16)
	}
}
