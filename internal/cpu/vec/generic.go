package vec

import "math"

type float interface{ float32 | float64 }

func addGo[T float](dst, a, b []T) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func subGo[T float](dst, a, b []T) {
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mulGo[T float](dst, a, b []T) {
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func divGo[T float](dst, a, b []T) {
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// max1 and min1 are the built-ins: NaN if either is NaN, and -0 < +0.
func max1[T float](a, b T) T { return max(a, b) }
func min1[T float](a, b T) T { return min(a, b) }

func maxGo[T float](dst, a, b []T) {
	for i := range dst {
		dst[i] = max1(a[i], b[i])
	}
}

func minGo[T float](dst, a, b []T) {
	for i := range dst {
		dst[i] = min1(a[i], b[i])
	}
}

func addSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = a[i] + s
	}
}

func subSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = a[i] - s
	}
}

func rsubSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = s - a[i]
	}
}

func mulSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = a[i] * s
	}
}

func divSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = a[i] / s
	}
}

func rdivSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = s / a[i]
	}
}

func maxSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = max1(a[i], s)
	}
}

func minSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = min1(a[i], s)
	}
}

func clampGo[T float](dst, a []T, lo, hi T) {
	for i := range dst {
		dst[i] = min1(max1(a[i], lo), hi)
	}
}

func subMulGo[T float](dst, a []T, s, t T) {
	for i, x := range a[:len(dst)] {
		dst[i] = (x - s) * t
	}
}

func affineGo[T float](dst, a []T, mul, add T) {
	for i := range dst {
		dst[i] = fma1(a[i], mul, add)
	}
}

func axpyGo[T float](dst []T, s T, x []T) {
	for i := range dst {
		dst[i] = fma1(s, x[i], dst[i])
	}
}

func blendGo[T float](dst, a []T, s T, b []T, t T) {
	for i := range dst {
		dst[i] = fma1(t, b[i], s*a[i])
	}
}

func fmaGo[T float](dst, a, b, c []T) {
	for i := range dst {
		dst[i] = fma1(a[i], b[i], c[i])
	}
}

// fma1 multiplies and adds with one rounding, as the vector code does.
func fma1[T float](a, b, c T) T {
	if _, ok := any(a).(float32); ok {
		return T(fma32(float64(a), float64(b), float64(c)))
	}
	return T(math.FMA(float64(a), float64(b), float64(c)))
}

// fma32 computes in float64, where the product of two float32 is exact. If
// the rounded sum then lies halfway between two float32 it is moved to the side
// of the exact sum, so that the second rounding goes the right way.
func fma32(a, b, c float64) float32 {
	p := a * b
	s := p + c
	u := math.Float64bits(s)
	if u&0x1fffffff != 0x10000000 || u>>52&0x7ff == 0x7ff || s-p == c && s-c == p {
		return float32(s)
	}
	neg := u>>63 != 0
	var err float64
	if neg == (c > p) {
		err = p - s + c
	} else {
		err = c - s + p
	}
	if neg == (err < 0) {
		u++
	} else {
		u--
	}
	return float32(math.Float64frombits(u))
}

func negGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = -a[i]
	}
}

func absGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = T(math.Abs(float64(a[i])))
	}
}

func sqrtGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = T(math.Sqrt(float64(a[i])))
	}
}

func rsqrtGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = 1 / T(math.Sqrt(float64(a[i])))
	}
}

func squareGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = a[i] * a[i]
	}
}

func recipGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = 1 / a[i]
	}
}

func reluGo[T float](dst, a []T) {
	for i := range dst {
		x := a[i]
		if x < 0 {
			x = 0
		}
		dst[i] = x
	}
}

func floorGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = T(math.Floor(float64(a[i])))
	}
}

func ceilGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = T(math.Ceil(float64(a[i])))
	}
}

func roundGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = T(math.RoundToEven(float64(a[i])))
	}
}

func truncGo[T float](dst, a []T) {
	for i := range dst {
		dst[i] = T(math.Trunc(float64(a[i])))
	}
}

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func eqGo[T float](dst []uint8, a, b []T) {
	for i := range dst {
		dst[i] = b2u(a[i] == b[i])
	}
}

func neGo[T float](dst []uint8, a, b []T) {
	for i := range dst {
		dst[i] = b2u(a[i] != b[i])
	}
}

func ltGo[T float](dst []uint8, a, b []T) {
	for i := range dst {
		dst[i] = b2u(a[i] < b[i])
	}
}

func leGo[T float](dst []uint8, a, b []T) {
	for i := range dst {
		dst[i] = b2u(a[i] <= b[i])
	}
}

func gtGo[T float](dst []uint8, a, b []T) {
	for i := range dst {
		dst[i] = b2u(a[i] > b[i])
	}
}

func geGo[T float](dst []uint8, a, b []T) {
	for i := range dst {
		dst[i] = b2u(a[i] >= b[i])
	}
}

func eqSGo[T float](dst []uint8, a []T, s T) {
	for i := range dst {
		dst[i] = b2u(a[i] == s)
	}
}

func neSGo[T float](dst []uint8, a []T, s T) {
	for i := range dst {
		dst[i] = b2u(a[i] != s)
	}
}

func ltSGo[T float](dst []uint8, a []T, s T) {
	for i := range dst {
		dst[i] = b2u(a[i] < s)
	}
}

func leSGo[T float](dst []uint8, a []T, s T) {
	for i := range dst {
		dst[i] = b2u(a[i] <= s)
	}
}

func gtSGo[T float](dst []uint8, a []T, s T) {
	for i := range dst {
		dst[i] = b2u(a[i] > s)
	}
}

func geSGo[T float](dst []uint8, a []T, s T) {
	for i := range dst {
		dst[i] = b2u(a[i] >= s)
	}
}

func selectGo[T float](dst []T, mask []uint8, a, b []T) {
	for i := range dst {
		if mask[i] != 0 {
			dst[i] = a[i]
		} else {
			dst[i] = b[i]
		}
	}
}
