package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Gradients and the axes that Vmaps hide. Where a Vmap has ended, the gradient of what
// was the same for all its slices is the sum over them. Inside, where the result itself
// stands for all slices, each has a gradient of its own.

// inLanes returns the seed of an output: it has the lanes that the output has, so that
// every gradient has the lanes of its result.
func (e *engine) inLanes(output, seed *Tensor) *Tensor {
	if output.lane == nil && seed.lane == nil {
		return seed
	}
	if with := output.lane.missing(seed.lane); with != seed.lane {
		seed = seed.alias()
		seed.lane = with
	}
	e.lanes = seed.lane.missing(e.lanes)
	return seed
}

// through returns the gradients that n's rule makes of g. The weight of a product that is
// the same for all slices of a Vmap that has ended gets the gradient of one large
// product: one for each slice, to be added up, would take as many times the memory.
func (e *engine) through(n *node, rule gradient, g *Tensor) []*Tensor {
	if g.lane == nil || n.def == nil || n.def.ID != op.Linear && n.def.ID != op.MatMul || !n.needs(1) || len(n.inputs[1].shape) != 2 {
		return rule(n, g)
	}
	for _, l := range lanesOf(g.lane) {
		shared := func(t *Tensor) bool { return t.lane.at(l.level) == nil }
		if e.lanes.at(l.level) != nil || shared(n.inputs[0]) || slices.ContainsFunc(n.inputs[1:], func(t *Tensor) bool { return !shared(t) }) {
			continue
		}
		rows := func(t *Tensor) *Tensor { return rows(t.outOfLane(l.level, l.n)) }
		x := n.inputs[0]
		m := &node{def: n.def, attrs: n.attrs, inputs: slices.Clone(n.inputs), out: rows(n.out), skip: n.skip}
		m.inputs[0] = rows(x)
		grads := e.through(m, rule, rows(g))
		if grads[0] != nil {
			grads[0] = grads[0].reshape(append([]int{l.n}, x.shape...)).intoLane(l.level)
		}
		return grads
	}
	return rule(n, g)
}

// settle adds the gradients of n's inputs up over the slices of Vmaps that the inputs
// are outside of, unless the results that gradients are asked for are inside.
func (e *engine) settle(n *node, grads []*Tensor) []*Tensor {
	var level int64
	if n.own != nil {
		level = n.own.level
	}
	for i, g := range grads {
		if g == nil || !e.useful[n.inputs[i].node] || g.lane == nil && n.out.lane == nil {
			continue
		}
		x, summed := n.inputs[i], false
		for _, l := range lanesOf(n.out.lane.missing(g.lane)) {
			switch {
			case l.level == level || x.lane.at(l.level) != nil || e.lanes.at(l.level) != nil:
			case g.lane.at(l.level) != nil:
				g = g.outOfLane(l.level, l.n).Sum(0)
				summed = true
			case n.own != nil: // a gradient of the program's own that is the same for all slices
				g = g.Mul(l.n)
			}
		}
		if each := grads[i]; summed && !e.create && !e.customs[n] && !n.has(each) && e.held[each.block] == 0 && !shared(grads, i) {
			each.freeMemory()
		}
		grads[i] = g
	}
	return grads
}

// shared reports whether gradient i lies in the memory of another.
func shared(grads []*Tensor, i int) bool {
	for j, g := range grads {
		if j != i && g != nil && g.block == grads[i].block {
			return true
		}
	}
	return false
}

// addLanes adds g, the gradient of a leaf, up over the slices of Vmaps that the leaf is
// outside of: one Backward for all slices collects what one for each would.
func (e *engine) addLanes(g *Tensor, leaf *lane) *Tensor {
	for _, l := range lanesOf(g.lane) {
		if leaf.at(l.level) == nil {
			sum := g.outOfLane(l.level, l.n).Sum(0)
			e.held[sum.block]++
			e.release(g, nil)
			g = sum
		}
	}
	return g
}
