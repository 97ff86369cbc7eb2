package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerBinaryStream(op.Add, grainCheap, vec.AddF32, vec.AddStreamF32, vec.AddF64)
	registerBinaryInts(op.Add, add, add, add)
	registerBinaryStream(op.Sub, grainCheap, vec.SubF32, vec.SubStreamF32, vec.SubF64)
	registerBinaryInts(op.Sub, sub, sub, sub)
	registerBinaryStream(op.Mul, grainCheap, vec.MulF32, vec.MulStreamF32, vec.MulF64)
	registerBinaryInts(op.Mul, mul, mul, mul)
	registerBinaryStream(op.Div, grainCheap, vec.DivF32, vec.DivStreamF32, vec.DivF64)
	registerBinaryStream(op.Maximum, grainCheap, vec.MaxF32, vec.MaxStreamF32, vec.MaxF64)
	registerBinaryInts(op.Maximum, maximum, maximum, maximum)
	registerBinaryStream(op.Minimum, grainCheap, vec.MinF32, vec.MinStreamF32, vec.MinF64)
	registerBinaryInts(op.Minimum, minimum, minimum, minimum)
	registerBinary(op.Pow, grainExpensive, vec.PowF32, pow64)
	registerBinaryInts(op.Pow, powInt, powInt, powInt)
	registerBinary(op.FloorDiv, grainCheap, floorDivFloat[float32](1<<20), floorDivFloat[float64](1<<49))
	registerBinaryInts(op.FloorDiv, floorDivInt, floorDivInt, floorDivInt)
	registerBinary(op.Mod, grainExpensive, modFloat, modFloat)
	registerBinaryInts(op.Mod, modInt, modInt, modInt)
	registerBinary(op.Atan2, grainExpensive, atan2, atan2)

	registerBinary(op.Fmod, grainExpensive, fmod32, mapFloats2[float64](math.Mod))
	for _, def := range op.All() { // by their description
		if f := def.Float2; f != nil && table[def.ID][dtype.Float32] == nil {
			registerBinary(def.ID, grainExpensive, mapFloats2[float32](f), mapFloats2[float64](f))
		}
		if f := def.Int2; f != nil {
			registerBinaryInts(def.ID, mapInts2[uint8](f), mapInts2[int32](f), mapInts2[int64](f))
		}
	}

	registerBinaryInts(op.And, and, and, and)
	registerBinaryInts(op.Or, or, or, or)
	registerBinaryInts(op.Xor, xor, xor, xor)
	register(op.And, dtype.Bool, binary(grainCheap, and[uint8]))
	register(op.Or, dtype.Bool, binary(grainCheap, or[uint8]))
	register(op.Xor, dtype.Bool, binary(grainCheap, xor[uint8]))

	registerBinaryStream(op.ReluGrad, grainCheap, vec.ReluGradF32, vec.ReluGradStreamF32, vec.ReluGradF64)
	registerBinaryInts(op.ReluGrad, reluGrad, reluGrad, reluGrad)
	registerBinaryStream(op.SigmoidGrad, grainCheap, vec.SigmoidGradF32, vec.SigmoidGradStreamF32, vec.SigmoidGradF64)
	registerBinaryStream(op.TanhGrad, grainCheap, vec.TanhGradF32, vec.TanhGradStreamF32, vec.TanhGradF64)
	registerBinary(op.GeluGrad, grainExpensive, composed(geluGrad32), timesFunc[float64](geluGrad))
	registerBinary(op.GeluTanhGrad, grainExpensive, composed(geluTanhGrad32), timesFunc[float64](geluTanhGrad))
	registerBinary(op.SiluGrad, grainExpensive, composed(siluGrad32), timesFunc[float64](siluGrad))

	registerBinary(op.Relu6Grad, grainCheap, composed(relu6Grad32), choose64(relu6Slope))
	registerBinary(op.HardSigmoidGrad, grainCheap, composed(hardSigmoidGrad32), choose64(hardSigmoidSlope))
	registerBinary(op.HardSwishGrad, grainCheap, composed(hardSwishGrad32), choose64(hardSwishSlope))
	registerBinary(op.MishGrad, grainExpensive, composed(mishGrad32), timesFunc[float64](mishGrad))
	registerBinary(op.LeakyRelu, grainCheap, composed(leakyRelu32), leakyRelu64)
	registerBinary(op.LeakySlope, grainCheap, composed(leakySlope32), leakySlope64)

	registerCompare(op.Equal, vec.EqF32, vec.EqF64, equal, equal, equal)
	registerCompare(op.NotEqual, vec.NeF32, vec.NeF64, notEqual, notEqual, notEqual)
	register(op.Equal, dtype.Bool, binary(grainCheap, equal[uint8]))
	register(op.NotEqual, dtype.Bool, binary(grainCheap, notEqual[uint8]))
	registerCompare(op.Less, vec.LtF32, vec.LtF64, less, less, less)
	registerCompare(op.LessEqual, vec.LeF32, vec.LeF64, lessEqual, lessEqual, lessEqual)
	registerCompare(op.Greater, vec.GtF32, vec.GtF64, swapped(less[uint8]), swapped(less[int32]), swapped(less[int64]))
	registerCompare(op.GreaterEqual, vec.GeF32, vec.GeF64, swapped(lessEqual[uint8]), swapped(lessEqual[int32]), swapped(lessEqual[int64]))

	registerNumbers()
}

