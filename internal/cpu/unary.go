package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerUnaryStream(op.Neg, grainCheap, vec.NegF32, vec.NegStreamF32, vec.NegF64)
	registerUnaryInts(op.Neg, neg, neg, neg)
	registerUnaryStream(op.Abs, grainCheap, vec.AbsF32, vec.AbsStreamF32, vec.AbsF64)
	registerUnaryInts(op.Abs, absInt, absInt, absInt)
	registerUnary(op.Sign, grainCheap, sign, sign)
	registerUnaryInts(op.Sign, sign, sign, sign)
	registerUnaryStream(op.Square, grainCheap, vec.SquareF32, vec.SquareStreamF32, vec.SquareF64)
	registerUnaryInts(op.Square, square, square, square)
	registerUnaryStream(op.Relu, grainCheap, vec.ReluF32, vec.ReluStreamF32, vec.ReluF64)
	registerUnaryInts(op.Relu, relu, relu, relu)
	registerUnaryStream(op.Sqrt, grainCheap, vec.SqrtF32, vec.SqrtStreamF32, vec.SqrtF64)
	registerUnaryStream(op.Reciprocal, grainCheap, vec.RecipF32, vec.RecipStreamF32, vec.RecipF64)

	registerUnaryStream(op.Rsqrt, grainCheap, vec.RsqrtF32, vec.RsqrtStreamF32, vec.RsqrtF64)
	registerUnary(op.Floor, grainCheap, vec.FloorF32, vec.FloorF64)
	registerUnary(op.Ceil, grainCheap, vec.CeilF32, vec.CeilF64)
	registerUnary(op.Round, grainCheap, vec.RoundF32, vec.RoundF64)
	registerUnary(op.Trunc, grainCheap, vec.TruncF32, vec.TruncF64)
	registerUnaryStream(op.Exp, grainExpensive, vec.ExpF32, vec.ExpStreamF32, vec.ExpF64)
	registerUnary(op.Expm1, grainExpensive, vec.Expm1F32, vec.Expm1F64)
	registerUnaryStream(op.Log, grainExpensive, vec.LogF32, vec.LogStreamF32, log64)
	registerUnary(op.Log1p, grainExpensive, vec.Log1pF32, vec.Log1pF64)
	registerUnary(op.Sin, grainExpensive, vec.SinF32, vec.SinF64)
	registerUnary(op.Cos, grainExpensive, vec.CosF32, vec.CosF64)
	registerUnaryStream(op.Tanh, grainExpensive, vec.TanhF32, vec.TanhStreamF32, vec.TanhF64)
	registerUnaryStream(op.Sigmoid, grainExpensive, vec.SigmoidF32, vec.SigmoidStreamF32, vec.SigmoidF64)
	registerUnaryStream(op.Gelu, grainExpensive, vec.GeluF32, vec.GeluStreamF32, mapFloats[float64](gelu))
	registerUnaryStream(op.GeluTanh, grainExpensive, vec.GeluTanhF32, vec.GeluTanhStreamF32, mapFloats[float64](geluTanh))
	registerUnaryStream(op.Silu, grainExpensive, vec.SiluF32, vec.SiluStreamF32, mapFloats[float64](silu))
	registerUnary(op.Relu6, grainCheap, vec.Relu6F32, vec.Relu6F64)
	registerUnary(op.HardSigmoid, grainCheap, vec.HardSigmoidF32, vec.HardSigmoidF64)
	registerUnary(op.HardSwish, grainCheap, vec.HardSwishF32, vec.HardSwishF64)
	registerUnary(op.Mish, grainExpensive, vec.MishF32, vec.MishF64)
	registerUnary(op.Softplus, grainExpensive, softplus32, mapFloats[float64](softplus))
	registerUnaryStream(op.Erf, grainExpensive, vec.ErfF32, vec.ErfStreamF32, vec.ErfF64)

	registerUnary(op.Log2, grainExpensive, mapFloats[float32](log2), mapFloats[float64](log2))
	registerUnary(op.Log10, grainExpensive, mapFloats[float32](log10), mapFloats[float64](log10))
	// The others through float64, whose error vanishes in the rounding to float32, by
	// their description.
	for _, def := range op.All() {
		if f := def.Float; f != nil && def.ID != op.Copy && table[def.ID][dtype.Float32] == nil {
			registerUnary(def.ID, grainExpensive, mapFloats[float32](f), mapFloats[float64](f))
		}
	}

	register(op.Not, dtype.Bool, unary(grainCheap, not))
	registerTest(op.IsNaN, isNaN, isNaN)
	registerTest(op.IsInf, isInf, isInf)
	registerTest(op.IsFinite, isFinite, isFinite)
}

