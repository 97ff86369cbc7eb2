package optim

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/trace"
)

// In a compiled function a step is part of a program. What the optimizer remembers
// are variables of that program; the learning rate and the number of steps are asked
// for at each run.

// enter makes the optimizer part of the trace that is under way. The step is counted
// by the caller; leave ends it.
func (o *Optimizer) enter() (leave func()) {
	t := trace.Current()
	o.watchShare()
	for i := range o.params {
		t.Place(madeHolder{o, i}, func(v any) { o.made[i], _ = v.(*locus.Tensor) })
		for k := range o.slots[i] {
			t.Place(slotHolder{o, i, k}, func(v any) { o.slots[i][k], _ = v.(*locus.Tensor) })
		}
	}
	step := o.steps + 1 // of this step: a function may take several
	trace.Advance(func() {
		o.steps++
		step = o.steps
	}, func() { o.steps-- })
	return trace.Clock(func() (float64, int64) { return o.lr, step })
}

// slotHolder is what a rule remembers of a parameter.
type slotHolder struct {
	o    *Optimizer
	i, k int
}

func (h slotHolder) Load() any   { return h.o.slots[h.i][h.k] }
func (h slotHolder) Store(v any) { h.o.slots[h.i][h.k] = v.(*locus.Tensor) }

// madeHolder is the value that a step has made.
type madeHolder struct {
	o *Optimizer
	i int
}

func (h madeHolder) Load() any   { return h.o.made[h.i] }
func (h madeHolder) Store(v any) { h.o.made[h.i] = v.(*locus.Tensor) }

// late runs f, in which [locus.UpdateAll] takes the step of parameters of one group:
// in a program its numbers are asked for again at each run.
func (o *Optimizer) late(i int, f func()) {
	trace.Late(func(was op.Attrs, lr float64, step int64) op.Attrs {
		rule := o.rule
		if o.parts != nil {
			rule, lr = o.parts[i].rule, lr*o.parts[i].scale
		}
		return trace.UpdateAttrs(rule.update(lr, step), was)
	}, f)
}

// scalerHolder is what a scaler keeps on the device, as a variable of a program.
type scalerHolder struct {
	s    *Scaler
	cell scalerCell
}

type scalerCell uint8

const (
	scaleCell scalerCell = iota
	goodCell
)

func (h scalerHolder) at() **locus.Tensor {
	if h.cell == scaleCell {
		return &h.s.scale
	}
	return &h.s.good
}

func (h scalerHolder) Load() any   { return *h.at() }
func (h scalerHolder) Store(v any) { *h.at() = v.(*locus.Tensor) }

func (s *Scaler) get(c scalerCell) *locus.Tensor {
	return trace.Get(scalerHolder{s.ready(), c}).(*locus.Tensor)
}

func (s *Scaler) set(c scalerCell, t *locus.Tensor) {
	if h := (scalerHolder{s, c}); !trace.Set(h, t) {
		h.Store(t)
	}
}

// averageHolder is the average of a parameter.
type averageHolder struct {
	a *Average
	i int
}

func (h averageHolder) Load() any   { return h.a.values[h.i] }
func (h averageHolder) Store(v any) { h.a.values[h.i] = v.(*locus.Tensor) }

func (a *Average) get(i int) *locus.Tensor {
	return trace.Get(averageHolder{a, i}).(*locus.Tensor)
}

func (a *Average) set(i int, t *locus.Tensor) {
	if h := (averageHolder{a, i}); !trace.Set(h, t) {
		h.Store(t)
	}
}

// enter makes an update part of the trace that is under way: how much of the averages
// it keeps depends on the number of updates before it, which is asked for at each run.
// The update is counted by the caller; leave ends it.
func (a *Average) enter() (leave func()) {
	before := a.count
	trace.Advance(func() {
		before = a.count
		a.count++
	}, func() { a.count-- })
	return trace.Clock(func() (float64, int64) { return 0, before })
}

// late runs f, which takes an update with the numbers of the present one.
func (a *Average) late(f func()) {
	trace.Late(func(was op.Attrs, _ float64, before int64) op.Attrs {
		keep := a.keep(before)
		switch u := was.(type) {
		case op.Update:
			u.Keep, u.Rate = keep, -(1 - keep)
			return u
		case op.Scales: // of devices that take the update apart
			return op.Scales{A: keep, B: 1 - keep}
		}
		return nil
	}, f)
}
