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

// refuseTrace makes a function that is being compiled stay eager: what is not part of
// a program must not change in one.
func refuseTrace(what string) {
	if t := trace.Current(); t != nil {
		t.Refuse("%s is not part of compiled functions: call it outside", what)
	}
}
