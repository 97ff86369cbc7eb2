package locus

import (
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/trace"
)

// LayerNorm returns (x - mean)/√(variance + eps) over the last axes, which must
// have the given shape, times weight plus bias, each of that shape or nil.
func LayerNorm(x *Tensor, shape []int, weight, bias *Tensor, eps float64) *Tensor {
	in := given(1, x, weight, bias)
	checkOperands("LayerNorm", in)
	from := trailing("LayerNorm", in, shape, weight, bias)
	return normalized(x, weight, bias, op.Normalize{From: from, Params: [2]int{from, len(x.shape)}, Eps: eps})
}

// RMSNorm returns x/√(mean of x² + eps) over the last axes, which must have the
// given shape, times weight, of that shape or nil.
func RMSNorm(x *Tensor, shape []int, weight *Tensor, eps float64) *Tensor {
	in := given(1, x, weight)
	checkOperands("RMSNorm", in)
	from := trailing("RMSNorm", in, shape, weight)
	return normalized(x, weight, nil, op.Normalize{From: from, Params: [2]int{from, len(x.shape)}, RMS: true, Eps: eps})
}

// normalized is the op of all normalizations of rows. Of its operands a graph holds x,
// which what has made it holds anyway, and of its own a few numbers per row.
func normalized(x, weight, bias *Tensor, a op.Normalize) *Tensor {
	a.Weight, a.Bias = weight != nil, bias != nil
	return apply(op.Normalized, a, given(1, x, weight, bias)...)
}

// wide returns t, in float32 if it has 16 bits: squares overflow float16 early.
func (t *Tensor) wide() *Tensor {
	if t.dtype.Size() == 2 {
		return t.Cast(Float32)
	}
	return t
}

// trailing returns the first of the last axes of the first operand, after checking
// that they have the given shape, as do the parameters.
func trailing(name string, in []*Tensor, shape []int, params ...*Tensor) int {
	x := in[0]
	lead := len(x.shape) - len(shape)
	if len(shape) == 0 || lead < 0 || !sameShape(x.shape[lead:], shape) {
		failf(name, ErrShape, in, "x %s does not end in the shape %s", op.ShapeString(x.shape), op.ShapeString(shape))
	}
	for _, p := range params {
		if p != nil && !sameShape(p.shape, shape) {
			failf(name, ErrShape, in, "a parameter has shape %s; want %s", op.ShapeString(p.shape), op.ShapeString(shape))
		}
	}
	return lead
}

// affine returns y·weight + bias; either may be left out.
func affine(y, weight, bias *Tensor) *Tensor {
	if weight != nil {
		y = y.Mul(weight)
	}
	if bias != nil {
		y = y.Add(bias)
	}
	return y
}

// channels checks that parameters are one number per channel or nil.
func channels(name string, in []*Tensor, params ...*Tensor) {
	x := in[0]
	if len(x.shape) < 2 {
		failf(name, ErrShape, in, "x has %d dimensions; want (N, C, …)", len(x.shape))
	}
	for _, p := range params {
		if p != nil && !sameShape(p.shape, x.shape[1:2]) {
			failf(name, ErrShape, in, "a parameter has shape %s; want one number for each of %d channels", op.ShapeString(p.shape), x.shape[1])
		}
	}
}

// GroupNorm normalizes groups of channels of each example, x (N, C, …), to mean
// 0 and variance 1, times weight (C) plus bias (C), either nil.
func GroupNorm(x *Tensor, groups int, weight, bias *Tensor, eps float64) *Tensor {
	in := given(1, x, weight, bias)
	checkOperands("GroupNorm", in)
	channels("GroupNorm", in, weight, bias)
	n, c := x.shape[0], x.shape[1]
	if groups < 1 || c%groups != 0 {
		failf("GroupNorm", ErrArgument, in, "%d channels do not divide into %d groups", c, groups)
	}
	each := []int{groups, c / groups}
	grouped := func(p *Tensor) *Tensor {
		if p == nil {
			return nil
		}
		return p.reshape(each)
	}
	y := normalized(x.reshape([]int{n, groups, c / groups, op.Elements(x.shape[2:])}), grouped(weight), grouped(bias),
		op.Normalize{From: 2, Params: [2]int{1, 3}, Eps: eps})
	return y.reshape(x.shape).owned()
}

// InstanceNorm normalizes each channel of each example, x (N, C, …) with at
// least one axis behind the channels, to mean 0 and variance 1, times weight (C)
// plus bias (C), either nil.
func InstanceNorm(x, weight, bias *Tensor, eps float64) *Tensor {
	in := given(1, x, weight, bias)
	checkOperands("InstanceNorm", in)
	behindChannels("InstanceNorm", x)
	channels("InstanceNorm", in, weight, bias)
	return normalized(x, weight, bias, op.Normalize{From: 2, Params: [2]int{1, 2}, Eps: eps})
}

