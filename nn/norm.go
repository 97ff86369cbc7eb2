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

	eps, momentum float64
	idle          atomic.Bool
	opts          options
}

// BatchNorm makes a layer for the given number of channels; 0 learns it from
// the first input.
func BatchNorm(channels int, opts ...Option) *BatchNormLayer {
	l := &BatchNormLayer{Weight: new(Parameter), Bias: new(Parameter), eps: 1e-5, momentum: 0.1, opts: gather(opts)}
	if channels > 0 {
		l.make(locus.DefaultDevice(), channels)
	}
	return l
}

func (l *BatchNormLayer) make(d locus.Device, channels int) {
	l.opts.make(d, l.Weight, Constant(1), l.Bias, Constant(0), channels)
	at := l.Weight.Device().As(l.opts.dtype)
	l.RunningMean, l.RunningVar = at.Zeros(channels), at.Ones(channels)
}

// Forward normalises x and in training updates the running statistics.
func (l *BatchNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	if l.Weight.Value() == nil {
		if x.Rank() < 2 {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "nn.BatchNorm", Msg: "the input must have a batch and channels"})
		}
		l.make(x.Device(), x.Dim(1))
	}
	w, b := l.Weight.Value(), l.Bias.Value()
	if l.idle.Load() {
		return locus.BatchNormWith(x, l.RunningMean, l.RunningVar, w, b, l.eps)
	}
	y, mean, variance := locus.BatchNorm(x, w, b, l.eps)
	locus.NoGrad(func() {
		l.RunningMean = l.blend(l.RunningMean, mean)
		l.RunningVar = l.blend(l.RunningVar, variance)
	})
	return y
}

// blend moves a running statistic towards the batch's; it outlives the step.
func (l *BatchNormLayer) blend(old, batch *locus.Tensor) *locus.Tensor {
	t := old.Mul(1 - l.momentum).Add(batch.Mul(l.momentum))
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

	shape []int
	eps   float64
}

// LayerNorm makes a layer that normalises the last axes, of the given shape.
func LayerNorm(shape ...int) *LayerNormLayer {
	d := locus.DefaultDevice()
	return &LayerNormLayer{Weight: NewParameter(d.Ones(shape...)), Bias: NewParameter(d.Zeros(shape...)), shape: shape, eps: 1e-5}
}

// Forward normalises x.
func (l *LayerNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.LayerNorm(x, l.shape, l.Weight.Value(), l.Bias.Value(), l.eps)
}

// GroupNormLayer normalises groups of channels of each element of a batch.
type GroupNormLayer struct {
	Weight, Bias *Parameter

	groups int
	eps    float64
}

// GroupNorm makes a layer that normalises so many groups of the channels.
func GroupNorm(groups, channels int) *GroupNormLayer {
	d := locus.DefaultDevice()
	return &GroupNormLayer{Weight: NewParameter(d.Ones(channels)), Bias: NewParameter(d.Zeros(channels)), groups: groups, eps: 1e-5}
}

// Forward normalises x.
func (l *GroupNormLayer) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.GroupNorm(x, l.groups, l.Weight.Value(), l.Bias.Value(), l.eps)
}
