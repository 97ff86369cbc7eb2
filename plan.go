package locus

import (
	"slices"

	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/trace"
)

// plan is a program for one signature, and what is bound to it at each run.
type plan struct {
	key   []byte
	args  []string // described
	eager string   // why f is called in its place; "" if it is not
	ready bool     // two traces were the same
	doubt bool     // they are to be compared with another one
	trace uint64   // the digest of what was traced

	prog   *program.Program
	body   *program.Program // prog as it is run, with fused steps; prog itself if relay runs it
	again  string           // what is computed again in it
	pruned int
	exec   executor
	place  *place    // where it is run; the first device's if there are several
	relay  *relay    // exec, if it computes on several devices; else nil
	homes  []*place  // of the program's results
	consts []*Tensor // by value; they live with the plan
	each   []func()
	undo   func()
	watch  []trace.Watched

	in      []int  // values of the arguments
	freed   []bool // arguments that f frees
	vars    []variable
	leaves  []leafVariable
	results []result
	first   []bool // by position in the program's results: it decides who frees the block, which others may share

	donors   []*donor
	bindings []program.Binding // of a run
	held     []*memory.Block
	offered  []bool // by value
}

// variable is a variable of the plan.
type variable struct {
	holder trace.Holder
	was    state
	value  int  // in the program; -1 if it held nothing
	alias  int  // an earlier variable that holds the same memory, or -1
	out    int  // in the program's results; -1 if it is not set
	owner  bool // of its memory
	leaf   bool // it collects a gradient
	free   bool // what it held is freed by f
	now    *Tensor
}

// state is what a program depends on of a variable's tensor.
type state struct {
	present        bool
	dtype          DType
	shape, strides []int
	place          *place
	leaf           bool
}

// leafVariable is a gradient that is collected.
type leafVariable struct {
	via     int // the variable whose tensor collects it, or -1
	leaf    *leaf
	present bool
	lent    bool
	shape   []int
	strides []int
	value   int // in the program; -1 if there was none
	out     int // in the program's results; -1 if there is none afterwards
	set     bool
	behind  bool // it is collected by the value that the variable is set to
	owner   bool
	after   bool // lent afterwards
	free    bool
	now     *leaf
	grad    *Tensor
}

// result is a result of f.
type result struct {
	none  bool
	arg   int // that it is, or -1
	out   int // in the program's results
	owner bool
	scope int // the argument whose scope it belongs to, or -1
}

func stateOf(t *Tensor) state {
	if t == nil {
		return state{}
	}
	return state{true, t.dtype, t.shape, t.strides, t.place, t.node != nil}
}

func (s *state) same(t *Tensor) bool {
	if t == nil || !s.present {
		return t == nil && !s.present
	}
	return s.dtype == t.dtype && s.place == t.place && s.leaf == (t.node != nil) && slices.Equal(s.shape, t.shape) && slices.Equal(s.strides, t.strides)
}

// trace records f. It reports false if f must be called instead; then the plan says
// why.
func (c *Compiled) trace(args []*Tensor) (p *plan, ok bool) {
	t := newTracing()
	p = &plan{place: machine.cpu}
	for _, a := range args {
		p.args = append(p.args, a.operand().String())
	}
	defer func() {
		for _, s := range t.scopes {
			s.Close()
		}
		if ok {
			return
		}
		t.Undo()
		if t.Err != nil && c.lenient {
			t.Refusal, t.Err = newError("Compile", t.Err, nil).Msg, nil
		}
		if t.Err == nil && t.Refusal != "" { // what it panics with, if it does, f will say itself
			recover()
			p.eager, p.watch = t.Refusal, t.Watched
			p.variables(t)
			return
		}
		if t.Err != nil {
			recover() // f may have wrapped the error
			panic(newError("Compile", t.Err, nil))
		}
	}()
	t.Do(func() { c.record(t, p, args) })
	ok = t.Err == nil && t.Refusal == ""
	if ok {
		p.build(t, c.again)
	}
	return p, ok
}

