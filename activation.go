package locus

import "github.com/locusml/locus/internal/op"

// Activations beyond those of one primitive (Relu, Sigmoid, Tanh, Gelu, Silu,
// Softplus). Where one has a kink, the gradient there is PyTorch's. NaN stays NaN.

func (t *Tensor) alongAxis(id op.ID, name string, axis int) *Tensor {
	t.check(name)
	return apply(id, op.Axis{Axis: t.axis(name, axis)}, t)
}

// Softmax returns eˣ/Σeˣ along an axis, without overflow.
func (t *Tensor) Softmax(axis int) *Tensor { return t.alongAxis(op.Softmax, "Softmax", axis) }

// LogSoftmax returns the logarithm of [Tensor.Softmax], without loss of precision.
func (t *Tensor) LogSoftmax(axis int) *Tensor { return t.alongAxis(op.LogSoftmax, "LogSoftmax", axis) }

// Softmin returns the softmax of -x along an axis.
func (t *Tensor) Softmin(axis int) *Tensor { return t.Neg().Softmax(axis) }

// wantFloat panics unless t can be used by an op for floating-point tensors.
func (t *Tensor) wantFloat(name string) {
	t.check(name)
	if !t.dtype.IsFloat() {
		fail(name, &op.Problem{Kind: ErrDType, Msg: "elements are " + t.dtype.String() + "; want floating point", Fix: "convert first: .Cast(locus.Float32)"}, t)
	}
}

// LeakyRelu returns x where it is positive, else slope·x.
func (t *Tensor) LeakyRelu(slope float64) *Tensor {
	t.wantFloat("LeakyRelu")
	return t.binary(op.LeakyRelu, slope)
}

// Elu returns x where it is positive, else alpha·(eˣ-1).
func (t *Tensor) Elu(alpha float64) *Tensor {
	t.wantFloat("Elu")
	return t.elu(alpha, 1)
}

// elu returns x where it is positive, else alpha·(e^(x/width)-1). The exponential
// sees no positive numbers: where one overflows, its gradient would be NaN.
func (t *Tensor) elu(alpha, width float64) *Tensor {
	positive := t.Gt(0)
	low := positive.Where(0, t)
	if width != 1 {
		low = low.Div(width)
	}
	return positive.Where(t, low.Expm1().Mul(alpha))
}

// Selu is [Tensor.Elu] with the two constants under which activations keep mean
// 0 and variance 1 from layer to layer.
func (t *Tensor) Selu() *Tensor {
	t.wantFloat("Selu")
	return t.elu(seluAlpha, 1).Mul(seluScale)
}

const (
	seluAlpha = 1.6732632423543772848170429916717
	seluScale = 1.0507009873554804934193349852946
)

// Celu returns max(x, 0) + min(alpha·(e^(x/alpha)-1), 0): an [Tensor.Elu] whose
// slope is 1 on both sides of 0.
func (t *Tensor) Celu(alpha float64) *Tensor {
	t.wantFloat("Celu")
	if alpha == 0 {
		failf("Celu", ErrArgument, []*Tensor{t}, "alpha must not be 0")
	}
	return t.elu(alpha, alpha)
}

// SoftplusWith returns log(1+e^(beta·x))/beta, and x itself where beta·x is above
// threshold. PyTorch's softplus has beta 1 and threshold 20 by default;
// [Tensor.Softplus] has no threshold.
func (t *Tensor) SoftplusWith(beta, threshold float64) *Tensor {
	t.wantFloat("SoftplusWith")
	if beta == 0 || beta != beta {
		failf("SoftplusWith", ErrArgument, []*Tensor{t}, "beta is %v; it must not be 0", beta)
	}
	b := t.Mul(beta)
	return b.Gt(threshold).Where(t, b.Softplus().Mul(1/beta))
}

// Mish returns x·tanh(softplus(x)).
func (t *Tensor) Mish() *Tensor { return apply(op.Mish, nil, t) }

// HardTanh returns x clamped to [lo, hi]. Unlike [Tensor.Clamp] no gradient flows
// at the bounds themselves.
func (t *Tensor) HardTanh(lo, hi float64) *Tensor {
	t.wantFloat("HardTanh")
	if !(lo < hi) {
		failf("HardTanh", ErrArgument, []*Tensor{t}, "lo is %v and hi %v; want lo below hi", lo, hi)
	}
	return t.hardTanh(lo, hi)
}

