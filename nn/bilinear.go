package nn

import "github.com/locusml/locus"

// BilinearLayer computes x1ᵀ·W·x2 + b. It has two inputs and is not a [Module].
type BilinearLayer struct {
	Weight *Parameter // (out, in1, in2)
	Bias   *Parameter // (out); nil without

	shape []int
	opts  options
}

// Bilinear makes a layer from in1 and in2 to out features.
func Bilinear(in1, in2, out int, opts ...Option) *BilinearLayer {
	sizes("nn.Bilinear", out, in1, in2)
	o := gather(opts)
	l := &BilinearLayer{Weight: o.lazy(out, in1, in2), Bias: o.lazyBias(out), shape: []int{out, in1, in2}, opts: o}
	l.make()
	return l
}

func (l *BilinearLayer) make() {
	in1 := l.shape[1]
	l.opts.make(locus.DefaultDevice(), l.Weight, FanIn(in1), l.Bias, FanIn(in1), l.shape...)
}

func (l *BilinearLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
	l.make()
}

// Forward applies the layer to x1 (…, in1) and x2 (…, in2).
func (l *BilinearLayer) Forward(x1, x2 *locus.Tensor) *locus.Tensor {
	made("nn.Bilinear", l != nil && l.Weight != nil)
	return locus.Bilinear(x1, x2, l.Weight.Value(), l.Bias.valueOrNil())
}