// record calls f on stand-ins of its arguments, inside the trace.
func (c *Compiled) record(t *tracing, p *plan, args []*Tensor) {
	in := make([]*Tensor, len(args))
	for i, a := range args {
		in[i] = t.holder(a, program.Arg)
		in[i].scope.Store(t.use(a.Scope()))
		p.in = append(p.in, t.ref(in[i]).Value)
	}
	defer t.Restore()
	for i := range c.state {
		c.enter(t, i)
	}
	out := c.f(in...)
	for _, f := range t.Ends {
		f()
	}
	t.Restore()
	if t.Err != nil || t.Refusal != "" {
		return
	}
	for i, r := range out {
		p.results = append(p.results, p.result(t, i, r, in, args))
	}
	for _, x := range in {
		p.freed = append(p.freed, x.freed())
	}
	p.variables(t)
	for i := range p.vars {
		v, x := &p.vars[i], t.Variable[i]
		after, _ := x.Value.(*Tensor)
		if stand, _ := x.Stand.(*Tensor); stand != nil {
			v.value, v.free = t.ref(stand).Value, stand.block.Freed()
			v.alias = slices.IndexFunc(p.vars[:i], func(w variable) bool { return w.value == v.value })
			if after != nil && after.block == stand.block {
				continue // nothing new
			}
		}
		if x.Set && after != nil {
			after.check("Compile")
			v.owner, v.leaf = after.owner, after.node != nil
			if v.leaf && after.node.leaf == nil {
				t.Refuse("a variable is set to a tensor with a history: set it to t.Detach()")
			}
			v.out = p.output(t, t.fresh(after))
		} else if x.Set && v.was.present {
			t.Refuse("a variable that held a tensor holds none afterwards")
		}
	}
	p.gradients(t)
	p.captured(t)
	if len(t.Program.Devices()) > 1 && t.Program.Waits() {
		t.Refuse("it computes on several devices and has a collective: compile what each device computes")
	}
}

// enter makes a cell of the program's a variable of the trace.
func (c *Compiled) enter(t *tracing, i int) {
	cell := c.state[i]
	h, put := trace.HolderOf(cell)
	switch {
	case h == nil:
		t.Place(cellHolder{c, i}, func(v any) {
			if x, _ := v.(*Tensor); x != nil || cell.Value() != nil {
				cell.Set(x)
			}
		})
	case put != nil:
		t.Place(h, put)
	default:
		trace.Get(h)
	}
}

// cellHolder is a cell of the program's own.
type cellHolder struct {
	c *Compiled
	i int
}

func (h cellHolder) Load() any   { return h.c.state[h.i].Value() }
func (h cellHolder) Store(v any) { h.c.state[h.i].Set(v.(*Tensor)) }

// output makes a tensor outlive each run and returns its position in the program's
// results.
func (p *plan) output(t *tracing, x *Tensor) int {
	t.Program.Results = append(t.Program.Results, t.ref(x))
	return len(t.Program.Results) - 1
}

func (p *plan) result(t *tracing, i int, r *Tensor, in, args []*Tensor) result {
	if r == nil {
		return result{none: true}
	}
	r.check("Compile")
	if at := slices.Index(in, r); at >= 0 {
		return result{arg: at}
	}
	o := result{arg: -1, scope: -1, owner: r.owner}
	if s := r.Scope(); s != nil {
		o.scope = slices.IndexFunc(in, func(x *Tensor) bool { return x.Scope() == s })
		if o.scope < 0 {
			t.Refuse("result %d belongs to a scope that f does not close and that no argument is in: keep it, or pass s.Use(x) as the argument", i)
		}
	}
	// What a variable holds may be freed when it is set again.
	held := slices.ContainsFunc(t.Variable, func(v *trace.Variable) bool {
		x, _ := v.Value.(*Tensor)
		return x != nil && x.block == r.block
	})
	switch kind := t.Program.Values[t.ref(r).Value].Kind; {
	case held, kind == program.Const, kind == program.State:
		o.out, o.owner = p.output(t, apply(op.Copy, nil, r.detach())), true
	default:
		o.out = p.output(t, r)
	}
	return o
}

// variables lists the trace's variables in the plan.
func (p *plan) variables(t *tracing) {
	p.vars = nil
	for _, v := range t.Variable {
		before, _ := v.Before.(*Tensor)
		p.vars = append(p.vars, variable{holder: v.Holder, was: stateOf(before), value: -1, alias: -1, out: -1})
	}
}

