package nn

import "github.com/locusml/locus"

// LinearLayer computes x·Wᵀ + b. Make one with [Linear] or [LazyLinear].
type LinearLayer struct {
	Weight *Parameter // (out, in)
	Bias   *Parameter // (out); nil without

	out  int
	opts options
}

// Linear makes a layer from in to out features, initialized as in PyTorch, on
// the default device.
func Linear(in, out int, opts ...Option) *LinearLayer {
	sizes("nn.Linear", out, in)
	l := LazyLinear(out, opts...)
	l.make(locus.DefaultDevice(), in)
	return l
}

// LazyLinear makes a layer to out features that learns the number of its inputs
// from the first of them, and is made where it was moved to, else where that
// input is.
func LazyLinear(out int, opts ...Option) *LinearLayer {
	sizes("nn.Linear", out)
	o := gather(opts)
	return &LinearLayer{Weight: o.lazy(out, -1), Bias: o.lazyBias(out), out: out, opts: o}
}

func (l *LinearLayer) make(d locus.Device, in int) {
	l.opts.make(d, l.Weight, FanIn(0), l.Bias, FanIn(in), l.out, in)
}

// Forward applies the layer to x (…, in).
func (l *LinearLayer) Forward(x *locus.Tensor) *locus.Tensor { return l.then(x, locus.NoActivation) }

// then applies the layer and an activation in one go.
func (l *LinearLayer) then(x *locus.Tensor, a locus.Activation) *locus.Tensor {
	made("nn.Linear", l != nil && l.Weight != nil)
	defer blame(l)
	if unmade(l.Weight, l.Bias) {
		if x.Rank() == 0 {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "nn.Linear", Msg: "the input has no axes; want (…, in)"})
		}
		l.make(x.Device(), x.Dim(-1))
	}
	return locus.Linear(x, l.Weight.Value(), l.Bias.valueOrNil(), a)
}

func (l *LinearLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
}
