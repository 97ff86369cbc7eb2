package locus

import (
	"math"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/trace"
)

// UpdateRule says what an [Update] does to a parameter.
type UpdateRule uint8

// The rules, with what each remembers of a parameter (Slots of [Updating]).
const (
	// UpdateSGD subtracts Rate times the gradient. With Momentum it remembers m, which
	// becomes Momentum·m + (1-Dampening)·g, in the first step g, and subtracts Rate·m
	// instead, or with Nesterov Rate·(g + Momentum·m).
	UpdateSGD UpdateRule = iota
	// UpdateAdam remembers the averages of g, by Momentum, and of g², by Beta, and
	// subtracts Rate·mean/(√square·Root + Eps).
	UpdateAdam
	// UpdateRMSProp remembers the average of g² by Beta, if Centered that of g, and with
	// Momentum what it has subtracted: g/(√(square - mean²) + Eps).
	UpdateRMSProp
	// UpdateAdagrad remembers the sum of g², which begins with Start, and subtracts
	// Rate·g/(√sum + Eps).
	UpdateAdagrad
)

// Update is what an optimizer does to its parameters in a step; [UpdateAll] does it.
// Package optim has optimizers that are ready to use: this is for writing others.
type Update struct {
	Rule     UpdateRule
	Rate     float64 // the learning rate, with the corrections of the step
	Decay    float64 // this fraction of the parameter is added to its gradient
	Lose     float64 // this fraction of the parameter is subtracted in the step, whatever its gradient
	Momentum float64
	Beta     float64
	Root     float64 // 0 means 1
	Eps      float64

	Dampening, Start   float64
	Nesterov, Centered bool
}

func (u Update) attrs() op.Update {
	a := op.Update{Rule: op.Rule(u.Rule), Nesterov: u.Nesterov, Centered: u.Centered, Rate: u.Rate, Keep: 1 - u.Lose, Decay: u.Decay,
		Momentum: u.Momentum, Fresh: 1 - u.Dampening, Beta: u.Beta, Root: u.Root, Eps: u.Eps, Start: u.Start}
	if a.Root == 0 {
		a.Root = 1
	}
	return a
}

// Slots returns how many tensors the rule remembers of each parameter.
func (u Update) Slots() int { return u.attrs().Slots() }

// Updating is one parameter in an [UpdateAll].
type Updating struct {
	Value, Grad *Tensor   // of one shape
	Slots       []*Tensor // what the rule remembers, of the same shape; nil at first
	// Free says that Value and Slots are not needed any more: they are freed, unless
	// they are views, and the new ones take their place in memory.
	Free bool
}

// UpdateAll takes an optimizer's step for many parameters in one launch, or a few if
// there are hundreds of them. It returns the new values and what the rule remembers,
// in the order of the list and with Free set, so that it can be passed on to the next
// step once there are gradients. All tensors are on one device and of one type, and
// Slots is nil for all parameters or for none.
//
// Gradients are multiplied by factor, if it is not nil: one element of the parameters'
// type. Where ok, one bool, is not nil and false, nothing changes. Both are read on the
// device: nothing waits.
//
// What is marked Free is freed as [Tensor.Free] does, from the beginning of the step:
// handles and views of it are an [ErrFreed], and never show other bytes. If no
// goroutine reads it at this moment, the result is written in place and nothing is
// allocated. Results belong to no scope and have no history.
func UpdateAll(u Update, list []Updating, factor, ok *Tensor) []Updating {
	return updateAll(u.attrs(), list, factor, ok)
}

func init() {
	trace.UpdateAttrs = func(update any, was op.Attrs) op.Attrs {
		old, ok := was.(op.Update)
		if !ok {
			return nil
		}
		a := update.(Update).attrs()
		a.First, a.Scaled, a.Gated = old.First, old.Scaled, old.Gated
		return a
	}
}

func updateAll(a op.Update, list []Updating, factor, ok *Tensor) []Updating {
	def := op.Get(op.UpdateAll)
	if len(list) == 0 {
		failf(def.Name, ErrArgument, nil, "there is nothing to update")
	}
	a.First, a.Scaled, a.Gated = len(list[0].Slots) == 0 && a.Slots() > 0, factor != nil, ok != nil
	r := &updateRun{attrs: a, list: list, in: make([]*Tensor, 0, len(list)*a.Each()+a.Extra()), out: make([]*Tensor, 0, len(list)*(1+a.Slots()))}
	for _, x := range list {
		if want := a.Each() - 2; len(x.Slots) != want {
			failf(def.Name, ErrArgument, given(0, x.Value), "%d tensors are remembered for a parameter; want %d", len(x.Slots), want)
		}
		r.in = append(append(r.in, x.Value, x.Grad), x.Slots...)
	}
	r.in = append(r.in, given(0, factor, ok)...)
	r.place = checkOperands(def.Name, r.in)
	for _, t := range r.in {
		t.single(def.Name)
	}
	specs := make([]op.Spec, len(r.in))
	for i, t := range r.in {
		specs[i] = t.spec()
	}
	if _, err := op.Check(def.ID, a, specs); err != nil {
		fail(def.Name, err, r.in...)
	}
	if r.place.backend.Supports(def.ID, r.in[0].dtype) {
		r.run(def)
	} else {
		r.compose(def)
	}
	return r.results()
}

