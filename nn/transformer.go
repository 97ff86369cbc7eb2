package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// TransformerOptions are the options of transformer layers. The zero value is
// PyTorch's, but without dropout.
type TransformerOptions struct {
	Hidden     int              // features between the two linear layers; 0 means 2048
	Dropout    float64          // everywhere, in training
	PreNorm    bool             // normalise what goes into each part, not what comes out
	Activation locus.Activation // between the two linear layers; the zero value means max(x, 0)
	Causal     bool             // encoders: position i sees only positions up to i; decoders always do that
	Rotary     bool             // self-attention knows positions by rotation: see [Rotary]
	FinalNorm  bool             // stacks: normalise the last layer's result

	// ActivationFunc is any other function instead of Activation. It runs as ops
	// of its own, where Activation is part of the first linear layer's.
	ActivationFunc func(x *locus.Tensor) *locus.Tensor
}

func (o TransformerOptions) withDefaults() TransformerOptions {
	if o.Activation != locus.NoActivation && o.ActivationFunc != nil {
		fail(locus.ErrArgument, "nn.TransformerOptions", "both Activation and ActivationFunc are given", "leave one of them out")
	}
	if o.Hidden == 0 {
		o.Hidden = 2048
	}
	return o
}

// feed is the two linear layers at each position.
func (o TransformerOptions) feed(x *locus.Tensor, up, down *LinearLayer, dropout *DropoutLayer) *locus.Tensor {
	switch {
	case o.ActivationFunc != nil:
		x = o.ActivationFunc(up.Forward(x))
	case o.Activation == locus.NoActivation:
		x = up.then(x, locus.ReluActivation)
	default:
		x = up.then(x, o.Activation)
	}
	d := dropout.Forward(x)
	y := down.Forward(d)
	if o.ActivationFunc != nil {
		return y // which may have kept x
	}
	return lose(y, x, d)
}

// EncoderLayer is a transformer's encoder layer: self-attention, then two linear
// layers at each position, each with a residual connection. Its parameters have
// PyTorch's names and layouts.
type EncoderLayer struct {
	SelfAttn         *MultiHeadAttentionLayer
	Linear1, Linear2 *LinearLayer
	Norm1, Norm2     *LayerNormLayer
	Dropout          *DropoutLayer // of all but the attention weights

	o TransformerOptions
}

// TransformerEncoderLayer makes a layer for sequences (N, L, features), the batch
// first.
func TransformerEncoderLayer(features, heads int, o TransformerOptions, opts ...Option) *EncoderLayer {
	o = o.withDefaults()
	part, g := parts(opts), gather(opts)
	return &EncoderLayer{o: o,
		SelfAttn: MultiHeadAttention(features, heads, MultiHeadOptions{Dropout: o.Dropout, Causal: o.Causal, Rotary: o.Rotary}, part()...),
		Linear1:  Linear(features, o.Hidden, part()...), Linear2: Linear(o.Hidden, features, part()...),
		Norm1: layerNorm(g.dtype, features), Norm2: layerNorm(g.dtype, features),
		Dropout: Dropout(o.Dropout, part()...)}
}

// Forward applies the layer to x (N, L, features).
func (l *EncoderLayer) Forward(x *locus.Tensor) *locus.Tensor { return l.Encode(x, nil) }

// Encode is Forward with a mask, as [MultiHeadAttentionLayer.Attend] takes it.
func (l *EncoderLayer) Encode(x, mask *locus.Tensor) *locus.Tensor {
	return l.encode(residual{x: x}, mask).sum()
}

func (l *EncoderLayer) encode(r residual, mask *locus.Tensor) residual {
	made("nn.TransformerEncoderLayer", l != nil && l.SelfAttn != nil && l.Linear1 != nil && l.Linear2 != nil && l.Norm1 != nil && l.Norm2 != nil && l.Dropout != nil)
	r = r.shortcut(l.Norm1, l.o.PreNorm, l.Dropout, func(x *locus.Tensor) *locus.Tensor { return l.SelfAttn.Attend(x, x, x, mask) })
	return r.shortcut(l.Norm2, l.o.PreNorm, l.Dropout, func(x *locus.Tensor) *locus.Tensor {
		return l.o.feed(x, l.Linear1, l.Linear2, l.Dropout)
	})
}

