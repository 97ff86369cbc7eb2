package locus

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/trace"
)

// Cell is a variable that holds a tensor: [nn.Entry] is one. Value may return nil.
//
// [nn.Entry]: https://pkg.go.dev/github.com/locusml/locus/nn#Entry
type Cell interface {
	Value() *Tensor
	Set(*Tensor)
}

// Compiled is a function made by [Compile]. Any number of goroutines may call it;
// their calls happen one after the other.
type Compiled struct {
	f       func(args ...*Tensor) []*Tensor
	state   []Cell
	lenient bool
	again   bool // Recompute
	most    int  // signatures; 0 means maxPlans

	mu     sync.Mutex
	plans  []*plan
	key    []byte // of the present call
	report io.Writer
	events []string
	why    string // the last call was computed without a program
	full   bool
}

// maxPlans is how many signatures a function is compiled for by default. A function that
// is called with ever new shapes would be traced more often than it is run.
const maxPlans = 8

// Compile returns f as a program. The first two calls with a signature trace f: its
// ops are recorded instead of run, and then run as recorded. If both traces are the
// same, later calls run the program without calling f; else f is called each time,
// as if it were not compiled, and [Compiled.Explain] says why. Results are the same
// to the bit either way, but for large convolutions on the tensor cores of NVIDIA GPUs,
// whose images may lie in another way in programs: they round differently.
//
// The signature is the shapes, layouts, element types and devices of the arguments
// and of the state, whether [NoGrad] is in force, [AllowTF32], and the modes of
// layers. State are the variables that f reads or sets: parameters and buffers of
// package nn and what optimizers of package optim remember are included by themselves;
// raw tensors in fields of a network, and the program's own, must be listed.
//
// What f does to Go variables happens only while it is traced, and Go numbers that
// it uses are those of the trace: pass what changes as an argument, a tensor of one
// element if need be. Reading a value inside f is an error that names the line.
// Results come without history: take gradients inside.
func Compile(f func(args ...*Tensor) []*Tensor, state ...Cell) *Compiled {
	gate.Check("Compile", gate.Given("the function", f))
	for i, c := range state {
		gate.Check("Compile", gate.Given(fmt.Sprintf("cell %d", i), c))
	}
	return &Compiled{f: f, state: state}
}

// Report makes c write a line to w whenever it traces f or gives up: which signature, and
// what has changed since the one before. A nil w, the default, writes nothing.
func (c *Compiled) Report(w io.Writer) {
	c.made("Compiled.Report")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = w
}

// Lenient makes reading a value inside f, which is an error otherwise, a reason to
// compute f without a program: for functions that someone else has written. It returns c,
// which must not have been called yet.
func (c *Compiled) Lenient() *Compiled {
	c.made("Compiled.Lenient")
	c.lenient = true
	return c
}

// Recompute makes programs compute cheap values again instead of keeping them, where that
// lowers the peak of memory: activations, normalizations, casts and copies that the
// backward part of a training step needs once more. Results are the same to the bit; a
// step takes a few percent longer. [Compiled.Explain] says what it has saved. It returns
// c, which must not have been called yet. For larger parts of a network see [Checkpoint].
func (c *Compiled) Recompute() *Compiled {
	c.made("Compiled.Recompute")
	c.again = true
	return c
}

// Signatures makes c compile for up to n signatures, instead of 8: for a function that is
// called with as many shapes again and again, such as batches of sequences that are padded to
// a multiple of some length. Each has a program of its own. It returns c, which must not have
// been called yet.
func (c *Compiled) Signatures(n int) *Compiled {
	const name = "Compiled.Signatures"
	c.made(name)
	gate.Check(name, gate.Count("the number of signatures", n, 1, 1<<16))
	c.most = n
	return c
}

func (c *Compiled) made(name string) {
	gate.Check(name, gate.Made(c != nil && c.f != nil, "make one with locus.Compile"))
}

// Call computes f(args). Inside another function that is being traced, f becomes
// part of that one.
func (c *Compiled) Call(args ...*Tensor) []*Tensor {
	c.made("Compiled.Call")
	usable("Compiled.Call", args)
	if trace.Current() != nil || innermost(args) != nil { // inside Vmap it becomes part of that
		return c.f(args...)
	}
	results, ok := c.call(args)
	if !ok {
		return c.f(args...)
	}
	return results
}

