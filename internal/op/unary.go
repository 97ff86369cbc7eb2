package op

import (
	"math"

	"github.com/locusml/locus/dtype"
)

func init() {
	same := func(_ Attrs, in []Spec) (Spec, error) { return in[0], nil }
	toBool := func(_ Attrs, in []Spec) (Spec, error) { return Spec{dtype.Bool, in[0].Shape}, nil }
	unary := func(id ID, name string, set dtype.Set, doc string, f func(float64) float64) {
		define(Def{ID: id, Name: name, Family: UnaryFamily, Arity: 1, DTypes: []dtype.Set{set}, Doc: doc, Infer: same, Float: f})
	}
	unary(Copy, "copy", dtype.Any, "x itself, contiguous in new memory", func(x float64) float64 { return x })
	define(Def{ID: CastTo, Name: "cast", Attrs: Cast{}, Family: UnaryFamily, Arity: 1, DTypes: []dtype.Set{dtype.Any},
		Doc: "another element type: to bool is x ≠ 0 (NaN is true); float to integer truncates and saturates, NaN becomes 0; integers wrap",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			c, ok := a.(Cast)
			if !ok || !c.To.Valid() {
				return Spec{}, Problemf(ErrDType, "cannot cast to %v", c.To)
			}
			return Spec{c.To, in[0].Shape}, nil
		}})

	unary(Neg, "neg", dtype.Numbers, "-x", func(x float64) float64 { return -x })
	unary(Abs, "abs", dtype.Numbers, "|x|", math.Abs)
	unary(Sign, "sign", dtype.Numbers, "-1, 0 or 1; NaN for NaN", nil)
	unary(Square, "square", dtype.Numbers, "x²", func(x float64) float64 { return x * x })
	f := dtype.Floats
	unary(Sqrt, "sqrt", f, "√x; NaN below zero", math.Sqrt)
	unary(Rsqrt, "rsqrt", f, "1/√x", func(x float64) float64 { return 1 / math.Sqrt(x) })
	unary(Reciprocal, "reciprocal", f, "1/x", func(x float64) float64 { return 1 / x })
	unary(Exp, "exp", f, "eˣ", math.Exp)
	unary(Exp2, "exp2", f, "2ˣ", math.Exp2)
	unary(Expm1, "expm1", f, "eˣ-1, exact near 0", math.Expm1)
	unary(Log, "log", f, "natural logarithm", nil)
	unary(Log2, "log2", f, "logarithm to base 2", nil)
	unary(Log10, "log10", f, "logarithm to base 10", nil)
	unary(Log1p, "log1p", f, "log(1+x), exact near 0", math.Log1p)
	unary(Sin, "sin", f, "sine", math.Sin)
	unary(Cos, "cos", f, "cosine", math.Cos)
	unary(Tan, "tan", f, "tangent", math.Tan)
	unary(Asin, "asin", f, "arc sine", math.Asin)
	unary(Acos, "acos", f, "arc cosine", math.Acos)
	unary(Atan, "atan", f, "arc tangent", math.Atan)
	unary(Sinh, "sinh", f, "hyperbolic sine", math.Sinh)
	unary(Cosh, "cosh", f, "hyperbolic cosine", math.Cosh)
	unary(Tanh, "tanh", f, "hyperbolic tangent", math.Tanh)
	unary(Asinh, "asinh", f, "inverse hyperbolic sine", math.Asinh)
	unary(Acosh, "acosh", f, "inverse hyperbolic cosine", math.Acosh)
	unary(Atanh, "atanh", f, "inverse hyperbolic tangent", math.Atanh)
	unary(Sigmoid, "sigmoid", f, "1/(1+e⁻ˣ)", nil)
	unary(Softplus, "softplus", f, "log(1+eˣ), without overflow", nil)
	unary(Relu, "relu", dtype.Numbers, "max(x, 0); NaN for NaN", nil)
	unary(Gelu, "gelu", f, "x·Φ(x), with erf", nil)
	unary(GeluTanh, "gelu_tanh", f, "gelu's tanh approximation: ½x(1+tanh(√(2/π)(x+0.044715x³)))", nil)
	unary(Silu, "silu", f, "x·sigmoid(x)", nil)
	unary(Relu6, "relu6", f, "x, at least 0 and at most 6; NaN for NaN", nil)
	unary(HardSigmoid, "hard_sigmoid", f, "x/6 + ½, at least 0 and at most 1; NaN for NaN", nil)
	unary(HardSwish, "hard_swish", f, "x·hard_sigmoid(x)", nil)
	unary(Mish, "mish", f, "x·tanh(log(1+eˣ))", nil)
	unary(Erf, "erf", f, "error function", math.Erf)
	unary(Erfc, "erfc", f, "1 - erf(x), exact where erf is near 1", math.Erfc)
	unary(Floor, "floor", f, "largest integer not above x", math.Floor)
	unary(Ceil, "ceil", f, "smallest integer not below x", math.Ceil)
	unary(Round, "round", f, "nearest integer, halves to even", math.RoundToEven)
	unary(Trunc, "trunc", f, "x without its fraction", math.Trunc)
	unary(Not, "not", dtype.Bools, "logical not", nil)
	for id, name := range map[ID]string{IsNaN: "isnan", IsInf: "isinf", IsFinite: "isfinite"} {
		define(Def{ID: id, Name: name, Family: UnaryFamily, Arity: 1, DTypes: []dtype.Set{f}, Doc: "as IEEE 754 defines it; bool", Infer: toBool})
	}
}
