package locus

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/op"
)

// Batch normalization and what follows it, a sum and an activation, as one op. Devices have
// that for images that lie channels last. Passes over programs find it by themselves; here
// the layers of package nn say what follows.

func init() {
	lend.BatchNorm = func(x, mean, variance, weight, bias any, momentum, eps float64, end lend.NormEnd) (y, newMean, newVariance any) {
		return batchNormRunning(x.(*Tensor), mean.(*Tensor), variance.(*Tensor), weight.(*Tensor), bias.(*Tensor), momentum, eps, normEndOf(end))
	}
	lend.EndNorm = func(y any, end lend.NormEnd) any { return normEndOf(end).after(y.(*Tensor)) }
}

// normEnd is what follows a normalization: nothing, if it is the zero value.
type normEnd struct {
	add *Tensor // is added to the result; nil is none
	own bool    // nothing else has a handle of add
	act Activation
}

func normEndOf(end lend.NormEnd) (e normEnd) {
	if end.Add != nil {
		e.add, e.own = end.Add.(*Tensor), end.Own
	}
	if end.Act != nil {
		e.act = end.Act.(Activation)
	}
	return e
}

// after applies e to y, the result of a normalization, by single ops.
func (e normEnd) after(y *Tensor) *Tensor {
	step := func(next *Tensor) {
		lend.Spend(y, next)
		y = next
	}
	if e.add != nil {
		step(y.Add(e.add))
		if e.own {
			lend.Spend(e.add, y)
		}
	}
	if e.act != NoActivation {
		step(apply(e.act.op(), nil, y))
	}
	return y
}

// fits reports whether the device has a normalization of in, x first and running statistics
// last, which e ends. Where in is not what the op takes, the op alone says so.
func (e normEnd) fits(a op.Normalize, in []*Tensor) bool {
	x := in[0]
	p := x.place
	if e.act != NoActivation && e.act != ReluActivation && e.act != Relu6Activation || p.of != nil || p.now() != p || !p.arranges() {
		return false
	}
	if _, err := op.Check(op.BatchNorm, a, specs(in)); err != nil {
		return false
	}
	all := in
	if e.add != nil {
		all = append(slices.Clone(in), e.add)
		if e.add.dtype != x.dtype || !sameShape(e.add.shape, x.shape) {
			return false
		}
	}
	c := backend.Call{Op: op.BatchNorm, Out: backend.View{Shape: x.shape, DType: x.dtype}}
	if len(x.shape) == 4 {
		c.Out.Strides = layout.Strides(x.shape)
	}
	for _, t := range all {
		v := t.view()
		if t.place != p || t.lane != nil || t.block == nil || (t == x || t == e.add) && !v.ChannelsLast() {
			return false
		}
		c.In = append(c.In, v)
	}
	c.Attrs = op.NormEpilogue{Act: e.act.op(), Add: e.add != nil}
	can, _ := p.arranger.Arranges(&c)
	return can
}

// endedNorm normalizes in, for which end fits, with running statistics, which are the last
// of in. It returns all results of the op.
func endedNorm(a op.Normalize, in []*Tensor, end normEnd) []*Tensor {
	x, all := in[0], in
	if end.add != nil {
		all = append(slices.Clone(in), end.add)
	}
	checkOperands(op.BatchNorm.String(), all)
	e := op.NormEpilogue{Normalize: a, Act: end.act.op(), Add: end.add != nil}
	y := allocate(x.place, op.BatchNorm.String(), x.spec(), scopeOf(all), all)
	y.strides = layout.Strides(x.shape)
	stats := a.Stats(op.BatchNorm, x.spec())
	made := runJoined(op.BatchNorm, e, all, y, append([]op.Spec{x.spec()}, append(stats, stats...)...)...)
	if tracked(all) {
		// The gradient needs no running statistics: they may be freed before.
		e.Running, e.Momentum = false, 0
		inputs := slices.Clone(in[:len(in)-2])
		if end.add != nil {
			inputs = append(inputs, end.add)
		}
		y.node = &node{def: op.Get(op.BatchNorm), attrs: e, inputs: inputs, out: y, saved: made[1:3]}
	}
	if end.own {
		lend.Spend(end.add, y)
	}
	return made
}

// endedGradient is the gradient of such a node. The slope of the activation is part of the
// normalization's gradient, unless what was added needs it too.
func endedGradient(n *node, e op.NormEpilogue, g *Tensor) []*Tensor {
	if !e.Add {
		return activatedGradient(n, e, g)
	}
	added := len(n.inputs) - 1
	through := g
	if e.Act != op.Invalid {
		through = gradientsFromResult[e.Act](g, n.out)
	}
	plain := &node{def: n.def, attrs: e.Normalize, inputs: n.inputs[:added], out: n.out, saved: n.saved, skip: n.skip}
	grads := append(normGradient(plain, op.BatchNormGrad, through, nil, nil), through)
	if !n.needs(added) {
		grads[added] = nil
		if through != g {
			through.freeUnlessRecorded(grads)
		}
	}
	return grads
}

// activatedGradient is endedGradient where nothing was added. The result may be gone; where
// gradients have gradients, or are traced, it is computed once more.
func activatedGradient(n *node, e op.NormEpilogue, g *Tensor) []*Tensor {
	p := n.inputs[0].place
	if g.lane != nil || g.place != p || p.now() != p || tracked(append(slices.Clone(n.inputs), g)) {
		return n.again(g, func(in []*Tensor) *Tensor {
			return apply(e.Act, nil, applyAll(op.BatchNorm, e.Normalize, in...)[0])
		})
	}
	last := len(n.inputs) - 1
	e.GradWeight, e.GradBias = e.Weight && n.needs(1), e.Bias && n.needs(last)
	x := n.inputs[0]
	turned := g
	if v := g.view(); !v.ChannelsLast() {
		turned = g.place.channelsLast(op.Get(op.BatchNormGrad), g, &v, scopeOf(n.inputs))
	}
	in := append([]*Tensor{turned}, n.inputs...)
	in = append(in, n.saved...)
	dx := allocate(x.place, op.BatchNormGrad.String(), x.spec(), scopeOf(in), in)
	dx.strides = layout.Strides(x.shape)
	results := append([]op.Spec{x.spec()}, op.Get(op.BatchNormGrad).More(e.Normalize, specs(in))...)
	all := runJoined(op.BatchNormGrad, e, in, dx, results...)
	if turned != g {
		turned.Free()
	}
	grads := make([]*Tensor, len(n.inputs))
	grads[0], all = all[0], all[1:]
	if e.GradWeight {
		grads[1], all = all[0], all[1:]
	}
	if e.GradBias {
		grads[last] = all[0]
	}
	return grads
}
