package nn

import "github.com/locusml/locus"

// fail panics with a misuse of a layer.
func fail(kind error, op, msg, fix string) {
	panic(&locus.Error{Kind: kind, Op: op, Msg: msg, Fix: fix})
}
