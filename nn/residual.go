package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
)

// ResidualLayer adds its input to its body's result.
type ResidualLayer struct {
	Body     Module
	Shortcut Module // applied to the input where the body changes its shape; may be nil
}

// Residual makes a layer x + body(x); shortcut may be nil.
func Residual(body, shortcut Module) *ResidualLayer {
	present("nn.Residual", "the body", body)
	return &ResidualLayer{body, shortcut}
}

// Forward returns body(x) + shortcut(x).
func (l *ResidualLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.Residual", l != nil && l.Body != nil)
	w := where{kind: "Residual"}
	defer w.blame()
	w.at("Body", -1, l.Body)
	y := l.Body.Forward(x)
	var own []*locus.Tensor
	if y != x && fresh(l.Body) {
		own = append(own, y)
	}
	if l.Shortcut != nil {
		w.at("Shortcut", -1, l.Shortcut)
		from := x
		if x = l.Shortcut.Forward(x); x != from && fresh(l.Shortcut) {
			own = append(own, x)
		}
	}
	w.own()
	return spend(y.Add(x), own...)
}

// ResNetBlockLayer is the basic block of residual networks (He et al., 2016): two
// 3×3 convolutions with batch normalization, and a shortcut around them. Its
// parameters have the names of torchvision's.
type ResNetBlockLayer struct {
	Conv1      *ConvLayer
	BN1        *BatchNormLayer
	Conv2      *ConvLayer
	BN2        *BatchNormLayer
	Downsample *SequentialLayer // a 1×1 convolution and a normalization of the shortcut; nil where it is the input itself
}

// ResNetBlock makes a block from in to out channels whose first convolution has
// the given stride. The shortcut is the input itself where that fits.
func ResNetBlock(in, out, stride int, opts ...Option) *ResNetBlockLayer {
	part := parts(opts)
	conv := func(from, size, stride int) *ConvLayer {
		geo := locus.ConvOptions{Stride: locus.Pair(stride), Padding: locus.Pair(size / 2)}
		return Conv2D(from, out, locus.Pair(size), geo, append(part(), NoBias())...)
	}
	norm := func() *BatchNormLayer { return BatchNorm(out, append(part(), WithInit(nil))...) } // what was asked for is for the convolutions
	b := &ResNetBlockLayer{Conv1: conv(in, 3, stride), BN1: norm(), Conv2: conv(out, 3, 1), BN2: norm()}
	if in != out || stride != 1 {
		b.Downsample = Sequential(conv(in, 1, stride), norm())
	}
	return b
}

// Forward applies the block to x (N, in, H, W).
func (b *ResNetBlockLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.ResNetBlock", b != nil && b.Conv1 != nil && b.BN1 != nil && b.Conv2 != nil && b.BN2 != nil)
	w := where{kind: "ResNetBlock"}
	defer w.blame()
	w.at("Conv1", -1, b.Conv1)
	y := b.Conv1.Forward(x)
	w.at("BN1", -1, b.BN1)
	y = lose(b.BN1.then(y, locus.ReluActivation), y)
	w.at("Conv2", -1, b.Conv2)
	y = lose(b.Conv2.Forward(y), y)
	from := x
	if b.Downsample != nil {
		w.at("Downsample", -1, b.Downsample)
		x = b.Downsample.Forward(x)
	}
	w.at("BN2", -1, b.BN2)
	return lose(b.BN2.end(y, lend.NormEnd{Add: x, Own: x != from && fresh(b.Downsample), Act: locus.ReluActivation}), y)
}
