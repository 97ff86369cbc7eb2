package op

import "github.com/locusml/locus/dtype"

func init() {
	same := func(_ Attrs, in []Spec) (Spec, error) { return in[0], nil }
	toBool := func(_ Attrs, in []Spec) (Spec, error) { return Spec{dtype.Bool, in[0].Shape}, nil }
	unary := func(id ID, name string, set dtype.Set, doc string) {
		define(Def{ID: id, Name: name, Family: UnaryFamily, Arity: 1, DTypes: []dtype.Set{set}, Doc: doc, Infer: same})
	}
	unary(Copy, "copy", dtype.Any, "x itself, contiguous in new memory")
	define(Def{ID: CastTo, Name: "cast", Family: UnaryFamily, Arity: 1, DTypes: []dtype.Set{dtype.Any},
		Doc: "another element type: to bool is x ≠ 0 (NaN is true); float to integer truncates and saturates, NaN gives 0; integers wrap",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			c, ok := a.(Cast)
			if !ok || !c.To.Valid() {
				return Spec{}, Problemf(ErrDType, "cannot cast to %v", c.To)
			}
			return Spec{c.To, in[0].Shape}, nil
		}})

	unary(Neg, "neg", dtype.Numbers, "-x")
	unary(Abs, "abs", dtype.Numbers, "|x|")
	unary(Sign, "sign", dtype.Numbers, "-1, 0 or 1; NaN for NaN")
	unary(Square, "square", dtype.Numbers, "x²")
	f := dtype.Floats
	unary(Sqrt, "sqrt", f, "√x; NaN below zero")
	unary(Rsqrt, "rsqrt", f, "1/√x")
	unary(Reciprocal, "reciprocal", f, "1/x")
	unary(Exp, "exp", f, "eˣ")
	unary(Exp2, "exp2", f, "2ˣ")
	unary(Expm1, "expm1", f, "eˣ-1, exact near 0")
	unary(Log, "log", f, "natural logarithm")
	unary(Log2, "log2", f, "logarithm to base 2")
	unary(Log10, "log10", f, "logarithm to base 10")
	unary(Log1p, "log1p", f, "log(1+x), exact near 0")
	unary(Sin, "sin", f, "sine")
	unary(Cos, "cos", f, "cosine")
	unary(Tan, "tan", f, "tangent")
	unary(Asin, "asin", f, "arc sine")
	unary(Acos, "acos", f, "arc cosine")
	unary(Atan, "atan", f, "arc tangent")
	unary(Sinh, "sinh", f, "hyperbolic sine")
	unary(Cosh, "cosh", f, "hyperbolic cosine")
	unary(Tanh, "tanh", f, "hyperbolic tangent")
	unary(Asinh, "asinh", f, "inverse hyperbolic sine")
	unary(Acosh, "acosh", f, "inverse hyperbolic cosine")
	unary(Atanh, "atanh", f, "inverse hyperbolic tangent")
	unary(Sigmoid, "sigmoid", f, "1/(1+e⁻ˣ)")
	unary(Softplus, "softplus", f, "log(1+eˣ), without overflow")
	unary(Relu, "relu", dtype.Numbers, "max(x, 0); NaN for NaN")
	unary(Gelu, "gelu", f, "x·Φ(x), with erf")
	unary(GeluTanh, "gelu_tanh", f, "gelu's tanh approximation: ½x(1+tanh(√(2/π)(x+0.044715x³)))")
	unary(Silu, "silu", f, "x·sigmoid(x)")
	unary(Relu6, "relu6", f, "x, at least 0 and at most 6; NaN for NaN")
	unary(HardSigmoid, "hard_sigmoid", f, "x/6 + ½, at least 0 and at most 1; NaN for NaN")
	unary(HardSwish, "hard_swish", f, "x·hard_sigmoid(x)")
	unary(Erf, "erf", f, "error function")
	unary(Floor, "floor", f, "largest integer not above x")
	unary(Ceil, "ceil", f, "smallest integer not below x")
	unary(Round, "round", f, "nearest integer, halves to even")
	unary(Trunc, "trunc", f, "x without its fraction")
	unary(Not, "not", dtype.Bools, "logical not")
	for id, name := range map[ID]string{IsNaN: "isnan", IsInf: "isinf", IsFinite: "isfinite"} {
		define(Def{ID: id, Name: name, Family: UnaryFamily, Arity: 1, DTypes: []dtype.Set{f}, Doc: "as IEEE 754 defines it; bool", Infer: toBool})
	}
}