func registerTest(id op.ID, f32 loop1[uint8, float32], f64 loop1[uint8, float64]) {
	register(id, dtype.Float32, unary(grainCheap, f32))
	register(id, dtype.Float64, unary(grainCheap, f64))
	for _, h := range halfTypes {
		register(id, h.dtype, h.test(grainCheap, f32))
	}
}

// log10 is Go's except for subnormal numbers, which Go's assembly for amd64 takes for
// the smallest normal one.
func log10(x float64) float64 {
	if x > 0 && x < smallest64 {
		return math.Log10(math.Ldexp(x, lift)) - lift*math.Ln2/math.Ln10
	}
	return math.Log10(x)
}

// log64 corrects the same error of Go's Log.
func log64(dst, a []float64) {
	vec.LogF64(dst, a)
	for i, x := range a[:len(dst)] {
		if x > 0 && x < smallest64 {
			dst[i] = math.Log(math.Ldexp(x, lift)) - lift*math.Ln2
		}
	}
}

// log2 is Go's except near 1, where Go's adds an exponent and a fraction's logarithm
// that cancel.
func log2(x float64) float64 {
	if x > 0.5 && x < 2 {
		return math.Log1p(x-1) / math.Ln2
	}
	return math.Log2(x)
}

// mapFloats makes a loop of a function of float64.
func mapFloats[T float](f func(float64) float64) loop1[T, T] {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i, x := range a {
			dst[i] = T(f(float64(x)))
		}
	}
}

func neg[T number](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = -x
	}
}

func absInt[T integer](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		if x < 0 {
			x = -x
		}
		dst[i] = x
	}
}

func sign[T number](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		switch {
		case x > 0:
			x = 1
		case x < 0:
			x = 0
			x-- // unsigned types have no constant -1
		}
		dst[i] = x
	}
}

func square[T number](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x * x
	}
}

func relu[T number](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		if x < 0 {
			x = 0
		}
		dst[i] = x
	}
}

func not(dst, a []uint8) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x ^ 1
	}
}

func isNaN[T float](dst []uint8, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = b2u(x != x)
	}
}

func isInf[T float](dst []uint8, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = b2u(math.IsInf(float64(x), 0))
	}
}

func isFinite[T float](dst []uint8, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = b2u(x-x == 0)
	}
}

// b2u is a bool as a byte; the compiler makes one instruction of it.
func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x) // keeps its relative precision where 1+e⁻ˣ would overflow
	return e / (1 + e)
}

func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

// phi is the normal distribution function; erfc keeps the lower tail exact.
func phi(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

func gelu(x float64) float64 {
	if math.IsInf(x, -1) {
		return 0
	}
	return x * phi(x)
}

func geluGrad(x float64) float64 {
	if math.IsInf(x, 0) {
		return phi(x)
	}
	return phi(x) + x*math.Exp(-0.5*x*x)*(1/math.Sqrt(2*math.Pi))
}

const (
	geluA = 0.79788456080286535588 // √(2/π)
	geluB = 0.044715
)

// geluTanh is x·sigmoid(2u): ½(1+tanh u) without its cancellation.
func geluTanh(x float64) float64 {
	if math.IsInf(x, -1) {
		return 0
	}
	return x * sigmoid(2*geluA*(x+geluB*x*x*x))
}

func geluTanhGrad(x float64) float64 {
	if math.IsInf(x, 0) {
		return sigmoid(x)
	}
	s := sigmoid(2 * geluA * (x + geluB*x*x*x))
	t := s * (1 - s)
	if t == 0 { // x³ may have overflowed
		return s
	}
	return s + x*t*2*geluA*(1+3*geluB*x*x)
}

func silu(x float64) float64 {
	if math.IsInf(x, -1) {
		return 0
	}
	return x * sigmoid(x)
}

func siluGrad(x float64) float64 {
	if math.IsInf(x, 0) {
		return sigmoid(x)
	}
	s := sigmoid(x)
	return s + x*s*(1-s)
}
