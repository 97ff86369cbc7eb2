package optim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// State returns what the optimizer remembers by name ("momentum.0.weight"),
// for a checkpoint. Entries that do not exist yet are left out. The next step
// frees them: copy what is to be kept. Where two parameters have one name, the
// second's ends with "#2".
func (o *Optimizer) State() map[string]*locus.Tensor {
	m := map[string]*locus.Tensor{}
	for i, name := range o.ready().names {
		for k, slot := range o.rule.slots() {
			if t := o.slots[i][k]; t != nil {
				m[slot+"."+name] = t
			}
		}
	}
	return m
}

// SetState restores what [Optimizer.State] returned, and the number of steps
// taken. The tensors are copied to where their parameters are. State that does not
// fit, in names, shapes or types, is an error, and then nothing is changed.
func (o *Optimizer) SetState(state map[string]*locus.Tensor, steps int64) error {
	var copies [][]*locus.Tensor
	err := locus.Try(func() {
		o.ready().checkState(state, steps)
		for i, name := range o.names {
			l := make([]*locus.Tensor, len(o.slots[i]))
			for k, slot := range o.rule.slots() {
				if t := state[slot+"."+name]; t != nil && o.owns(i) {
					l[k] = o.own(i, t)
				}
			}
			copies = append(copies, l)
		}
	})
	if err != nil {
		return err
	}
	o.slots, o.steps = copies, steps
	return nil
}

// own copies a tensor of a state to where parameter i is, out of any scope.
func (o *Optimizer) own(i int, t *locus.Tensor) *locus.Tensor {
	d := t.Device()
	if v := o.params[i].Value(); v != nil {
		d = v.Device()
	}
	c := t.Detach().CopyTo(d)
	if s := c.Scope(); s != nil {
		s.Keep(c)
	}
	return c
}

func (o *Optimizer) checkState(state map[string]*locus.Tensor, steps int64) {
	const op = "optim.SetState"
	if steps < 0 {
		fail(locus.ErrArgument, op, fmt.Sprintf("the number of steps is %d; want at least 0", steps), "")
	}
	unknown := maps.Clone(state)
	for i, name := range o.names {
		have := 0
		for _, slot := range o.rule.slots() {
			key := slot + "." + name
			t, ok := state[key]
			if !ok {
				continue
			}
			delete(unknown, key)
			have++
			checkTensor(op, "", key, t)
			v := o.params[i].Value()
			switch {
			case v == nil && !t.DType().IsFloat():
				fail(locus.ErrDType, op, key+" is "+t.DType().String()+"; want a floating-point type", "")
			case v == nil:
			case !gate.SameShape(v, t):
				fail(locus.ErrShape, op, fmt.Sprintf("%s has shape %v, but the parameter %s has %v", key, t.Shape(), name, v.Shape()), "")
			case v.DType() != t.DType():
				fail(locus.ErrDType, op, fmt.Sprintf("%s is %s, but the parameter %s is %s", key, t.DType(), name, v.DType()), "convert it with .Cast")
			}
		}
		if have != 0 && have != len(o.rule.slots()) {
			fail(locus.ErrArgument, op, fmt.Sprintf("the state of %s is incomplete: %s remembers %s", name, o.rule.name(), strings.Join(o.rule.slots(), ", ")), "")
		}
	}
	if len(unknown) > 0 {
		fail(locus.ErrArgument, op, fmt.Sprintf("%s with these parameters does not remember %s", o.rule.name(), strings.Join(slices.Sorted(maps.Keys(unknown)), ", ")),
			"make the optimizer of the same kind, with the same options and for the same network")
	}
}
