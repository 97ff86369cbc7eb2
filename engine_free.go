package locus

import (
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// What the backward pass frees on its way: results that no gradient reads any more, and
// gradients that were passed on.

// letGo releases what was saved. The pool is told, because only now is it garbage,
// all at once, and it is most of what a training step has computed.
func (e *engine) letGo() {
	var blocks []*memory.Block
	for _, n := range e.passed {
		n.spent.Store(true)
		if n.out != nil && n.out.owner && n.out.block != nil {
			blocks = append(blocks, n.out.block)
		}
		for _, t := range n.saved {
			if t.owner && t.block != nil {
				blocks = append(blocks, t.block)
			}
		}
		n.inputs, n.out, n.saved, n.filter = nil, nil, nil, nil
	}
	memory.Drop(blocks)
}

// noteCustom notes that a rule of the program has seen the gradient of n's result, and made
// those of its inputs.
func (e *engine) noteCustom(n *node) {
	if e.customs == nil {
		e.customs = map[*node]bool{}
	}
	e.customs[n] = true
}

// unread notes that the gradient has passed n, and frees those operands that it has
// passed everywhere else too, where the gradients of their own ops do not read them: the
// memory is there while those are computed. An operand that has got no gradient stays, with
// all that the pass does not reach: another pass may.
func (e *engine) unread(n *node) {
	for _, t := range n.inputs {
		m := t.node
		if m == nil || m.leaf != nil {
			continue
		}
		got := e.grads[m] != nil || len(e.pieces[m]) > 0
		if e.read[m]++; e.read[m] == e.uses[m] && got && e.frees(m) && e.useful[m] && m.outUnread() {
			e.freeOut(m) // what was saved is read
		}
	}
}

// frees reports whether the result of a node that the gradient has passed is freed.
func (e *engine) frees(n *node) bool { return e.free || n.lost && !e.retain && !e.create }

// freeResult frees the result of a node that the gradient has passed, and with
// it all that needed the result. Views have no memory of their own, and where
// that of a custom node comes from is not known.
func (e *engine) freeResult(n *node) {
	if e.freeOut(n) && n.def.Saves {
		for _, t := range n.saved {
			t.Free()
		}
	}
}

// freeOut frees the result itself, and reports whether it may be freed.
func (e *engine) freeOut(n *node) bool {
	if n.def == nil || n.def.Family == op.ViewFamily || e.keep[n.out.block] || e.held[n.out.block] > 0 { // it may be a gradient too
		return false
	}
	n.out.Free()
	return true
}

// spare keeps tensors from being freed.
func (e *engine) spare(ts []*Tensor) {
	if e.keep == nil {
		e.keep = map[*memory.Block]bool{}
	}
	for _, t := range ts {
		e.keep[t.block] = true
	}
}

// release frees a gradient that was passed on, unless it shares its memory with
// one that is still on its way, or the program may hold it. This keeps the
// memory of a long backward pass as low as the collector cannot.
func (e *engine) release(g *Tensor, n *node) {
	e.held[g.block]--
	if e.customs[n] {
		e.held[g.block]++ // for good
	}
	if e.held[g.block] == 0 && !e.create {
		g.freeMemory()
	}
}
