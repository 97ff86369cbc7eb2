package backendtest

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// unaryFloat are the references of unary ops whose description has none.
var unaryFloat = map[op.ID]func(float64) float64{
	op.Sign:        sign,
	op.Log:         log,
	op.Log2:        log2,
	op.Log10:       func(x float64) float64 { return log(x) / math.Ln10 },
	op.Sigmoid:     sigmoid,
	op.Softplus:    func(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) },
	op.Relu:        func(x float64) float64 { return math.Max(x, 0) },
	op.Gelu:        func(x float64) float64 { return x * normalCDF(x) },
	op.GeluTanh:    func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(geluInner(x))) },
	op.Silu:        func(x float64) float64 { return x * sigmoid(x) },
	op.Relu6:       func(x float64) float64 { return min(max(x, 0), 6) },
	op.HardSigmoid: hardSigmoid,
	op.HardSwish:   func(x float64) float64 { return x * hardSigmoid(x) },
	op.Mish:        mish,
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x // zero or NaN
}

// log and pow are Go's except for subnormal numbers, which Go's assembly for amd64
// takes for the smallest normal one.
func log(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// log2 is Go's except near 1, where Go's adds an exponent and a fraction's logarithm
// that cancel.
func log2(x float64) float64 {
	if x > 0.5 && x < 2 {
		return math.Log1p(x-1) / math.Ln2
	}
	return math.Log2(x)
}

func pow(x, y float64) float64 {
	if x != 0 && math.Abs(x) < 0x1p-1022 {
		return math.Pow(x*0x1p54, y) * math.Exp2(-54*y)
	}
	return math.Pow(x, y)
}

func sigmoid(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / (1 + math.Exp(x))
	}
	return 1 / (1 + math.Exp(-x))
}

func hardSigmoid(x float64) float64 { return min(max(x/6+0.5, 0), 1) } // NaN for NaN