// updateRun is one UpdateAll.
type updateRun struct {
	place *place
	attrs op.Update
	list  []Updating
	in    []*Tensor
	out   []*Tensor // the results; for each parameter its value and what is remembered
	took  []takenBlock
	held  []*Tensor
}

// takenBlock is memory that a result has taken over from an operand.
type takenBlock struct{ old, new *memory.Block }

func (r *updateRun) results() []Updating {
	l := make([]Updating, len(r.list))
	each := 1 + r.attrs.Slots()
	for i := range l {
		of := r.out[i*each:][:each]
		l[i] = Updating{Value: of[0], Slots: of[1:], Free: true}
	}
	return l
}

// replaced returns the operand that result number k of a parameter replaces.
func (x *Updating) replaced(k int) *Tensor {
	switch {
	case k == 0:
		return x.Value
	case len(x.Slots) > 0:
		return x.Slots[k-1]
	}
	return nil
}

func (r *updateRun) run(def *op.Def) {
	done := false
	defer func() {
		for _, t := range r.held {
			t.letGo()
		}
		if done {
			r.free()
		} else {
			r.undo()
		}
	}()
	r.held = make([]*Tensor, 0, len(r.list)+r.attrs.Extra())
	// Readers are counted first, those of this step among them: memory that one of
	// them reads is not taken.
	for i := range r.list {
		x := &r.list[i]
		r.hold(def, x.Grad)
		for k := range 1 + len(x.Slots) {
			if t := x.replaced(k); !r.replaceable(x, t) {
				r.hold(def, t)
			}
		}
	}
	for _, t := range r.in[len(r.in)-r.attrs.Extra():] {
		r.hold(def, t)
	}
	call := backend.Call{Op: def.ID, Attrs: r.attrs, In: make([]backend.View, 0, len(r.in))}
	results := make([]backend.View, 0, cap(r.out))
	r.took = make([]takenBlock, 0, cap(r.out))
	for i := range r.list {
		x := &r.list[i]
		for k := range 1 + r.attrs.Slots() {
			t := r.result(def, x, k)
			r.out = append(r.out, t)
			if t.Len() > 0 {
				results = append(results, t.view())
			}
		}
		if x.Value.Len() > 0 {
			for _, t := range r.in[i*r.attrs.Each():][:r.attrs.Each()] {
				call.In = append(call.In, t.view())
			}
		}
	}
	if len(results) > 0 {
		for _, t := range r.in[len(r.in)-r.attrs.Extra():] {
			call.In = append(call.In, t.view())
		}
		call.Out, call.More = results[0], results[1:]
		if err := backend.Queue(r.place.backend, &call); err != nil {
			failOn(r.place, def.Name, err, r.in)
		}
	}
	done = true
}

// replaceable reports whether a result may lie where t does, as far as t can tell.
func (r *updateRun) replaceable(x *Updating, t *Tensor) bool {
	return x.Free && t.owner && t.replaceable(r.place)
}

// replaceable reports whether a result at p of t's shape and type may lie where t does,
// if t's owner does not need it any more: whoever writes there takes the block first
// (memory.Block.Take), so that no reader sees t change.
func (t *Tensor) replaceable(p *place) bool {
	return t.offset == 0 && t.place == p && t.block.Pool() == p.pool && op.IsContiguous(t.shape, t.strides)
}

func (r *updateRun) hold(def *op.Def, t *Tensor) {
	t.hold(def.Name)
	r.held = append(r.held, t)
}

// result makes result k of a parameter: in the memory of the operand that it replaces
// if nothing else uses that, else in its own.
func (r *updateRun) result(def *op.Def, x *Updating, k int) *Tensor {
	t := x.replaced(k)
	if t != nil && r.replaceable(x, t) {
		if b, ok := t.block.Take(); ok {
			r.took = append(r.took, takenBlock{t.block, b})
			return &Tensor{shape: t.shape, strides: t.strides, dtype: t.dtype, owner: true, place: r.place, block: b}
		}
		r.hold(def, t) // it was freed meanwhile, or is in the list twice, if this fails
	}
	out, err := allocateFrom(r.place.pool, r.place, x.Value.spec(), nil, r.in)
	if err != nil {
		failOn(r.place, def.Name, err, r.in)
	}
	return out
}

// free frees what the results replace and have not taken over.
func (r *updateRun) free() {
	for _, x := range r.list {
		for k := range 1 + len(x.Slots) {
			if t := x.replaced(k); x.Free && t != nil {
				t.Free()
			}
		}
	}
}

