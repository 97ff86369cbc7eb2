package nn

import "github.com/locusml/locus"

// named makes a layer without parameters.
func named(name string, f func(x *locus.Tensor) *locus.Tensor) Module {
	return funcLayer{name: name, f: f}
}

// activation makes a layer of a function that linear layers and convolutions can end with.
func activation(name string, f func(x *locus.Tensor) *locus.Tensor, a locus.Activation) Module {
	return funcLayer{name: name, f: f, activation: a}
}

// ReLU is max(x, 0).
func ReLU() Module { return activation("ReLU", (*locus.Tensor).Relu, locus.ReluActivation) }

// Sigmoid is 1/(1+e⁻ˣ).
func Sigmoid() Module { return activation("Sigmoid", (*locus.Tensor).Sigmoid, locus.SigmoidActivation) }

// Tanh is the hyperbolic tangent.
func Tanh() Module { return activation("Tanh", (*locus.Tensor).Tanh, locus.TanhActivation) }

// GELU is x·Φ(x).
func GELU() Module { return activation("GELU", (*locus.Tensor).Gelu, locus.GeluActivation) }

// SiLU is x·sigmoid(x).
func SiLU() Module { return activation("SiLU", (*locus.Tensor).Silu, locus.SiluActivation) }

// Softmax turns scores along an axis into probabilities.
func Softmax(axis int) Module {
	return named("Softmax", func(x *locus.Tensor) *locus.Tensor { return x.Softmax(axis) })
}

// GELUTanh is [GELU] with Φ approximated by a tanh.
func GELUTanh() Module {
	return activation("GELUTanh", (*locus.Tensor).GeluTanh, locus.GeluTanhActivation)
}

// LeakyReLU is x where it is positive, else slope·x.
func LeakyReLU(slope float64) Module {
	return named("LeakyReLU", func(x *locus.Tensor) *locus.Tensor { return x.LeakyRelu(slope) })
}

// ELU is x where it is positive, else alpha·(eˣ-1).
func ELU(alpha float64) Module {
	return named("ELU", func(x *locus.Tensor) *locus.Tensor { return x.Elu(alpha) })
}

// CELU is x where it is positive, else alpha·(e^(x/alpha)-1).
func CELU(alpha float64) Module {
	return named("CELU", func(x *locus.Tensor) *locus.Tensor { return x.Celu(alpha) })
}

// SELU is the scaled ELU that keeps mean 0 and variance 1.
func SELU() Module { return named("SELU", (*locus.Tensor).Selu) }

// ReLU6 is x, at least 0 and at most 6.
func ReLU6() Module { return activation("ReLU6", (*locus.Tensor).Relu6, locus.Relu6Activation) }

// Mish is x·tanh(softplus(x)).
func Mish() Module { return activation("Mish", (*locus.Tensor).Mish, locus.MishActivation) }

// Softplus is log(1+eˣ).
func Softplus() Module { return named("Softplus", (*locus.Tensor).Softplus) }

// Softsign is x/(1+|x|).
func Softsign() Module { return named("Softsign", (*locus.Tensor).Softsign) }

// LogSigmoid is the logarithm of the sigmoid.
func LogSigmoid() Module { return named("LogSigmoid", (*locus.Tensor).LogSigmoid) }

// HardSigmoid is x/6 + ½, at least 0 and at most 1.
func HardSigmoid() Module {
	return activation("HardSigmoid", (*locus.Tensor).HardSigmoid, locus.HardSigmoidActivation)
}

// HardSwish is x·hardsigmoid(x).
func HardSwish() Module {
	return activation("HardSwish", (*locus.Tensor).HardSwish, locus.HardSwishActivation)
}

// HardTanh is x, at least lo and at most hi.
func HardTanh(lo, hi float64) Module {
	return named("HardTanh", func(x *locus.Tensor) *locus.Tensor { return x.HardTanh(lo, hi) })
}

// TanhShrink is x - tanh(x).
func TanhShrink() Module { return named("TanhShrink", (*locus.Tensor).TanhShrink) }

// SoftShrink moves x towards 0 by the given amount, and stops there.
func SoftShrink(by float64) Module {
	return named("SoftShrink", func(x *locus.Tensor) *locus.Tensor { return x.SoftShrink(by) })
}

// HardShrink is x, but 0 where |x| is at most limit.
func HardShrink(limit float64) Module {
	return named("HardShrink", func(x *locus.Tensor) *locus.Tensor { return x.HardShrink(limit) })
}

// Threshold is x where it is above threshold, else value.
func Threshold(threshold, value float64) Module {
	return named("Threshold", func(x *locus.Tensor) *locus.Tensor { return x.Threshold(threshold, value) })
}

// GLU is the first half of an axis times the sigmoid of the second.
func GLU(axis int) Module {
	return named("GLU", func(x *locus.Tensor) *locus.Tensor { return x.Glu(axis) })
}

// Softmin is the softmax of -x along an axis.
func Softmin(axis int) Module {
	return named("Softmin", func(x *locus.Tensor) *locus.Tensor { return x.Softmin(axis) })
}

// LogSoftmax is the logarithm of the softmax along an axis.
func LogSoftmax(axis int) Module {
	return named("LogSoftmax", func(x *locus.Tensor) *locus.Tensor { return x.LogSoftmax(axis) })
}

// Identity returns its input.
func Identity() Module {
	return named("Identity", func(x *locus.Tensor) *locus.Tensor { return x })
}

// PReLULayer computes x where it is positive, else weight·x.
type PReLULayer struct {
	Weight *Parameter // one number, or one for each channel (axis 1)
}

// PReLU makes a layer with n slopes, which begin at 0.25: n is 1, or the number
// of channels.
func PReLU(n int, opts ...Option) *PReLULayer {
	sizes("nn.PReLU", n)
	o := gather(opts)
	l := &PReLULayer{Weight: o.lazy(n).own(o.weightOr(Constant(0.25)))}
	o.make(locus.DefaultDevice(), l.Weight, Constant(0.25), nil, nil, n)
	return l
}

// Forward applies the layer.
func (l *PReLULayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.PReLU", l != nil && l.Weight != nil)
	return x.PRelu(l.Weight.Value())
}
