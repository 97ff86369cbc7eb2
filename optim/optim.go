// Package optim changes a network's parameters by their gradients: stochastic
// gradient descent and its relatives, and schedules of the learning rate. To clip
// gradients first, see locus.ClipGlobalNorm and locus.ClipByValue.
//
// An optimizer keeps what it remembers (momentum, averages) on the device of the
// parameter it belongs to, and moves it along when the network moves.
package optim

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Optimizer updates parameters.
type Optimizer struct {
	params []nn.Entry
	rule   rule
	lr     float64
	steps  int64
	slots  [][]*locus.Tensor // what the rule remembers, for each parameter
	made   []*locus.Tensor   // values that a step has made, and the next one frees
}

// rule is one update of one parameter: it gives the new value and puts what it
// remembers into slots, which it finds nil at first.
type rule interface {
	name() string
	slots() []string // names of what it remembers
	update(p, g *locus.Tensor, slots []*locus.Tensor, lr float64, step int64) *locus.Tensor
}

func newOptimizer(params []nn.Entry, lr float64, r rule) *Optimizer {
	if !(lr >= 0) {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "optim." + r.name(), Msg: fmt.Sprintf("the learning rate is %v; it must not be negative", lr)})
	}
	o := &Optimizer{params: params, rule: r, lr: lr, slots: make([][]*locus.Tensor, len(params)), made: make([]*locus.Tensor, len(params))}
	for i := range o.slots {
		o.slots[i] = make([]*locus.Tensor, len(r.slots()))
	}
	return o
}

// LR gives the learning rate.
func (o *Optimizer) LR() float64 { return o.lr }

// SetLR sets the learning rate from the next step on.
func (o *Optimizer) SetLR(lr float64) { o.lr = lr }

// Steps is the number of steps taken.
func (o *Optimizer) Steps() int64 { return o.steps }

// Params lists the parameters that the optimizer updates.
func (o *Optimizer) Params() []nn.Entry { return o.params }

// Step updates every parameter by the gradient that Backward has collected for
// it; parameters without one stay as they are. Collected gradients are gone
// afterwards, with the values they belonged to; see [Optimizer.ZeroGrad].
func (o *Optimizer) Step() {
	grads := make([]*locus.Tensor, len(o.params))
	for i, e := range o.params {
		if v := e.Value(); v != nil {
			grads[i] = v.Grad()
		}
	}
	o.StepWith(grads)
}

// StepWith updates every parameter by the gradient at its place in grads; nil
// leaves it as it is. Nothing waits for a device. The value that an earlier step
// has made is freed: copy it to keep it.
func (o *Optimizer) StepWith(grads []*locus.Tensor) { o.StepIf(nil, grads) }

// StepIf is StepWith that changes nothing where ok, one bool on the parameters'
// device, is false: the choice is made there, and nothing waits for it. A nil ok
// is true. The step is counted either way.
func (o *Optimizer) StepIf(ok *locus.Tensor, grads []*locus.Tensor) {
	if len(grads) != len(o.params) {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "optim.StepWith", Msg: fmt.Sprintf("%d gradients for %d parameters", len(grads), len(o.params))})
	}
	o.steps++
	locus.NoGrad(func() {
		for i, e := range o.params {
			if g := grads[i]; g != nil && !e.Frozen() {
				o.update(i, e, g, ok)
			}
		}
	})
}

func (o *Optimizer) update(i int, e nn.Entry, g, ok *locus.Tensor) {
	// What is computed here is freed at once but for the new value and what the
	// rule remembers.
	s := locus.NewScope()
	defer s.Close()
	old := e.Value().Detach()
	remembered := make([]*locus.Tensor, len(o.slots[i]))
	for k, t := range o.slots[i] {
		if t != nil {
			o.slots[i][k] = t.To(old.Device())
			remembered[k] = s.Use(o.slots[i][k])
		}
	}
	value := o.rule.update(s.Use(old), s.Use(g.Detach()), remembered, o.lr, o.steps)
	if ok != nil {
		value = ok.Where(value, old)
		for k, t := range remembered {
			if before := o.slots[i][k]; before != nil {
				remembered[k] = ok.Where(t, before)
			} else {
				remembered[k] = ok.Where(t, 0)
			}
		}
	}
	for k, t := range remembered {
		if o.slots[i][k] == nil || !t.SharesMemory(o.slots[i][k]) {
			if o.slots[i][k] != nil {
				o.slots[i][k].Free()
			}
			o.slots[i][k] = s.Keep(t)
		}
	}
	e.Set(s.Keep(value))
	if m := o.made[i]; m != nil && m.SharesMemory(old) {
		old.Free() // at once: the collector would let as much garbage pile up as there are parameters
	}
	o.made[i] = value
}

// ZeroGrad forgets gradients that were collected and not used.
func (o *Optimizer) ZeroGrad() {
	for _, e := range o.params {
		if v := e.Value(); v != nil {
			v.ZeroGrad()
		}
	}
}

// State gives what the optimizer remembers by name ("momentum.0.weight"),
// for a checkpoint. Entries that do not exist yet are left out. The next step
// frees them: copy what is to be kept.
func (o *Optimizer) State() map[string]*locus.Tensor {
	m := map[string]*locus.Tensor{}
	for i, e := range o.params {
		for k, name := range o.rule.slots() {
			if t := o.slots[i][k]; t != nil {
				m[name+"."+e.Name] = t
			}
		}
	}
	return m
}

// SetState puts back what State gave, and the number of steps taken.
func (o *Optimizer) SetState(state map[string]*locus.Tensor, steps int64) error {
	used := 0
	for i, e := range o.params {
		for k, name := range o.rule.slots() {
			t, ok := state[name+"."+e.Name]
			o.slots[i][k] = nil
			if !ok {
				continue
			}
			if v := e.Value(); v != nil && fmt.Sprint(v.Shape()) != fmt.Sprint(t.Shape()) {
				return fmt.Errorf("optim: %s has shape %v, but %s.%s has %v", e.Name, v.Shape(), name, e.Name, t.Shape())
			}
			o.slots[i][k] = t
			used++
		}
	}
	if used != len(state) {
		return fmt.Errorf("optim: %d of %d tensors do not belong to %s with these parameters", len(state)-used, len(state), o.rule.name())
	}
	o.steps = steps
	return nil
}
