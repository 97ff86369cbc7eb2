package locus

import (
	"fmt"

	"github.com/locusml/locus/internal/op"
)

// Uniform makes numbers drawn uniformly from lo to below hi; where the element
// type has few digits they may be rounded to hi.
func (m Maker) Uniform(lo, hi float64, shape ...int) *Tensor {
	if !(lo <= hi) {
		failf("Uniform", ErrArgument, nil, "lo is %v and hi %v; want lo ≤ hi", lo, hi)
	}
	return m.Rand(shape...).Mul(hi - lo).Add(lo)
}

// Normal makes numbers drawn from the normal distribution with the given mean and
// standard deviation.
func (m Maker) Normal(mean, std float64, shape ...int) *Tensor {
	if !(std >= 0) {
		failf("Normal", ErrArgument, nil, "the standard deviation is %v; it must not be negative", std)
	}
	return m.Randn(shape...).Mul(std).Add(mean)
}

// Exponential makes numbers drawn from the exponential distribution with the
// given rate, whose mean is 1/rate.
func (m Maker) Exponential(rate float64, shape ...int) *Tensor {
	if !(rate > 0) {
		failf("Exponential", ErrArgument, nil, "the rate is %v; it must be positive", rate)
	}
	return m.Rand(shape...).Neg().Log1p().Mul(-1 / rate)
}

// Uniform makes numbers on d drawn uniformly from lo to below hi.
func (d Device) Uniform(lo, hi float64, shape ...int) *Tensor {
	return d.maker().Uniform(lo, hi, shape...)
}

// Normal makes numbers on d drawn from a normal distribution.
func (d Device) Normal(mean, std float64, shape ...int) *Tensor {
	return d.maker().Normal(mean, std, shape...)
}

// Exponential makes numbers on d drawn from an exponential distribution.
func (d Device) Exponential(rate float64, shape ...int) *Tensor {
	return d.maker().Exponential(rate, shape...)
}

// Uniform makes numbers on the default device drawn uniformly from lo to below hi.
func Uniform(lo, hi float64, shape ...int) *Tensor { return DefaultDevice().Uniform(lo, hi, shape...) }

// Normal makes numbers on the default device drawn from a normal distribution.
func Normal(mean, std float64, shape ...int) *Tensor {
	return DefaultDevice().Normal(mean, std, shape...)
}

// Exponential makes numbers on the default device drawn from an exponential
// distribution.
func Exponential(rate float64, shape ...int) *Tensor {
	return DefaultDevice().Exponential(rate, shape...)
}

// Bernoulli draws, for each element of p, 1 with that probability and else 0: p is
// floating point, from 0 to 1, and the result has its shape and element type. The same
// key draws the same numbers on every device. No gradient flows.
func Bernoulli(p *Tensor, key Key) *Tensor {
	p.wantFloat("Bernoulli")
	q := p.detach()
	dt := Float32 // in 16 bits probabilities would be coarse
	if q.dtype == Float64 {
		dt = Float64
	}
	u := q.beside(q.place.device.As(dt).Key(key).Rand(q.shape...))
	return u.Lt(q.Cast(dt)).Cast(p.dtype)
}

// Multinomial draws n positions along the last axis of weights, floating point and
// not negative, with probabilities in proportion: weights (…, C), result (…, n), int64.
// Without replacement no position is drawn twice, and n must be at most the number
// of weights that are not 0. The same key draws the same positions on every device,
// but for the rounding of sums and logarithms. No gradient flows.
func Multinomial(weights *Tensor, n int, replacement bool, key Key) *Tensor {
	const name = "Multinomial"
	w := drawable(name, weights)
	last := len(w.shape) - 1
	c := w.shape[last]
	if n < 0 || !replacement && n > c {
		fail(name, &op.Problem{Kind: ErrArgument, Msg: fmt.Sprintf("cannot draw %d of %d without replacement", n, c), Fix: "draw fewer, or with replacement"}, weights)
	}
	w = w.Cast(Float64) // sums of many small weights need the digits
	if !replacement {
		_, at := w.Log().Add(w.gumbel(key)).TopK(n, last)
		return at
	}
	shape := append(weights.Shape()[:last], n)
	fits(w.place, name, Float64, shape, weights)
	sums := w.CumSum(last)
	u := w.beside(w.place.device.As(Float64).Key(key).Rand(shape...)).Mul(sums.Narrow(last, c-1, c))
	return sums.search(u, true)
}

// Categorical draws a position along the last axis of logits, with the probabilities
// softmax(logits): logits (…, C), result (…), int64. Divide logits by a temperature
// above 1 for more varied draws, below 1 for fewer. The same key draws the same
// positions on every device, but for the rounding of logarithms. No gradient flows.
func Categorical(logits *Tensor, key Key) *Tensor {
	l := drawable("Categorical", logits)
	return l.Cast(Float64).Add(l.gumbel(key)).ArgMax(-1)
}

// drawable checks the probabilities of a draw along the last axis.
func drawable(name string, t *Tensor) *Tensor {
	t.wantFloat(name)
	if len(t.shape) == 0 || t.Dim(-1) == 0 {
		failf(name, ErrShape, []*Tensor{t}, "there is nothing to draw from: want (…, C) with C at least 1")
	}
	return t.detach()
}

// gumbel draws from the standard Gumbel distribution: the largest of such numbers,
// each plus the logarithm of a weight, is at a position with a probability in
// proportion to the weight. It draws float64, whose tails are long enough.
func (t *Tensor) gumbel(key Key) *Tensor {
	u := t.beside(t.place.device.As(Float64).Key(key).Rand(t.shape...))
	return u.Log().Neg().Log().Neg()
}
