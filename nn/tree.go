package nn

import (
	"maps"
	"slices"
	"strings"

	"github.com/locusml/locus"
)

// Tree holds a network's tensors by name, for those who like functions better
// than objects: the network is the recipe, the tree its state.
//
//	params := nn.Init(net, key, x)
//	y := nn.Apply(net, params, x)
//	onGPU := params.Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.To(gpu) })
type Tree map[string]*locus.Tensor

// TreeOf gives a network's present tensors. They are its own: an optimizer's
// step frees what it replaces, so copy what is to be kept.
func TreeOf(m any) Tree {
	t := Tree{}
	for _, e := range State(m) {
		if v := e.Value(); v != nil {
			t[e.Name] = v.Detach()
		}
	}
	return t
}

// Names gives the names in order.
func (t Tree) Names() []string { return slices.Sorted(maps.Keys(t)) }

// Map gives a tree with f applied to every tensor.
func (t Tree) Map(f func(name string, x *locus.Tensor) *locus.Tensor) Tree {
	out := make(Tree, len(t))
	for _, n := range t.Names() {
		out[n] = f(n, t[n])
	}
	return out
}

// Devices tells where each tensor lives.
func (t Tree) Devices() map[string]locus.Device {
	out := make(map[string]locus.Device, len(t))
	for n, x := range t {
		out[n] = x.Device()
	}
	return out
}

// Init gives first values for all of a network's parameters, from key, for
// inputs like x, on x's device. The network itself is left as it is.
func Init(m Module, key locus.Key, x *locus.Tensor) Tree {
	c := CopyTo(m, x.Device())
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

// Apply computes the network on x with the tensors of a tree in place of its own,
// which must have the same names. Gradients flow to the tree's tensors if they
// were made with RequireGrad. The network is not changed; any number of
// goroutines may call it.
func Apply(m Module, params Tree, x *locus.Tensor) *locus.Tensor {
	return Bind(m, params).Forward(x)
}

// Bind gives a network of m's structure that uses the tensors of a tree.
func Bind[M any](m M, params Tree) M {
	c := cloneWith(m, func(t *locus.Tensor) *locus.Tensor { return t })
	var missing []string
	for _, e := range State(c) {
		t, ok := params[e.Name]
		if !ok {
			missing = append(missing, e.Name)
			continue
		}
		e.bind(t)
	}
	if len(missing) > 0 {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "nn.Bind", Msg: "the tree lacks " + strings.Join(missing, ", ")})
	}
	return c
}
