package nn

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// Module is anything that maps one tensor to another. Layers with several
// inputs have a Forward of their own; [Parameters] and the like work on any
// struct.
type Module interface {
	Forward(x *locus.Tensor) *locus.Tensor
}

// Parameter is a tensor that training changes. The tensor itself never changes: an
// update puts another one in its place. A tensor that is kept and not trained is a
// [Buffer].
type Parameter struct {
	lazy
	value  atomic.Pointer[locus.Tensor]
	frozen atomic.Bool
	role   role
	first  Initializer // where role is ownRole
}

// NewParameter returns a parameter with t, which is of a floating-point type, as
// its first value.
func NewParameter(t *locus.Tensor) *Parameter {
	checkFloat("nn.NewParameter", t)
	p := new(Parameter)
	p.made = trace.Current()
	p.replace(taken(t))
	return p
}

// Value returns the present value; gradients flow to it unless p is frozen. It is
// nil for a parameter of a lazy layer before the first Forward. An optimizer's
// step frees a value that an earlier step has made: copy it to keep it.
func (p *Parameter) Value() *locus.Tensor {
	if p == nil {
		fail(locus.ErrArgument, "nn.Parameter", "the parameter is nil", "make layers with their constructors, such as nn.Linear")
	}
	if p.traced() {
		return trace.Get(parameterHolder{p}).(*locus.Tensor)
	}
	return p.value.Load()
}

// read returns f of the present value; nil if there is none. Where a step of an
// optimizer in another goroutine overwrites the value meanwhile, it is f of the next
// one, which is there when the step ends.
func (p *Parameter) read(f func(*locus.Tensor) *locus.Tensor) (out *locus.Tensor) {
	var since time.Time
	for {
		t := p.Value()
		if t == nil {
			return nil
		}
		err := locus.Try(func() { out = f(t) })
		if err == nil {
			return out
		}
		const step = time.Second // much longer than one takes: the program has freed the value
		switch {
		case !errors.Is(err, locus.ErrFreed):
			panic(err)
		case p.Value() != t:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > step:
			panic(err)
		default:
			runtime.Gosched()
		}
	}
}

// Set puts another value of the same shape, type and device in place: t itself,
// or a copy if t is a view, such as another parameter's value. A gradient
// collected for the old one is gone with it.
func (p *Parameter) Set(t *locus.Tensor) { p.set("nn.Parameter.Set", "", t) }

func (p *Parameter) set(op, name string, t *locus.Tensor) {
	old := p.Value()
	p.check(op, name, old, t)
	checkFloat(op, t)
	p.replace(taken(t))
}

// replace is Set without checks, for values of another type or in another place.
func (p *Parameter) replace(t *locus.Tensor) {
	t = p.leaf(t)
	if !p.traced() || !trace.Set(parameterHolder{p}, t) {
		p.value.Store(t)
	}
}

// leaf returns t as a value of p: without history, and with a gradient of its own
// unless p is frozen.
func (p *Parameter) leaf(t *locus.Tensor) *locus.Tensor {
	t = kept(t).Detach()
	if !p.frozen.Load() {
		t = t.RequireGrad()
	}
	return t
}

// Freeze stops gradients from flowing to p, so that training leaves it as it is.
func (p *Parameter) Freeze() { p.freeze(true) }

// Unfreeze undoes Freeze.
func (p *Parameter) Unfreeze() { p.freeze(false) }

func (p *Parameter) freeze(on bool) {
	v := p.Value()
	if p.traced() && p.frozen.Load() != on {
		trace.Current().Refuse("a parameter is frozen or unfrozen inside the function: do it before the call")
	}
	p.frozen.Store(on)
	if v != nil {
		p.replace(v)
	}
}

// Frozen reports whether p is frozen.
func (p *Parameter) Frozen() bool {
	p.Value() // of a nil parameter an error
	if p.traced() {
		trace.Watch(p, "whether a parameter is frozen", func() any { return p.frozen.Load() })
	}
	return p.frozen.Load()
}

// Grad returns the gradient that Backward has collected, or nil.
func (p *Parameter) Grad() *locus.Tensor {
	if v := p.Value(); v != nil {
		return v.Grad()
	}
	return nil
}

// Device is where the value lives, or for a lazy parameter where it will.
func (p *Parameter) Device() locus.Device {
	if v := p.Value(); v != nil {
		return v.Device()
	}
	return p.device
}

// String shows the value.
func (p *Parameter) String() string {
	if v := p.Value(); v != nil {
		return v.String()
	}
	return "<lazy parameter: its shape is known after the first Forward>"
}

// valueOrNil returns the value of a parameter that may have been left out.
func (p *Parameter) valueOrNil() *locus.Tensor {
	if p == nil {
		return nil
	}
	return p.Value()
}

// unmade reports whether one of the parameters, which may be nil, has no value yet.
func unmade(ps ...*Parameter) bool {
	for _, p := range ps {
		if p != nil && p.Value() == nil {
			return true
		}
	}
	return false
}

// make sets p's first value, unless it has one: where it was asked to be, else
// on d. Where several goroutines do so at once, the first one's counts.
func (p *Parameter) make(d locus.Device, dt locus.DType, key locus.Key, init Initializer, shape ...int) {
	switch {
	case p.Value() != nil:
	case p.traced():
		p.replace(init(p.maker(d, dt).Key(key), shape))
	default:
		p.value.CompareAndSwap(nil, p.leaf(init(p.maker(d, dt).Key(key), shape)))
	}
}

// unmade returns a parameter without a value in place of p, which may be nil.
func (p *Parameter) unmade() *Parameter {
	if p == nil {
		return nil
	}
	q := &Parameter{lazy: p.lazy, role: p.role, first: p.first}
	q.made = trace.Current()
	q.frozen.Store(p.frozen.Load())
	return q
}

// own makes p a parameter that [Initialize] sets to the first value of its layer
// again. It returns p.
func (p *Parameter) own(first Initializer) *Parameter {
	p.role, p.first = ownRole, first
	return p
}
