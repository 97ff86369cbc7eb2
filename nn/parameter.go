package nn

import (
	"sync/atomic"

	"github.com/locusml/locus"
)

// Module is anything that maps one tensor to another. Layers with several
// inputs have a Forward of their own; [Parameters] and the like work on any
// struct.
type Module interface {
	Forward(x *locus.Tensor) *locus.Tensor
}

// Parameter is a tensor that training changes. The tensor itself never does:
// an update puts another one in its place.
type Parameter struct {
	value  atomic.Pointer[locus.Tensor]
	device locus.Device // where a parameter without a value yet is to be made
	placed bool         // whether device was asked for
	known  known        // what is known before there is a value
	frozen atomic.Bool
}

// known is what a lazy layer can say of a parameter before its first input.
type known struct {
	dtype locus.DType // invalid: nothing
	shape []int       // -1 for a size that is not known; nil: nothing
}

// NewParameter makes a parameter with t as its first value.
func NewParameter(t *locus.Tensor) *Parameter {
	p := new(Parameter)
	p.Set(t)
	return p
}

// Value gives the present value; gradients flow to it unless p is frozen. It is
// nil for a parameter of a lazy layer before the first Forward. An optimizer's
// step frees a value that an earlier step has made: copy it to keep it.
func (p *Parameter) Value() *locus.Tensor { return p.value.Load() }

// Set puts another value in place. A gradient collected for the old one is
// gone with it.
func (p *Parameter) Set(t *locus.Tensor) {
	t = t.Detach()
	if !p.frozen.Load() {
		t = t.RequireGrad()
	}
	p.value.Store(t)
}

// Freeze stops gradients from flowing to p, so that training leaves it as it is.
func (p *Parameter) Freeze() {
	p.frozen.Store(true)
	if v := p.Value(); v != nil {
		p.Set(v)
	}
}

// Unfreeze undoes Freeze.
func (p *Parameter) Unfreeze() {
	p.frozen.Store(false)
	if v := p.Value(); v != nil {
		p.Set(v)
	}
}

// Frozen reports whether p is frozen.
func (p *Parameter) Frozen() bool { return p.frozen.Load() }

// Grad gives the gradient that Backward has collected, or nil.
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

// valueOrNil gives the value of a parameter that may have been left out.
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

// make gives p, unless it has one, a first value: where it was asked to be, else
// on d.
func (p *Parameter) make(d locus.Device, dt locus.DType, key locus.Key, init Initializer, shape ...int) {
	if p.Value() != nil {
		return
	}
	if p.placed {
		d = p.device
	}
	if p.known.dtype.Valid() {
		dt = p.known.dtype
	}
	p.Set(init(d.As(dt).Key(key), shape))
}

// unmade gives a parameter without a value in the place of p, which may be nil.
func (p *Parameter) unmade() *Parameter {
	if p == nil {
		return nil
	}
	q := &Parameter{device: p.device, placed: p.placed, known: p.known}
	q.frozen.Store(p.frozen.Load())
	return q
}