func mish(x float64) float64 { return x * math.Tanh(softplus(x)) }

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
func normalPDF(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
func geluInner(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

var unaryInt = map[op.ID]func(int64) int64{
	op.Copy:   func(x int64) int64 { return x },
	op.Neg:    func(x int64) int64 { return -x },
	op.Abs:    func(x int64) int64 { return max(x, -x) },
	op.Sign:   func(x int64) int64 { return int64(sign(float64(x))) },
	op.Square: func(x int64) int64 { return x * x },
	op.Relu:   func(x int64) int64 { return max(x, 0) },
	op.Not:    func(x int64) int64 { return 1 - x },
}

// unaryOf returns the reference of a unary op.
func unaryOf(id op.ID) func(float64) float64 {
	if f := op.Get(id).Float; f != nil {
		return f
	}
	return unaryFloat[id]
}

func unary(id op.ID, e *expected, x *array) {
	switch id {
	case op.IsNaN, op.IsInf, op.IsFinite:
		for i, v := range x.floats {
			e.ints[i] = truth(id == op.IsNaN && math.IsNaN(v) || id == op.IsInf && math.IsInf(v, 0) ||
				id == op.IsFinite && !math.IsNaN(v) && !math.IsInf(v, 0))
		}
		return
	case op.Copy, op.Neg, op.Abs, op.Square, op.Sqrt:
		e.exact, e.signs = true, true
	case op.Sign, op.Relu, op.Relu6, op.Floor, op.Ceil, op.Round, op.Trunc:
		e.exact = true
	case op.Sin, op.Cos, op.Tan: // Go's reduction of huge angles is off in the last places
		if x.dtype == dtype.Float64 {
			e.scale = make([]float64, x.len())
			for i, v := range x.floats {
				if math.Abs(v) > 1<<29 {
					e.scale[i] = 1
				}
			}
		}
	case op.Erfc: // CUDA's library errs by up to 5 steps
		e.units = 8
	case op.Gelu, op.GeluTanh, op.HardSwish, op.HardSigmoid, op.Mish: // x·(½ + something): far below zero the sum cancels
		e.scale = make([]float64, x.len())
		for i, v := range x.floats {
			e.scale[i] = math.Abs(v)
		}
	}
	f := unaryOf(id)
	for i, v := range x.floats {
		e.floats[i] = f(v)
	}
	for i, v := range x.ints {
		if id == op.Abs && x.dtype == dtype.Int64 && v == math.MinInt64 {
			e.ints[i] = v // wraps
			continue
		}
		e.ints[i] = unaryInt[id](v)
	}
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func cast(e *expected, x *array) {
	to := e.dtype
	e.exact, e.signs = true, true
	if to.IsHalf() {
		// From types wider than float32, rounding once and rounding on the way over
		// float32 may differ by a step.
		if x.dtype == dtype.Float64 || x.dtype == dtype.Int64 || x.dtype == dtype.Int32 {
			e.exact, e.units = false, 0
		}
	}
	for i := range x.len() {
		switch {
		case x.floats != nil && to.IsFloat():
			e.floats[i] = x.floats[i]
		case x.floats != nil && to == dtype.Bool:
			e.ints[i] = truth(x.floats[i] != 0)
		case x.floats != nil:
			e.ints[i] = saturate(to, x.floats[i])
		case to == dtype.Float32:
			e.floats[i] = float64(float32(x.ints[i]))
		case to.IsFloat():
			e.floats[i] = float64(x.ints[i])
		case to == dtype.Bool:
			e.ints[i] = truth(x.ints[i] != 0)
		default:
			e.ints[i] = x.ints[i]
		}
	}
}

// saturate truncates x to an integer type.
func saturate(d dtype.DType, x float64) int64 {
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	switch d {
	case dtype.Uint8:
		lo, hi = 0, math.MaxUint8
	case dtype.Int32:
		lo, hi = math.MinInt32, math.MaxInt32
	}
	switch {
	case math.IsNaN(x):
		return 0
	case x <= float64(lo):
		return lo
	case x >= float64(hi):
		return hi
	}
	return int64(x)
}

func binary(id op.ID, e *expected, a, b *array) {
	if a.floats == nil {
		for i := range a.ints {
			e.ints[i] = binaryInt(id, a.dtype, a.ints[i], b.ints[i])
		}
		return
	}
	e.scale = make([]float64, a.len())
	switch id {
	case op.Add, op.Sub, op.Mul, op.Div:
		e.exact, e.signs = true, true
	case op.Fmod:
		e.exact, e.signs = true, true
	case op.FloorDiv, op.Mod:
		e.exact, e.signs = true, true
		for i := range a.floats {
			if a.dtype == dtype.Float64 {
				e.floats[i] = floorDivMod(id, a.floats[i], b.floats[i])
			} else { // each step is rounded to float32
				e.floats[i] = float64(floorDivMod(id, float32(a.floats[i]), float32(b.floats[i])))
			}
		}
		return
	case op.Maximum, op.Minimum, op.ReluGrad, op.Relu6Grad, op.LeakySlope:
		e.exact = true
	case op.Pow:
		e.units = 8
	}
	for i := range a.floats {
		e.floats[i], e.scale[i] = binaryFloat(id, a.floats[i], b.floats[i])
		if id == op.Pow && a.dtype == dtype.Float64 { // Go's errs more the further the result is from 1
			if l := math.Abs(math.Log(math.Abs(e.floats[i]))); l < 1e4 {
				e.scale[i] = math.Abs(e.floats[i]) * (1 + l/32)
			}
		}
	}
}

// binaryFloat returns the value, and for ops that cancel the size of what they
// cancel.
func binaryFloat(id op.ID, a, b float64) (value, scale float64) {
	switch id {
	case op.Add:
		return a + b, 0
	case op.Sub:
		return a - b, 0
	case op.Mul:
		return a * b, 0
	case op.Div:
		return a / b, 0
	case op.Pow:
		return pow(a, b), 0
	case op.Maximum:
		if math.IsNaN(a) || math.IsNaN(b) { // math.Max prefers +Inf
			return math.NaN(), 0
		}
		return math.Max(a, b), 0
	case op.Minimum:
		if math.IsNaN(a) || math.IsNaN(b) {
			return math.NaN(), 0
		}
		return math.Min(a, b), 0
	case op.Atan2:
		return math.Copysign(math.Atan2(a, b), a), 0 // Go's loses the sign where a/b underflows
	case op.ReluGrad:
		if b > 0 {
			return a, 0
		}
		return 0, 0
	case op.MishGrad:
		t := math.Tanh(softplus(b))
		scale = math.Abs(a) * t
		if math.Abs(b) < 40 {
			scale += math.Abs(a*b) * sigmoid(b)
		}
		return a * (t + b*sigmoid(b)*(1-t*t)), scale
	case op.LeakyRelu:
		if a > 0 {
			return a, 0
		}
		return a * b, 0
	case op.LeakySlope:
		if a > 0 {
			return 1, 0
		}
		return b, 0
	case op.Relu6Grad:
		if b > 0 && b < 6 {
			return a, 0
		}
		return 0, 0
	case op.HardSigmoidGrad:
		if b > -3 && b < 3 {
			return a / 6, 0
		}
		return 0, 0
	case op.HardSwishGrad:
		switch {
		case b > -3 && b < 3:
			return a * (b/3 + 0.5), math.Abs(a)
		case b >= 3:
			return a, 0
		}
		return 0, 0
	case op.SigmoidGrad:
		return a * b * (1 - b), math.Abs(a*b) * (1 + math.Abs(b))
	case op.TanhGrad:
		return a * (1 - b*b), math.Abs(a) * (1 + b*b)
	case op.GeluGrad:
		return a * (normalCDF(b) + b*normalPDF(b)), math.Abs(a) * (1 + math.Abs(b)*normalPDF(b))
	case op.GeluTanhGrad:
		t := math.Tanh(geluInner(b))
		d := (1 - t*t) * math.Sqrt(2/math.Pi) * (1 + 3*0.044715*b*b)
		scale = math.Abs(a)
		if math.Abs(b) < 10 { // farther out 1-t² is nothing at all; here it is what is left of two ones
			scale *= 1 + math.Abs(b)*(1+3*0.044715*b*b)
		}
		return a * (0.5*(1+t) + 0.5*b*d), scale
	case op.SiluGrad:
		s := sigmoid(b)
		scale = math.Abs(a) * s
		if math.Abs(b) < 40 { // as above, with 1-s
			scale *= 1 + math.Abs(b)
		}
		return a * s * (1 + b*(1-s)), scale
	case op.LogAddExp: // near 0 the larger operand and the logarithm cancel
		return op.Get(id).Float2(a, b), math.Abs(math.Max(a, b)) + 1
	}
	if f := op.Get(id).Float2; f != nil {
		return f(a, b), 0
	}
	panic("backendtest: no reference for " + id.String())
}

// floorDivMod returns the quotient or the remainder as Python and PyTorch define
// them: the remainder first, the quotient from what it leaves.
func floorDivMod[T float32 | float64](id op.ID, a, b T) T {
	mod := T(math.Mod(float64(a), float64(b)))
	wrap := mod != 0 && (mod < 0) != (b < 0)
	if id == op.Mod {
		if wrap {
			mod += b
		}
		return mod
	}
	if b == 0 {
		return a / b
	}
	div := (a - mod) / b
	if wrap {
		div--
	}
	if div == 0 {
		return T(math.Copysign(0, float64(a/b)))
	}
	floor := T(math.Floor(float64(div)))
	if div-floor > 0.5 {
		floor++
	}
	return floor
}

func binaryInt(id op.ID, d dtype.DType, a, b int64) int64 {
	switch id {
	case op.Add:
		return a + b
	case op.Sub:
		return a - b
	case op.Mul:
		return a * b
	case op.Pow:
		if b < 0 {
			switch {
			case a == 1 || a == -1 && b%2 == 0:
				return 1
			case a == -1:
				return -1
			}
			return 0
		}
		r := int64(1)
		for ; b > 0; b >>= 1 {
			if b&1 == 1 {
				r *= a
			}
			a *= a
		}
		return r
	case op.Maximum:
		return max(a, b)
	case op.Minimum:
		return min(a, b)
	case op.FloorDiv:
		if b == 0 {
			return 0
		}
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q--
		}
		return q
	case op.Mod:
		if b == 0 {
			return 0
		}
		r := a % b
		if r != 0 && (r < 0) != (b < 0) {
			r += b
		}
		return r
	case op.And:
		return a & b
	case op.Or:
		return a | b
	case op.Xor:
		return a ^ b
	case op.ReluGrad:
		if b > 0 {
			return a
		}
		return 0
	}
	if f := op.Get(id).Int2; f != nil {
		return f(a, b)
	}
	panic("backendtest: no reference for " + id.String() + " of " + d.String())
}

func compare(id op.ID, e *expected, a, b *array) {
	for i := range e.ints {
		var less, equal, greater bool
		if a.floats != nil {
			less, equal, greater = a.floats[i] < b.floats[i], a.floats[i] == b.floats[i], a.floats[i] > b.floats[i]
		} else {
			less, equal, greater = a.ints[i] < b.ints[i], a.ints[i] == b.ints[i], a.ints[i] > b.ints[i]
		}
		e.ints[i] = truth(map[op.ID]bool{op.Equal: equal, op.NotEqual: !equal, op.Less: less, op.LessEqual: less || equal,
			op.Greater: greater, op.GreaterEqual: greater || equal}[id])
	}
}
