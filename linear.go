package locus

import "github.com/locusml/locus/internal/op"

// Activation is a function that [Linear] and convolutions can end with.
type Activation uint8

// The activations, in the order of op.Activations. The gradients of Gelu, GeluTanh,
// Silu, HardSigmoid, HardSwish and Mish need the operand, those of the others only the result.
const (
	NoActivation          Activation = iota
	ReluActivation                   // [Tensor.Relu]
	GeluActivation                   // [Tensor.Gelu]
	GeluTanhActivation               // [Tensor.GeluTanh]
	SiluActivation                   // [Tensor.Silu]
	SigmoidActivation                // [Tensor.Sigmoid]
	TanhActivation                   // [Tensor.Tanh]
	Relu6Activation                  // [Tensor.Relu6]
	HardSigmoidActivation            // [Tensor.HardSigmoid]
	HardSwishActivation              // [Tensor.HardSwish]
	MishActivation                   // [Tensor.Mish]
)

// known reports whether a is one of the constants.
func (a Activation) known() bool { return int(a) <= len(op.Activations) }

// op returns the primitive that a is, op.Invalid for NoActivation.
func (a Activation) op() op.ID {
	if a == NoActivation {
		return op.Invalid
	}
	return op.Activations[a-1]
}

// String returns the name of the activation's op: "relu".
func (a Activation) String() string {
	switch {
	case !a.known():
		return op.EnumName("Activation", int(a))
	case a == NoActivation:
		return "none"
	}
	return a.op().String()
}

// needsOperand reports whether the gradient is computed from the operand, which
// then has to be kept.
func (a Activation) needsOperand() bool {
	return a != NoActivation && gradientsFromResult[a.op()] == nil
}

// Linear returns x·weightᵀ + bias: x (…, in), weight (out, in) as in PyTorch, bias
// (out) or nil, result (…, out). With an activation it returns the activation of that.
// Product, bias and activation are one pass over the result where the device can fuse them.
func Linear(x, weight, bias *Tensor, activation ...Activation) *Tensor {
	const name = "Linear"
	in := given(2, x, weight, bias)
	checkOperands(name, in)
	act := oneActivation(name, in, activation)
	defer naming(name, in)
	if act.needsOperand() && tracked(in) {
		return apply(act.op(), nil, linear(in, op.Invalid))
	}
	return linear(in, act.op())
}

// oneActivation is the activation that a call ends with.
func oneActivation(name string, in []*Tensor, given []Activation) Activation {
	if len(given) == 0 {
		return NoActivation
	}
	if len(given) > 1 {
		failf(name, ErrArgument, in, "takes one activation, got %d", len(given))
	}
	if !given[0].known() {
		failf(name, ErrArgument, in, "there is no %s; the activations are the constants of type locus.Activation", given[0])
	}
	return given[0]
}

// linear runs the primitive; for integers, which it is not for, what it is
// composed of.
func linear(in []*Tensor, act op.ID) *Tensor {
	a := op.Epilogue{Act: act}
	if in[0].dtype.IsFloat() {
		return apply(op.Linear, a, in...)
	}
	if _, err := op.LinearSpec(specs(in)); err != nil {
		fail("Linear", err, in...)
	}
	return compositions[op.Linear](a, in)
}

// Bilinear returns Σᵢⱼ x1ᵢ·weightₒᵢⱼ·x2ⱼ + bias: x1 (…, in1), x2 (…, in2), weight
// (out, in1, in2), bias (out) or nil, result (…, out).
func Bilinear(x1, x2, weight, bias *Tensor) *Tensor {
	in := given(3, x1, x2, weight, bias)
	checkOperands("Bilinear", in)
	r := len(x1.shape)
	if r == 0 || len(x2.shape) != r || len(weight.shape) != 3 || !sameShape(x1.shape[:r-1], x2.shape[:r-1]) ||
		x1.shape[r-1] != weight.shape[1] || x2.shape[r-1] != weight.shape[2] {
		failf("Bilinear", ErrShape, in, "x1 %s, x2 %s and weight %s do not fit: want (…, in1), (…, in2) and (out, in1, in2)",
			op.ShapeString(x1.shape), op.ShapeString(x2.shape), op.ShapeString(weight.shape))
	}
	out, in1, in2 := weight.shape[0], weight.shape[1], weight.shape[2]
	if bias != nil && !sameShape(bias.shape, []int{out}) {
		failf("Bilinear", ErrShape, in, "bias has shape %s; want %s", op.ShapeString(bias.shape), op.ShapeString([]int{out}))
	}
	lead := x1.shape[:r-1]
	n := op.Elements(lead)
	half := x1.reshape([]int{n, in1}).MatMul(weight.Transpose(0, 1).reshape([]int{in1, out * in2}))
	y := half.reshape([]int{n, out, in2}).MatMul(x2.reshape([]int{n, in2, 1})).reshape([]int{n, out})
	if bias != nil {
		y = y.addAndFree(bias)
	}
	return y.reshape(append(append([]int{}, lead...), out)).owned()
}

// addAndFree returns t + y and frees t, which nothing else holds: a product before
// its bias. The gradient of a sum needs neither.
func (t *Tensor) addAndFree(y *Tensor) *Tensor {
	sum := t.Add(y)
	t.Free()
	return sum
}
