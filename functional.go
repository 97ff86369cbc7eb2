package locus

import (
	"slices"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
)

// ValueAndGrad returns a function that computes f, whose result has one element,
// and its gradients with respect to all arguments, inside [NoGrad] too. Where
// arguments have a history, value and gradients have one.
//
//	loss, grads := locus.ValueAndGrad(loss)(w, b)
func ValueAndGrad(f func(args ...*Tensor) *Tensor) func(args ...*Tensor) (value *Tensor, grads []*Tensor) {
	gate.Check("ValueAndGrad", gate.Given("the function", f))
	return func(args ...*Tensor) (*Tensor, []*Tensor) {
		y, leaves, history := recorded("ValueAndGrad", f, args)
		if y.Len() != 1 {
			failf("ValueAndGrad", ErrGrad, []*Tensor{y}, "the function's result has %d elements; want one", y.Len())
		}
		if y.node == nil { // it does not depend on its arguments
			grads := make([]*Tensor, len(args))
			for i, a := range args {
				grads[i] = a.ZerosLike()
			}
			return y, grads
		}
		var opts []GradOption
		if history {
			opts = []GradOption{CreateGraph}
		}
		grads := gradFrom([]*Tensor{y}, []*Tensor{y.OnesLike()}, leaves, leaves, opts)
		if !history {
			y = y.detach()
		}
		return y, grads
	}
}

// recorded computes f of handles of the arguments, to which gradients flow. It
// records inside [NoGrad] too, as the gradients are what was asked for. With
// history, which it reports, arguments have one themselves, and so have results.
func recorded(name string, f func(args ...*Tensor) *Tensor, args []*Tensor) (y *Tensor, leaves []*Tensor, history bool) {
	usable(name, args)
	history = tracked(args)
	leaves = make([]*Tensor, len(args))
	for i, a := range args {
		if !history {
			a = a.detach()
		}
		leaves[i] = a.separate()
	}
	withGrad(func() { y = f(leaves...) })
	y.check(name)
	return y, leaves, history
}

var argumentRule = &ownRule{name: "argument", back: func(_ *node, g *Tensor) []*Tensor { return []*Tensor{g} }}

// separate returns a handle of t whose gradient can be asked for by itself: a
// plain t might be another argument too, or have been computed from one, and
// would then get its gradient as well. Gradients of gradients reach t through it.
func (t *Tensor) separate() *Tensor {
	if t.node == nil {
		return t.RequireGrad()
	}
	v := t.alias()
	v.node = &node{own: argumentRule, inputs: []*Tensor{t}, out: v}
	return v
}

// VJP computes f and returns a function that multiplies a vector of the shape of
// f's result with f's Jacobian: the gradients of Σ v·f with respect to args. Where
// args have a history, value and gradients have one too.
func VJP(f func(args ...*Tensor) *Tensor, args ...*Tensor) (value *Tensor, vjp func(v *Tensor) []*Tensor) {
	gate.Check("VJP", gate.Given("the function", f))
	y, leaves, history := recorded("VJP", f, args)
	value = y
	if !history {
		value = y.detach()
	}
	return value, func(v *Tensor) []*Tensor {
		v.check("VJP")
		if !sameShape(v.shape, y.shape) {
			failf("VJP", ErrShape, []*Tensor{v, y}, "the vector's shape is not the result's")
		}
		if y.node == nil {
			return gradFrom(nil, nil, leaves, leaves, nil)
		}
		opts := []GradOption{RetainGraph}
		if history || v.node != nil {
			opts = []GradOption{CreateGraph}
		}
		return gradFrom([]*Tensor{y}, []*Tensor{v}, leaves, leaves, opts)
	}
}

// JVP computes f and its change along tangents, one per argument: the Jacobian
// times a vector. It takes the gradient of a gradient: vᵀJ is linear in v, and
// the gradient of (vᵀJ)·t with respect to v is J·t. Where args or tangents have a
// history, value and change have one too.
func JVP(f func(args ...*Tensor) *Tensor, args, tangents []*Tensor) (value, change *Tensor) {
	gate.Check("JVP", gate.Given("the function", f))
	if len(args) != len(tangents) {
		failf("JVP", ErrArgument, nil, "%d arguments and %d tangents", len(args), len(tangents))
	}
	usable("JVP", tangents)
	y, leaves, history := recorded("JVP", f, args)
	if y.node == nil {
		return y, y.ZerosLike()
	}
	withGrad(func() { change = along(y, leaves, tangents, history || tracked(tangents)) })
	if !history {
		y = y.detach()
	}
	return y, change
}

// along returns the change of y with args along tangents.
func along(y *Tensor, args, tangents []*Tensor, history bool) *Tensor {
	v := y.detach().ZerosLike().RequireGrad()
	rows := gradFrom([]*Tensor{y}, []*Tensor{v}, args, args, []GradOption{CreateGraph})
	var dot *Tensor
	for i, r := range rows {
		if !sameShape(r.shape, tangents[i].shape) {
			failf("JVP", ErrShape, []*Tensor{args[i], tangents[i]}, "argument %d and its tangent differ in shape", i)
		}
		d := r.Mul(tangents[i]).Sum()
		if dot == nil {
			dot = d
		} else {
			dot = dot.Add(d)
		}
	}
	if dot == nil || dot.node == nil {
		return y.ZerosLike()
	}
	var opts []GradOption
	if history {
		opts = []GradOption{CreateGraph}
	}
	return gradFrom([]*Tensor{dot}, []*Tensor{dot.OnesLike()}, []*Tensor{v}, nil, opts)[0]
}

