package nn

import (
	"fmt"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/trace"
)

// lazy is what is known of a network's tensor before it is made.
type lazy struct {
	made *trace.Trace // the trace in which the cell was made, if in one: it is that trace's own

	device locus.Device // where it is to be made
	placed bool         // whether device was asked for
	known  known
}

// known is a type and a shape, or as much of them as is known.
type known struct {
	dtype locus.DType // invalid: nothing
	shape []int       // -1 for a size that is not known; nil: nothing
}

func knownOf(t *locus.Tensor) known { return known{t.DType(), t.Shape()} }

// allows reports whether a tensor may have the given shape.
func (k known) allows(shape []int) bool {
	return k.shape == nil || slices.EqualFunc(k.shape, shape, func(want, have int) bool { return want == have || want < 0 })
}

// maker tells where and of what type a tensor is to be made: what was asked for,
// else d and dt.
func (l *lazy) maker(d locus.Device, dt locus.DType) locus.Maker {
	if l.placed {
		d = l.device
	}
	if l.known.dtype.Valid() {
		dt = l.known.dtype
	}
	return d.As(dt)
}

// check panics unless t may take the place of old, which is nil before there is a
// value. name is that of the tensor in the network, or "".
func (l *lazy) check(op, name string, old, t *locus.Tensor) {
	if name == "" {
		name = "the present value"
	}
	checkTensor(op, t)
	lend.Single(op, t)
	if old != nil && gate.SameShape(old, t) && old.DType() == t.DType() && old.Device() == t.Device() {
		return // as in every step of an optimizer
	}
	want, placed, device := l.known, l.placed, l.device
	if old != nil {
		want, placed, device = knownOf(old), true, old.Device()
	}
	switch {
	case !want.allows(t.Shape()):
		fail(locus.ErrShape, op, fmt.Sprintf("the new value has shape %v; %s has %v", t.Shape(), name, want.shape), "a layer of another size is another layer: make a new one")
	case want.dtype.Valid() && want.dtype != t.DType():
		fail(locus.ErrDType, op, fmt.Sprintf("the new value is %s; %s is %s", t.DType(), name, want.dtype),
			fmt.Sprintf("convert it with .Cast(locus.%s), or the whole network with nn.Cast", elem.GoName(want.dtype)))
	case placed && device != t.Device():
		fail(locus.ErrDevice, op, fmt.Sprintf("the new value is on %s; %s is on %s", t.Device(), name, device),
			"move it with .To(device), or the whole network with nn.To")
	}
}

// checkTensor panics unless t is a tensor that can be used.
func checkTensor(op string, t *locus.Tensor) {
	switch {
	case t == nil:
		fail(locus.ErrArgument, op, "the tensor is nil", "")
	case !t.DType().Valid():
		fail(locus.ErrArgument, op, "the tensor is a zero value", "make tensors with functions like locus.Zeros")
	case t.Freed():
		fail(locus.ErrFreed, op, "the tensor's memory was freed", "keep it with scope.Keep before its scope closes")
	}
}

// checkFloat panics unless t can be trained.
func checkFloat(op string, t *locus.Tensor) {
	checkTensor(op, t)
	if !t.DType().IsFloat() {
		fail(locus.ErrDType, op, "a parameter is trained, which "+t.DType().String()+" cannot be", "convert it with .Cast(locus.Float32), or keep it in a *nn.Buffer")
	}
}

// kept takes t out of its scope: what a network holds outlives the step.
func kept(t *locus.Tensor) *locus.Tensor {
	if s := t.Scope(); s != nil {
		s.Keep(t)
	}
	return t
}

// taken returns t as a value that a network holds for itself: a copy where the
// memory belongs to another tensor, such as that of another network's parameter,
// whose optimizer may free it.
func taken(t *locus.Tensor) *locus.Tensor {
	if t.IsView() {
		t = t.Detach().Copy()
	}
	return kept(t)
}