// undo leaves the operands as they were.
func (r *updateRun) undo() {
	for _, t := range r.took {
		t.new.GiveBack(t.old)
	}
	for _, t := range r.out {
		t.Free() // what was handed over is freed already
	}
}

// compose is run for devices without a kernel.
func (r *updateRun) compose(def *op.Def) {
	s := NewScope()
	defer s.Close()
	NoGrad(func() {
		in := make([]*Tensor, len(r.in))
		for i, t := range r.in {
			in[i] = s.Use(t)
		}
		r.out = compositionsAll[def.ID](r.attrs, in)
	})
	for i, t := range r.out {
		t.fresh(r.in...)
		r.out[i] = s.Keep(t)
	}
	r.free()
}

// AverageAll moves averages towards values: each becomes decay·average +
// (1-decay)·value, in one launch, as for a network's averaged weights. The averages are
// freed as [UpdateAll] frees: the new ones lie in their memory. Averages and values are
// of equal number, shapes, types and devices.
func AverageAll(averages, values []*Tensor, decay float64) []*Tensor {
	const name = "AverageAll"
	if len(averages) != len(values) || len(averages) == 0 {
		failf(name, ErrArgument, nil, "%d averages and %d values; want the same number of each, and at least one", len(averages), len(values))
	}
	if !(math.Abs(decay) <= 1) {
		failf(name, ErrArgument, nil, "the decay is %v; want one between 0 and 1", decay)
	}
	usable(name, averages)
	usable(name, values)
	out := make([]*Tensor, len(averages))
	a := op.Update{Rule: op.SGDRule, Keep: decay, Rate: -(1 - decay)}
	for _, at := range alike(name, averages) {
		list := make([]Updating, len(at))
		for k, i := range at {
			list[k] = Updating{Value: averages[i], Grad: values[i], Free: true}
		}
		for k, x := range updateAll(a, list, nil, nil) {
			out[at[k]] = x.Value
		}
	}
	return out
}

func init() {
	compositionsAll[op.UpdateAll] = func(a op.Attrs, in []*Tensor) (out []*Tensor) {
		u := a.(op.Update)
		extra := in[len(in)-u.Extra():]
		for at := 0; at < len(in)-len(extra); at += u.Each() {
			p, g, old := in[at], in[at+1], in[at+2:at+u.Each()]
			if u.Scaled {
				g = g.Mul(extra[0].reshape([]int{}))
			}
			results := updateOne(u, p, g, old)
			if u.Gated {
				ok := extra[len(extra)-1].reshape([]int{})
				for k, t := range results {
					switch {
					case k == 0:
						results[k] = ok.Where(t, p)
					case u.First:
						results[k] = ok.Where(t, 0)
					default:
						results[k] = ok.Where(t, old[k-1])
					}
				}
			}
			out = append(out, results...)
		}
		return out
	}
}

// updateOne is the step of one parameter, by the comment of op.Update.
func updateOne(u op.Update, p, g *Tensor, old []*Tensor) []*Tensor {
	average := func(k int, x *Tensor, beta float64) *Tensor {
		if u.First {
			return x.Mul(1 - beta)
		}
		return old[k].Blend(beta, x, 1-beta)
	}
	averageSquare := func(k int) *Tensor {
		if u.First {
			return g.Square().Mul(1 - u.Beta)
		}
		return old[k].BlendSquare(u.Beta, g, 1-u.Beta)
	}
	if u.Decay != 0 {
		g = g.Blend(1, p, u.Decay)
	}
	switch u.Rule {
	case op.AdamRule:
		m, v := average(0, g, u.Momentum), averageSquare(1)
		return []*Tensor{p.AdamStep(m, v, u.Keep, u.Rate, u.Root, u.Eps), m, v}
	case op.AdagradRule:
		var sum *Tensor
		if u.First {
			sum = g.Square().Add(u.Start)
		} else {
			sum = old[0].BlendSquare(1, g, 1)
		}
		return []*Tensor{p.AdamStep(g, sum, u.Keep, u.Rate, u.Root, u.Eps), sum}
	}
	d, slots := g, []*Tensor(nil)
	fresh := u.Fresh
	if u.Rule == op.RMSPropRule {
		v := averageSquare(0)
		slots, fresh = append(slots, v), 1
		if u.Centered {
			slots = append(slots, average(1, g, u.Beta))
			v = v.Sub(slots[1].Square())
		}
		d = g.Div(v.Sqrt().Add(u.Eps))
	}
	if u.Momentum != 0 {
		var m *Tensor
		if u.First {
			m = d.Copy()
		} else {
			m = old[len(slots)].Blend(u.Momentum, d, fresh)
		}
		slots = append(slots, m)
		if d = m; u.Nesterov {
			d = g.Blend(1, m, u.Momentum)
		}
	}
	return append([]*Tensor{p.Blend(u.Keep, d, -u.Rate)}, slots...)
}
