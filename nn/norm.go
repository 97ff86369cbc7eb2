package nn

import (
	"sync/atomic"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/trace"
)

// BatchNormLayer normalizes each channel over the batch in training, and with running
// statistics in inference. It works on (N, C) and (N, C, …).
type BatchNormLayer struct {
	Weight, Bias            *Parameter
	RunningMean, RunningVar *Buffer

	Eps      float64 // added to the variance: 1e-5
	Momentum float64 // how far a batch moves the running statistics: 0.1

	idle  atomic.Bool
	peers atomic.Pointer[Peers] // that share the batch; nil without
	opts  options
}

// BatchNorm makes a layer for the given number of channels; 0 learns it from
// the first input.
func BatchNorm(channels int, opts ...Option) *BatchNormLayer {
	o := gather(opts)
	l := &BatchNormLayer{Weight: o.lazy(-1).own(o.weightOr(Constant(1))), Bias: o.lazy(-1).asBias(), Eps: 1e-5, Momentum: 0.1, opts: o,
		RunningMean: o.lazyBuffer(-1), RunningVar: o.lazyBuffer(-1)}
	if channels > 0 {
		l.make(locus.DefaultDevice(), channels)
	}
	return l
}

func (l *BatchNormLayer) make(d locus.Device, channels int) {
	l.opts.make(d, l.Weight, Constant(1), l.Bias, Constant(0), channels)
	d = l.Weight.Device()
	l.RunningMean.make(d, l.opts.dtype, Constant(0), channels)
	l.RunningVar.make(d, l.opts.dtype, Constant(1), channels)
}

// Forward normalizes x and in training updates the running statistics. Several
// goroutines may do so at once: their updates happen one after the other.
func (l *BatchNormLayer) Forward(x *locus.Tensor) *locus.Tensor { return l.end(x, lend.NormEnd{}) }

// then applies the layer and an activation in one go.
func (l *BatchNormLayer) then(x *locus.Tensor, a locus.Activation) *locus.Tensor {
	return l.end(x, lend.NormEnd{Act: a})
}

// end applies the layer and what follows it.
func (l *BatchNormLayer) end(x *locus.Tensor, end lend.NormEnd) *locus.Tensor {
	made("nn.BatchNorm", l != nil && l.Weight != nil && l.Bias != nil && l.RunningMean != nil && l.RunningVar != nil)
	defer blame(l)
	if unmade(l.Weight, l.Bias) || l.RunningMean.peek() == nil || l.RunningVar.peek() == nil {
		if x.Rank() < 2 {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "nn.BatchNorm", Msg: "the input must have a batch and channels"})
		}
		l.make(x.Device(), x.Dim(1))
	}
	l.watch()
	w, b := l.Weight.Value(), l.Bias.Value()
	if l.idle.Load() {
		return lend.EndNorm(locus.BatchNormWith(x, l.RunningMean.Value(), l.RunningVar.Value(), w, b, l.Eps), end).(*locus.Tensor)
	}
	if p := l.with(); p != nil {
		return lend.EndNorm(l.synced(p, x, w, b), end).(*locus.Tensor)
	}
	// The running statistics are part of the op, and have a precision of their own where
	// the network computes in a lower one.
	var y *locus.Tensor
	updateBoth("nn.BatchNorm", l.RunningMean, l.RunningVar, func(mean, variance *locus.Tensor) (_, _ *locus.Tensor) {
		z, m, v := lend.BatchNorm(x, mean, variance, w, b, l.Momentum, l.Eps, end)
		y = z.(*locus.Tensor)
		return m.(*locus.Tensor), v.(*locus.Tensor)
	})
	return y
}

// SetTraining chooses between the batch's statistics and the running ones.
func (l *BatchNormLayer) SetTraining(on bool) {
	made("nn.BatchNorm", l != nil)
	l.idle.Store(!on)
	trace.Assign(l, func() { l.idle.Store(!on) })
}

// watch tells a trace what the layer's work depends on.
func (l *BatchNormLayer) watch() {
	if trace.Current() != nil {
		trace.Watch(l, "the mode of nn.BatchNorm", func() any { return !l.idle.Load() })
		trace.Watch(&l.peers, "whether nn.BatchNorm is synchronized", func() any { return l.peers.Load() != nil })
		trace.Watch(&l.Eps, "Eps of nn.BatchNorm", func() any { return l.Eps })
		trace.Watch(&l.Momentum, "Momentum of nn.BatchNorm", func() any { return l.Momentum })
	}
}

