package cpu

import (
	"math"

	"github.com/locusml/locus/internal/cpu/vec"
)

// Activations and their gradients for float32, composed of vector functions.
// The float64 ones, in unary.go, are the plain formulas.

// composed makes a loop of a function that needs buffers s, t and u of its
// operands' length, by cutting the operands to pieces that stay in the cache. dst may be a.
func composed(f func(dst, a, b, s, t, u []float32)) loop2[float32, float32] {
	return func(dst, a, b []float32) {
		room, buf := scratchOf[float32](3 * chunk)
		for lo := 0; lo < len(dst); lo += chunk {
			n := min(chunk, len(dst)-lo)
			f(dst[lo:lo+n], a[lo:lo+n], b[lo:lo+n], buf[:n], buf[chunk:][:n], buf[2*chunk:][:n])
		}
		room.free()
	}
}

// far is beyond where activations are 0 or x to the last bit, and near enough
// for x³ to be finite.
const far = 200

// s·(1 + x·(1-s)) with s = sigmoid(x); 1-s is sigmoid(-x), which does not cancel.
func siluGrad32(dst, a, x, s, t, u []float32) {
	vec.ClampF32(t, x, -far, far)
	vec.SigmoidF32(s, t)
	vec.NegF32(u, t)
	vec.SigmoidF32(u, u)
	vec.MulF32(t, t, u)
	vec.FmaF32(s, s, t, s)
	tail(s, x, -80, siluGrad)
	vec.MulF32(dst, a, s)
}

// tail computes s again where x is below limit: there factors are subnormal and have
// lost digits that the result still has.
func tail(s, x []float32, limit float32, f func(float64) float64) {
	for i, v := range x[:len(s)] {
		if v < limit {
			s[i] = float32(f(float64(v)))
		}
	}
}

// Φ(x) + x·φ(x). Φ is gelu(x)/x, whose tails are exact where ½(1+erf) would cancel.
func geluGrad32(dst, a, x, s, t, u []float32) {
	vec.ClampF32(t, x, -far, far)
	vec.GeluF32(s, t)
	for i, v := range t {
		if v == 0 {
			s[i], t[i] = 0.5, 0
		} else {
			s[i] /= v
		}
	}
	// s is Φ; t becomes x·φ(x).
	vec.SquareF32(u, t)
	vec.MulSF32(u, u, -0.5)
	vec.ExpF32(u, u)
	vec.MulF32(t, t, u)
	vec.AxpyF32(s, float32(1/math.Sqrt(2*math.Pi)), t)
	tail(s, x, -12, geluGrad)
	vec.MulF32(dst, a, s)
}

// s + x·s·(1-s)·2A·(1+3B·x²) with s = sigmoid(2A·(x + B·x³))
func geluTanhGrad32(dst, a, x, s, t, u []float32) {
	vec.ClampF32(t, x, -far, far)
	for i, v := range t {
		s[i] = float32(2*geluA) * (v + float32(geluB)*v*v*v)
	}
	vec.NegF32(u, s)
	vec.SigmoidF32(s, s)
	vec.SigmoidF32(u, u)
	for i, v := range t {
		s[i] += v * s[i] * u[i] * float32(2*geluA) * (1 + float32(3*geluB)*v*v)
	}
	tail(s, x, -9, geluTanhGrad)
	vec.MulF32(dst, a, s)
}

// softplus32 is max(x, 0) + log(1 + e^-|x|).
func softplus32(dst, x []float32) {
	room, buf := scratchOf[float32](chunk)
	for lo := 0; lo < len(dst); lo += chunk {
		n := min(chunk, len(dst)-lo)
		s, from := buf[:n], x[lo:lo+n]
		vec.AbsF32(s, from)
		vec.NegF32(s, s)
		vec.ExpF32(s, s)
		vec.Log1pF32(s, s)
		vec.ReluF32(dst[lo:lo+n], from)
		vec.AddF32(dst[lo:lo+n], dst[lo:lo+n], s)
	}
	room.free()
}

// The gradients of activations made of straight lines. Vector code has no jumps:
// ReluGrad chooses, since b + 3 > 0 says exactly what b > -3 does.

