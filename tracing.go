package locus

import (
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/trace"
)

// While a goroutine traces a function, its ops go to shadows of the places that they
// would run at: the same device, with a recorder as its backend and a pool of blocks
// without memory. Everything above, such as gradients and scopes, does not notice.

// root returns the place that p stands in for, or p.
func (p *place) root() *place {
	if p != nil && p.of != nil {
		return p.of
	}
	return p
}

// now returns where ops of the calling goroutine at p go to.
func (p *place) now() *place {
	if t := trace.Current(); t != nil && p != nil && p.of == nil {
		return t.Owner.(*tracing).shadow(p)
	}
	return p
}

// tracing is what this package knows of a trace.
type tracing struct {
	*trace.Trace
	shadows map[*place]*place
	at      *place // the first place of the trace; nil before an op or operand
	leaves  map[*leaf]*leaf
	stands  map[*leaf]*Tensor // what stands for their gradients
	order   []*leaf           // those with stand-ins, as they were first met
	scopes  map[*Scope]*Scope
	blocks  map[*memory.Block]*memory.Block // of variables, and what stands for them
	asked   []asked
}

// asked is a tensor from outside by which a function differentiates.
type asked struct {
	t    *Tensor
	site callsite.Site
}

// notesInput notes, in a trace, that t is an input of a gradient.
func notesInput(t *Tensor) {
	if c := trace.Current(); c != nil && t.place.of == nil {
		o := c.Owner.(*tracing)
		o.asked = append(o.asked, asked{t, callsite.Here(2)})
	}
}

func newTracing() *tracing {
	t := &tracing{Trace: trace.New(), shadows: map[*place]*place{}, leaves: map[*leaf]*leaf{}, stands: map[*leaf]*Tensor{}, scopes: map[*Scope]*Scope{}, blocks: map[*memory.Block]*memory.Block{}}
	t.Owner, t.Stand = t, t.stand
	return t
}

func (t *tracing) shadow(p *place) *place {
	s := t.shadows[p]
	if s == nil {
		r := t.NewRecorder(p.backend)
		s = &place{device: p.device, backend: r, pool: r.Pool, of: p}
		t.shadows[p] = s
		if t.at == nil {
			t.at = p
		}
	}
	return s
}

// holder returns a tensor without elements that lies in memory as x does, from the
// start of a block of its own.
func (t *tracing) holder(x *Tensor, kind program.Kind) *Tensor {
	p := t.shadow(x.place)
	s, err := allocateFrom(p.pool, p, x.spec(), nil, nil)
	if err != nil {
		fail("Compile", err, x)
	}
	s.strides, s.owner = x.strides, x.owner
	p.backend.(*trace.Recorder).Input(s.block, kind, x.spec())
	return s
}

// stand returns what stands for a variable's tensor.
func (t *tracing) stand(x any) any {
	v, _ := x.(*Tensor)
	switch {
	case v == nil:
		return v
	case v.place.of != nil:
		return nil // the function's own
	}
	v.check("Compile")
	s := t.holder(v, program.State)
	if first := t.blocks[v.block]; first != nil && v.offset == 0 { // two variables hold one tensor
		s.block = first
	} else if v.offset == 0 {
		t.blocks[v.block] = s.block
	}
	if v.node != nil {
		if v.node.leaf == nil {
			t.Refuse("a variable holds a tensor with a history: set it to t.Detach()")
			return s
		}
		s.node = &node{own: leafRule, leaf: v.node.leaf.now()}
	}
	return s
}

// now returns the leaf that collects gradients in l's place: in a trace, l itself
// stays as it is until the program runs.
func (l *leaf) now() *leaf {
	c := trace.Current()
	if c == nil || l == nil || l.made == c {
		return l
	}
	t := c.Owner.(*tracing)
	s := t.leaves[l]
	if s == nil {
		s = &leaf{made: c}
		l.mu.Lock()
		g := l.grad
		s.lent = l.lent
		l.mu.Unlock()
		if g != nil {
			s.grad = t.holder(g, program.State)
			t.stands[l] = s.grad
		}
		t.leaves[l] = s
		t.order = append(t.order, l)
	}
	return s
}

// use returns a stand-in for scope s: what is computed of arguments in s belongs to
// s only when the program has run.
func (t *tracing) use(s *Scope) *Scope {
	if s == nil {
		return nil
	}
	u := t.scopes[s]
	if u == nil {
		u = NewScope()
		u.order = s.order
		t.scopes[s] = u
	}
	return u
}

// readable panics if the calling goroutine traces: there is nothing to read.
func readable(name string) {
	if t := trace.Current(); t != nil {
		if t.Err == nil {
			t.Err = newError(name, trace.Unreadable(), nil)
		}
		panic(t.Err)
	}
}

// countable is readable for an op that must count elements to know its shape.
func countable(name string) {
	if t := trace.Current(); t != nil {
		if t.Err == nil {
			t.Err = newError(name, &op.Problem{Kind: ErrArgument,
				Msg: "the shape of the result depends on elements, and while a compiled function is traced there are none",
				Fix: "call it outside of the function; inside compute with masks, with Where and MaskedFill, whose shapes are known"}, nil)
		}
		panic(t.Err)
	}
}

// ref returns a tensor of the trace as its program knows it.
func (t *tracing) ref(x *Tensor) program.Ref {
	r, err := t.shadow(x.place.root()).backend.(*trace.Recorder).Ref(x.view())
	if err != nil {
		fail("Compile", err, x)
	}
	return r
}

// fresh returns x, or a copy where x's memory is not allocated again in each run.
func (t *tracing) fresh(x *Tensor) *Tensor {
	if x.place.of == nil || t.Program.Values[t.ref(x).Value].Kind != program.Temp {
		return apply(op.Copy, nil, x.detach())
	}
	return x
}
