package optest

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

// fails checks that f panics with a *locus.Error of the given kind about the op
// that was called, or that the device reports one when it is waited for, which knows
// only the primitive.
func fails(t *testing.T, d locus.Device, kind error, name, what string, f func()) {
	t.Helper()
	err := guarded(f)
	if err == nil {
		err = d.Synchronize()
	}
	var e *locus.Error
	switch {
	case err == nil:
		t.Errorf("%s: no error, want %q", what, kind)
	case !errors.As(err, &e):
		t.Errorf("%s: %v; want a *locus.Error", what, err)
	case !errors.Is(err, kind):
		t.Errorf("%s: %q, want %q: %v", what, e.Kind, kind, err)
	case !e.Async && e.Op != name[strings.LastIndexByte(name, '.')+1:]:
		t.Errorf("%s: the error is of %s: %v", what, e.Op, err)
	case e.Op == "" || e.Op[0] < 'A' || e.Op[0] > 'Z' || !strings.HasPrefix(err.Error(), "locus: "+e.Op+": "):
		t.Errorf("%s: the error does not name the op: %v", what, err)
	case e.Msg == "" || strings.HasPrefix(e.Msg, e.Op+": "):
		t.Errorf("%s: the error names the op twice, or says nothing: %v", what, err)
	}
}

// TestBadInputs checks the calls that the table says must fail.
func TestBadInputs(t *testing.T) {
	n := 0
	onDevices(t, func(t *testing.T, d locus.Device) {
		for _, o := range Table() {
			for _, b := range o.Bad {
				fails(t, d, b.Kind, o.Name, o.Name+" with "+b.What, func() { b.Call(d) })
				n++
			}
		}
	})
	t.Logf("%d calls", n)
}

// first returns, for each op, its first case with operands that have elements.
func first(t *testing.T) map[string]*Case {
	m := map[string]*Case{}
	for _, c := range records(t) {
		full := len(c.In) > 0
		for i := range c.In {
			full = full && c.In[i].Len() > 0
		}
		if full && m[c.Op] == nil {
			m[c.Op] = c
		}
	}
	return m
}

// TestUnsupportedDTypes checks that ops take exactly the element types that the table
// says: others are a dtype error.
func TestUnsupportedDTypes(t *testing.T) {
	rejected, accepted := 0, 0
	onDevices(t, func(t *testing.T, d locus.Device) {
		for name, c := range first(t) {
			o := table()[name]
			for _, dt := range dtype.All {
				call := func() {
					in := c.Inputs(d, dt)
					for i := range in { // values that every type can take as they are
						if c.In[i].Main && !c.DType.IsInt() {
							in[i] = in[i].OnesLike()
						}
					}
					c2 := *c
					c2.DType = dt
					c2.Call(o, d, in)
				}
				if o.DTypes.Has(dt) {
					accepted++
					if err := guarded(call); err != nil && !fraction(err) {
						t.Errorf("%s of %s: %v", name, dt, err)
					}
					continue
				}
				rejected++
				fails(t, d, locus.ErrDType, name, name+" of "+dt.String(), call)
			}
		}
	})
	t.Logf("%d combinations rejected, %d accepted", rejected, accepted)
}

// fraction reports whether an op refused the case's own Go number, which is not
// whole, for a tensor of integers.
func fraction(err error) bool {
	return errors.Is(err, locus.ErrDType) && strings.Contains(err.Error(), "is not an integer")
}

// TestMisuse checks what every op does with tensors that it cannot use at all.
func TestMisuse(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		other := locus.CPU()
		if d == other {
			other = virtual
		}
		for name, c := range first(t) {
			o := table()[name]
			for i := range c.In {
				fails(t, d, locus.ErrFreed, name, name+" with a freed operand", func() {
					in := c.Inputs(d, c.DType)
					in[i] = in[i].Copy() // a view is not freed by Free
					in[i].Free()
					c.Call(o, d, in)
				})
				if (o.Optional == 0 || i < o.Optional) && !o.NilOperands {
					fails(t, d, locus.ErrArgument, name, name+" with a nil operand", func() {
						in := c.Inputs(d, c.DType)
						in[i] = nil
						c.Call(o, d, in)
					})
				}
				if len(c.In) > 1 {
					fails(t, d, locus.ErrDevice, name, name+" with operands on two devices", func() {
						in := c.Inputs(d, c.DType)
						in[i] = in[i].To(other)
						c.Call(o, d, in)
					})
				}
			}
		}
		fails(t, d, locus.ErrGrad, "RequireGrad", "gradients of integers", func() { d.As(locus.Int64).Ones(2).RequireGrad() })
		if err := d.Synchronize(); err != nil {
			t.Errorf("an error was left behind: %v", err)
		}
	})
}