// call reports false if f must be called.
func (c *Compiled) call(args []*Tensor) (results []*Tensor, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = ""
	for i := range args {
		if tracked(args[i : i+1]) {
			c.why = fmt.Sprintf("argument %d has a history, through which gradients would have to flow: pass x.Detach() and take gradients inside", i)
			c.once(c.why)
			return nil, false
		}
	}
	c.key = signature(c.key[:0], args)
	p := c.find()
	if p != nil && p.eager != "" {
		p.unload()
		c.why = p.eager
		return nil, false
	}
	if p != nil && p.ready && (!p.doubt || c.same(p, args)) {
		return p.run(args, false), true
	}
	if most := cmp.Or(c.most, maxPlans); p == nil && len(c.plans) >= most {
		if !c.full {
			c.full = true
			c.note("new signatures are computed without a program from now on, since there are %d already%s", len(c.plans), c.changed(args))
		}
		c.why = fmt.Sprintf("it was called with more than %d signatures: use fewer sizes, by padding for instance, or allow more with Signatures", most)
		return nil, false
	}
	if p == nil {
		c.note("tracing%s", c.changed(args))
	}
	if p != nil {
		p.unload()
	}
	next, traced := c.trace(args)
	next.key = bytes.Clone(c.key)
	switch {
	case p == nil:
		c.plans = append(c.plans, next)
	default:
		switch {
		case p.ready:
			c.note("tracing: what it computes is no longer the same")
		case p.doubt && p.trace != next.trace: // it may have been changed since the first trace
		default:
			next.diff(p)
		}
		for i := range c.plans {
			if c.plans[i] == p {
				c.plans[i] = next
				p.close()
			}
		}
	}
	if next.eager != "" {
		c.note("computed without a program: %s", next.eager)
	}
	if !traced {
		c.why = next.eager
		return nil, false
	}
	return next.run(args, true), true
}

// Recheck makes the next call of each signature trace f once more. If what it computes
// is no longer the same, because a Go value that it uses has changed, it is traced again.
// Call it where such values may have been changed, but not before each call: a trace
// takes longer than calling f.
func (c *Compiled) Recheck() {
	c.made("Compiled.Recheck")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.plans {
		p.doubt = true
	}
}

// same reports whether f still computes what p does. Then p can be run.
func (c *Compiled) same(p *plan, args []*Tensor) bool {
	p.doubt = false
	next, traced := c.trace(args)
	if !traced {
		return false
	}
	next.undo()
	return next.trace == p.trace && p.fits() == ""
}

// find returns the plan for the present call, or nil.
func (c *Compiled) find() *plan {
	for i, p := range c.plans {
		if bytes.Equal(p.key, c.key) && p.fits() == "" {
			if i > 0 { // the next call will need the same one
				copy(c.plans[1:i+1], c.plans[:i])
				c.plans[0] = p
			}
			return p
		}
	}
	return nil
}

// signature appends what a program depends on but for variables and watched values.
func signature(key []byte, args []*Tensor) []byte {
	number := func(n int) {
		u := uint64(n)
		for u >= 0x80 {
			key = append(key, byte(u)|0x80)
			u >>= 7
		}
		key = append(key, byte(u))
	}
	flag := func(b bool) {
		n := 0
		if b {
			n = 1
		}
		number(n)
	}
	for i, a := range args {
		number(int(a.dtype))
		device(a.place.device, number)
		number(len(a.shape))
		for _, n := range a.shape {
			number(n)
		}
		for _, n := range a.strides {
			number(n)
		}
		flag(a.owner)
		s := a.Scope()
		flag(s != nil)
		for _, b := range args[:i] { // which scope a result belongs to
			if u := b.Scope(); s != nil && u != nil {
				flag(s == u)
				flag(s.order > u.order)
			}
		}
	}
	flag(gradDisabled())
	flag(cuda.TF32())
	flag(cuda.Varying())
	device(DefaultDevice(), number)
	return key
}

func device(d Device, number func(int)) {
	number(int(d.index) << 1)
	if d.gpu {
		number(1)
	} else {
		number(0)
	}
}

// note keeps a line for Explain and reports it.
func (c *Compiled) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	const enough = 32
	if len(c.events) < enough {
		c.events = append(c.events, line)
	}
	if c.report != nil {
		fmt.Fprintln(c.report, "locus: compiled function: "+line)
	}
}

