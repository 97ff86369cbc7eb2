package nn

import "github.com/locusml/locus"

// Freeze freezes every parameter of a network, so that training leaves it as it
// is: the body of a network that gets a new head, say. It returns m. A raw tensor
// cannot be frozen and is an ErrArgument: make it a [Parameter].
func Freeze[M any](m M) M {
	for _, p := range switchable(m, "nn.Freeze") {
		p.Freeze()
	}
	return m
}

// Unfreeze undoes [Freeze].
func Unfreeze[M any](m M) M {
	for _, p := range switchable(m, "nn.Unfreeze") {
		p.Unfreeze()
	}
	return m
}

// switchable lists a network's parameters, all of which must be able to be frozen.
func switchable(m any, op string) []*Parameter {
	var l []*Parameter
	for _, e := range Parameters(m) {
		if e.param == nil {
			panic(&locus.Error{Kind: locus.ErrArgument, Op: op, Msg: e.Name + " is a raw tensor, which cannot be frozen", Fix: "make the field a *nn.Parameter"})
		}
		l = append(l, e.param)
	}
	return l
}

// SetFrozen freezes or unfreezes the parameter, as [Parameter.Freeze] does. A
// buffer, which is never trained, and a raw tensor stay as they are.
func (e Entry) SetFrozen(on bool) {
	if e.param == nil || e.Kind == Kept || e.param.Frozen() == on {
		return
	}
	if on {
		e.param.Freeze()
	} else {
		e.param.Unfreeze()
	}
}
