package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// fail panics with a misuse of a layer.
func fail(kind error, op, msg, fix string) {
	panic(&locus.Error{Kind: kind, Op: op, Msg: msg, Fix: fix})
}

// made panics unless a layer came from its constructor: whether it did is for the
// caller to say. It is called before a layer reads its own fields.
func made(name string, ok bool) {
	if !ok {
		gate.Receiver(name, false, "make the layer with "+name)
	}
}

// sizes panics unless a parameter can have these sizes, before it is made.
func sizes(name string, shape ...int) { gate.Check(name, gate.Shape(shape...)) }

// present panics if a module is nil.
func present(name, what string, m Module) { gate.Check(name, gate.Given(what, m)) }
