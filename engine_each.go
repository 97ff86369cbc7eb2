package locus

import (
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
)

// Gradients one by one, as soon as they are final: work on the first of them, such as
// summing them over several ranks, then overlaps with the rest of the backward pass.

// lateBytes is how many bytes of gradients wait to be converted to their leaves' type
// before they are handed out early. If no one asks for that, they all wait for the end,
// where one launch converts them.
const lateBytes = 4 << 20

// finals visits the leaves whose last gradient came from n, which the engine has passed:
// in the engine's own order a leaf may come long after that.
func (e *engine) finals(n *node) {
	if e.left == nil {
		e.left = map[*node]int{}
	}
	for _, t := range n.inputs {
		if t.node == nil || t.node.leaf == nil {
			continue
		}
		left, ok := e.left[t.node]
		if !ok {
			left = e.uses[t.node]
		}
		left--
		e.left[t.node] = left
		if left == 0 {
			e.visit(t.node)
		}
	}
	if e.late >= lateBytes {
		e.convert()
	}
}

// GradEach is [Grad] that passes on each gradient as soon as it is final, while those of
// the other inputs are still being computed: f is called with the position of the input
// and its gradient, on the calling goroutine, once per input. What f starts, such as
// a collective, overlaps with the rest of the backward pass. The order depends only on
// how outputs were computed; inputs that they do not depend on come last, with zeros. f
// may keep and free the gradient, and must not ask for gradients through outputs.
func GradEach(outputs, inputs []*Tensor, f func(i int, g *Tensor), opts ...GradOption) {
	gate.Check("GradEach", gate.Given("the function", f))
	for _, t := range outputs {
		t.checkGrad("GradEach")
	}
	retain, create, free := options("GradEach", opts)
	e := engine{create: create, retain: retain, free: free, wanted: map[*node]*Tensor{}}
	at := map[*node][]int{} // an input may be there twice
	for i, t := range inputs {
		t.check("GradEach")
		t.records("GradEach")
		notesInput(t)
		e.wanted[t.node] = nil
		at[t.node] = append(at[t.node], i)
	}
	if free {
		e.spare(inputs)
	}
	told := make([]bool, len(inputs))
	e.each = func(n *node, g *Tensor) {
		for k, i := range at[n] {
			told[i] = true
			if k == 0 && len(at[n]) == 1 {
				f(i, e.handOver(g))
				continue
			}
			f(i, g.alias()) // two inputs share it: the collector frees it
		}
	}
	e.run(outputs, make([]*Tensor, len(outputs)))
	for i, t := range inputs {
		if !told[i] {
			f(i, t.ZerosLike())
		}
	}
}

// records panics unless gradients flow to t.
func (t *Tensor) records(name string) {
	if t.node == nil {
		fail(name, &op.Problem{Kind: ErrGrad, Msg: "an input records no gradient", Fix: "make it with .RequireGrad() before computing with it"}, t)
	}
}
