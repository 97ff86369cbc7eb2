package op

import (
	"math"

	"github.com/locusml/locus/dtype"
)

func init() {
	binary := func(id ID, name string, set dtype.Set, doc string) {
		define(Def{ID: id, Name: name, Family: BinaryFamily, Arity: 2, DTypes: []dtype.Set{set}, Doc: doc,
			Infer: func(_ Attrs, in []Spec) (Spec, error) { return in[0], sameDType(in, 0) }})
	}
	n, f := dtype.Numbers, dtype.Floats
	// of is binary with what it computes.
	of := func(id ID, name string, set dtype.Set, doc string, float func(a, b float64) float64, whole func(a, b int64) int64) {
		binary(id, name, set, doc)
		table[id].Float2, table[id].Int2 = float, whole
	}
	binary(Add, "add", n, "a + b; integers wrap")
	binary(Sub, "sub", n, "a - b; integers wrap")
	binary(Mul, "mul", n, "a · b; integers wrap")
	binary(Div, "div", f, "a / b as IEEE 754; for integers there is floor_div")
	binary(Pow, "pow", n, "aᵇ; integers by repeated multiplication, negative exponents give 0 (1 and -1 excepted)")
	binary(Maximum, "maximum", n, "the larger; NaN if either is NaN")
	binary(Minimum, "minimum", n, "the smaller; NaN if either is NaN")
	binary(FloorDiv, "floor_div", n, "⌊a / b⌋, not rounded up where a/b is: a - b·floor_div is mod; of floats what Python and PyTorch give, ±∞ or NaN where b is 0, NaN where a is infinite; integer division by zero gives 0")
	binary(Mod, "mod", n, "a - b·⌊a/b⌋, exact, with b's sign, or a's where it is 0; NaN where b is 0 or a infinite; integer modulo zero is 0")
	of(Fmod, "fmod", n, "a - b·trunc(a/b), exact, with a's sign; NaN where b is 0 or a infinite; integer modulo zero is 0", math.Mod, func(a, b int64) int64 {
		if b == 0 {
			return 0
		}
		return a % b
	})
	of(LogAddExp, "log_add_exp", f, "log(eᵃ + eᵇ), without overflow", logAddExp, nil)
	binary(Atan2, "atan2", f, "the angle of the point (b, a)")
	binary(And, "and", dtype.Integral, "logical and of bools, bitwise of integers")
	binary(Or, "or", dtype.Integral, "logical or of bools, bitwise of integers")
	binary(Xor, "xor", dtype.Integral, "logical exclusive or of bools, bitwise of integers")

	// What gradients of activations need, in one pass. a is the incoming gradient.
	binary(ReluGrad, "relu_grad", n, "a where b > 0, else 0 (b: relu's operand or result)")
	binary(SigmoidGrad, "sigmoid_grad", f, "a·b·(1-b) (b: sigmoid's result)")
	binary(TanhGrad, "tanh_grad", f, "a·(1-b²) (b: tanh's result)")
	binary(GeluGrad, "gelu_grad", f, "a·gelu'(b) (b: gelu's operand)")
	binary(GeluTanhGrad, "gelu_tanh_grad", f, "a·gelu_tanh'(b) (b: the operand)")
	binary(SiluGrad, "silu_grad", f, "a·silu'(b) (b: silu's operand)")
	binary(Relu6Grad, "relu6_grad", f, "a where 0 < b < 6, else 0 (b: relu6's operand or result)")
	binary(HardSigmoidGrad, "hard_sigmoid_grad", f, "a/6 where -3 < b < 3, else 0 (b: the operand)")
	binary(HardSwishGrad, "hard_swish_grad", f, "a·(b/3 + ½) where -3 < b < 3, a from 3 on, else 0 (b: the operand)")
	binary(MishGrad, "mish_grad", f, "a·mish'(b) (b: mish's operand)")
	binary(LeakyRelu, "leaky_relu", f, "a where it is positive, else a·b; NaN where a is NaN")
	binary(LeakySlope, "leaky_slope", f, "1 where a > 0, else b: leaky_relu's slope")

	compare := func(id ID, name string, set dtype.Set, doc string) {
		define(Def{ID: id, Name: name, Family: CompareFamily, Arity: 2, DTypes: []dtype.Set{set}, Doc: doc,
			Infer: func(_ Attrs, in []Spec) (Spec, error) { return Spec{dtype.Bool, in[0].Shape}, sameDType(in, 0) }})
	}
	compare(Equal, "eq", dtype.Any, "a = b; false for NaN")
	compare(NotEqual, "ne", dtype.Any, "a ≠ b; true for NaN")
	compare(Less, "lt", n, "a < b")
	compare(LessEqual, "le", n, "a ≤ b")
	compare(Greater, "gt", n, "a > b")
	compare(GreaterEqual, "ge", n, "a ≥ b")

	define(Def{ID: Where, Name: "where", Family: TernaryFamily, Arity: 3, DTypes: []dtype.Set{dtype.Bools, dtype.Any},
		Doc:   "b where a is true, else c",
		Infer: func(_ Attrs, in []Spec) (Spec, error) { return in[1], sameDType(in, 1) }})
}

// logAddExp returns log(eᵃ + eᵇ). Two equal infinities have no difference.
func logAddExp(a, b float64) float64 {
	if a == b {
		return a + math.Ln2
	}
	return math.Max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
}
