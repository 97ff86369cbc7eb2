package nn

import (
	"sync/atomic"

	"github.com/locusml/locus"
)

// DropoutLayer sets elements to zero at random in training and scales the
// others up; in use it does nothing. Make one with [Dropout], [DropoutChannels]
// or [AlphaDropout].
type DropoutLayer struct {
	P float64

	name   string
	drop   func(x *locus.Tensor, p float64, key locus.Key) *locus.Tensor
	key    locus.Key
	drawn  atomic.Uint64 // masks so far: with the key it fixes the next one
	copies atomic.Uint64 // replicas so far: with the key it fixes the next one's key
	idle   atomic.Bool
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
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "nn." + name, Msg: "the probability must be between 0 and 1"})
	}
	return &DropoutLayer{P: p, name: name, drop: drop, key: key}
}

// Forward drops elements of x in training.
func (l *DropoutLayer) Forward(x *locus.Tensor) *locus.Tensor {
	if !l.active() {
		return x
	}
	return l.drop(x, l.P, l.next())
}

// active reports whether the layer drops anything at present.
func (l *DropoutLayer) active() bool { return l.P > 0 && !l.idle.Load() }

// next gives the key of the next mask.
func (l *DropoutLayer) next() locus.Key { return l.key.Fold(l.drawn.Add(1)) }

// SetTraining turns dropping on or off.
func (l *DropoutLayer) SetTraining(on bool) { l.idle.Store(!on) }

// String gives the kind of dropout.
func (l *DropoutLayer) String() string { return l.name }

// cloneLayer gives a replica other masks than the original's: two replicas that
// see two parts of a batch must not drop alike. Which ones depends only on the
// original and on how many replicas it had before, so that a run can be repeated.
func (l *DropoutLayer) cloneLayer() any {
	c := newDropout(l.name, l.P, l.drop, l.key.Fold(l.copies.Add(1)|1<<62))
	c.idle.Store(l.idle.Load())
	return c
}

func (l *DropoutLayer) counters() map[string]uint64 {
	return map[string]uint64{"key": l.key.Bits(), "drawn": l.drawn.Load(), "copies": l.copies.Load()}
}

func (l *DropoutLayer) setCounters(c map[string]uint64) {
	l.key = locus.KeyFromBits(c["key"])
	l.drawn.Store(c["drawn"])
	l.copies.Store(c["copies"])
}
