package nn

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// angles returns position·base^(-2i/features) for the given number of positions and
// pairs i, on the device and in float64: far positions have large angles.
func angles(d locus.Device, positions, features int, base float64) *locus.Tensor {
	m := d.As(locus.Float64)
	rate := m.Arange(float64((features + 1) / 2)).Mul(-2 * math.Log(base) / float64(features)).Exp()
	return m.Arange(float64(positions)).Unsqueeze(1).Mul(rate)
}

// table keeps tensors that depend on the length of sequences alone, for as long
// as no longer ones come, so that they are not computed at every step.
type table struct{ last atomic.Pointer[tableEntry] }

// clone returns the table of a copy of a layer: t itself where the copy computes
// in the original's place, else a new one, since it may be on another device.
func (t *table) clone(c *cloner) *table {
	if c.shared {
		return t
	}
	return new(table)
}

type tableEntry struct {
	device    locus.Device
	dtype     locus.DType
	positions int
	values    []*locus.Tensor // (positions, …)
}

// get returns the first n positions of the tensors that make computes, on x's
// device and in its type.
func (t *table) get(x *locus.Tensor, n int, make func(d locus.Device, n int) []*locus.Tensor) []*locus.Tensor {
	if t == nil {
		fail(locus.ErrArgument, "nn", "the layer is a zero value", "make it with its constructor, such as nn.Rotary")
	}
	e := t.last.Load()
	if e == nil || e.device != x.Device() || e.dtype != x.DType() || e.positions < n {
		e = &tableEntry{device: x.Device(), dtype: x.DType(), positions: n}
		for _, v := range make(x.Device(), n) {
			e.values = append(e.values, v.Cast(x.DType()))
		}
		if trace.Current() == nil { // what a trace computes has no elements outside it
			t.last.Store(e)
		}
	}
	out := append([]*locus.Tensor{}, e.values...)
	if e.positions > n {
		for i, v := range out {
			out[i] = v.Narrow(0, 0, n)
		}
	}
	return out
}

// SinusoidalLayer adds sines and cosines of the position to sequences.
type SinusoidalLayer struct {
	Dropout *DropoutLayer

	features int
	table    *table
}

// Sinusoidal makes a layer that adds fixed positional encodings (Vaswani et al.,
// 2017) to sequences (…, L, features) of any length, and drops with probability p
// in training: sin(l·10000^(-2i/features)) at feature 2i, the cosine at 2i+1.
func Sinusoidal(features int, p float64, opts ...Option) *SinusoidalLayer {
	sizes("nn.Sinusoidal", features)
	return &SinusoidalLayer{Dropout: Dropout(p, opts...), features: features, table: new(table)}
}

func (l *SinusoidalLayer) cloneLayer(c *cloner) any {
	return &SinusoidalLayer{Dropout: cloned(c, l.Dropout), features: l.features, table: l.table.clone(c)}
}

// Forward adds the encodings to x.
func (l *SinusoidalLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.Sinusoidal", l != nil && l.Dropout != nil)
	checkSequence("nn.Sinusoidal", x, l.features)
	pe := l.table.get(x, x.Dim(-2), func(d locus.Device, n int) []*locus.Tensor {
		a := angles(d, n, l.features, 10000)
		both := locus.Stack(2, a.Sin(), a.Cos()).Reshape(n, -1)
		return []*locus.Tensor{both.Narrow(1, 0, l.features)}
	})
	return l.Dropout.Forward(x.Add(pe[0]))
}

// LearnedPositionsLayer adds a learned vector for each position to sequences.
type LearnedPositionsLayer struct {
	Weight *Parameter // (positions, features)

	shape []int
	opts  options
}

// LearnedPositions makes a layer that adds learned positional encodings, drawn
// from a normal distribution with deviation 0.02, to sequences (…, L, features) of
// up to the given number of positions.
func LearnedPositions(positions, features int, opts ...Option) *LearnedPositionsLayer {
	sizes("nn.LearnedPositions", positions, features)
	o := gather(opts)
	l := &LearnedPositionsLayer{Weight: o.lazy(positions, features).own(o.weightOr(Normal(0, 0.02))), shape: []int{positions, features}, opts: o}
	l.make()
	return l
}

func (l *LearnedPositionsLayer) make() {
	l.opts.make(locus.DefaultDevice(), l.Weight, Normal(0, 0.02), nil, nil, l.shape...)
}

func (l *LearnedPositionsLayer) reset(key locus.Key) {
	l.opts.key, l.Weight = key, l.Weight.unmade()
	l.make()
}

// Forward adds the encodings to x.
func (l *LearnedPositionsLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.LearnedPositions", l != nil && l.Weight != nil && len(l.shape) == 2)
	checkSequence("nn.LearnedPositions", x, l.shape[1])
	if x.Dim(-2) > l.shape[0] {
		fail(locus.ErrShape, "nn.LearnedPositions", fmt.Sprintf("a sequence has %d positions; %d were learned", x.Dim(-2), l.shape[0]), "")
	}
	return x.Add(l.Weight.Value().Narrow(0, 0, x.Dim(-2)))
}

// RotaryLayer rotates pairs of features by angles that grow with the position (Su
// et al., 2021), so that products of queries and keys depend on their distance.
// Feature i goes with feature i + features/2, as in LLaMA's published weights.
type RotaryLayer struct {
	features int
	base     float64
	table    *table
}

// Rotary makes a layer for an even number of features; base 0 means 10000.
func Rotary(features int, base float64) *RotaryLayer {
	if features < 2 || features%2 != 0 {
		fail(locus.ErrArgument, "nn.Rotary", fmt.Sprintf("the number of features is %d; want an even number", features), "")
	}
	sizes("nn.Rotary", features)
	if !(base >= 0) || math.IsInf(base, 1) {
		fail(locus.ErrArgument, "nn.Rotary", fmt.Sprintf("the base is %v; it must be a positive number, or 0 for 10000", base), "")
	}
	if base == 0 {
		base = 10000
	}
	return &RotaryLayer{features: features, base: base, table: new(table)}
}

func (l *RotaryLayer) cloneLayer(c *cloner) any {
	return &RotaryLayer{features: l.features, base: l.base, table: l.table.clone(c)}
}

// Forward rotates x (…, L, features).
func (l *RotaryLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.Rotary", l != nil && l.features > 0)
	checkSequence("nn.Rotary", x, l.features)
	t := l.table.get(x, x.Dim(-2), func(d locus.Device, n int) []*locus.Tensor {
		a := angles(d, n, l.features, l.base)
		a = locus.Concat(1, a, a)
		return []*locus.Tensor{a.Cos(), a.Sin()}
	})
	half := x.Chunk(2, -1)
	return x.Mul(t[0]).Add(locus.Concat(x.Rank()-1, half[1].Neg(), half[0]).Mul(t[1]))
}

func checkSequence(name string, x *locus.Tensor, features int) {
	if x.Rank() < 2 || x.Dim(-1) != features {
		fail(locus.ErrShape, name, fmt.Sprintf("the input has shape %v; want (…, L, %d)", x.Shape(), features), "")
	}
}