func (t *Tensor) hardTanh(lo, hi float64) *Tensor {
	d := t.detach()
	clamped := d.Clamp(lo, hi)
	if t.node == nil {
		return clamped
	}
	return d.Gt(lo).And(d.Lt(hi)).Where(t, clamped)
}

// Relu6 returns x clamped to [0, 6].
func (t *Tensor) Relu6() *Tensor { return apply(op.Relu6, nil, t) }

// HardSigmoid returns x/6 + ½ clamped to [0, 1].
func (t *Tensor) HardSigmoid() *Tensor { return apply(op.HardSigmoid, nil, t) }

// HardSwish returns x·[Tensor.HardSigmoid].
func (t *Tensor) HardSwish() *Tensor { return apply(op.HardSwish, nil, t) }

// Softsign returns x/(1+|x|).
func (t *Tensor) Softsign() *Tensor {
	t.wantFloat("Softsign")
	return t.Div(t.Abs().Add(1))
}

// LogSigmoid returns log(1/(1+e⁻ˣ)), without overflow.
func (t *Tensor) LogSigmoid() *Tensor { return t.Neg().Softplus().Neg() }

// TanhShrink returns x - tanh(x).
func (t *Tensor) TanhShrink() *Tensor { return t.Sub(t.Tanh()) }

// SoftShrink moves x towards 0 by the given amount, and stops there.
func (t *Tensor) SoftShrink(by float64) *Tensor {
	t.wantFloat("SoftShrink")
	if !(by >= 0) {
		failf("SoftShrink", ErrArgument, []*Tensor{t}, "by is %v; it must not be negative", by)
	}
	return t.Sub(t.detach().Clamp(-by, by)).hide(t, by)
}

// HardShrink returns x where |x| > limit, else 0.
func (t *Tensor) HardShrink(limit float64) *Tensor {
	t.wantFloat("HardShrink")
	if !(limit >= 0) {
		failf("HardShrink", ErrArgument, []*Tensor{t}, "limit is %v; it must not be negative", limit)
	}
	return t.hide(t, limit)
}

// hide returns t where |x| is not within limit, else 0, without a gradient.
func (t *Tensor) hide(x *Tensor, limit float64) *Tensor {
	return x.detach().Abs().Le(limit).Where(0, t)
}

// Threshold returns x where it is above threshold, else value.
func (t *Tensor) Threshold(threshold, value float64) *Tensor {
	t.check("Threshold")
	return t.Le(threshold).Where(value, t)
}

// PRelu returns x where it is positive, else weight·x, with one weight for all or
// one for each channel, which is axis 1.
func (t *Tensor) PRelu(weight *Tensor) *Tensor {
	in := []*Tensor{t, weight}
	checkOperands("PRelu", in)
	t.wantFloat("PRelu")
	switch n := weight.Len(); {
	case n == 1:
		weight = weight.reshape([]int{})
	case len(weight.shape) == 1 && len(t.shape) > 1 && n == t.shape[1]:
		weight = perChannel(weight, len(t.shape))
	default:
		failf("PRelu", ErrShape, in, "weight must have one element, or one for each channel (axis 1) of x")
	}
	return apply(op.LeakyRelu, nil, t, weight)
}

// perChannel makes a vector broadcast along axis 1 of a tensor of the given rank.
func perChannel(v *Tensor, rank int) *Tensor {
	shape := make([]int, rank-1)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = v.shape[0]
	return v.reshape(shape)
}

// Glu splits an axis into two halves and returns the first times the sigmoid of the
// second.
func (t *Tensor) Glu(axis int) *Tensor {
	t.wantFloat("Glu")
	a := t.axis("Glu", axis)
	n := t.shape[a]
	if n%2 != 0 {
		failf("Glu", ErrShape, []*Tensor{t}, "axis %d has size %d, which is odd", a, n)
	}
	return t.Narrow(a, 0, n/2).Mul(t.Narrow(a, n/2, n).Sigmoid())
}

// Logit returns log(x/(1-x)) of x clamped to [eps, 1-eps]: the inverse of
// the sigmoid.
func (t *Tensor) Logit(eps float64) *Tensor {
	t.wantFloat("Logit")
	if !(eps >= 0 && eps < 0.5) {
		failf("Logit", ErrArgument, []*Tensor{t}, "eps is %v; want 0 ≤ eps < ½", eps)
	}
	x := t
	if eps > 0 {
		x = t.Clamp(eps, 1-eps)
	}
	return x.Log().Sub(x.Neg().Log1p())
}
