package locus

import (
	"slices"

	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
)

// Gradients of leaves that wait for each other: those that are converted from half precision,
// and those that are put in order, are done together.

// late is the gradient of a node's result that is passed on at the end.
type late struct {
	n *node
	g *Tensor
}

// defers reports whether the gradient of n's result is passed on at the end: that of
// a leaf in another type, as all parameters are in mixed precision. Converting them
// together takes one launch. Where a leaf has other gradients they are added in the
// order in which they come, so that bits do not depend on who asks.
func (e *engine) defers(n *node, g *Tensor) bool {
	if e.create || g.lane != nil || n.def == nil || n.def.ID != op.CastTo || !g.dtype.IsFloat() {
		return false
	}
	to := n.inputs[0]
	if to.node == nil || to.node.leaf == nil || to.dtype == g.dtype || !e.useful[to.node] || e.uses[to.node] > 1 {
		return false
	}
	if e.waits == nil {
		e.waits = map[*node]bool{}
	}
	e.waits[to.node] = true
	e.casts = append(e.casts, late{n, g})
	e.late += g.Bytes()
	return true
}

// convert passes on what defers has kept.
func (e *engine) convert() {
	for len(e.casts) > 0 {
		d := e.casts[0].n.inputs[0].dtype
		var same, others []late
		var grads []*Tensor
		for _, c := range e.casts {
			if c.n.inputs[0].dtype == d {
				same, grads = append(same, c), append(grads, c.g)
			} else {
				others = append(others, c)
			}
		}
		for i, g := range CastAll(grads, d) {
			c := same[i]
			e.held[g.block]++
			e.add(c.n.inputs[0].node, g)
			e.release(g, nil)
			e.release(c.g, c.n)
			if e.frees(c.n) {
				e.freeResult(c.n)
			}
		}
		e.casts = others
	}
	leaves := e.waits
	e.waits = nil
	for _, n := range e.passed { // in a fixed order
		if n.def != nil && n.def.ID == op.CastTo && leaves[n.inputs[0].node] {
			delete(leaves, n.inputs[0].node)
			e.visit(n.inputs[0].node)
		}
	}
	e.putInOrder()
	e.late = 0
}

// turns reports whether g, the gradient of a leaf, waits to be put in order: a filter's
// may lie channels last, and optimizers and those who store gradients want it to lie as the
// filter does. Putting all in order together takes one launch.
func (e *engine) turns(n *node, g *Tensor) bool {
	if n.leaf == nil || !g.place.arranges() || !layout.IsLast(g.shape, g.strides) || g.lane != nil {
		return false
	}
	if e.create { // with its history
		e.replace(n, g.contiguous())
		return false
	}
	if slices.Contains(e.turned, n) {
		return true
	}
	e.turned = append(e.turned, n)
	e.late += g.Bytes()
	if e.turning += g.Bytes(); e.turning >= turnBytes {
		e.putInOrder()
	}
	return true
}

// turnBytes is how many bytes of gradients wait to be put in order before they are: while
// they are, there are two of each.
const turnBytes = 16 << 20

// putInOrder passes on what turns has kept.
func (e *engine) putInOrder() {
	if len(e.turned) == 0 {
		return
	}
	leaves := e.turned
	e.turned, e.turning = nil, 0
	grads := make([]*Tensor, len(leaves))
	for i, n := range leaves {
		grads[i] = e.grads[n]
	}
	for i, g := range contiguousAll(grads) {
		e.replace(leaves[i], g)
		e.visit(leaves[i])
	}
}

// replace puts g in place of the gradient of a node's result.
func (e *engine) replace(n *node, g *Tensor) {
	e.held[g.block]++
	e.release(e.grads[n], nil)
	e.grads[n] = g
}