// residual is a sum x + d on its way to a normalisation, with which it is one op where the
// device has that. d is nil where it is x alone.
type residual struct {
	x, d *locus.Tensor
	own  bool            // nothing else has a handle of x
	read []*locus.Tensor // on the way to d, of which nothing else has handles
}

// sum returns x + d.
func (r residual) sum() *locus.Tensor {
	if r.d == nil {
		return r.x
	}
	return r.done(r.x.Add(r.d))
}

// done releases what sum was computed from, and returns it.
func (r residual) done(sum *locus.Tensor) *locus.Tensor {
	lose(spend(sum, r.d), r.read...)
	if r.own {
		lose(sum, r.x)
	}
	return sum
}

// normed returns the sum and what norm makes of it.
func (r residual) normed(norm *LayerNormLayer) (sum, y *locus.Tensor) {
	if r.d == nil {
		return r.x, norm.Forward(r.x)
	}
	sum, y = norm.after(r.x, r.d)
	return r.done(sum), y
}

// shortcut adds what f makes of the sum to it, with the normalisation before f or after
// the new sum.
func (r residual) shortcut(norm *LayerNormLayer, pre bool, dropout *DropoutLayer, f func(*locus.Tensor) *locus.Tensor) residual {
	next := residual{own: r.own || r.d != nil}
	if pre {
		var n *locus.Tensor
		next.x, n = r.normed(norm)
		y := f(n)
		next.d, next.read = dropout.Forward(y), []*locus.Tensor{n, y}
		return next
	}
	next.x = r.sum()
	y := f(next.x)
	next.d, next.read = dropout.Forward(y), []*locus.Tensor{y}
	sum, n := next.normed(norm)
	return residual{x: lose(n, sum), own: true}
}

// DecoderLayer is a transformer's decoder layer: causal self-attention, attention to
// an encoder's result, then two linear layers at each position, each with a residual
// connection. Its parameters have PyTorch's names and layouts.
type DecoderLayer struct {
	SelfAttn            *MultiHeadAttentionLayer
	MultiheadAttn       *MultiHeadAttentionLayer // to the encoder's result
	Linear1, Linear2    *LinearLayer
	Norm1, Norm2, Norm3 *LayerNormLayer
	Dropout             *DropoutLayer // of all but the attention weights

	o TransformerOptions
}

// TransformerDecoderLayer makes a layer for sequences (N, L, features), the batch
// first.
func TransformerDecoderLayer(features, heads int, o TransformerOptions, opts ...Option) *DecoderLayer {
	o = o.withDefaults()
	part, g := parts(opts), gather(opts)
	return &DecoderLayer{o: o,
		SelfAttn:      MultiHeadAttention(features, heads, MultiHeadOptions{Dropout: o.Dropout, Causal: true, Rotary: o.Rotary}, part()...),
		MultiheadAttn: MultiHeadAttention(features, heads, MultiHeadOptions{Dropout: o.Dropout}, part()...),
		Linear1:       Linear(features, o.Hidden, part()...), Linear2: Linear(o.Hidden, features, part()...),
		Norm1: layerNorm(g.dtype, features), Norm2: layerNorm(g.dtype, features), Norm3: layerNorm(g.dtype, features),
		Dropout: Dropout(o.Dropout, part()...)}
}

// Decode applies the layer to x (N, L, features) and an encoder's result memory (N,
// S, features). The masks, of x's positions and of memory's, may be nil; see
// [MultiHeadAttentionLayer.Attend].
func (l *DecoderLayer) Decode(x, memory, mask, memoryMask *locus.Tensor) *locus.Tensor {
	return l.decode(residual{x: x}, memory, mask, memoryMask).sum()
}

