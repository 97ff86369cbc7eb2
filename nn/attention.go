package nn

import (
	"fmt"
	"math"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// MultiHeadOptions are the options of [MultiHeadAttention]. With the zero value every
// position attends to every other.
type MultiHeadOptions struct {
	Causal        bool    // position i attends only to positions up to i
	Dropout       float64 // of the attention weights, in training
	KeyFeatures   int     // where keys have other features than queries; 0 means the same
	ValueFeatures int     // the same for values
	Rotary        bool    // positions by rotation of queries and keys: see [Rotary]
}

// MultiHeadAttentionLayer lets the positions of sequences (N, L, features), the batch
// first or none, attend to others with several heads at once.
//
// Weights have PyTorch's layouts and names: one in_proj_weight (3·features,
// features) for queries, keys and values, or, where keys or values have other
// features, q_proj_weight, k_proj_weight and v_proj_weight; in_proj_bias; out_proj.
type MultiHeadAttentionLayer struct {
	InProjWeight *Parameter // (3·features, features); nil with separate ones
	QProjWeight  *Parameter // (features, features); nil with one for all
	KProjWeight  *Parameter // (features, key features)
	VProjWeight  *Parameter // (features, value features)
	InProjBias   *Parameter // (3·features); nil without
	OutProj      *LinearLayer
	Dropout      *DropoutLayer // of the attention weights
	Rotary       *RotaryLayer  // nil without

	features, heads int
	o               MultiHeadOptions
	opts            options
}

// MultiHeadAttention makes a layer for the given number of features, which the heads
// share evenly, initialized as in PyTorch.
func MultiHeadAttention(features, heads int, o MultiHeadOptions, opts ...Option) *MultiHeadAttentionLayer {
	if heads < 1 || features < 1 || features%heads != 0 {
		fail(locus.ErrArgument, "nn.MultiHeadAttention", fmt.Sprintf("%d features do not divide into %d heads", features, heads), "")
	}
	sizes("nn.MultiHeadAttention", 3, features, features)
	if o.KeyFeatures == 0 {
		o.KeyFeatures = features
	}
	if o.ValueFeatures == 0 {
		o.ValueFeatures = features
	}
	sizes("nn.MultiHeadAttention", features, o.KeyFeatures)
	sizes("nn.MultiHeadAttention", features, o.ValueFeatures)
	l := &MultiHeadAttentionLayer{features: features, heads: heads, o: o, opts: gather(opts)}
	if o.KeyFeatures == features && o.ValueFeatures == features {
		l.InProjWeight = l.opts.lazy(3*features, features)
	} else {
		l.QProjWeight = l.opts.lazy(features, features)
		l.KProjWeight = l.opts.lazy(features, o.KeyFeatures)
		l.VProjWeight = l.opts.lazy(features, o.ValueFeatures)
	}
	l.InProjBias = l.opts.lazyBias(3 * features)
	if o.Rotary {
		l.Rotary = Rotary(features/heads, 0)
	}
	key := l.opts.key
	l.Dropout = newDropout("Dropout", o.Dropout, locus.Dropout, key.Fold(4))
	l.OutProj = Linear(features, features, append([]Option{WithBiasInit(Constant(0))}, append(opts[:len(opts):len(opts)], WithKey(key.Fold(5)))...)...)
	l.make()
	return l
}

func (l *MultiHeadAttentionLayer) make() {
	d, n := locus.DefaultDevice(), l.features
	o := l.opts
	part := func(i uint64, p *Parameter, shape ...int) {
		if p != nil {
			o.key = l.opts.key.Fold(i)
			o.make(d, p, XavierUniform(), nil, nil, shape...)
		}
	}
	part(0, l.InProjWeight, 3*n, n)
	part(1, l.QProjWeight, n, n)
	part(2, l.KProjWeight, n, l.o.KeyFeatures)
	part(3, l.VProjWeight, n, l.o.ValueFeatures)
	l.opts.makeBias(d, l.InProjBias, Constant(0), 3*n)
}

func (l *MultiHeadAttentionLayer) reset(key locus.Key) {
	l.opts.key = key
	l.InProjWeight, l.InProjBias = l.InProjWeight.unmade(), l.InProjBias.unmade()
	l.QProjWeight, l.KProjWeight, l.VProjWeight = l.QProjWeight.unmade(), l.KProjWeight.unmade(), l.VProjWeight.unmade()
	l.make()
}

// Forward lets the positions of x (N, L, features) attend to each other.
func (l *MultiHeadAttentionLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return l.Attend(x, x, x, nil)
}

// Attend lets the positions of q (N, L, features) attend to those of k (N, S, key
// features), and returns a weighted mean of v (N, S, value features) for each, (N, L,
// features). The mask may be nil; it is (L, S), (N, L, S) or (N, heads, L, S), with
// sizes of 1 where it is the same for all: bools, where false masks, or floating-point
// numbers, which are added to the scores. [PaddingMask] makes one from lengths.
func (l *MultiHeadAttentionLayer) Attend(q, k, v, mask *locus.Tensor) *locus.Tensor {
	made("nn.MultiHeadAttention", l != nil && l.OutProj != nil && l.Dropout != nil && l.heads > 0)
	if q.Rank() < 2 || k.Rank() != q.Rank() || v.Rank() != q.Rank() {
		fail(locus.ErrShape, "nn.MultiHeadAttention", fmt.Sprintf("queries %v, keys %v and values %v; want (N, L, features) of each", q.Shape(), k.Shape(), v.Shape()), "")
	}
	if mask != nil && mask.Rank() == q.Rank() && mask.Rank() > 2 {
		mask = mask.Unsqueeze(-3) // the same for all heads
	}
	o := locus.AttentionOptions{Mask: mask, Causal: l.o.Causal}
	if l.Dropout.active() {
		o.Dropout, o.Key = l.Dropout.P, l.Dropout.next()
	}
	q, k, v = l.project(q, k, v)
	if l.Rotary != nil {
		q, k = l.Rotary.Forward(q), l.Rotary.Forward(k)
	}
	y := locus.Attention(q, k, v, o).Transpose(-3, -2)
	return l.OutProj.Forward(y.Reshape(append(y.Shape()[:y.Rank()-2], l.features)...))
}

// split separates n projections that lie side by side, and puts the heads on an axis:
// (…, L, n·features) becomes n times (…, heads, L, features/heads). Heads come before
// the cut, so that the gradients of all projections are put together in one copy.
func (l *MultiHeadAttentionLayer) split(x *locus.Tensor, n int) []*locus.Tensor {
	s := x.Shape()
	x = x.Reshape(append(s[:len(s)-1], n, l.heads, l.features/l.heads)...)
	parts := make([]*locus.Tensor, n)
	for i := range parts {
		parts[i] = x.Narrow(-3, i, i+1).Squeeze(-3).Transpose(-3, -2)
	}
	return parts
}

// project computes queries, keys and values of each head, those of the same input in
// one product.
func (l *MultiHeadAttentionLayer) project(q, k, v *locus.Tensor) (_, _, _ *locus.Tensor) {
	n, bias := l.features, l.InProjBias.valueOrNil()
	part := func(x *locus.Tensor, from, to int) *locus.Tensor {
		w, b := l.InProjWeight.valueOrNil(), bias
		switch {
		case w != nil && (from > 0 || to < 3):
			w = w.Narrow(0, from*n, to*n)
		case w == nil:
			w = []*Parameter{l.QProjWeight, l.KProjWeight, l.VProjWeight}[from].Value()
		}
		if b != nil && (from > 0 || to < 3) {
			b = b.Narrow(0, from*n, to*n)
		}
		return locus.Linear(x, w, b)
	}
	switch {
	case l.InProjWeight != nil && q == k && k == v:
		p := l.split(part(q, 0, 3), 3)
		return p[0], p[1], p[2]
	case l.InProjWeight != nil && k == v:
		p := l.split(part(k, 1, 3), 2)
		return l.split(part(q, 0, 1), 1)[0], p[0], p[1]
	}
	return l.split(part(q, 0, 1), 1)[0], l.split(part(k, 1, 2), 1)[0], l.split(part(v, 2, 3), 1)[0]
}

// PaddingMask returns the mask for sequences that were padded to a common size:
// from lengths (N), bools (N, 1, size) that are true below each length.
func PaddingMask(lengths *locus.Tensor, size int) *locus.Tensor {
	gate.Check("nn.PaddingMask", gate.Count("the size", size, 0, math.MaxInt))
	if !lengths.DType().IsInt() {
		fail(locus.ErrDType, "nn.PaddingMask", "lengths are integers, not "+lengths.DType().String(), "")
	}
	at := beside(lengths, lengths.Device().As(lengths.DType()).Arange(float64(size)))
	return at.Lt(lengths.Reshape(-1, 1, 1))
}
