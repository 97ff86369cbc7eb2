package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// ConvLayer is a convolution of images (N, C, H, W) or, made with a 1-D
// constructor, of sequences (N, C, L).
type ConvLayer struct {
	Weight *Parameter // (out, in/groups, kernel…)
	Bias   *Parameter // (out); nil without

	out    int
	kernel locus.Pair
	oneD   bool
	geo    locus.ConvOptions
	opts   options
}

// Conv2D makes a convolution from in to out channels.
func Conv2D(in, out int, kernel locus.Pair, geo locus.ConvOptions, opts ...Option) *ConvLayer {
	l := LazyConv2D(out, kernel, geo, opts...)
	l.make(locus.DefaultDevice(), in)
	return l
}

// LazyConv2D makes a convolution to out channels that learns the number of its
// input channels from the first input.
func LazyConv2D(out int, kernel locus.Pair, geo locus.ConvOptions, opts ...Option) *ConvLayer {
	sizes("nn.Conv", out, kernel.Height(), kernel.Width())
	gate.Check("nn.Conv", gate.Count("the number of groups", geo.Groups, 0, max(out, 0)))
	o := gather(opts)
	return &ConvLayer{Weight: o.lazy(out, -1, kernel.Height(), kernel.Width()), Bias: o.lazyBias(out), out: out, kernel: kernel, geo: geo, opts: o}
}

// Conv1D makes a convolution of sequences from in to out channels.
func Conv1D(in, out, kernel int, geo locus.ConvOptions, opts ...Option) *ConvLayer {
	l := LazyConv1D(out, kernel, geo, opts...)
	l.make(locus.DefaultDevice(), in)
	return l
}

// LazyConv1D makes a convolution of sequences to out channels that learns the
// number of its input channels from the first input.
func LazyConv1D(out, kernel int, geo locus.ConvOptions, opts ...Option) *ConvLayer {
	l := LazyConv2D(out, locus.Pair(kernel), geo, opts...)
	l.oneD = true
	l.Weight = l.opts.lazy(out, -1, kernel)
	return l
}

func (l *ConvLayer) make(d locus.Device, in int) {
	groups := max(l.geo.Groups, 1)
	shape := []int{l.out, in / groups, l.kernel.Height(), l.kernel.Width()}
	if l.oneD {
		shape = []int{l.out, in / groups, l.kernel.Width()}
	}
	fan := 1
	for _, n := range shape[1:] {
		fan *= n
	}
	l.opts.make(d, l.Weight, FanIn(0), l.Bias, FanIn(fan), shape...)
}

// Forward applies the layer.
func (l *ConvLayer) Forward(x *locus.Tensor) *locus.Tensor { return l.then(x, locus.NoActivation) }

// then applies the layer and an activation in one go.
func (l *ConvLayer) then(x *locus.Tensor, a locus.Activation) *locus.Tensor {
	made("nn.Conv2D", l != nil && l.Weight != nil)
	defer blame(l)
	rank := 4
	if l.oneD {
		rank = 3
	}
	if unmade(l.Weight, l.Bias) {
		if x.Rank() != rank {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "nn.Conv", Msg: "a lazy convolution's first input must have a batch, channels and positions"})
		}
		l.make(x.Device(), x.Dim(1))
	}
	if l.oneD {
		return locus.Conv1D(x, l.Weight.Value(), l.Bias.valueOrNil(), l.geo, a)
	}
	return locus.Conv2D(x, l.Weight.Value(), l.Bias.valueOrNil(), l.geo, a)
}

func (l *ConvLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
}
