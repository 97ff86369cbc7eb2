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

// descend returns p - lr·g.
func descend(p, g *locus.Tensor, lr float64) (out *locus.Tensor) {
	trace.Late(func(was op.Attrs, lr float64, _ int64) op.Attrs {
		if _, ok := was.(op.Scales); !ok {
			return nil
		}
		return op.Scales{A: 1, B: -lr}
	}, func() { out = p.Blend(1, g, -lr) })
	return out
}

// adamStep returns [locus.Tensor.AdamStep] with the numbers of the step.
func adamStep(p, mean, square *locus.Tensor, lr float64, step int64, scales func(lr float64, step int64) op.Adam) (out *locus.Tensor) {
	trace.Late(func(was op.Attrs, lr float64, step int64) op.Attrs {
		if _, ok := was.(op.Adam); !ok {
			return nil
		}
		return scales(lr, step)
	}, func() {
		a := scales(lr, step)
		out = p.AdamStep(mean, square, a.Keep, a.Rate, a.Root, a.Eps)
	})
	return out
}