// gradients notes what leaves hold before and after f.
func (p *plan) gradients(t *tracing) {
	for _, l := range t.order {
		s := t.leaves[l]
		v := leafVariable{via: -1, leaf: l, value: -1, out: -1, owner: true, after: s.lent}
		for i, x := range t.Variable {
			if b, _ := x.Before.(*Tensor); b != nil && b.node != nil && b.node.leaf == l {
				v.via, v.leaf = i, nil
			}
		}
		l.mu.Lock()
		before, lent := l.grad, l.lent
		l.mu.Unlock()
		var stand *Tensor
		if before != nil {
			stand = t.stands[l]
			v.present, v.lent, v.shape, v.strides = true, lent, before.shape, before.strides
			v.value, v.free = t.ref(stand).Value, stand.block.Freed()
		}
		if s.grad != stand {
			v.set = true
			if s.grad != nil {
				v.owner = s.grad.owner
				v.out = p.output(t, t.fresh(s.grad))
			}
		}
		p.leaves = append(p.leaves, v)
	}
	for i, x := range t.Variable { // gradients of new values
		a, _ := x.Value.(*Tensor)
		if p.vars[i].out < 0 || a.node == nil || a.node.leaf == nil || a.node.leaf.grad == nil {
			continue
		}
		g := a.node.leaf
		p.leaves = append(p.leaves, leafVariable{via: i, value: -1, set: true, behind: true, owner: g.grad.owner, after: g.lent, out: p.output(t, t.fresh(g.grad))})
	}
}

// captured refuses tensors from outside that are values of variables: they would
// stay what they are while the variables change. By such a tensor there is no gradient, since
// what is computed comes from its stand-in.
func (p *plan) captured(t *tracing) {
	refuse := func(b *memory.Block, site callsite.Site) {
		for _, x := range t.Variable {
			if v, _ := x.Before.(*Tensor); v != nil && v.block == b {
				t.Refuse("the tensor used at %s is the value of a variable, but was not read from it: read it inside of the function, or list the variable as state of Compile", site)
			}
		}
	}
	for _, a := range t.asked {
		refuse(a.t.block, a.site)
	}
	for _, v := range t.Program.Values {
		if v.Kind == program.Captured {
			refuse(v.Block, v.Site)
		}
	}
}

// build makes the program ready to run.
func (p *plan) build(t *tracing, recompute bool) {
	prog := t.Program
	p.prog, p.trace = &prog, program.Digest(&prog)
	p.each, p.watch, p.undo = t.Each, t.Watched, t.Undo
	p.pruned = p.prog.Prune()
	p.prog.Sink()
	if err := p.prog.Verify(); err != nil {
		panic("locus: a trace made a program that is wrong: " + err.Error())
	}
	seen := make([]bool, len(p.prog.Values))
	for _, r := range p.prog.Results {
		p.first = append(p.first, !seen[r.Value])
		p.homes = append(p.homes, placeOf(p.prog.Values[r.Value].On))
		seen[r.Value] = true
	}
	on := p.prog.Devices()
	switch {
	case len(on) > 0:
		p.place = placeOf(on[0])
	case t.at != nil:
		p.place = t.at
	}
	p.consts = make([]*Tensor, len(p.prog.Values))
	for i := range p.prog.Steps {
		for _, r := range p.prog.Steps[i].In {
			if r.Value >= 0 && p.prog.Values[r.Value].Kind == program.Const && p.consts[r.Value] == nil {
				v := &p.prog.Values[r.Value]
				p.consts[r.Value] = upload(placeOf(v.On), v.Spec, v.Data)
			}
		}
	}
	p.prepare(len(on) > 1, recompute)
	t.Forget()
}

// diff compares a plan with the one that was traced in the call before.
func (p *plan) diff(before *plan) {
	if p.eager != "" {
		return
	}
	d := program.Diff(before.prog, p.prog)
	if d == "" && len(p.each) != len(before.each) {
		d = "another number of keys was drawn"
	}
	same := func(a, b variable) bool { return a.holder == b.holder }
	if d == "" && !slices.EqualFunc(p.vars, before.vars, same) {
		d = "other variables were used"
	}
	p.ready = d == ""
	if p.ready { // constants are no longer compared
		for i := range p.prog.Values {
			p.prog.Values[i].Data = nil
			p.body.Values[i].Data = nil // which may be others
		}
		if p.relay != nil {
			p.relay.forgetData()
		}
	}
	if d != "" {
		p.eager = "two calls do not do the same: " + d
	}
}
