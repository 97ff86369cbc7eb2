package locus

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/trace"
)

// From compiled functions to portable programs and back: what package export saves and
// loads.

const exporting = "export.Save"

func refuseExport(msg, fix string, args ...any) {
	fail(exporting, &op.Problem{Kind: ErrArgument, Msg: fmt.Sprintf(msg, args...), Fix: fix})
}

// exportProgram traces c's function twice, as Call would, and returns what it computes.
func exportProgram(c *Compiled, args []*Tensor) (*program.Portable, []lend.ExportedWeight) {
	c.made(exporting)
	usable(exporting, args)
	if trace.Current() != nil {
		refuseExport("a function that is being compiled cannot export another one", "call it outside")
	}
	in := make([]*Tensor, len(args))
	for i, a := range args {
		in[i] = a.detach().Contiguous()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var plans [2]*plan
	for i := range plans {
		p, ok := c.trace(in)
		if !ok {
			refuseExport("the function cannot be compiled: %s", "", p.eager)
		}
		p.undo() // nothing was run
		defer p.close()
		plans[i] = p
	}
	p := plans[1]
	if d := program.Diff(plans[0].prog, p.prog); d != "" {
		refuseExport("two calls do not do the same: %s", "pass what changes as an argument", d)
	}
	if n := p.sets(); n > 0 {
		refuseExport("the function sets %d variables, and a program in a file has none", "export the forward pass: nn.Eval(net) before, and no optimizer inside", n)
	}
	if slices.ContainsFunc(p.leaves, func(l leafVariable) bool { return l.set }) {
		refuseExport("the function collects gradients in tensors", "return gradients, from locus.Grad, or export the forward pass")
	}
	if d := p.load(); d != "" {
		refuseExport("while the function was traced a variable was changed from elsewhere: %s", "", d)
	}
	defer p.unload()
	x := &exporter{plan: p, out: &program.Portable{}, values: make([]int, len(p.prog.Values)), shift: make([]int, len(p.prog.Values))}
	x.program(in)
	return x.out, x.weights
}

// exporter makes a portable program of a plan.
type exporter struct {
	plan    *plan
	out     *program.Portable
	weights []lend.ExportedWeight
	values  []int // by value of the plan's program: its number in the portable one
	shift   []int // and the offset of its first element there
}

func (x *exporter) program(args []*Tensor) {
	prog := x.plan.prog
	for i, a := range args {
		x.out.Args = append(x.out.Args, a.spec())
		x.values[x.plan.in[i]] = i
	}
	used := make([][]*program.Ref, len(prog.Values))
	see := func(r *program.Ref) {
		if r.Value >= 0 && r.View.Elements() > 0 {
			used[r.Value] = append(used[r.Value], r)
		}
	}
	for i := range prog.Steps {
		s := &prog.Steps[i]
		if s.Late != nil || !op.Portable(s.Op) {
			refuseExport("%s at %s takes numbers that change from call to call, such as random ones or an optimizer's", "export the forward pass: nn.Eval(net) before, and pass random numbers as an argument", s.Op, s.Site)
		}
		for k := range s.In {
			see(&s.In[k])
		}
	}
	var results []program.Ref
	for i, r := range x.plan.results {
		switch {
		case r.none:
			refuseExport("result %d is nil", "return only tensors", i)
		case r.arg >= 0:
			results = append(results, program.Ref{Value: x.plan.in[r.arg], View: args[r.arg].view()})
		default:
			results = append(results, prog.Results[r.out])
		}
	}
	for i := range results {
		results[i].View.Block = nil
		see(&results[i])
	}
	for i := range prog.Values {
		if k := prog.Values[i].Kind; k != program.Temp && k != program.Arg && len(used[i]) > 0 {
			x.weight(i, used[i])
		}
	}
	next := len(x.out.Args) + len(x.weights)
	for i := range prog.Steps {
		s := &prog.Steps[i]
		q := program.PortableStep{Op: s.Op, Attrs: s.Attrs, In: make([]program.Ref, len(s.In))}
		for k := range s.In {
			q.In[k] = x.ref(&s.In[k])
		}
		q.Saves = op.Get(s.Op).Saves && slices.ContainsFunc(s.More, func(r program.Ref) bool { return len(used[r.Value]) > 0 })
		x.values[s.Out.Value] = next
		next++
		if q.Saves || !op.Get(s.Op).Saves {
			for k := range s.More {
				x.values[s.More[k].Value] = next
				next++
			}
		}
		x.out.Steps = append(x.out.Steps, q)
	}
	for i := range results {
		x.out.Results = append(x.out.Results, x.ref(&results[i]))
	}
}

// ref returns a tensor as the portable program knows it.
func (x *exporter) ref(r *program.Ref) program.Ref {
	q := program.Ref{Value: r.Value, View: r.View}
	switch {
	case r.Value < 0:
		q.View.Shape, q.View.Strides = nil, nil
	case r.View.Elements() == 0:
		q.Value = program.EmptyValue
	default:
		q.Value = x.values[r.Value]
		q.View.Offset -= x.shift[r.Value]
	}
	return q
}

// weight makes a value from outside a weight: a variable's tensor as it is, of other
// tensors as much of their memory as is used.
func (x *exporter) weight(value int, refs []*program.Ref) {
	p := x.plan
	v := &p.prog.Values[value]
	low, high := program.Span(&refs[0].View)
	d := refs[0].View.DType
	for _, r := range refs {
		l, h := program.Span(&r.View)
		low, high = min(low, l), max(high, h)
		if r.View.DType != d {
			refuseExport("memory is used as %s and as %s", "", d, r.View.DType)
		}
	}
	w := lend.ExportedWeight{}
	flat := &Tensor{shape: []int{high - low}, strides: []int{1}, offset: low, dtype: d, place: placeOf(v.On)}
	switch v.Kind {
	case program.Const:
		flat.place = machine.cpu
		flat.block = upload(machine.cpu, v.Spec, v.Data).block
		w.Const = true
	case program.Captured:
		flat.block = v.Block
	default:
		t := x.variable(value)
		w.Variable = t
		flat.block, flat.offset = t.block, t.offset+low
		if t.IsContiguous() && low >= 0 && high <= t.Len() {
			flat, low = t.detach(), 0
		}
	}
	w.Tensor = flat
	x.shift[value] = low
	x.values[value] = len(x.out.Args) + len(x.weights)
	x.weights = append(x.weights, w)
	x.out.Weights = append(x.out.Weights, program.Weight{Spec: flat.spec()})
}

// variable returns the tensor of a value of kind State.
func (x *exporter) variable(value int) *Tensor {
	for i := range x.plan.vars {
		if v := &x.plan.vars[i]; v.value == value {
			return v.now
		}
	}
	for i := range x.plan.leaves {
		if l := &x.plan.leaves[i]; l.value == value {
			return l.grad
		}
	}
	panic("locus: a variable's value has no source")
}

// importProgram returns a function that computes p. Its steps go the way of every op: so
// a device without a kernel for one gets its composition, and the function can be
// compiled for the device that it is used on.
func importProgram(p *program.Portable, weights []*Tensor, d Device) func(args ...*Tensor) []*Tensor {
	home := d.open("export.Load")
	for i, w := range weights {
		weights[i] = w.alias() // a result may be one: to free it must not free the program's
	}
	return func(args ...*Tensor) (results []*Tensor) {
		NoGrad(func() { results = interpret(p, home.now(), weights, args) })
		return results
	}
}

func interpret(p *program.Portable, at *place, weights, args []*Tensor) []*Tensor {
	values := make([]*Tensor, 0, len(p.Values))
	values = append(append(values, args...), weights...)
	tensor := func(r *program.Ref) *Tensor {
		v := &r.View
		switch {
		case r.Value == -1:
			return &Tensor{dtype: v.DType, constant: true, bits: v.Bits}
		case r.Value == program.EmptyValue:
			return allocate(at, "export.Program.Call", op.Spec{DType: v.DType, Shape: v.Shape}, scopeOf(args), nil)
		case p.Whole(r):
			return values[r.Value]
		}
		t := values[r.Value]
		return t.laid(v.Shape, v.Strides, t.offset+v.Offset)
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		in := make([]*Tensor, len(s.In))
		for k := range s.In {
			in[k] = tensor(&s.In[k])
		}
		def := op.Get(s.Op)
		out, more := applyOn(at, def, s.Attrs, in, s.Saves)
		if want := p.Values[len(values)]; out.dtype != want.DType || !sameShape(out.shape, want.Shape) {
			failf("export.Program.Call", ErrUnsupported, in, "%s makes %s %s, not %s %s as the program says", def.Name, out.dtype, op.ShapeString(out.shape), want.DType, op.ShapeString(want.Shape))
		}
		if s.Saves && len(more) == 0 {
			fail("export.Program.Call", &op.Problem{Kind: ErrUnsupported, Msg: fmt.Sprintf("the program takes a gradient through %s, for which %s has no kernel", def.Name, at.device),
				Fix: "run it on the kind of device that it was exported on, or on the CPU"}, in...)
		}
		for _, t := range append([]*Tensor{out}, more...) {
			if !t.IsContiguous() { // a composition's result may lie as it likes
				t = apply(op.Copy, nil, t)
			}
			values = append(values, t)
		}
	}
	results := make([]*Tensor, len(p.Results))
	for i := range p.Results {
		results[i] = tensor(&p.Results[i])
	}
	return results
}
