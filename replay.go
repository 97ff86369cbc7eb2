package locus

import (
	"errors"
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// How a plan is run: whether it fits the present state, what is bound to it, and what
// is done with its results.

// fits returns "" if variables and watched values are as they were when the plan was
// traced, else what is not. It notes the present values of variables.
func (p *plan) fits() string {
	for i := range p.watch {
		w := &p.watch[i]
		if now := w.Read(); now != w.Was {
			return fmt.Sprintf("%s is %v, before %v", w.What, now, w.Was)
		}
	}
	why := p.load()
	if why != "" {
		p.unload()
	}
	return why
}

// load notes the present values of variables, and returns "" or which of them is not
// as it was.
func (p *plan) load() string {
	for i := range p.vars {
		v := &p.vars[i]
		v.now, _ = v.holder.Load().(*Tensor)
		if !v.was.same(v.now) {
			return fmt.Sprintf("variable %d is %s, before %s", i, describeState(stateOf(v.now)), describeState(v.was))
		}
		if v.alias >= 0 && v.now.block != p.vars[v.alias].now.block {
			return "two variables no longer hold one tensor"
		}
	}
	for i := range p.leaves {
		l := &p.leaves[i]
		if l.behind {
			continue
		}
		l.now = l.leaf
		if l.via >= 0 {
			l.now = p.vars[l.via].now.node.leaf
		}
		if l.now == nil {
			return "a variable holds a tensor with a history"
		}
		l.now.mu.Lock()
		l.grad = l.now.grad
		lent := l.now.lent
		l.now.mu.Unlock()
		if (l.grad != nil) != l.present || l.present && (lent != l.lent || !slices.Equal(l.shape, l.grad.shape) || !slices.Equal(l.strides, l.grad.strides)) {
			return "gradients had been collected at one of both calls, or asked for"
		}
	}
	return ""
}

func describeState(s state) string {
	if !s.present {
		return "nil"
	}
	return fmt.Sprintf("%s %s on %s", s.dtype, op.ShapeString(s.shape), s.place.device)
}

// sets counts the variables that a run sets.
func (p *plan) sets() int {
	n := 0
	for i := range p.vars {
		if p.vars[i].out >= 0 {
			n++
		}
	}
	return n
}

// bind holds the memory of a value from outside.
func (p *plan) bind(value int, t *Tensor) {
	if !t.block.TryHold() {
		t.failFreed("Compiled.Call")
	}
	p.held = append(p.held, t.block)
	p.bindings = append(p.bindings, program.Binding{Value: value, Block: t.block, Offset: t.offset})
}

// release releases what a run has held, and of the tensors that it has seen.
func (p *plan) release() {
	for _, b := range p.held {
		b.LetGo()
	}
	clear(p.held)
	clear(p.bindings)
	p.held, p.bindings = p.held[:0], p.bindings[:0]
	p.unload()
	p.unoffer()
	p.exec.Clear()
}

// unload forgets the present values of variables.
func (p *plan) unload() {
	for i := range p.vars {
		p.vars[i].now = nil
	}
	for i := range p.leaves {
		p.leaves[i].now, p.leaves[i].grad = nil, nil
	}
}

// run runs the program. traced says that f was called just now, so that what
// advances has advanced.
func (p *plan) run(args []*Tensor, traced bool) []*Tensor {
	if traced {
		if d := p.load(); d != "" { // another goroutine has set a variable
			fail("Compiled.Call", op.Problemf(ErrArgument, "while the function was traced a variable was changed from elsewhere: %s", d))
		}
	}
	defer p.release()
	started := traced
	defer func() {
		if !started {
			return
		}
		p.undo() // the call failed: counters are as if it had not happened
	}()
	p.offer()
	for i, a := range args {
		p.bind(p.in[i], a)
	}
	for i := range p.vars {
		if v := &p.vars[i]; v.value >= 0 && !p.offered[v.value] {
			p.bind(v.value, v.now)
		}
	}
	for i := range p.leaves {
		if l := &p.leaves[i]; l.value >= 0 && !p.offered[l.value] {
			p.bind(l.value, l.grad)
		}
	}
	for i, c := range p.consts {
		if c != nil {
			p.bindings = append(p.bindings, program.Binding{Value: i, Block: c.block})
		}
	}
	for i := range p.prog.Values {
		if v := &p.prog.Values[i]; v.Kind == program.Captured {
			if !v.Block.TryHold() {
				fail("Compiled.Call", &op.Problem{Kind: ErrFreed, Msg: fmt.Sprintf("a tensor from outside, which the function uses at %s, was freed", v.Site),
					Fix: "keep it while the compiled function is called, or pass it as an argument"})
			}
			p.held = append(p.held, v.Block)
			p.bindings = append(p.bindings, program.Binding{Value: i, Block: v.Block})
		}
	}
	if !traced {
		for _, f := range p.each {
			f()
		}
	}
	started = true
	blocks, err := p.exec.Run(p.bindings, p.ready)
	if err != nil {
		p.fail(err)
	}
	started = false
	return p.finish(args, blocks)
}

// fail panics with what a step reported, as the op would have, and with its line.
func (p *plan) fail(err error) {
	name := "Compiled.Call"
	var at string
	if s, ok := err.(*program.StepError); ok {
		name, err, at = s.Step.Op.String(), s.Err, s.Step.Site.String()
	}
	e := newError(name, err, nil)
	if errors.Is(err, e) { // another function's, which may return it again
		own := *e
		e = &own
	}
	if e.Memory != nil {
		e.Memory.Device = p.place.device
		if p.relay != nil && p.relay.failed != nil {
			e.Memory.Device = p.relay.failed.device
		}
	}
	if at != "" {
		e.Msg += " (in a compiled function, from " + at + ")"
	}
	panic(e)
}

// leafTensor is a tensor that collects a gradient, in one piece.
type leafTensor struct {
	Tensor
	node node
	leaf leaf
}

// finish hands out what a run has made.
func (p *plan) finish(args []*Tensor, blocks []*memory.Block) []*Tensor {
	fill := func(t *Tensor, out int, owner bool, scope *Scope) *Tensor {
		r := &p.prog.Results[out]
		t.shape, t.strides, t.offset, t.dtype, t.owner, t.place, t.block = r.View.Shape, r.View.Strides, r.View.Offset, r.View.DType, owner, p.homes[out], blocks[r.Value]
		if scope != nil {
			t.scope.Store(scope)
		}
		if p.prog.Values[r.Value].Kind != program.Temp {
			t.owner = false
			for _, b := range p.bindings {
				if b.Value == r.Value {
					t.offset += b.Offset
					break
				}
			}
			return t
		}
		if !p.first[out] || p.exec.Over(r.Value) {
			return t
		}
		if scope == nil || !scope.group.Add(t.block) {
			t.block.Manage()
			t.scope.Store(nil)
		}
		return t
	}
	tensor := func(out int, owner bool, scope *Scope) *Tensor { return fill(new(Tensor), out, owner, scope) }
	results := make([]*Tensor, len(p.results))
	for i, r := range p.results {
		switch {
		case r.none:
		case r.arg >= 0:
			results[i] = args[r.arg]
		default:
			var s *Scope
			if r.scope >= 0 {
				s = args[r.scope].Scope()
			}
			results[i] = tensor(r.out, r.owner, s)
		}
	}
	for i := range p.vars {
		if v := &p.vars[i]; v.out >= 0 {
			if !v.leaf {
				v.holder.Store(tensor(v.out, v.owner, nil))
				continue
			}
			x := new(leafTensor)
			x.node, x.Tensor.node = node{own: leafRule, leaf: &x.leaf}, &x.node
			v.holder.Store(fill(&x.Tensor, v.out, v.owner, nil))
		}
	}
	for i := range p.leaves {
		p.collect(&p.leaves[i], tensor)
	}
	for i := range p.vars {
		if v := &p.vars[i]; v.free {
			v.now.block.Free()
		}
	}
	for i, a := range args {
		if p.freed[i] {
			a.block.Free()
		}
	}
	return results
}

// collect puts a gradient where f would have left it.
func (p *plan) collect(v *leafVariable, tensor func(out int, owner bool, scope *Scope) *Tensor) {
	if v.free {
		v.grad.block.Free()
	}
	if !v.set {
		return
	}
	l := v.now
	if v.behind {
		t, _ := p.vars[v.via].holder.Load().(*Tensor)
		if t == nil || t.node == nil || t.node.leaf == nil {
			return
		}
		l = t.node.leaf
	}
	var g *Tensor
	if v.out >= 0 {
		g = tensor(v.out, v.owner, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grad, l.lent = g, v.after
}