// BatchNorm normalizes each channel of a batch, x (N, C, …), to mean 0 and
// variance 1, times weight (C) plus bias (C), either nil, as in training. mean
// and variance (C), without history, are those of the batch, for running
// averages; the variance has Bessel's correction, which normalization does not
// use. Both are float32 where x is of a half-precision type.
func BatchNorm(x, weight, bias *Tensor, eps float64) (y, mean, variance *Tensor) {
	in := given(1, x, weight, bias)
	checkOperands("BatchNorm", in)
	channels("BatchNorm", in, weight, bias)
	batchElements("BatchNorm", in)
	all := applyAll(op.BatchNorm, op.Normalize{Eps: eps, Weight: weight != nil, Bias: bias != nil}, in...)
	if all[0].node == nil { // what only the gradient needs
		all[1].Free()
		all[2].Free()
	}
	return all[0], all[3], all[4]
}

// BatchNormRunning is [BatchNorm] for a layer that keeps running statistics (C): it
// returns newMean = (1-momentum)·mean + momentum·(that of the batch), and newVariance
// likewise, with the batch's variance that BatchNorm returns. They have the types of
// mean and variance, and no history; mean and variance stay as they are. It is one op
// where the running statistics have the type that BatchNorm's have: float32, or float64
// if x is.
func BatchNormRunning(x, mean, variance, weight, bias *Tensor, momentum, eps float64) (y, newMean, newVariance *Tensor) {
	return batchNormRunning(x, mean, variance, weight, bias, momentum, eps, normEnd{})
}

// batchNormRunning is BatchNormRunning with something behind the normalization.
func batchNormRunning(x, mean, variance, weight, bias *Tensor, momentum, eps float64, end normEnd) (y, newMean, newVariance *Tensor) {
	const name = "BatchNormRunning"
	in := given(3, x, mean, variance, weight, bias)
	checkOperands(name, in)
	channels(name, in, mean, variance, weight, bias)
	mean.wantFloat(name)
	variance.wantFloat(name)
	a := op.Normalize{Eps: eps, Weight: weight != nil, Bias: bias != nil}
	stat := a.Stats(op.BatchNorm, x.spec())[0].DType
	// A program moves the statistics of all layers at its end, in place: see package program.
	if mean.dtype != stat || variance.dtype != stat || trace.Current() != nil {
		y, m, v := BatchNorm(x, weight, bias, eps)
		NoGrad(func() {
			newMean = mean.detach().Blend(1-momentum, m.Cast(mean.dtype), momentum)
			newVariance = variance.detach().Blend(1-momentum, v.Cast(variance.dtype), momentum)
		})
		return end.after(y), newMean, newVariance
	}
	batchElements(name, in)
	running := a
	running.Running, running.Momentum = true, momentum
	operands := append(given(1, x, weight, bias), mean.detach(), variance.detach())
	var all []*Tensor
	if end != (normEnd{}) && end.fits(running, operands) {
		all = endedNorm(running, operands, end)
	} else {
		all = applyAll(op.BatchNorm, running, operands...)
		if n := all[0].node; n != nil && n.def != nil && n.def.ID == op.BatchNorm {
			// The gradient needs no running statistics: they may be freed before.
			n.attrs, n.inputs, n.saved = a, n.inputs[:len(n.inputs)-2], n.saved[:2]
		}
		all[0] = end.after(all[0])
	}
	if all[0].node == nil { // what only the gradient needs
		all[1].Free()
		all[2].Free()
	}
	return all[0], all[3], all[4]
}

// batchElements makes sure that channels of a batch have a variance.
func batchElements(name string, in []*Tensor) {
	x := in[0]
	if n := x.shape[0] * op.Elements(x.shape[2:]); n < 2 {
		failf(name, ErrShape, in, "a channel has %d elements; a variance needs at least 2", n)
	}
}

// BatchNormWith normalizes each channel of x (N, C, …) with the given mean and
// variance (C), times weight (C) plus bias (C), either nil, as in inference.
func BatchNormWith(x, mean, variance, weight, bias *Tensor, eps float64) *Tensor {
	in := given(3, x, mean, variance, weight, bias)
	checkOperands("BatchNormWith", in)
	channels("BatchNormWith", in, mean, variance, weight, bias)
	for _, p := range []**Tensor{&mean, &variance, &weight, &bias} {
		if *p != nil {
			*p = perChannel(*p, len(x.shape))
		}
	}
	scale := variance.Add(eps).Rsqrt()
	if weight != nil {
		scale = scale.Mul(weight)
	}
	return affine(x.Sub(mean), scale, bias)
}

