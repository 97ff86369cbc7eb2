package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// ConvTransposeLayer is a transposed convolution, which enlarges images (N, C, H,
// W) or, made with a 1-D constructor, sequences (N, C, L).
type ConvTransposeLayer struct {
	Weight *Parameter // (in, out/groups, kernel…)
	Bias   *Parameter // (out); nil without

	out    int
	kernel []int
	geo    locus.ConvTransposeOptions
	opts   options
}

// ConvTranspose2D makes a transposed convolution from in to out channels.
func ConvTranspose2D(in, out int, kernel locus.Pair, geo locus.ConvTransposeOptions, opts ...Option) *ConvTransposeLayer {
	l := LazyConvTranspose2D(out, kernel, geo, opts...)
	l.make(locus.DefaultDevice(), in)
	return l
}

// LazyConvTranspose2D makes a transposed convolution to out channels that learns
// the number of its input channels from the first input.
func LazyConvTranspose2D(out int, kernel locus.Pair, geo locus.ConvTransposeOptions, opts ...Option) *ConvTransposeLayer {
	return lazyConvTranspose(out, []int{kernel.Height(), kernel.Width()}, geo, gather(opts))
}

// ConvTranspose1D makes a transposed convolution of sequences from in to out
// channels.
func ConvTranspose1D(in, out, kernel int, geo locus.ConvTransposeOptions, opts ...Option) *ConvTransposeLayer {
	l := LazyConvTranspose1D(out, kernel, geo, opts...)
	l.make(locus.DefaultDevice(), in)
	return l
}

// LazyConvTranspose1D makes a transposed convolution of sequences to out channels
// that learns the number of its input channels from the first input.
func LazyConvTranspose1D(out, kernel int, geo locus.ConvTransposeOptions, opts ...Option) *ConvTransposeLayer {
	return lazyConvTranspose(out, []int{kernel}, geo, gather(opts))
}

func lazyConvTranspose(out int, kernel []int, geo locus.ConvTransposeOptions, o options) *ConvTransposeLayer {
	sizes("nn.ConvTranspose", append([]int{out}, kernel...)...)
	gate.Check("nn.ConvTranspose", gate.Count("the number of groups", geo.Groups, 0, max(out, 0)))
	l := &ConvTransposeLayer{out: out, kernel: kernel, geo: geo, opts: o, Bias: o.lazyBias(out)}
	l.Weight = o.lazy(l.shape(-1)...)
	return l
}

func (l *ConvTransposeLayer) shape(in int) []int {
	return append([]int{in, l.out / max(l.geo.Groups, 1)}, l.kernel...)
}

func (l *ConvTransposeLayer) make(d locus.Device, in int) {
	if l.out%max(l.geo.Groups, 1) != 0 {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "nn.ConvTranspose", Msg: "the output channels do not divide into the groups"})
	}
	shape := l.shape(in)
	fan, _ := fans(shape)
	l.opts.make(d, l.Weight, FanIn(0), nil, nil, shape...)
	l.opts.makeBias(d, l.Bias, FanIn(fan), l.out)
}

// Forward applies the layer.
func (l *ConvTransposeLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.ConvTranspose2D", l != nil && l.Weight != nil)
	defer blame(l)
	if unmade(l.Weight, l.Bias) {
		if x.Rank() != len(l.kernel)+2 {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "nn.ConvTranspose", Msg: "a lazy convolution's first input must have a batch, channels and positions"})
		}
		l.make(x.Device(), x.Dim(1))
	}
	if len(l.kernel) == 1 {
		return locus.ConvTranspose1D(x, l.Weight.Value(), l.Bias.valueOrNil(), l.geo)
	}
	return locus.ConvTranspose2D(x, l.Weight.Value(), l.Bias.valueOrNil(), l.geo)
}

func (l *ConvTransposeLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
}
