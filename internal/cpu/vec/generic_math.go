package vec

import "math"

// The plain Go elementary functions compute in float64, which leaves a float32
// result within 0.51 ulp.

func mapGo[T float](dst, a []T, f func(float64) float64) {
	for i := range dst {
		dst[i] = T(f(float64(a[i])))
	}
}

func expGo[T float](dst, a []T)      { mapGo(dst, a, math.Exp) }
func expm1Go[T float](dst, a []T)    { mapGo(dst, a, math.Expm1) }
func logGo[T float](dst, a []T)      { mapGo(dst, a, math.Log) }
func log1pGo[T float](dst, a []T)    { mapGo(dst, a, math.Log1p) }
func tanhGo[T float](dst, a []T)     { mapGo(dst, a, math.Tanh) }
func sigmoidGo[T float](dst, a []T)  { mapGo(dst, a, sigmoid1) }
func erfGo[T float](dst, a []T)      { mapGo(dst, a, math.Erf) }
func geluGo[T float](dst, a []T)     { mapGo(dst, a, gelu1) }
func geluTanhGo[T float](dst, a []T) { mapGo(dst, a, geluTanh1) }
func siluGo[T float](dst, a []T)     { mapGo(dst, a, silu1) }
func sinGo[T float](dst, a []T)      { mapGo(dst, a, math.Sin) }
func cosGo[T float](dst, a []T)      { mapGo(dst, a, math.Cos) }

func sigmoid1(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// silu1 and the gelus end at zero on the far negative side, also at -Inf, where the
// formulas are 0 times infinity.
func silu1(x float64) float64 {
	if math.IsInf(x, -1) {
		return math.Copysign(0, -1)
	}
	return x / (1 + math.Exp(-x))
}

func gelu1(x float64) float64 {
	if math.IsInf(x, -1) {
		return math.Copysign(0, -1)
	}
	return 0.5 * x * math.Erfc(-x/math.Sqrt2)
}

// geluTanh1 uses 1+tanh(z) = 2/(1+exp(-2z)), which keeps its precision where
// tanh is near -1.
func geluTanh1(x float64) float64 {
	if math.IsInf(x, -1) {
		return math.Copysign(0, -1)
	}
	z := math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)
	return x / (1 + math.Exp(-2*z))
}

func powGo[T float](dst, a, b []T) {
	for i := range dst {
		dst[i] = T(math.Pow(float64(a[i]), float64(b[i])))
	}
}

func powSGo[T float](dst, a []T, s T) {
	for i := range dst {
		dst[i] = T(math.Pow(float64(a[i]), float64(s)))
	}
}