// once is note for what would be said at every call.
func (c *Compiled) once(line string) {
	for _, e := range c.events {
		if e == line {
			return
		}
	}
	c.note("%s", line)
}

// changed says what is new about the present call.
func (c *Compiled) changed(args []*Tensor) string {
	if len(c.plans) == 0 {
		return ""
	}
	p := c.plans[0]
	if len(args) != len(p.args) {
		return fmt.Sprintf(": %d arguments, before %d", len(args), len(p.args))
	}
	for i, a := range args {
		if s := a.operand().String(); s != p.args[i] {
			return fmt.Sprintf(": argument %d is %s, before %s", i, s, p.args[i])
		}
	}
	if !bytes.Equal(p.key, c.key) {
		return ": the layout or scope of an argument, NoGrad, AllowTF32 or the default device is another one"
	}
	return ": " + p.fits()
}

// Fallback says why the last call was computed without a program, and how to change
// that; "" if it was not.
func (c *Compiled) Fallback() string {
	c.made("Compiled.Fallback")
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Summary says in a line for each signature what became of f: whether it is compiled, into
// how many steps, and how they use memory; or why not.
func (c *Compiled) Summary() string {
	c.made("Compiled.Summary")
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans) == 0 {
		return "not called yet\n"
	}
	var b strings.Builder
	for _, p := range c.plans {
		if p.eager != "" {
			fmt.Fprintf(&b, "computed without a program: %s\n", p.eager)
			continue
		}
		state := "compiled"
		if !p.ready {
			state = "traced once"
		}
		if p.relay != nil {
			fmt.Fprintf(&b, "%s, %s (%s)\n", state, p.exec.Summary(), p.someArgs())
			continue
		}
		fused, ops := 0, 0
		for i := range p.body.Steps {
			if n := len(p.body.Steps[i].Parts); n > 0 {
				fused++
				ops += n
			}
		}
		fmt.Fprintf(&b, "%s, %d steps", state, len(p.body.Steps))
		if fused > 0 {
			fmt.Fprintf(&b, ", %d of them fused from %d ops", fused, ops)
		}
		fmt.Fprintf(&b, "; %s (%s)\n", p.exec.Summary(), p.someArgs())
	}
	if c.full {
		fmt.Fprintf(&b, "further signatures are computed without a program: there are %d\n", len(c.plans))
	}
	return b.String()
}

// Explain says what became of f: every signature, what was traced and why, constants
// and tensors from outside that the programs hold, and the programs themselves.
func (c *Compiled) Explain() string {
	c.made("Compiled.Explain")
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, e := range c.events {
		fmt.Fprintln(&b, e)
	}
	for i, p := range c.plans {
		state := "compiled"
		switch {
		case p.eager != "":
			state = "computed without a program: " + p.eager
		case !p.ready:
			state = "traced once; the next call is traced too, and compared"
		}
		fmt.Fprintf(&b, "signature %d (%s): %s\n", i, strings.Join(p.args, ", "), state)
		if p.prog == nil {
			continue
		}
		fmt.Fprintf(&b, "  %d steps, %d more whose results are not used; %d variables, %d of them set\n", len(p.prog.Steps), p.pruned, len(p.vars), p.sets())
		for _, line := range p.exec.Explain() {
			fmt.Fprintf(&b, "  %s\n", line)
		}
		for _, v := range p.prog.Values {
			switch v.Kind {
			case program.Captured:
				fmt.Fprintf(&b, "  from outside: %s %v, used at %s\n", v.Spec.DType, v.Spec.Shape, v.Site)
			case program.Const:
				fmt.Fprintf(&b, "  constant: %d bytes of Go data, made at %s\n", v.Spec.Shape[0], v.Site)
			}
		}
		if p.relay != nil {
			continue // the executor has listed its parts
		}
		for _, line := range explainBody(p.body, p.again, p.place.backend) {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// explainBody describes a program of one device: what is computed again, what was fused, and
// its steps.
func explainBody(body *program.Program, again string, d backend.Device) (lines []string) {
	if again != "" {
		lines = append(lines, again)
	}
	lines = append(append(lines, explainLayout(body)...), explainFusion(body, d)...)
	return append(lines, strings.Split(strings.TrimSuffix(body.String(), "\n"), "\n")...)
}