// relu6Grad32 is a where 0 < x < 6.
func relu6Grad32(dst, a, x, s, _, _ []float32) {
	vec.RSubSF32(s, x, 6)
	vec.ReluGradF32(s, a, s)
	vec.ReluGradF32(dst, s, x)
}

// hardSigmoidGrad32 is a/6 where -3 < x < 3.
func hardSigmoidGrad32(dst, a, x, s, t, _ []float32) {
	vec.MulSF32(s, a, 1./6)
	within3(s, s, x, t)
	copy(dst, s)
}

// within3 is a where -3 < x < 3; s is a buffer, and dst is not x.
func within3(dst, a, x, s []float32) {
	vec.AbsF32(s, x)
	vec.RSubSF32(s, s, 3)
	vec.ReluGradF32(dst, a, s) // in one go: dst may be x
}

// hardSwishGrad32 is a·(x/3 + ½) where -3 < x < 3, and a from there on.
func hardSwishGrad32(dst, a, x, s, t, u []float32) {
	vec.AffineF32(s, x, 1./3, 0.5)
	vec.MulF32(s, s, a)
	within3(s, s, x, t)
	vec.SubSF32(t, x, math.Nextafter32(3, 0)) // positive from 3 on
	vec.ReluGradF32(t, a, t)
	vec.AddF32(dst, s, t)
}

func relu6Slope(x float64) float64 {
	if x > 0 && x < 6 {
		return 1
	}
	return 0
}

func hardSigmoidSlope(x float64) float64 {
	if x > -3 && x < 3 {
		return 1. / 6
	}
	return 0
}

func hardSwishSlope(x float64) float64 {
	switch {
	case x > -3 && x < 3:
		return x/3 + 0.5
	case x >= 3:
		return 1
	}
	return 0
}

// choose64 is a·slope(b), and 0 where the slope is, whatever a.
func choose64(slope func(float64) float64) loop2[float64, float64] {
	return func(dst, a, b []float64) {
		for i, x := range b[:len(dst)] {
			s, g := slope(x), a[i]
			dst[i] = 0
			if s != 0 {
				dst[i] = g * s
			}
		}
	}
}

// mishGrad32 is n/(n+2) + 4x·e(1+e)/(n+2)², with e = eˣ and n = e(e+2): the slope is 1
// to the last bit long before these overflow.
func mishGrad32(dst, a, x, s, t, u []float32) {
	vec.ClampF32(t, x, -far, mishFar)
	vec.ExpF32(s, t)
	for i, e := range s {
		n := e * (e + 2)
		u[i] = (n + 4*t[i]*e*(1+e)/(n+2)) / (n + 2)
	}
	tail(u, x, -80, mishGrad)
	vec.MulF32(dst, a, u)
}

// mishFar is where mish is x to the last bit.
const mishFar = 20

func mishGrad(x float64) float64 {
	if x > 2*mishFar {
		return 1
	}
	e := math.Exp(x)
	if e == 0 {
		return 0
	}
	n := e * (e + 2)
	return (n + 4*x*e*(1+e)/(n+2)) / (n + 2)
}

// leakyRelu32 is max(a, 0) + b·min(a, 0).
func leakyRelu32(dst, a, b, s, t, _ []float32) {
	vec.MinSF32(t, a, 0)
	vec.ReluF32(s, a)
	vec.FmaF32(dst, b, t, s)
}

// leakySlope32 is 1 where a > 0, else b.
func leakySlope32(dst, a, b, s, t, u []float32) {
	for i := range u {
		u[i] = 1
	}
	vec.ReluGradF32(u, u, a)
	vec.ReluGradF32(s, b, a)
	vec.SubF32(s, b, s)
	vec.AddF32(dst, s, u)
}

func leakyRelu64(dst, a, b []float64) {
	for i, x := range a[:len(dst)] {
		if !(x > 0) {
			x *= b[i]
		}
		dst[i] = x
	}
}

func leakySlope64(dst, a, b []float64) {
	for i, x := range a[:len(dst)] {
		s := b[i]
		if x > 0 {
			s = 1
		}
		dst[i] = s
	}
}
