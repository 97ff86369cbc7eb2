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

func fmaGo[T float](dst, a, b, c []T) {
	for i := range dst {
		dst[i] = fma1(a[i], b[i], c[i])
	}
}

// fma1 multiplies and adds with one rounding, as the vector code does. For
// float32 the product is exact in float64, which leaves a double rounding that
// differs from a true fused result in very rare cases.
func fma1[T float](a, b, c T) T {
	if _, ok := any(a).(float32); ok {
		return T(float64(a)*float64(b) + float64(c))
	}
	return T(math.FMA(float64(a), float64(b), float64(c)))
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
