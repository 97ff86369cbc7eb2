package nn

import (
	"sync/atomic"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// DropoutLayer sets elements to zero at random in training and scales the others up; in
// inference it does nothing. Make one with [Dropout], [DropoutChannels] or [AlphaDropout].
type DropoutLayer struct {
	P float64

	name   string
	drop   func(x *locus.Tensor, p float64, key locus.Key) *locus.Tensor
	random atomic.Pointer[randomState]
	idle   atomic.Bool
}

// randomState is what a layer draws from. It is a cell, like a [Buffer]: copies
// that compute in the original's place ([Bind]) share it.
type randomState struct {
	key    atomic.Uint64 // its bits
	drawn  atomic.Uint64 // masks so far: with the key it fixes the next one
	copies atomic.Uint64 // replicas so far: with the key it fixes the next one's key
	part   atomic.Pointer[part]
	made   *trace.Trace // in which it was made, if in one
}

// part is which examples of a batch a layer sees.
type part struct{ first, size int }

// partOf is the key under which a layer's part is watched.
type partOf struct{ l *DropoutLayer }

// the returns the part; the zero value is the whole batch.
func (r *randomState) the() part {
	if p := r.part.Load(); p != nil {
		return *p
	}
	return part{}
}

func newRandomState(key locus.Key) *randomState {
	r := &randomState{made: trace.Current()}
	r.key.Store(key.Bits())
	return r
}

// next returns the key of the next mask.
func (r *randomState) next() locus.Key {
	k := locus.KeyFromBits(r.key.Load()).Fold(r.drawn.Add(1))
	if p := r.the(); p.size > 0 {
		k = k.Part(p.first, p.size)
	}
	return k
}

// replica returns the state of a replica, which draws other masks: two replicas
// that see two parts of a batch must not drop alike. Which ones depends only on
// the original and on how many replicas it had before, so that a run can be
// repeated.
func (r *randomState) replica() *randomState {
	return newRandomState(locus.KeyFromBits(r.key.Load()).Fold(r.copies.Add(1) | 1<<62))
}

// apart returns an equal state that does not change with r.
func (r *randomState) apart() *randomState {
	c := &randomState{made: trace.Current()}
	c.key.Store(r.key.Load())
	c.drawn.Store(r.drawn.Load())
	c.copies.Store(r.copies.Load())
	c.part.Store(r.part.Load())
	return c
}

// Dropout makes a layer that drops elements with probability p.
func Dropout(p float64, opts ...Option) *DropoutLayer {
	return newDropout("Dropout", p, locus.Dropout, gather(opts).key)
}

// DropoutChannels makes a layer that drops whole channels of (N, C, …) with
// probability p.
func DropoutChannels(p float64, opts ...Option) *DropoutLayer {
	return newDropout("DropoutChannels", p, locus.DropoutChannels, gather(opts).key)
}

// AlphaDropout makes a layer that drops elements to [SELU]'s lowest value with
// probability p, and keeps mean 0 and variance 1.
func AlphaDropout(p float64, opts ...Option) *DropoutLayer {
	return newDropout("AlphaDropout", p, locus.AlphaDropout, gather(opts).key)
}

func newDropout(name string, p float64, drop func(*locus.Tensor, float64, locus.Key) *locus.Tensor, key locus.Key) *DropoutLayer {
	if !(p >= 0 && p <= 1) {
		fail(locus.ErrArgument, "nn."+name, "the probability must be between 0 and 1", "")
	}
	l := &DropoutLayer{P: p, name: name, drop: drop}
	l.SetKey(key)
	return l
}

// Forward drops elements of x in training.
func (l *DropoutLayer) Forward(x *locus.Tensor) *locus.Tensor {
	if !l.active() {
		return x
	}
	return l.drop(x, l.P, l.next())
}

// active reports whether the layer drops anything at present.
func (l *DropoutLayer) active() bool {
	made("nn.Dropout", l != nil && l.drop != nil)
	l.watch()
	return l.P > 0 && !l.idle.Load()
}

// next returns the key of the next mask.
func (l *DropoutLayer) next() locus.Key {
	r := l.random.Load()
	k := r.next()
	if t := trace.Current(); t != nil && r.made != t {
		whole := func(k locus.Key) uint64 { return k.Part(0, 0).Bits() } // a trace knows keys by these
		trace.Draw(whole(k), func() uint64 { return whole(l.random.Load().next()) }, func() { r.drawn.Add(^uint64(0)) })
		trace.Watch(partOf{l}, "which examples of a batch nn."+l.name+" sees", func() any { return l.random.Load().the() })
	}
	return k
}

// forwardSteps is Forward of sequences whose steps come first, (L, N, …): the masks belong to
// the examples, wherever their axis is.
func (l *DropoutLayer) forwardSteps(x *locus.Tensor) *locus.Tensor {
	if !l.active() {
		return x
	}
	return l.drop(x.Transpose(0, 1), l.P, l.next()).Transpose(0, 1).Contiguous()
}

// watch tells a trace what the layer's work depends on.
func (l *DropoutLayer) watch() {
	if trace.Current() != nil {
		trace.Watch(l, "the mode of nn."+l.name, func() any { return !l.idle.Load() })
		trace.Watch(&l.P, "P of nn."+l.name, func() any { return l.P })
	}
}

// SetTraining turns dropping on or off.
func (l *DropoutLayer) SetTraining(on bool) {
	made("nn.Dropout", l != nil)
	l.idle.Store(!on)
	trace.Assign(l, func() { l.idle.Store(!on) })
}

// SetKey makes the layer draw the masks of key, from the first one on. Copies of the layer
// that draw from the same source go on as before.
func (l *DropoutLayer) SetKey(key locus.Key) {
	made("nn.Dropout", l != nil)
	r := newRandomState(key)
	if old := l.random.Load(); old != nil {
		r.part.Store(old.part.Load())
	}
	l.random.Store(r)
}

// SetPart makes the layer draw masks for a part of each batch; see [SetPart].
func (l *DropoutLayer) SetPart(first, size int) {
	made("nn.Dropout", l != nil)
	locus.Key{}.Part(first, size) // panics if they are invalid
	if r := l.random.Load(); r != nil {
		r.part.Store(&part{first, size})
	}
}

// String returns the kind of dropout.
func (l *DropoutLayer) String() string {
	if l == nil {
		return "no dropout"
	}
	return l.name
}

func (l *DropoutLayer) cloneLayer(c *cloner) any {
	l.watch()
	n := &DropoutLayer{P: l.P, name: l.name, drop: l.drop}
	if r := l.random.Load(); r != nil {
		if trace.Current() != nil { // the copy draws from what the layer draws from now
			trace.Watch(&l.random, "the key of nn."+l.name, func() any { return l.random.Load() })
		}
		n.random.Store(c.random(r))
	}
	n.idle.Store(l.idle.Load())
	return n
}

func (l *DropoutLayer) counters() map[string]uint64 {
	r := l.random.Load()
	if r == nil {
		return nil
	}
	return map[string]uint64{"key": r.key.Load(), "drawn": r.drawn.Load(), "copies": r.copies.Load()}
}

func (l *DropoutLayer) setCounters(c map[string]uint64) {
	if r := l.random.Load(); r != nil {
		r.key.Store(c["key"])
		r.drawn.Store(c["drawn"])
		r.copies.Store(c["copies"])
	}
}