func (l *DecoderLayer) decode(r residual, memory, mask, memoryMask *locus.Tensor) residual {
	made("nn.TransformerDecoderLayer", l != nil && l.SelfAttn != nil && l.MultiheadAttn != nil && l.Linear1 != nil && l.Linear2 != nil && l.Norm1 != nil && l.Norm2 != nil && l.Norm3 != nil && l.Dropout != nil)
	r = r.shortcut(l.Norm1, l.o.PreNorm, l.Dropout, func(x *locus.Tensor) *locus.Tensor { return l.SelfAttn.Attend(x, x, x, mask) })
	r = r.shortcut(l.Norm2, l.o.PreNorm, l.Dropout, func(x *locus.Tensor) *locus.Tensor {
		return l.MultiheadAttn.Attend(x, memory, memory, memoryMask)
	})
	return r.shortcut(l.Norm3, l.o.PreNorm, l.Dropout, func(x *locus.Tensor) *locus.Tensor {
		return l.o.feed(x, l.Linear1, l.Linear2, l.Dropout)
	})
}

// Encoder is a stack of encoder layers.
type Encoder struct {
	Layers []*EncoderLayer
	Norm   *LayerNormLayer // nil without
}

// TransformerEncoder makes a stack of n layers.
func TransformerEncoder(n, features, heads int, o TransformerOptions, opts ...Option) *Encoder {
	gate.Check("nn.TransformerEncoder", gate.Count("the number of layers", n, 0, gate.MaxLayers))
	e, part := new(Encoder), parts(opts)
	for range n {
		e.Layers = append(e.Layers, TransformerEncoderLayer(features, heads, o, part()...))
	}
	if o.FinalNorm {
		e.Norm = layerNorm(gather(opts).dtype, features)
	}
	return e
}

// Forward applies the layers to x (N, L, features).
func (e *Encoder) Forward(x *locus.Tensor) *locus.Tensor { return e.Encode(x, nil) }

// Encode is Forward with a mask, as [MultiHeadAttentionLayer.Attend] takes it.
func (e *Encoder) Encode(x, mask *locus.Tensor) *locus.Tensor {
	made("nn.TransformerEncoder", e != nil)
	w := where{kind: "Encoder"}
	defer w.blame()
	r := residual{x: x}
	for i, l := range e.Layers {
		w.at("Layers", i, l)
		r = l.encode(r, mask)
	}
	return r.end(&w, e.Norm)
}

// end returns the sum, or what norm, which may be nil, makes of it.
func (r residual) end(w *where, norm *LayerNormLayer) *locus.Tensor {
	if norm == nil {
		return r.sum()
	}
	w.at("Norm", -1, norm)
	sum, y := r.normed(norm)
	if r.own || r.d != nil {
		lose(y, sum)
	}
	return y
}

// Decoder is a stack of decoder layers.
type Decoder struct {
	Layers []*DecoderLayer
	Norm   *LayerNormLayer // nil without
}

// TransformerDecoder makes a stack of n layers.
func TransformerDecoder(n, features, heads int, o TransformerOptions, opts ...Option) *Decoder {
	gate.Check("nn.TransformerDecoder", gate.Count("the number of layers", n, 0, gate.MaxLayers))
	d, part := new(Decoder), parts(opts)
	for range n {
		d.Layers = append(d.Layers, TransformerDecoderLayer(features, heads, o, part()...))
	}
	if o.FinalNorm {
		d.Norm = layerNorm(gather(opts).dtype, features)
	}
	return d
}

// Decode applies the layers; see [DecoderLayer.Decode].
func (d *Decoder) Decode(x, memory, mask, memoryMask *locus.Tensor) *locus.Tensor {
	made("nn.TransformerDecoder", d != nil)
	w := where{kind: "Decoder"}
	defer w.blame()
	r := residual{x: x}
	for i, l := range d.Layers {
		w.at("Layers", i, l)
		r = l.decode(r, memory, mask, memoryMask)
	}
	return r.end(&w, d.Norm)
}
