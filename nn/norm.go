package nn

import (
	"sync/atomic"

	"github.com/locusml/locus"
)

// BatchNormLayer normalises each channel over the batch in training, and with
// running statistics in use. It works on (N, C) and (N, C, …). In training a
// layer must not be used from two goroutines at once: replicate it.
type BatchNormLayer struct {
	Weight, Bias            *Parameter
	RunningMean, RunningVar *locus.Tensor `nn:"buffer"`

	Eps      float64 // added to the variance: 1e-5
	Momentum float64 // how far a batch moves the running statistics: 0.1

	idle atomic.Bool
	opts options
}

// BatchNorm makes a layer for the given number of channels; 0 learns it from
// the first input.
func BatchNorm(channels int, opts ...Option) *BatchNormLayer {
	o := gather(opts)
	l := &BatchNormLayer{Weight: o.lazy(-1), Bias: o.lazy(-1), Eps: 1e-5, Momentum: 0.1, opts: o}
	if channels > 0 {
		l.make(locus.DefaultDevice(), channels)
	}
	return l
}

func (l *BatchNormLayer) make(d locus.Device, channels int) {
	l.opts.make(d, l.Weight, Constant(1), l.Bias, Constant(0), channels)
	at := l.Weight.Device().As(l.Weight.Value().DType())
	if l.RunningMean == nil {
		l.RunningMean = at.Zeros(channels)
	}
	if l.RunningVar == nil {
		l.RunningVar = at.Ones(channels)
	}
}

// Forward normalises x and in training updates the running statistics.
func (l *BatchNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	if unmade(l.Weight, l.Bias) || l.RunningMean == nil || l.RunningVar == nil {
		if x.Rank() < 2 {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "nn.BatchNorm", Msg: "the input must have a batch and channels"})
		}
		l.make(x.Device(), x.Dim(1))
	}
	w, b := l.Weight.Value(), l.Bias.Value()
	if l.idle.Load() {
		return locus.BatchNormWith(x, l.RunningMean, l.RunningVar, w, b, l.Eps)
	}
	y, mean, variance := locus.BatchNorm(x, w, b, l.Eps)
	locus.NoGrad(func() {
		l.RunningMean = l.blend(l.RunningMean, mean)
		l.RunningVar = l.blend(l.RunningVar, variance)
	})
	return y
}

// blend moves a running statistic towards the batch's, in its own precision where
// the network computes in a lower one; it outlives the step.
func (l *BatchNormLayer) blend(old, batch *locus.Tensor) *locus.Tensor {
	t := old.Mul(1 - l.Momentum).Add(batch.Cast(old.DType()).Mul(l.Momentum))
	if s := t.Scope(); s != nil {
		s.Keep(t)
	}
	return t
}

// SetTraining chooses between the batch's statistics and the running ones.
func (l *BatchNormLayer) SetTraining(on bool) { l.idle.Store(!on) }

func (l *BatchNormLayer) reset(key locus.Key) {
	l.opts.key = key
	l.Weight, l.Bias = l.Weight.unmade(), l.Bias.unmade()
	l.RunningMean, l.RunningVar = nil, nil
}

// LayerNormLayer normalises the last axes of each element of a batch.
type LayerNormLayer struct {
	Weight, Bias *Parameter

	Eps float64 // added to the variance: 1e-5

	shape []int
}

// LayerNorm makes a layer that normalises the last axes, of the given shape.
func LayerNorm(shape ...int) *LayerNormLayer {
	return layerNorm(locus.Float32, shape...)
}

func layerNorm(dt locus.DType, shape ...int) *LayerNormLayer {
	m := locus.DefaultDevice().As(dt)
	return &LayerNormLayer{Weight: NewParameter(m.Ones(shape...)), Bias: NewParameter(m.Zeros(shape...)), Eps: 1e-5, shape: shape}
}

// Forward normalises x.
func (l *LayerNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.LayerNorm(x, l.shape, l.Weight.Value(), l.Bias.Value(), l.Eps)
}

// GroupNormLayer normalises groups of channels of each element of a batch.
type GroupNormLayer struct {
	Weight, Bias *Parameter

	Eps float64 // added to the variance: 1e-5

	groups int
}

// GroupNorm makes a layer that normalises so many groups of the channels.
func GroupNorm(groups, channels int) *GroupNormLayer {
	d := locus.DefaultDevice()
	return &GroupNormLayer{Weight: NewParameter(d.Ones(channels)), Bias: NewParameter(d.Zeros(channels)), Eps: 1e-5, groups: groups}
}

// Forward normalises x.
func (l *GroupNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.GroupNorm(x, l.groups, l.Weight.Value(), l.Bias.Value(), l.Eps)
}

// RMSNormLayer divides the last axes of each element of a batch by the root of
// their mean square.
type RMSNormLayer struct {
	Weight *Parameter

	Eps float64 // added to the mean square: 1e-6

	shape []int
}

// RMSNorm makes a layer that normalises the last axes, of the given shape.
func RMSNorm(shape ...int) *RMSNormLayer {
	return &RMSNormLayer{Weight: NewParameter(locus.DefaultDevice().Ones(shape...)), Eps: 1e-6, shape: shape}
}

// Forward normalises x.
func (l *RMSNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.RMSNorm(x, l.shape, l.Weight.Value(), l.Eps)
}

// InstanceNormLayer normalises each channel of each element of a batch (N, C, …).
type InstanceNormLayer struct {
	Weight, Bias *Parameter

	Eps float64 // added to the variance: 1e-5
}

// InstanceNorm makes a layer for the given number of channels.
func InstanceNorm(channels int) *InstanceNormLayer {
	d := locus.DefaultDevice()
	return &InstanceNormLayer{Weight: NewParameter(d.Ones(channels)), Bias: NewParameter(d.Zeros(channels)), Eps: 1e-5}
}

// Forward normalises x.
func (l *InstanceNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.InstanceNorm(x, l.Weight.Value(), l.Bias.Value(), l.Eps)
}
