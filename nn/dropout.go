package nn

import (
	"sync/atomic"

	"github.com/locusml/locus"
)

// DropoutLayer sets elements to zero at random in training and scales the
// others up; in use it does nothing.
type DropoutLayer struct {
	P float64

	key   locus.Key
	drawn atomic.Uint64 // masks so far: with the key it fixes the next one
	idle  atomic.Bool
}

// Dropout makes a layer that drops elements with probability p.
func Dropout(p float64, opts ...Option) *DropoutLayer {
	if p < 0 || p > 1 {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "nn.Dropout", Msg: "the probability must be between 0 and 1"})
	}
	return &DropoutLayer{P: p, key: gather(opts).key}
}

// Forward drops elements of x in training.
func (l *DropoutLayer) Forward(x *locus.Tensor) *locus.Tensor {
	if l.idle.Load() || l.P == 0 {
		return x
	}
	return locus.Dropout(x, l.P, l.key.Fold(l.drawn.Add(1)))
}

// SetTraining turns dropping on or off.
func (l *DropoutLayer) SetTraining(on bool) { l.idle.Store(!on) }

// cloneLayer gives a replica other masks than the original's: two replicas that
// see two parts of a batch must not drop alike.
func (l *DropoutLayer) cloneLayer() any {
	c := &DropoutLayer{P: l.P, key: l.key.Fold(replicas.Add(1) | 1<<62)}
	c.idle.Store(l.idle.Load())
	return c
}

func (l *DropoutLayer) counters() map[string]uint64 {
	return map[string]uint64{"key": l.key.Bits(), "drawn": l.drawn.Load()}
}

func (l *DropoutLayer) setCounters(c map[string]uint64) {
	l.key = locus.KeyFromBits(c["key"])
	l.drawn.Store(c["drawn"])
}

var replicas atomic.Uint64
