package locus

import (
	"github.com/locusml/locus/internal/op"
)

// Reduction says what a loss does with its elements.
type Reduction uint8

// The reductions. The zero value is the mean.
const (
	ReduceMean      Reduction = iota // the average
	ReduceSum                        // the sum
	ReduceNone                       // one loss per element
	ReduceBatchMean                  // the sum divided by the size of the first axis
)

// String returns the reduction's name.
func (r Reduction) String() string {
	return op.EnumName("Reduction", int(r), "mean", "sum", "none", "batch mean")
}

// of reduces the elements of a loss.
func (r Reduction) of(name string, loss *Tensor) *Tensor {
	switch r {
	case ReduceMean:
		return loss.Mean()
	case ReduceSum:
		return loss.Sum()
	case ReduceNone:
		return loss
	case ReduceBatchMean:
		n := 1
		if len(loss.shape) > 0 {
			n = loss.shape[0]
		}
		return loss.Sum().Mul(1 / float64(n))
	}
	failf(name, ErrArgument, []*Tensor{loss}, "there is no reduction %d", r)
	return nil
}

// lossOperands checks the operands of an elementwise loss: one shape, so that a
// forgotten axis does not turn into a broadcast, and floating point.
func lossOperands(name string, in ...*Tensor) {
	checkOperands(name, in)
	for _, t := range in {
		t.wantFloat(name)
		if !sameShape(t.shape, in[0].shape) {
			fail(name, &op.Problem{Kind: ErrShape, Msg: "shapes " + op.ShapeString(in[0].shape) + " and " + op.ShapeString(t.shape) + " differ",
				Fix: "reshape or expand one of them; losses do not broadcast"}, in...)
		}
	}
}

// MSELoss returns the squared differences of x and target.
func MSELoss(x, target *Tensor, r Reduction) *Tensor {
	lossOperands("MSELoss", x, target)
	return r.of("MSELoss", x.Sub(target).Square())
}

// L1Loss returns the absolute differences of x and target.
func L1Loss(x, target *Tensor, r Reduction) *Tensor {
	lossOperands("L1Loss", x, target)
	return r.of("L1Loss", x.Sub(target).Abs())
}

// HuberLoss returns half the squared difference d² where |d| is below delta, and
// goes on as the straight line delta·(|d| - delta/2).
func HuberLoss(x, target *Tensor, delta float64, r Reduction) *Tensor {
	lossOperands("HuberLoss", x, target)
	if !(delta > 0) {
		failf("HuberLoss", ErrArgument, []*Tensor{x, target}, "delta is %v; it must be positive", delta)
	}
	return r.of("HuberLoss", huber(x, target, delta))
}

// huber writes both pieces as one: with q = min(|d|, delta) they are q·(|d| - q/2).
func huber(x, target *Tensor, delta float64) *Tensor {
	d := x.Sub(target).Abs()
	q := d.Minimum(delta)
	return q.Mul(d.Sub(q.Mul(0.5)))
}

// SmoothL1Loss returns [HuberLoss] divided by beta, its delta: d²/(2·beta) where
// |d| is below beta, else |d| - beta/2. A beta of 0 is [L1Loss].
func SmoothL1Loss(x, target *Tensor, beta float64, r Reduction) *Tensor {
	lossOperands("SmoothL1Loss", x, target)
	if !(beta >= 0) {
		failf("SmoothL1Loss", ErrArgument, []*Tensor{x, target}, "beta is %v; it must not be negative", beta)
	}
	if beta == 0 {
		return r.of("SmoothL1Loss", x.Sub(target).Abs())
	}
	return r.of("SmoothL1Loss", huber(x, target, beta).Mul(1/beta))
}

// BCEOptions are the options of the binary cross-entropies.
type BCEOptions struct {
	Weight    *Tensor // multiplies each element's loss; broadcasts
	PosWeight *Tensor // BCEWithLogits: multiplies the loss of positive answers; broadcasts
	Reduction Reduction
}

// weighed multiplies a loss by weights that broadcast to it.
func weighed(name string, loss, weight *Tensor) *Tensor {
	if weight == nil {
		return loss
	}
	in := []*Tensor{loss, weight}
	checkOperands(name, in)
	if s, err := op.Broadcast(loss.shape, weight.shape); err != nil || !sameShape(s, loss.shape) {
		failf(name, ErrShape, in, "the weight %s does not broadcast to %s", op.ShapeString(weight.shape), op.ShapeString(loss.shape))
	}
	return loss.Mul(weight)
}

// BCELoss returns -target·log p - (1-target)·log(1-p) of probabilities p.
// Logarithms are cut off at -100, so that the loss of a confident mistake is large
// but finite. [BCEWithLogits] is better behaved where p comes from a sigmoid.
func BCELoss(p, target *Tensor, o BCEOptions) *Tensor {
	lossOperands("BCELoss", p, target)
	if o.PosWeight != nil {
		failf("BCELoss", ErrArgument, []*Tensor{p, target}, "PosWeight is for BCEWithLogits")
	}
	logs := func(p *Tensor) (yes, no *Tensor) { return p.Log().Maximum(-100), p.Neg().Log1p().Maximum(-100) }
	loss := Custom("BCELoss", func(in ...*Tensor) *Tensor {
		yes, no := logs(in[0])
		return in[1].Sub(1).Mul(no).Sub(in[1].Mul(yes))
	}, func(in []*Tensor, _, g *Tensor) []*Tensor {
		p, target := in[0], in[1]
		// Where p is 0 or 1 the slope has no bound; it stops at 1e12.
		slope := p.Sub(target).Div(p.Mul(p.Neg().Add(1)).Maximum(1e-12))
		yes, no := logs(p)
		return []*Tensor{g.Mul(slope), g.Mul(no.Sub(yes))}
	}, p, target).fresh(p, target)
	return o.Reduction.of("BCELoss", weighed("BCELoss", loss, o.Weight))
}

