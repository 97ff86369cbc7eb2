package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// Conv3DLayer is a convolution of volumes (N, C, D, H, W).
type Conv3DLayer struct {
	Weight *Parameter // (out, in/groups, depth, height, width of the kernel)
	Bias   *Parameter // (out); nil without

	out    int
	kernel locus.Triple
	geo    locus.Conv3DOptions
	opts   options
}

// Conv3D makes a convolution of volumes from in to out channels.
func Conv3D(in, out int, kernel locus.Triple, geo locus.Conv3DOptions, opts ...Option) *Conv3DLayer {
	l := LazyConv3D(out, kernel, geo, opts...)
	l.make(locus.DefaultDevice(), in)
	return l
}

// LazyConv3D makes a convolution of volumes to out channels that learns the number of
// its input channels from the first input.
func LazyConv3D(out int, kernel locus.Triple, geo locus.Conv3DOptions, opts ...Option) *Conv3DLayer {
	sizes("nn.Conv3D", out, kernel.Depth(), kernel.Height(), kernel.Width())
	gate.Check("nn.Conv3D", gate.Count("the number of groups", geo.Groups, 0, max(out, 0)))
	o := gather(opts)
	return &Conv3DLayer{Weight: o.lazy(out, -1, kernel.Depth(), kernel.Height(), kernel.Width()), Bias: o.lazyBias(out), out: out, kernel: kernel, geo: geo, opts: o}
}

func (l *Conv3DLayer) make(d locus.Device, in int) {
	shape := []int{l.out, in / max(l.geo.Groups, 1), l.kernel.Depth(), l.kernel.Height(), l.kernel.Width()}
	fan, _ := fans(shape)
	l.opts.make(d, l.Weight, FanIn(0), l.Bias, FanIn(fan), shape...)
}

// Forward applies the layer.
func (l *Conv3DLayer) Forward(x *locus.Tensor) *locus.Tensor { return l.then(x, locus.NoActivation) }

// then applies the layer and an activation in one go.
func (l *Conv3DLayer) then(x *locus.Tensor, a locus.Activation) *locus.Tensor {
	made("nn.Conv3D", l != nil && l.Weight != nil)
	defer blame(l)
	if unmade(l.Weight, l.Bias) {
		l.make(x.Device(), volumeChannels("nn.Conv3D", x))
	}
	return locus.Conv3D(x, l.Weight.Value(), l.Bias.valueOrNil(), l.geo, a)
}

func (l *Conv3DLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
}

// ConvTranspose3DLayer is a transposed convolution, which enlarges volumes
// (N, C, D, H, W).
type ConvTranspose3DLayer struct {
	Weight *Parameter // (in, out/groups, depth, height, width of the kernel)
	Bias   *Parameter // (out); nil without

	out    int
	kernel locus.Triple
	geo    locus.ConvTranspose3DOptions
	opts   options
}

// ConvTranspose3D makes a transposed convolution of volumes from in to out channels.
func ConvTranspose3D(in, out int, kernel locus.Triple, geo locus.ConvTranspose3DOptions, opts ...Option) *ConvTranspose3DLayer {
	l := LazyConvTranspose3D(out, kernel, geo, opts...)
	l.make(locus.DefaultDevice(), in)
	return l
}

// LazyConvTranspose3D makes a transposed convolution of volumes to out channels that
// learns the number of its input channels from the first input.
func LazyConvTranspose3D(out int, kernel locus.Triple, geo locus.ConvTranspose3DOptions, opts ...Option) *ConvTranspose3DLayer {
	sizes("nn.ConvTranspose3D", out, kernel.Depth(), kernel.Height(), kernel.Width())
	gate.Check("nn.ConvTranspose3D", gate.Count("the number of groups", geo.Groups, 0, max(out, 0)))
	if out%max(geo.Groups, 1) != 0 {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "nn.ConvTranspose3D", Msg: "the output channels do not divide into the groups"})
	}
	l := &ConvTranspose3DLayer{out: out, kernel: kernel, geo: geo, opts: gather(opts)}
	l.Weight, l.Bias = l.opts.lazy(l.shape(-1)...), l.opts.lazyBias(out)
	return l
}

func (l *ConvTranspose3DLayer) shape(in int) []int {
	return []int{in, l.out / max(l.geo.Groups, 1), l.kernel.Depth(), l.kernel.Height(), l.kernel.Width()}
}

func (l *ConvTranspose3DLayer) make(d locus.Device, in int) {
	shape := l.shape(in)
	fan, _ := fans(shape)
	l.opts.make(d, l.Weight, FanIn(0), nil, nil, shape...)
	l.opts.makeBias(d, l.Bias, FanIn(fan), l.out)
}

// Forward applies the layer.
func (l *ConvTranspose3DLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.ConvTranspose3D", l != nil && l.Weight != nil)
	defer blame(l)
	if unmade(l.Weight, l.Bias) {
		l.make(x.Device(), volumeChannels("nn.ConvTranspose3D", x))
	}
	return locus.ConvTranspose3D(x, l.Weight.Value(), l.Bias.valueOrNil(), l.geo)
}

func (l *ConvTranspose3DLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
}

// volumeChannels returns the number of channels that a lazy layer's first input has.
func volumeChannels(name string, x *locus.Tensor) int {
	if x.Rank() != 5 {
		panic(&locus.Error{Kind: locus.ErrShape, Op: name, Msg: "a lazy convolution's first input must be (N, C, D, H, W)"})
	}
	return x.Dim(1)
}

// MaxPool3D takes the largest element of each window of a volume (N, C, D, H, W).
func MaxPool3D(window locus.Triple, o locus.Pool3DOptions) Module {
	return named("MaxPool3D", func(x *locus.Tensor) *locus.Tensor { return locus.MaxPool3D(x, window, o) })
}

// AvgPool3D takes the mean of each window of a volume (N, C, D, H, W).
func AvgPool3D(window locus.Triple, o locus.Pool3DOptions) Module {
	return named("AvgPool3D", func(x *locus.Tensor) *locus.Tensor { return locus.AvgPool3D(x, window, o) })
}

// AdaptiveAvgPool3D averages windows so that the result has the given size.
func AdaptiveAvgPool3D(size locus.Triple) Module {
	return named("AdaptiveAvgPool3D", func(x *locus.Tensor) *locus.Tensor { return locus.AdaptiveAvgPool3D(x, size) })
}

// AdaptiveMaxPool3D takes the largest elements of windows so that the result has the given size.
func AdaptiveMaxPool3D(size locus.Triple) Module {
	return named("AdaptiveMaxPool3D", func(x *locus.Tensor) *locus.Tensor { return locus.AdaptiveMaxPool3D(x, size) })
}
