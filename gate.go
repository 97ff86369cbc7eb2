package locus

import (
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
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
// compute and so does not look at them: it looks as many zeros up, which take no
// memory.
func indices(name string, n int, index *Tensor, in ...*Tensor) {
	if index.Len() == 0 {
		return
	}
	defer naming(name, in)
	apply(op.Take, op.Axis{Axis: 0}, index.zerosView([]int{n}).Detach(), index.Detach()).Free()
}

// made panics unless s came from NewScope.
func (s *Scope) made(name string) {
	if s == nil || s.order == 0 {
		fail(name, gate.Made(false, "open one with locus.NewScope or locus.Scoped"))
	}
}