// Checkpoint computes f(args) without keeping what happens inside; a gradient
// computes f again. It trades time for memory. f must return the same result both
// times: random numbers in it must come from keys that are the same both times, so a
// layer such as nn.Dropout, which draws anew at each call, must be outside of it. Whatever
// needs a gradient must be an argument: a parameter that f takes from elsewhere is an
// [ErrGrad]. nn.Bind makes a network compute with arguments.
func Checkpoint(f func(args ...*Tensor) *Tensor, args ...*Tensor) *Tensor {
	gate.Check("Checkpoint", gate.Given("the function", f))
	usable("Checkpoint", args)
	if !tracked(args) {
		return f(args...)
	}
	var y *Tensor
	NoGrad(func() { y = f(args...) })
	y.check("Checkpoint")
	if y.node != nil { // f returned an argument
		y = y.detach()
	}
	if !y.dtype.IsFloat() {
		return y
	}
	y = y.alias()
	y.node = &node{inputs: args, out: y, own: &ownRule{name: "checkpoint", back: func(n *node, g *Tensor) []*Tensor {
		return n.again(g, func(in []*Tensor) *Tensor { return f(in...) })
	}}}
	return y
}

// again computes a node's result once more with f, and passes the gradient g of it
// through that to the node's inputs.
func (n *node) again(g *Tensor, f func(in []*Tensor) *Tensor) []*Tensor {
	in := make([]*Tensor, len(n.inputs))
	var wanted, ends []*Tensor
	var at []int
	history := g.node != nil
	for i, t := range n.inputs {
		in[i] = t
		history = history || t.node != nil
		needed := n.needs(i) && t.dtype.IsFloat()
		if needed || t.node != nil {
			in[i] = t.separate()
			ends = append(ends, in[i])
		}
		if needed {
			wanted, at = append(wanted, in[i]), append(at, i)
		}
	}
	var opts []GradOption
	if history {
		opts = []GradOption{CreateGraph}
	}
	grads := make([]*Tensor, len(in))
	withGrad(func() { // also where Backward is called inside NoGrad
		y := f(in)
		if y.node == nil {
			return // it does not depend on its inputs
		}
		checkCaptured(y, ends)
		from, custom := gradIn([]*Tensor{y}, []*Tensor{g}, wanted, ends, opts)
		n.within = custom
		for j, t := range from {
			grads[at[j]] = t
		}
	})
	return grads
}

// checkCaptured makes sure that no gradient is lost in silence: everything that y
// depends on and that requires one is among the arguments.
func checkCaptured(y *Tensor, args []*Tensor) {
	known := nodesOf(args)
	for _, n := range sorted([]*node{y.node}, known) {
		if n.leaf != nil && !known[n] {
			fail("Checkpoint", &op.Problem{Kind: ErrGrad, Msg: "the function uses a tensor that requires a gradient and is not one of its arguments",
				Fix: "pass it as an argument, with which nn.Bind makes a network compute, or use its Detach() if it needs no gradient"})
		}
	}
}

// Custom computes forward(args) and attaches the program's own gradient to it:
// backward gets the arguments, the result and the result's gradient, and returns
// one gradient per argument, nil where none flows. It may keep its arguments, and
// return tensors that the program holds: none of them is freed. For gradients of
// gradients, write backward with tensor ops.
func Custom(name string, forward func(args ...*Tensor) *Tensor, backward func(args []*Tensor, result, grad *Tensor) []*Tensor, args ...*Tensor) *Tensor {
	gate.Check(name, gate.Given("the function forward", forward), gate.Given("the function backward", backward))
	usable(name, args)
	var y *Tensor
	NoGrad(func() { y = forward(args...) })
	y.check(name)
	if !tracked(args) || !y.dtype.IsFloat() {
		return y
	}
	y = y.detach().alias()
	y.node = &node{inputs: args, out: y, own: &ownRule{name: name, custom: true, back: func(n *node, g *Tensor) []*Tensor {
		grads := backward(n.inputs, n.out, g)
		if len(grads) != len(args) {
			failf(name, ErrGrad, nil, "its backward returned %d gradients for %d arguments", len(grads), len(args))
		}
		grads = slices.Clone(grads)
		for i, d := range grads {
			if d != nil {
				d.check(name)
				grads[i] = d.alias() // it may be the program's own
			}
			if d != nil && !sameShape(d.shape, n.inputs[i].shape) {
				fail(name, op.Problemf(ErrGrad, "its backward returned a gradient of shape %[2]s for argument %[1]d; want %[3]s", i, op.ShapeString(d.shape), op.ShapeString(n.inputs[i].shape)))
			}
		}
		return grads
	}}}
	return y
}
