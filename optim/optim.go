// Package optim changes a network's parameters by their gradients: stochastic
// gradient descent and its relatives, and schedules of the learning rate. To clip
// gradients first, see locus.ClipGlobalNorm and locus.ClipByValue.
//
// An optimizer keeps what it remembers (momentum, averages) on the device of the
// parameter it belongs to, and moves it along when the network moves.
package optim

import (
	"fmt"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/trace"
	"github.com/locusml/locus/nn"
)

// Optimizer updates parameters. Make one with [SGD], [Adam] and so on.
type Optimizer struct {
	params []nn.Entry
	names  []string // of the parameters in State: no two are alike
	rule   rule
	lr     float64
	steps  int64
	slots  [][]*locus.Tensor // what the rule remembers, for each parameter
	made   []*locus.Tensor   // values that a step has made, and the next one frees
	parts  []member          // how each parameter is updated, with groups; see WithGroups
	share  *share            // the parameters that it updates; nil is all
}

// rule is a kind of optimizer. All that changes from step to step is in what update
// returns.
type rule interface {
	name() string
	slots() []string // names of what it remembers, in the order of locus.Update
	check() error    // of its options
	update(lr float64, step int64) locus.Update
}

func newOptimizer(params []nn.Entry, lr float64, r rule) *Optimizer {
	op := "optim." + r.name()
	check(r.name(), checkLR(lr), r.check())
	if len(params) == 0 {
		fail(locus.ErrArgument, op, "there are no parameters to update",
			"nn.Check(network) finds out why it has none: a forgotten tag `nn:\"param\"`, or fields that are not exported")
	}
	o := &Optimizer{params: slices.Clone(params), rule: r, lr: lr, slots: make([][]*locus.Tensor, len(params)), made: make([]*locus.Tensor, len(params))}
	used := map[string]int{}
	for i, e := range o.params {
		e.Value() // a zero value is an error
		for _, other := range o.params[:i] {
			if e.Is(other) {
				fail(locus.ErrArgument, op, "the parameter "+e.Name+" is in the list twice", "")
			}
		}
		o.slots[i] = make([]*locus.Tensor, len(r.slots()))
		// Parameters of two networks may have one name.
		name := e.Name
		if used[e.Name]++; used[e.Name] > 1 {
			name = fmt.Sprintf("%s#%d", e.Name, used[e.Name])
		}
		o.names = append(o.names, name)
	}
	return o
}

// ready panics unless o was made by a constructor.
func (o *Optimizer) ready() *Optimizer {
	if o == nil || o.rule == nil {
		fail(locus.ErrArgument, "optim.Optimizer", "the optimizer is nil or a zero value", "make one with optim.SGD, optim.Adam or another constructor")
	}
	return o
}

// LR returns the learning rate.
func (o *Optimizer) LR() float64 { return o.ready().lr }

// SetLR sets the learning rate from the next step on. A negative or infinite one
// is an ErrArgument.
func (o *Optimizer) SetLR(lr float64) {
	check("SetLR", checkLR(lr))
	if t := trace.Current(); t != nil && lr != o.ready().lr {
		t.Refuse("the learning rate is set at %s, inside the function: set it before the call", callsite.Here(1))
	}
	o.ready().lr = lr
}

// Steps is the number of steps taken.
func (o *Optimizer) Steps() int64 { return o.ready().steps }

// Params lists the parameters that the optimizer updates.
func (o *Optimizer) Params() []nn.Entry { return slices.Clone(o.ready().params) }

// Step updates every parameter by the gradient that Backward has collected for
// it; parameters without one stay as they are. Collected gradients are gone
// afterwards, and freed; see [Optimizer.ZeroGrad].
func (o *Optimizer) Step() {
	values, grads := nn.Values(o.ready().params), make([]*locus.Tensor, len(o.params))
	for i, v := range values {
		if v != nil {
			grads[i] = v.TakeGrad()
		}
	}
	done := false
	defer func() {
		for i, g := range grads {
			switch {
			case g == nil:
			case done:
				g.Free()
			case !g.Freed() && !values[i].Freed(): // the step was refused and has changed nothing
				values[i].SetGrad(g)
			}
		}
	}()
	o.step("optim.Step", nil, nil, grads)
	done = true
}

// StepWith updates every parameter by the gradient at its place in grads; nil
// leaves it as it is. Nothing waits for a device. The value that an earlier step
// has made is freed: copy it to keep it. Gradients that do not fit are an error,
// and then nothing is changed.
func (o *Optimizer) StepWith(grads []*locus.Tensor) {
	o.step("optim.StepWith", nil, nil, grads)
}

// StepIf is StepWith that changes nothing where ok, one bool, is false: the choice
// is made on the parameters' device, and nothing waits for it. A nil ok is true.
// The step is counted either way.
func (o *Optimizer) StepIf(ok *locus.Tensor, grads []*locus.Tensor) {
	o.step("optim.StepIf", nil, ok, grads)
}

// StepScaled is StepIf by gradients that are multiplied by factor, one number of a
// floating-point type, on the way: so clipping (locus.ClipFactor) and undoing a loss's
// scale need no pass over the gradients of their own. A nil factor is 1.
func (o *Optimizer) StepScaled(factor, ok *locus.Tensor, grads []*locus.Tensor) {
	o.step("optim.StepScaled", factor, ok, grads)
}

