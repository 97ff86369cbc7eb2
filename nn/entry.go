package nn

import (
	"reflect"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// Kind says whether a tensor is trained or only kept.
type Kind uint8

// The kinds of a network's tensors.
const (
	Trained Kind = iota // parameters
	Kept                // buffers: running statistics and the like; saved and moved, not trained
)

// Entry is one of a network's tensors: a parameter or a buffer, by name.
type Entry struct {
	Name string // the path to it: "layers.0.weight"
	Kind Kind

	param  *Parameter
	buffer *Buffer
	field  reflect.Value // a *locus.Tensor field, where both are nil
}

// Value returns the tensor; nil for a lazy one before the first Forward.
func (e Entry) Value() *locus.Tensor {
	switch {
	case e.param != nil:
		return e.param.Value()
	case e.buffer != nil:
		return e.buffer.Value()
	}
	e.checkPlace("Value")
	if trace.Current() != nil {
		return trace.Get(e.holder()).(*locus.Tensor)
	}
	t, _ := e.field.Interface().(*locus.Tensor)
	return t
}

// Set puts another tensor of the same shape, type and device in its place: see
// [Parameter.Set].
func (e Entry) Set(t *locus.Tensor) {
	const op = "nn.Entry.Set"
	switch {
	case e.param != nil:
		e.param.set(op, e.Name, t)
		return
	case e.buffer != nil:
		e.buffer.set(op, e.Name, t)
		return
	}
	new(lazy).check(op, e.Name, e.Value(), t)
	if e.Kind == Trained {
		checkFloat(op, t)
	}
	e.replace(taken(t), false)
}

// replace is Set without checks, for values of another type or in another place.
// made: nothing else has a handle of the tensor.
func (e Entry) replace(t *locus.Tensor, made bool) {
	switch {
	case e.param != nil:
		e.param.replace(t)
	case e.buffer != nil:
		e.buffer.mu.Lock()
		defer e.buffer.mu.Unlock()
		e.buffer.replace(t, made)
	default:
		t = kept(t).Detach()
		if e.Kind == Trained {
			t = t.RequireGrad()
		}
		if !trace.Set(e.holder(), t) {
			e.field.Set(reflect.ValueOf(t))
		}
	}
}

// Frozen reports whether training leaves it as it is.
func (e Entry) Frozen() bool { return e.Kind == Kept || e.param != nil && e.param.Frozen() }

// Is reports whether e and other are the same tensor of one network.
func (e Entry) Is(other Entry) bool {
	if e.raw() && other.raw() {
		return e.field.IsValid() && other.field.IsValid() && e.field.Addr().Pointer() == other.field.Addr().Pointer()
	}
	return e.param == other.param && e.buffer == other.buffer
}

// raw reports whether e is a *locus.Tensor field.
func (e Entry) raw() bool { return e.param == nil && e.buffer == nil }

// lazy returns what is known of the entry before it is made; nil for a field.
func (e Entry) lazy() *lazy {
	switch {
	case e.param != nil:
		return &e.param.lazy
	case e.buffer != nil:
		return &e.buffer.lazy
	}
	return nil
}

// known returns what is known of the entry's type and shape.
func (e Entry) known() known {
	if v := e.Value(); v != nil {
		return knownOf(v)
	}
	if l := e.lazy(); l != nil {
		return l.known
	}
	return known{}
}

// place notes where the entry is to be made.
func (e Entry) place(d locus.Device) {
	if l := e.lazy(); l != nil {
		l.device, l.placed = d, true
	}
}

// placed returns where the entry is, or is to be made if that was asked for.
func (e Entry) placed() (d locus.Device, ok bool) {
	if v := e.Value(); v != nil {
		return v.Device(), true
	}
	if l := e.lazy(); l != nil && l.placed {
		return l.device, true
	}
	return locus.Device{}, false
}

func (e Entry) checkPlace(method string) {
	if !e.field.IsValid() {
		fail(locus.ErrArgument, "nn.Entry."+method, "the entry is a zero value", "take entries from nn.State or nn.Parameters")
	}
}

// State lists everything that a network must be saved with and moved with:
// parameters and buffers, in the order of its fields. A [Parameter] or [Buffer]
// that is reached twice is listed once, under its first name. A tag that cannot
// mean anything is an ErrArgument.
func State(m any) []Entry {
	w := newWalker()
	w.walk(reflect.ValueOf(m), "", "")
	return w.entries
}

// Parameters lists what training changes.
func Parameters(m any) []Entry {
	return slices.DeleteFunc(State(m), func(e Entry) bool { return e.Kind != Trained })
}

// Buffers lists what is kept and not trained.
func Buffers(m any) []Entry {
	return slices.DeleteFunc(State(m), func(e Entry) bool { return e.Kind != Kept })
}

// Cells lists a network's tensors, as [State] does, for locus.Compile. Only tensors
// in plain fields must be listed there; parameters and buffers are included anyway.
func Cells(m any) []locus.Cell {
	var l []locus.Cell
	for _, e := range State(m) {
		l = append(l, e)
	}
	return l
}

// Values returns the present tensors of entries.
func Values(entries []Entry) []*locus.Tensor {
	l := make([]*locus.Tensor, len(entries))
	for i, e := range entries {
		l[i] = e.Value()
	}
	return l
}