// BCEWithLogits returns the binary cross-entropy of sigmoid(x) and target, without
// overflow.
func BCEWithLogits(x, target *Tensor, o BCEOptions) *Tensor {
	lossOperands("BCEWithLogits", x, target)
	// (1-target)·x + (1 + (pos-1)·target)·softplus(-x)
	miss := x.Neg().Softplus()
	if o.PosWeight != nil {
		miss = target.Mul(weighed("BCEWithLogits", target.OnesLike(), o.PosWeight).Sub(1)).Add(1).Mul(miss)
	}
	loss := target.Neg().Add(1).Mul(x).Add(miss)
	return o.Reduction.of("BCEWithLogits", weighed("BCEWithLogits", loss, o.Weight))
}

// KLDiv returns target·(log target - logp): the divergence of the distribution
// whose logarithm is logp from target. Use [ReduceBatchMean] for the divergence
// itself; the mean divides by the classes too.
func KLDiv(logp, target *Tensor, r Reduction) *Tensor {
	lossOperands("KLDiv", logp, target)
	zero := target.Eq(0) // 0·log 0 is 0
	entropy := zero.Where(0, zero.Where(1, target).Log().Mul(target))
	return r.of("KLDiv", entropy.Sub(target.Mul(logp)))
}

// KLDivLog is [KLDiv] with the logarithm of the target.
func KLDivLog(logp, logTarget *Tensor, r Reduction) *Tensor {
	lossOperands("KLDivLog", logp, logTarget)
	return r.of("KLDivLog", logTarget.Exp().Mul(logTarget.Sub(logp)))
}

// HingeEmbedding returns x where target is 1 and max(0, margin - x) where it is -1.
func HingeEmbedding(x, target *Tensor, margin float64, r Reduction) *Tensor {
	lossOperands("HingeEmbedding", x, target)
	far := x.Neg().Add(margin).Relu()
	return r.of("HingeEmbedding", target.Eq(1).Where(0, far).Add(target.Eq(-1).Where(0, x)))
}

// MarginRanking returns max(0, margin - target·(x1 - x2)): target is 1 where x1
// should be larger, -1 where x2.
func MarginRanking(x1, x2, target *Tensor, margin float64, r Reduction) *Tensor {
	lossOperands("MarginRanking", x1, x2, target)
	return r.of("MarginRanking", target.Mul(x2.Sub(x1)).Add(margin).Relu())
}

// SoftMargin returns log(1 + e^(-target·x)), with targets 1 and -1.
func SoftMargin(x, target *Tensor, r Reduction) *Tensor {
	lossOperands("SoftMargin", x, target)
	return r.of("SoftMargin", target.Neg().Mul(x).Softplus())
}

// CosineEmbedding returns, with the cosine c of x1 and x2 along the last axis,
// 1 - c where target is 1 and max(0, c - margin) where it is -1: x1 and x2 (N, D)
// or (D), target (N) or a scalar.
func CosineEmbedding(x1, x2, target *Tensor, margin float64, r Reduction) *Tensor {
	lossOperands("CosineEmbedding", x1, x2)
	in := []*Tensor{x1, x2, target}
	checkOperands("CosineEmbedding", in)
	if len(x1.shape) == 0 || !sameShape(target.shape, x1.shape[:len(x1.shape)-1]) {
		failf("CosineEmbedding", ErrShape, in, "want x1 and x2 (N, D) and target (N)")
	}
	const eps = 1e-12
	size := func(x *Tensor) *Tensor { return x.Square().Sum(-1).Add(eps) }
	c := x1.Mul(x2).Sum(-1).Div(size(x1).Mul(size(x2)).Sqrt())
	apart := target.Eq(-1).Where(c.Sub(margin).Relu(), 0)
	return r.of("CosineEmbedding", target.Eq(1).Where(c.Neg().Add(1), apart))
}

// TripletMargin returns max(0, ‖anchor - positive‖ - ‖anchor - negative‖ + margin)
// with p-norms along the last axis.
func TripletMargin(anchor, positive, negative *Tensor, margin, p float64, r Reduction) *Tensor {
	lossOperands("TripletMargin", anchor, positive, negative)
	near, far := PairwiseDistance(anchor, positive, p, 1e-6), PairwiseDistance(anchor, negative, p, 1e-6)
	return r.of("TripletMargin", near.Sub(far).Add(margin).Relu())
}

// PoissonNLL returns eˣ - target·x: the negative log-likelihood of counts whose
// expected value has the logarithm x, without the terms of the target alone.
func PoissonNLL(x, target *Tensor, r Reduction) *Tensor {
	lossOperands("PoissonNLL", x, target)
	return r.of("PoissonNLL", x.Exp().Sub(target.Mul(x)))
}

// GaussianNLL returns ½·(log v + (x - target)²/v) with v = max(variance, eps): the
// negative log-likelihood of a normal distribution, without its constant. The
// gradient of the variance is that of v, also below eps, so that it can grow again.
func GaussianNLL(x, target, variance *Tensor, eps float64, r Reduction) *Tensor {
	lossOperands("GaussianNLL", x, target, variance)
	if !(eps > 0) {
		failf("GaussianNLL", ErrArgument, []*Tensor{x, target, variance}, "eps is %v; it must be positive", eps)
	}
	v := Custom("GaussianNLL", func(in ...*Tensor) *Tensor { return in[0].Maximum(eps) },
		func(_ []*Tensor, _, g *Tensor) []*Tensor { return []*Tensor{g} }, variance)
	return r.of("GaussianNLL", v.Log().Add(x.Sub(target).Square().Div(v)).Mul(0.5))
}