func (l *BatchNormLayer) cloneLayer(c *cloner) any {
	l.watch()
	n := &BatchNormLayer{Weight: cloned(c, l.Weight), Bias: cloned(c, l.Bias), RunningMean: cloned(c, l.RunningMean), RunningVar: cloned(c, l.RunningVar),
		Eps: l.Eps, Momentum: l.Momentum, opts: l.opts}
	n.idle.Store(l.idle.Load())
	if c.shared { // it computes in l's place
		n.peers.Store(l.peers.Load())
	}
	return n
}

func (l *BatchNormLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
	l.RunningMean, l.RunningVar = l.RunningMean.unmade(), l.RunningVar.unmade()
}

// LayerNormLayer normalizes the last axes of each element of a batch.
type LayerNormLayer struct {
	Weight, Bias *Parameter

	Eps float64 // added to the variance: 1e-5

	shape []int
}

// LayerNorm makes a layer that normalizes the last axes, of the given shape.
func LayerNorm(shape ...int) *LayerNormLayer {
	return layerNorm(locus.Float32, shape...)
}

func layerNorm(dt locus.DType, shape ...int) *LayerNormLayer {
	m := locus.DefaultDevice().As(dt)
	return &LayerNormLayer{Weight: gain(m.Ones(shape...)), Bias: NewParameter(m.Zeros(shape...)).asBias(), Eps: 1e-5, shape: shape}
}

// Forward normalizes x.
func (l *LayerNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.LayerNorm", l != nil && l.Weight != nil && l.Bias != nil)
	defer blame(l)
	return locus.LayerNorm(x, l.shape, l.Weight.Value(), l.Bias.Value(), l.Eps)
}

// after normalizes x + d, and returns the sum too.
func (l *LayerNormLayer) after(x, d *locus.Tensor) (sum, y *locus.Tensor) {
	made("nn.LayerNorm", l != nil && l.Weight != nil && l.Bias != nil)
	defer blame(l)
	s, n := lend.AddNorm(x, d, l.shape, l.Weight.Value(), l.Bias.Value(), l.Eps)
	return s.(*locus.Tensor), n.(*locus.Tensor)
}

// GroupNormLayer normalizes groups of channels of each element of a batch.
type GroupNormLayer struct {
	Weight, Bias *Parameter

	Eps float64 // added to the variance: 1e-5

	groups int
}

// GroupNorm makes a layer that normalizes the channels in the given number of groups.
func GroupNorm(groups, channels int) *GroupNormLayer {
	d := locus.DefaultDevice()
	return &GroupNormLayer{Weight: gain(d.Ones(channels)), Bias: NewParameter(d.Zeros(channels)).asBias(), Eps: 1e-5, groups: groups}
}

// Forward normalizes x.
func (l *GroupNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.GroupNorm", l != nil && l.Weight != nil && l.Bias != nil)
	return locus.GroupNorm(x, l.groups, l.Weight.Value(), l.Bias.Value(), l.Eps)
}

// RMSNormLayer divides the last axes of each element of a batch by the root of
// their mean square.
type RMSNormLayer struct {
	Weight *Parameter

	Eps float64 // added to the mean square: 1e-6

	shape []int
}

// RMSNorm makes a layer that normalizes the last axes, of the given shape.
func RMSNorm(shape ...int) *RMSNormLayer {
	return &RMSNormLayer{Weight: gain(locus.DefaultDevice().Ones(shape...)), Eps: 1e-6, shape: shape}
}

// Forward normalizes x.
func (l *RMSNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.RMSNorm", l != nil && l.Weight != nil)
	return locus.RMSNorm(x, l.shape, l.Weight.Value(), l.Eps)
}

// InstanceNormLayer normalizes each channel of each element of a batch (N, C, …).
type InstanceNormLayer struct {
	Weight, Bias *Parameter

	Eps float64 // added to the variance: 1e-5
}

// InstanceNorm makes a layer for the given number of channels.
func InstanceNorm(channels int) *InstanceNormLayer {
	d := locus.DefaultDevice()
	return &InstanceNormLayer{Weight: gain(d.Ones(channels)), Bias: NewParameter(d.Zeros(channels)).asBias(), Eps: 1e-5}
}

// Forward normalizes x.
func (l *InstanceNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.InstanceNorm", l != nil && l.Weight != nil && l.Bias != nil)
	return locus.InstanceNorm(x, l.Weight.Value(), l.Bias.Value(), l.Eps)
}

// gain returns what a normalized input is multiplied by, which begins at one.
func gain(ones *locus.Tensor) *Parameter { return NewParameter(ones).own(Constant(1)) }