// Normalize returns x/max(‖x‖, eps) with the p-norm along an axis.
func Normalize(x *Tensor, p float64, axis int, eps float64) *Tensor {
	x.wantFloat("Normalize")
	a := x.axis("Normalize", axis)
	n := x.normKeep("Normalize", p, a)
	return x.Div(n.Le(eps).Where(eps, n))
}

// normKeep returns the p-norm along axes that are kept. Unlike a plain root its
// gradient is 0 where the norm is.
func (t *Tensor) normKeep(name string, p float64, axes ...int) *Tensor {
	switch {
	case math.IsInf(p, 1):
		return t.Abs().MaxKeep(axes...)
	case math.IsInf(p, -1):
		return t.Abs().MinKeep(axes...)
	case p == 1:
		return t.Abs().SumKeep(axes...)
	case p == 2:
		return t.wide().Square().SumKeep(axes...).root(2).Cast(t.dtype)
	case !(p > 0):
		failf(name, ErrArgument, []*Tensor{t}, "p is %v; want p > 0 or an infinity", p)
	}
	return t.powers(p).SumKeep(axes...).root(p).Cast(t.dtype)
}

// powers returns |x|ᵖ. Where x is 0, a power below 1 has no slope; as in PyTorch
// none flows.
func (t *Tensor) powers(p float64) *Tensor {
	x := t.wide()
	if x.node == nil || p > 1 {
		return x.Abs().Pow(p)
	}
	zero := x.Eq(0)
	return zero.Where(0, zero.Where(1, x.Abs()).Pow(p))
}

// LocalResponseNorm returns x/(k + alpha·mean of x²)^beta, with the mean over size
// neighboring channels: x (N, C, …). Channels beyond the first and last count as 0.
func LocalResponseNorm(x *Tensor, size int, alpha, beta, k float64) *Tensor {
	in := []*Tensor{x}
	x.wantFloat("LocalResponseNorm")
	if len(x.shape) < 2 {
		failf("LocalResponseNorm", ErrShape, in, "x has %d dimensions; want (N, C, …)", len(x.shape))
	}
	if size < 1 {
		failf("LocalResponseNorm", ErrArgument, in, "size is %d; it must be positive", size)
	}
	c := x.shape[1]
	// A wide window reaches over all channels: what lies beyond adds nothing.
	before, after := min(size/2, c), min((size-1)/2, c)
	squares := x.Square().Pad(0, 0, 0, before, after)
	sum := squares.Narrow(1, 0, c)
	for i := 1; i <= before+after; i++ {
		sum = sum.Add(squares.Narrow(1, i, i+c))
	}
	return x.Div(sum.Mul(alpha / float64(size)).Add(k).Pow(beta))
}

// CosineSimilarity returns the cosine of the angle between x1 and x2 along an
// axis, which is removed; norms below eps count as eps. Shapes broadcast.
func CosineSimilarity(x1, x2 *Tensor, axis int, eps float64) *Tensor {
	a, b, at := pairAlong("CosineSimilarity", x1, x2, axis)
	dot := a.Mul(b).SumKeep(at)
	na, nb := a.normKeep("CosineSimilarity", 2, at), b.normKeep("CosineSimilarity", 2, at)
	return dot.Div(na.Clamp(eps, math.Inf(1)).Mul(nb.Clamp(eps, math.Inf(1)))).Squeeze(at).owned()
}

// PairwiseDistance returns the p-norm of x1 - x2 + eps along the last axis, which
// is removed. Shapes broadcast.
func PairwiseDistance(x1, x2 *Tensor, p, eps float64) *Tensor {
	a, b, at := pairAlong("PairwiseDistance", x1, x2, -1)
	return a.Sub(b).Add(eps).normKeep("PairwiseDistance", p, at).Squeeze(at).owned()
}

// pairAlong broadcasts two tensors and resolves an axis of both.
func pairAlong(name string, x1, x2 *Tensor, axis int) (a, b *Tensor, at int) {
	in := []*Tensor{x1, x2}
	checkOperands(name, in)
	x1.wantFloat(name)
	shape, err := op.Broadcast(x1.shape, x2.shape)
	if err != nil {
		fail(name, err, in...)
	}
	if at, err = op.ResolveAxis(axis, len(shape)); err != nil {
		fail(name, err, in...)
	}
	return x1.expand(shape), x2.expand(slices.Clone(shape)), at
}
