package nn

import (
	"maps"
	"slices"
	"strings"

	"github.com/locusml/locus"
)

// Tree holds a network's tensors by name, for a functional style: the network is the recipe,
// the tree its state.
//
//	state := nn.Init(net, key, x)
//	y := nn.Apply(net, state, x)
//	onGPU := state.Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.To(gpu) })
type Tree map[string]*locus.Tensor

// TreeOf returns a network's present tensors, parameters and buffers, without
// history: gradients do not flow to the network ([Trainable] is the tree for
// that). They are its own: an optimizer's step frees what it replaces, so copy what is to be
// kept.
func TreeOf(m any) Tree {
	t := Tree{}
	for _, e := range State(m) {
		if v := e.Value(); v != nil {
			t[e.Name] = v.Detach()
		}
	}
	return t
}

// Trainable returns a network's present parameters as they are: gradients of what
// is computed from them flow to the network, but not to frozen ones. It is what
// [Bind] needs to compute the network with other values that depend on its own, in a lower
// precision for example:
//
//	half := nn.Bind(net, nn.Trainable(net).Map(func(_ string, p *locus.Tensor) *locus.Tensor {
//		return p.Cast(locus.BFloat16)
//	}))
func Trainable(m any) Tree {
	t := Tree{}
	var lazy []string
	for _, e := range Parameters(m) {
		if v := e.Value(); v != nil {
			t[e.Name] = v
		} else {
			lazy = append(lazy, e.Name)
		}
	}
	if len(lazy) > 0 {
		fail(locus.ErrArgument, "nn.Trainable", strings.Join(lazy, ", ")+" have no value yet", "run Forward once first")
	}
	return t
}

// Names returns the names in order.
func (t Tree) Names() []string { return slices.Sorted(maps.Keys(t)) }

// Map returns a tree with f applied to every tensor.
func (t Tree) Map(f func(name string, x *locus.Tensor) *locus.Tensor) Tree {
	if f == nil {
		fail(locus.ErrArgument, "nn.Tree.Map", "the function is nil", "")
	}
	out := make(Tree, len(t))
	for _, n := range t.Names() {
		out[n] = f(n, t[n])
	}
	return out
}

// With returns a tree of all names of t and the others; where several have one,
// the last one's tensor counts.
func (t Tree) With(others ...Tree) Tree {
	out := maps.Clone(t)
	if out == nil {
		out = Tree{}
	}
	for _, o := range others {
		maps.Copy(out, o)
	}
	return out
}

// RequireGrad returns a tree of handles whose gradients can be asked for, with
// [Tree.Grad] or Backward. Tensors that are not of a floating-point type stay as
// they are.
func (t Tree) RequireGrad() Tree {
	return t.Map(func(name string, x *locus.Tensor) *locus.Tensor {
		checkTensor("nn.Tree.RequireGrad", x)
		if !x.DType().IsFloat() {
			return x
		}
		return x.RequireGrad()
	})
}

// Grad returns the gradients of loss with respect to all tensors of t that require
// one, by name. One that loss does not depend on gets zeros.
func (t Tree) Grad(loss *locus.Tensor, opts ...locus.GradOption) Tree {
	checkTensor("nn.Tree.Grad", loss)
	var names []string
	var inputs []*locus.Tensor
	for _, n := range t.Names() {
		if x := t[n]; x != nil && x.RequiresGrad() {
			names, inputs = append(names, n), append(inputs, x)
		}
	}
	if len(inputs) == 0 {
		fail(locus.ErrGrad, "nn.Tree.Grad", "no tensor of the tree requires a gradient", "compute the loss with tree.RequireGrad()")
	}
	out := make(Tree, len(inputs))
	for i, g := range locus.Grad([]*locus.Tensor{loss}, inputs, opts...) {
		out[names[i]] = g
	}
	return out
}

// Devices returns where each tensor lives.
func (t Tree) Devices() map[string]locus.Device {
	out := make(map[string]locus.Device, len(t))
	for n, x := range t {
		checkTensor("nn.Tree.Devices", x)
		out[n] = x.Device()
	}
	return out
}

// Init returns first values for all of a network's parameters and buffers, from
// key, for inputs like x, on x's device. The network itself is left as it is.
func Init(m Module, key locus.Key, x *locus.Tensor) Tree {
	checkModule("nn.Init", m)
	checkTensor("nn.Init", x)
	c := replicate(m, x.Device(), (*randomState).apart)
	rekey(Eval(c), key) // the running statistics are to stay as they begin
	locus.NoGrad(func() { c.Forward(x) })
	return TreeOf(c)
}

// rekey makes every layer draw its first values from keys below key.
func rekey(m any, key locus.Key) {
	i := uint64(0)
	eachLayer(m, func(_ string, l any) {
		if r, ok := l.(interface{ reset(locus.Key) }); ok {
			r.reset(key.Fold(i))
			i++
		}
	})
}

func checkModule(op string, m Module) {
	if m == nil {
		fail(locus.ErrArgument, op, "the network is nil", "")
	}
}
