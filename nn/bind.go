package nn

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/locusml/locus"
)

// Bind returns a network of m's structure that uses the tensors of a tree, with
// their history: gradients flow through them. The tree must have all of m's
// parameters; their types and devices may be others than m's.
//
// The copy computes in m's place. A [Buffer] that the tree lacks, and what
// dropout draws from, are m's own: what the copy does to running statistics
// arrives in m, and masks go on where m's were. A buffer that the tree has is the
// copy's own; its new value is found in the copy. Modes are those of m and can be
// changed apart from it. Any number of goroutines may bind one network.
//
// A buffer that is a *locus.Tensor field cannot be shared. It must be in the tree;
// make the field a *Buffer for the rest of the rule.
func Bind[M any](m M, tree Tree) M {
	return bind("nn.Bind", m, tree, true)
}

// Apply computes the network on x as in inference (no dropout, running statistics),
// with the tensors of a tree in place of its own: a function of its arguments.
// Gradients flow to the tree's tensors if they were made with RequireGrad. Buffers
// that the tree lacks are the network's. The network is not changed, and its mode
// does not matter; any number of goroutines may call it.
func Apply(m Module, tree Tree, x *locus.Tensor) *locus.Tensor {
	checkModule("nn.Apply", m)
	checkTensor("nn.Apply", x)
	return Eval(bind("nn.Apply", m, tree, false)).Forward(x)
}

// ApplyTrain computes the network on x as in training (dropout with the masks of
// key, statistics of the batch), with the tensors of a tree in place of its own,
// and returns the new values of its buffers, such as running statistics: a function
// of its arguments, which returns the same for the same ones. Gradients flow to the
// tree's tensors if they were made with RequireGrad. Buffers that the tree lacks
// begin as the network's. The network is not changed, and its mode does not matter;
// any number of goroutines may call it.
//
//	leaves := state.RequireGrad()
//	y, kept := nn.ApplyTrain(net, leaves, key.Fold(step), x)
//	grads := leaves.Grad(loss(y))
//	state = update(state, grads).With(kept)
//
// A network with several inputs does the same by hand:
//
//	b := nn.Reseed(nn.Train(nn.Bind(net, leaves)), key) // leaves has the buffers too
//	y := b.Forward(x1, x2)
//	state = state.With(nn.TreeOf(b))
func ApplyTrain(m Module, tree Tree, key locus.Key, x *locus.Tensor) (y *locus.Tensor, kept Tree) {
	checkModule("nn.ApplyTrain", m)
	checkTensor("nn.ApplyTrain", x)
	b := Reseed(Train(bind("nn.ApplyTrain", m, tree, false)), key)
	y = b.Forward(x)
	kept = Tree{}
	for _, e := range Buffers(b) {
		if v := e.Value(); v != nil {
			kept[e.Name] = v.Detach()
		}
	}
	return y, kept
}

// bind makes a network of m's structure. shared: buffers that the tree lacks, and
// what dropout draws from, are m's; otherwise the copy has its own, which begin as
// m's are.
func bind[M any](op string, m M, tree Tree, shared bool) M {
	params, buffers, raw := match(op, m, tree, shared)
	c := cloneAll(&cloner{
		parameter: func(p *Parameter) *Parameter {
			t, ok := params[p]
			if !ok { // no part of the network: of a field with the tag "-"
				return p
			}
			q := p.unmade()
			q.value.Store(t)
			return q
		},
		buffer: func(b *Buffer) *Buffer {
			t, ok := buffers[b]
			if !ok && shared {
				return b
			}
			q := b.unmade()
			if !ok {
				t = b.Value()
			}
			if t != nil {
				q.value.Store(&bufferValue{t: t.Detach()})
			}
			return q
		},
		tensor: func(t *locus.Tensor) *locus.Tensor { return t },
		random: func(r *randomState) *randomState {
			if shared {
				return r
			}
			return r.apart()
		},
		shared: true,
	}, m)
	if raw {
		for _, e := range State(c) {
			if t, ok := tree[e.Name]; ok && e.raw() {
				e.bind(t)
			}
		}
	}
	return c
}

// bind puts a tensor into a field as it is: a parameter with its history.
func (e Entry) bind(t *locus.Tensor) {
	if e.Kind == Kept {
		t = t.Detach()
	}
	e.field.Set(reflect.ValueOf(t))
}

// match finds the places of a tree's tensors in a network, and refuses a tree that
// does not fit. raw: some are fields of type *locus.Tensor.
func match(op string, m any, tree Tree, shared bool) (params map[*Parameter]*locus.Tensor, buffers map[*Buffer]*locus.Tensor, raw bool) {
	params, buffers = map[*Parameter]*locus.Tensor{}, map[*Buffer]*locus.Tensor{}
	state, err := byName(op, m)
	if err != nil {
		panic(err)
	}
	var missing, lost []string
	for _, name := range slices.Sorted(maps.Keys(state)) {
		e := state[name]
		raw = raw || e.raw()
		t, ok := tree[name]
		switch {
		case !ok && e.Kind == Trained:
			missing = append(missing, e.Name)
		case !ok && e.raw() && shared:
			lost = append(lost, e.Name)
		}
		if !ok {
			continue
		}
		e.checkBound(op, t)
		switch {
		case e.param != nil:
			if e.Kind == Kept {
				t = t.Detach()
			}
			params[e.param] = t
		case e.buffer != nil:
			buffers[e.buffer] = t
		}
	}
	var unknown []string
	for _, n := range tree.Names() {
		if _, ok := state[n]; !ok {
			unknown = append(unknown, n)
		}
	}
	switch {
	case len(missing)+len(unknown) > 0:
		var parts []string
		if len(missing) > 0 {
			parts = append(parts, "the tree lacks "+strings.Join(missing, ", "))
		}
		if len(unknown) > 0 {
			parts = append(parts, "the network has no "+strings.Join(unknown, ", "))
		}
		fail(locus.ErrArgument, op, strings.Join(parts, "; "), "take trees from nn.Init, nn.TreeOf or nn.Trainable of the same network")
	case len(lost) > 0:
		fail(locus.ErrArgument, op, strings.Join(lost, ", ")+": a buffer in a field of type *locus.Tensor cannot be shared with a copy; what the copy computes for it would be lost",
			"make the field a *nn.Buffer: nn.NewBuffer(t) to begin with, .Value() to read, .Update(f) for a new value; or put it into the tree")
	}
	return params, buffers, raw
}

// checkBound panics unless t may be used instead of the entry's value: the
// shape must be the same.
func (e Entry) checkBound(op string, t *locus.Tensor) {
	if t == nil {
		fail(locus.ErrArgument, op, "the tree's "+e.Name+" is nil", "")
	}
	checkTensor(op, t)
	if k := e.known(); !k.allows(t.Shape()) {
		fail(locus.ErrShape, op, fmt.Sprintf("the tree's %s has shape %v, the network's %v", e.Name, t.Shape(), k.shape), "")
	}
}