func registerCompare(id op.ID, f32 loop2[uint8, float32], f64 loop2[uint8, float64], u8 loop2[uint8, uint8], i32 loop2[uint8, int32], i64 loop2[uint8, int64]) {
	directs[id][dtype.Float32].loop, directs[id][dtype.Float64].loop = direct2(f32), direct2(f64)
	register(id, dtype.Float32, binary(grainCheap, f32))
	register(id, dtype.Float64, binary(grainCheap, f64))
	register(id, dtype.Uint8, binary(grainCheap, u8))
	register(id, dtype.Int32, binary(grainCheap, i32))
	register(id, dtype.Int64, binary(grainCheap, i64))
	for _, h := range halfTypes {
		register(id, h.dtype, h.compare(grainCheap, f32))
	}
}

func swapped[R, A any](loop loop2[R, A]) loop2[R, A] {
	return func(dst []R, a, b []A) { loop(dst, b, a) }
}

func add[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func sub[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mul[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func maximum[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

func minimum[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}

// smallest64 is the smallest normal float64. Go's math.Log takes smaller numbers for larger
// than they are, and Pow and Log10 follow it: such numbers are scaled first.
const (
	smallest64 = 0x1p-1022
	lift       = 54 // powers of two
)

func pow64(dst, a, b []float64) {
	vec.PowF64(dst, a, b)
	for i, x := range a[:len(dst)] {
		if y := b[i]; math.Abs(x) < smallest64 && x != 0 && y == y && !math.IsInf(y, 0) {
			dst[i] = math.Pow(math.Ldexp(x, lift), y) * math.Exp2(-lift*y)
		}
	}
}

func powInt[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = ipow(a[i], b[i])
	}
}

func ipow[T integer](x, n T) T {
	if n < 0 {
		switch {
		case x == 1:
			return 1
		case x+1 == 0: // -1
			if n&1 == 0 {
				return 1
			}
			return x
		}
		return 0
	}
	p := T(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= x
		}
		x *= x
	}
	return p
}

// floorDivFloat makes a loop of ⌊a/b⌋, the integer that goes with the
// remainder of modFloat. Below small in magnitude it is exact; above, where not
// all integers have a place in T, it is what PyTorch makes of it.
func floorDivFloat[T float](small float64) loop2[T, T] {
	return func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			x, y := float64(a[i]), float64(b[i])
			q := x / y
			if !(math.Abs(q) < small) || q == 0 {
				dst[i] = floorDivSlow(a[i], b[i])
				continue
			}
			f := math.Floor(q)
			if f == q { // it may have been rounded up to f: then a - b·f has not b's sign
				if r := math.FMA(-q, y, x); r != 0 && (r < 0) != (y < 0) {
					f--
				}
			}
			dst[i] = T(f)
		}
	}
}

// floorDivSlow takes the remainder first, as Python and PyTorch do.
func floorDivSlow[T float](x, y T) T {
	q := x / y
	if x == 0 || y == 0 {
		return q
	}
	r := T(math.Mod(float64(x), float64(y)))
	d := (x - r) / y
	if r != 0 && (r < 0) != (y < 0) {
		d--
	}
	if d == 0 {
		return T(math.Copysign(0, float64(q)))
	}
	f := T(math.Floor(float64(d)))
	if d-f > 0.5 {
		f++
	}
	return f
}

func floorDivInt[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, y := range b {
		if y == 0 {
			dst[i] = 0
			continue
		}
		x := a[i]
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		dst[i] = q
	}
}

func modFloat[T float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, y := range b {
		// The remainder of the division is exact, where a - b·⌊a/b⌋ would cancel.
		r := T(math.Mod(float64(a[i]), float64(y)))
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		}
		dst[i] = r
	}
}

func modInt[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, y := range b {
		if y == 0 {
			dst[i] = 0
			continue
		}
		r := a[i] % y
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		}
		dst[i] = r
	}
}

// atan2 takes the sign from a: Go's loses it where a/b underflows.
func atan2[T float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Copysign(math.Atan2(float64(a[i]), float64(b[i])), float64(a[i])))
	}
}

func and[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}

func or[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}

func xor[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}

func reluGrad[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		g := a[i]
		if !(b[i] > 0) {
			g = 0
		}
		dst[i] = g
	}
}

// timesFunc makes a loop of a·f(b).
func timesFunc[T float](f func(float64) float64) loop2[T, T] {
	return func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = T(float64(a[i]) * f(float64(b[i])))
		}
	}
}

// fmod32 divides in float64, in which the product of b and a quotient of few digits is
// exact, and so is what is left.
func fmod32(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := float64(a[i]), float64(b[i])
		q := math.Trunc(x / y)
		if !(math.Abs(q) < 1<<28) || math.IsInf(y, 0) {
			dst[i] = float32(math.Mod(x, y))
			continue
		}
		r := x - q*y
		if r != 0 && (r < 0) != (x < 0) { // the quotient was rounded up to q
			r += math.Copysign(y, x)
		}
		dst[i] = float32(math.Copysign(r, x))
	}
}

// mapFloats2 makes a loop of a function of two float64.
func mapFloats2[T float](f func(a, b float64) float64) loop2[T, T] {
	return func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = T(f(float64(a[i]), float64(b[i])))
		}
	}
}

// mapInts2 makes a loop of a function of two int64.
func mapInts2[T integer](f func(a, b int64) int64) loop2[T, T] {
	return func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = T(f(int64(a[i]), int64(b[i])))
		}
	}
}

func equal[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = b2u(a[i] == b[i])
	}
}

func notEqual[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = b2u(a[i] != b[i])
	}
}

func less[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = b2u(a[i] < b[i])
	}
}

func lessEqual[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = b2u(a[i] <= b[i])
	}
}
