package random

import "math"

// Normal32 maps 32 bits to a standard normal number of float32.
//
// It inverts the distribution function by Giles' rational-free polynomials
// ("Approximating the erfinv function", 2010). Every step is one correctly rounded
// float32 operation in a fixed order, with no fused multiply-add, so that any device
// can reproduce it bit for bit; the conversions below keep the Go compiler from
// fusing. Magnitudes up to 5.4 standard deviations occur.
func Normal32(w uint32) float32 {
	// The middle of one of 2²⁴ cells of (-1, 1): symmetric, never 0, ±1 or beyond.
	// Magnitude and sign are handled apart, because 1-|x| must be exact.
	n := w >> 8
	negative := n < 1<<23
	if negative {
		n = 1<<24 - 1 - n
	}
	n -= 1 << 23 // 0 … 2²³-1: |x| = (n + ½)/2²³
	x := float32(float32(2*n+1) * (1.0 / (1 << 24)))
	tail := float32(float32(2*(1<<23-1-n)+1) * (1.0 / (1 << 24))) // 1-|x|, exactly
	t := -log32(float32(tail * float32(1+x)))
	var p float32
	if t < 5 {
		t = float32(t - 2.5)
		p = horner(t, &normalCenter)
	} else {
		t = float32(sqrt32(t) - 3)
		p = horner(t, &normalTail)
	}
	z := float32(float32(p*x) * math.Sqrt2)
	if negative {
		return -z
	}
	return z
}

// Normal64 is the float64 version: 53 bits, with Go's math library. Devices other
// than the host's may differ from it in the last places.
func Normal64(w uint64) float64 {
	u := (float64(w>>12) + 0.5) * (1.0 / (1 << 52)) // (0, 1)
	return math.Sqrt2 * math.Erfinv(2*u-1)
}

var normalCenter = [9]float32{2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941}
var normalTail = [9]float32{-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682}

func horner(t float32, c *[9]float32) float32 {
	p := c[0]
	for _, k := range c[1:] {
		p = float32(float32(p*t) + k)
	}
	return p
}

// sqrt32 is correctly rounded: float64 has more than twice the digits.
func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// log32 is the natural logarithm of a normal positive number, by reduction to
// [√½, √2) and a polynomial in (m-1) (after Cephes' logf), in separate multiplications
// and additions.
func log32(x float32) float32 {
	b := math.Float32bits(x)
	e := int32(b>>23) - 126
	m := math.Float32frombits(b&0x007fffff | 0x3f000000) // [½, 1)
	if m < 0.70710678 {
		e--
		m = float32(m + m)
	}
	m = float32(m - 1)
	z := float32(m * m)
	p := logCoeffs[0]
	for _, k := range logCoeffs[1:] {
		p = float32(float32(p*m) + k)
	}
	y := float32(float32(m*z) * p)
	fe := float32(e)
	y = float32(y + float32(fe*-2.12194440e-4))
	y = float32(y - float32(0.5*z))
	y = float32(m + y)
	return float32(y + float32(fe*0.693359375))
}

var logCoeffs = [9]float32{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
