package locus

import (
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/units"
)

func init() {
	gate.Raise = func(name string, err error) { panic(newError(name, err, nil)) }
}

// made panics unless t came out of this package: a nil pointer or a zero Tensor
// stops where it enters. It is one comparison, and small enough to be inlined.
func (t *Tensor) made(name string) {
	if t == nil || t.place == nil && !t.constant {
		unmade(name, t)
	}
}

func unmade(name string, t *Tensor) {
	what := "a zero Tensor, which nothing has made"
	if t == nil {
		what = "a nil *Tensor"
	}
	fail(name, &op.Problem{Kind: ErrArgument, Msg: "an operand is " + what,
		Fix: "make tensors with locus.From, locus.Zeros and the like, or by an op"})
}

// usable checks tensors that are handed to a function of the program's, or
// recorded, before any op sees them.
func usable(name string, ts []*Tensor) {
	for _, t := range ts {
		t.check(name)
	}
}

// indices reports indices outside an axis of size n where an op has nothing to
// compute and so does not look at them: at once on the CPU, on a GPU at the next
// wait, as the op itself would.
func indices(name string, n int, index *Tensor, in ...*Tensor) {
	if index.Len() == 0 {
		return
	}
	defer naming(name, in)
	at := index.whole(name).detach().Cast(Int64)
	if at.place.now().host {
		if low, high := at.Min().Int(), at.Max().Int(); low < 0 || high >= int64(n) {
			failf(name, ErrIndex, in, "indices from %d to %d are out of range for an axis of size %d", low, high, n)
		}
		return
	}
	// A wrong index becomes 1, which a table of one row does not have.
	wrong := at.Lt(0).Or(at.Ge(n)).Cast(Int64)
	apply(op.Take, op.Axis{Axis: 0}, at.fullOf(0, []int{1}), wrong).Free()
}

// fits panics unless a tensor of the shape can exist on p at all: before what
// leads to it, which is smaller, has been computed.
func fits(p *place, name string, dt DType, shape []int, in ...*Tensor) {
	if err := op.CheckShape(shape); err != nil {
		fail(name, err, in...)
	}
	bytes := int64(op.Elements(shape) * dt.Size())
	if bytes < 1<<30 { // asking a device takes longer than what is small
		return
	}
	if total, _ := p.backend.Memory(); total > 0 && bytes > total {
		failf(name, ErrOutOfMemory, in, "the result, %s %s, needs %s; %s has %s in all", dt, op.ShapeString(shape), units.Bytes(bytes), p.device, units.Bytes(total))
	}
}

// made panics unless s came from NewScope.
func (s *Scope) made(name string) {
	if s == nil || s.order == 0 {
		fail(name, gate.Made(false, "open one with locus.NewScope or locus.Scoped"))
	}
}