func (o *Optimizer) step(op string, factor, ok *locus.Tensor, grads []*locus.Tensor) {
	o.checkStep(op, factor, ok, grads)
	if trace.Current() != nil {
		defer o.enter()()
	}
	o.steps++
	locus.NoGrad(func() {
		// What is made on the way is freed at once.
		s := locus.NewScope()
		defer s.Close()
		for _, g := range o.together(grads) {
			o.update(s, g, factor, ok, grads)
		}
	})
}

// together returns the positions of the parameters to update, those together that one
// launch can take: on one device, of one type and one group, and either all in their
// first step or none.
func (o *Optimizer) together(grads []*locus.Tensor) [][]int {
	type kind struct {
		device locus.Device
		dtype  locus.DType
		first  bool
		group  int
	}
	var groups [][]int
	found := map[kind]int{}
	for i, e := range o.params {
		if grads[i] == nil || e.Frozen() || !o.owns(i) {
			continue
		}
		v := e.Value()
		k := kind{v.Device(), v.DType(), len(o.slots[i]) > 0 && o.slots[i][0] == nil, 0}
		if o.parts != nil {
			k.group = o.parts[i].group
		}
		g, ok := found[k]
		if !ok {
			g = len(groups)
			found[k], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// update takes the step of parameters that fit together.
func (o *Optimizer) update(s *locus.Scope, group []int, factor, ok *locus.Tensor, grads []*locus.Tensor) {
	list := make([]locus.Updating, len(group))
	slots := make([]*locus.Tensor, 0, len(group)*len(o.rule.slots()))
	var moved []*locus.Tensor
	for k, i := range group {
		x := &list[k]
		// The value that an earlier step has made is overwritten. One that the program has
		// set is the program's: a view of it is not freed.
		x.Value, x.Grad, x.Free = o.params[i].Value().Detach(), grads[i], true
		if m := o.made[i]; m != nil && m.SharesMemory(x.Value) {
			x.Value = m
		}
		from := len(slots)
		for _, t := range o.slots[i] {
			if t == nil {
				break
			}
			// The network may have moved, or been converted, since the last step.
			here := t.To(x.Value.Device()).Cast(x.Value.DType())
			if here != t {
				moved = append(moved, t)
			}
			slots = append(slots, here)
		}
		x.Slots = slots[from:len(slots):len(slots)]
	}
	if factor != nil {
		factor = s.Use(factor).To(list[0].Value.Device()).Cast(list[0].Value.DType())
	}
	if ok != nil {
		ok = s.Use(ok).To(list[0].Value.Device())
	}
	rule, lr := o.of(group[0])
	var replaced []any // values that no step has made: at first those that the network was made with
	for _, x := range list {
		if x.Value.IsView() {
			replaced = append(replaced, x.Value)
		}
	}
	var updated []locus.Updating
	o.late(group[0], func() { updated = locus.UpdateAll(rule.update(lr, o.steps), list, factor, ok) })
	for k, x := range updated {
		i := group[k]
		o.params[i].Set(x.Value)
		o.made[i] = x.Value
		copy(o.slots[i], x.Slots)
	}
	for _, t := range moved {
		t.Free()
	}
	if len(replaced) > 0 {
		clear(list)
		lend.Drop(replaced)
	}
}

// checkStep panics, before anything is changed, unless a step can be taken.
func (o *Optimizer) checkStep(op string, factor, ok *locus.Tensor, grads []*locus.Tensor) {
	if len(grads) != len(o.ready().params) {
		fail(locus.ErrArgument, op, fmt.Sprintf("%d gradients for %d parameters", len(grads), len(o.params)), "pass one for each of Params(), nil for none")
	}
	if factor != nil {
		checkTensor(op, "", "factor", factor)
		if !factor.DType().IsFloat() || factor.Len() != 1 {
			fail(locus.ErrArgument, op, fmt.Sprintf("factor is %s %v; want one number of a floating-point type", factor.DType(), factor.Shape()), "")
		}
	}
	if ok != nil {
		checkTensor(op, "", "ok", ok)
		if ok.DType() != locus.Bool || ok.Len() != 1 {
			fail(locus.ErrArgument, op, fmt.Sprintf("ok is %s %v; want one bool", ok.DType(), ok.Shape()), "")
		}
	}
	for i, e := range o.params {
		g := grads[i]
		if g == nil || e.Frozen() {
			continue
		}
		checkTensor(op, "the gradient of ", e.Name, g)
		v := e.Value()
		switch {
		case v == nil:
			fail(locus.ErrArgument, op, e.Name+" has a gradient, but no value yet", "run Forward once first")
		case v.Freed():
			fail(locus.ErrFreed, op, "the memory of "+e.Name+" was freed", "do not free the values of parameters")
		case !sameShape(v, g):
			fail(locus.ErrShape, op, fmt.Sprintf("the gradient of %s has shape %v; want %v", e.Name, g.Shape(), v.Shape()), "")
		case v.DType() != g.DType():
			fail(locus.ErrDType, op, fmt.Sprintf("the gradient of %s is %s; want %s", e.Name, g.DType(), v.DType()), "convert it with .Cast, or compute it from the parameter itself")
		case v.Device() != g.Device():
			fail(locus.ErrDevice, op, fmt.Sprintf("the gradient of %s is on %s, the parameter on %s", e.Name, g.Device(), v.Device()), "move it with .To(device)")
		}
	}
}

// ZeroGrad forgets gradients that were collected and not used.
func (o *Optimizer) ZeroGrad() {
	for _, e := range o.ready().params {
		if v := e.Value(); v != nil {
			v.ZeroGrad()
		}
	}
}
