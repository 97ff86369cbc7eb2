package locus

import (
	"slices"

	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// engine walks from results back to what they were computed from.
type engine struct {
	create  bool
	retain  bool
	free    bool              // the results on the way
	collect bool              // add to the leaves' gradients
	wanted  map[*node]*Tensor // or return those of these nodes
	ends    map[*node]bool    // nodes that are not passed

	useful  map[*node]bool         // nodes through which a gradient must flow
	passed  []*node                // nodes whose inputs have got their gradients
	grads   map[*node]*Tensor      // gradients on their way
	held    map[*memory.Block]int  // how many of them share a block
	keep    map[*memory.Block]bool // what free spares: outputs, inputs and what is read without its history
	casts   []late                 // gradients of leaves that are to be converted
	turned  []*node                // leaves whose gradients lie channels last and are to be put in order
	turning int                    // their bytes
	waits   map[*node]bool         // leaves that wait for them
	uses    map[*node]int          // how often nodes are operands
	read    map[*node]int          // how often of nodes that the gradient has passed
	slices  map[*node]int          // how often of slices
	pieces  map[*node][]piece      // gradients of parts of their results
	sums    map[*node]*Tensor      // gradients of biases that came with an activation's: see summed
	customs map[*node]bool         // nodes whose gradients the program has had a hand in
	lanes   *lane                  // that outputs and seeds have

	each func(n *node, g *Tensor) // is told of each wanted gradient as soon as it is final; may be nil
	left map[*node]int            // with each: how many uses of a leaf have not been passed yet
	late int                      // with each: bytes of the gradients that wait to be converted
}

// run passes gradients back from outputs, those of which are seeds; a seed that is nil is
// ones.
func (e *engine) run(outputs, seeds []*Tensor) {
	e.grads, e.held = map[*node]*Tensor{}, map[*memory.Block]int{}
	var roots []*node
	if e.free {
		e.spare(outputs)
	}
	for i, t := range outputs {
		if t.node == nil {
			continue
		}
		if seeds[i] == nil {
			t, seeds[i] = e.begin(t)
		}
		roots = append(roots, t.node)
		seeds[i] = e.inLanes(t, seeds[i])
		e.held[seeds[i].block]++ // seeds are the caller's
		e.add(t.node, seeds[i])
	}
	order := sorted(roots, e.ends)
	e.prune(order)
	for i := len(order) - 1; i >= 0; i-- {
		e.visit(order[i])
		e.unread(order[i])
		if e.each != nil {
			e.finals(order[i])
		}
	}
	e.convert()
	if !e.retain {
		e.letGo()
	}
}

// begin returns where a pass that begins with ones at t begins, and the gradient there. If t
// is a number times another scalar, as a mean is, that is the other one and the number: one
// launch instead of two.
func (e *engine) begin(t *Tensor) (at, seed *Tensor) {
	n := t.node
	_, wanted := e.wanted[n]
	if wanted || e.create || e.ends[n] || t.lane != nil || n.def == nil || n.def.ID != op.Mul || n.spent.Load() || t.Len() != 1 {
		return t, t.OnesLike()
	}
	x, c := n.inputs[0], n.inputs[1]
	if !c.constant || c.dtype != t.dtype || x.node == nil || !sameShape(x.shape, t.shape) {
		return t, t.OnesLike()
	}
	e.passed = append(e.passed, n)
	return x, t.fullOf(elem.Get(c.dtype, bytesOf([]uint64{c.bits})), x.shape)
}

// nodesOf returns the nodes of tensors that have one.
func nodesOf(ts []*Tensor) map[*node]bool {
	nodes := make(map[*node]bool, len(ts))
	for _, t := range ts {
		if t.node != nil {
			nodes[t.node] = true
		}
	}
	return nodes
}

// sorted lists the nodes below roots, each behind those it was computed from. It
// does not look behind ends.
func sorted(roots []*node, ends map[*node]bool) []*node {
	var order []*node
	type frame struct {
		n *node
		i int
	}
	seen := map[*node]bool{}
	var stack []frame
	push := func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		stack = append(stack, frame{n, 0})
	}
	for _, r := range roots {
		push(r)
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.i < len(top.n.inputs) && !ends[top.n] {
				top.i++
				push(top.n.inputs[top.i-1].node)
				continue
			}
			order = append(order, top.n)
			stack = stack[:len(stack)-1]
		}
	}
	return order
}

// prune finds the nodes between the results and what is wanted: only there does
// a gradient flow.
func (e *engine) prune(order []*node) {
	e.useful, e.uses, e.read, e.slices = make(map[*node]bool, len(order)), map[*node]int{}, map[*node]int{}, map[*node]int{}
	for _, n := range order {
		_, useful := e.wanted[n]
		// What lies behind a released node is not known: assume the worst.
		useful = useful || n.spent.Load() || e.collect && n.leaf != nil
		for i, t := range n.inputs {
			useful = useful || t.node != nil && e.useful[t.node]
			if t.node != nil {
				e.uses[t.node]++
				if n.def != nil && n.def.ID == op.Sliced {
					e.slices[t.node]++
				}
			} else if e.free {
				e.spare(n.inputs[i : i+1]) // it may be a result that was detached
			}
		}
		e.useful[n] = useful
	}
}

// visit passes the gradient of a node's result on to its inputs.
func (e *engine) visit(n *node) {
	e.join(n)
	g := e.grads[n]
	if g == nil || !e.useful[n] || e.waits[n] || e.turns(n, g) {
		return
	}
	g = e.grads[n]
	delete(e.grads, n)
	if _, ok := e.wanted[n]; ok {
		e.wanted[n] = g
		goesOn := !n.spent.Load() && n.leaf == nil && e.passes(n)
		if goesOn {
			e.held[g.block]++
		}
		if e.each != nil {
			e.each(n, g)
		}
		if !goesOn {
			return
		}
	}
	if n.spent.Load() {
		fail(n.String(), &op.Problem{Kind: ErrGrad, Msg: "a gradient through this op was asked for before, and what it needs was released",
			Fix: "pass locus.RetainGraph to the first call"})
	}
	if n.leaf != nil {
		if e.collect {
			g = e.addLanes(g, n.lane)
			if e.held[g.block] > 1 && !e.create { // a leaf owns what it collects
				c := g.Copy()
				e.held[c.block]++
				e.release(g, nil)
				g = c
			}
			if n.leaf.now().add(e.handOver(g)) {
				e.release(g, nil)
			}
		}
		return
	}
	e.passed = append(e.passed, n)
	if e.defers(n, g) || e.keeps(n, g) {
		return
	}
	var rule gradient
	if n.own != nil {
		rule = n.own.back
	} else {
		rule = gradients[n.def.ID]
		if rule == nil {
			fail(n.def.Name, op.Problemf(ErrGrad, "%s has no gradient; detach its result if none is wanted", n.def.Name), n.inputs...)
		}
	}
	var grads []*Tensor
	old := e.added(n, g)
	if old != nil {
		grads = e.addTo(n, old, g)
	} else if grads = e.summed(n, g); grads == nil {
		seen := n.seen(e.useful, e.create)
		if seen.sums = e.sums[n]; seen.sums != nil {
			delete(e.sums, n)
		}
		grads = e.through(seen, rule, g)
		if seen.custom() {
			e.noteCustom(n)
		}
		grads = e.settle(n, grads)
	}
	passed := func(i int) bool { return grads[i] != nil && e.useful[n.inputs[i].node] }
	if e.customs[n] { // what they are made of belongs to the program
		for _, gi := range grads {
			if gi != nil {
				e.held[gi.block]++
			}
		}
	}
	for i, gi := range grads {
		if passed(i) {
			e.held[gi.block]++ // they may share memory: it stays until all are passed on
			if n.has(gi) {
				e.held[gi.block]++ // it is not ours: it stays
			}
		}
	}
	for i, gi := range grads {
		if passed(i) {
			e.add(n.inputs[i].node, gi)
		}
	}
	for i, gi := range grads {
		if passed(i) {
			e.release(gi, nil)
		}
	}
	if old != nil {
		e.release(old, nil)
	}
	e.release(g, n)
	if n.filter != nil && !e.retain {
		n.filter.Free()
	}
	if e.frees(n) {
		e.freeResult(n)
	}
}

// has reports whether t lives in the memory of one of n's tensors: a rule may
// return an operand.
func (n *node) has(t *Tensor) bool {
	for _, x := range n.inputs {
		if x.block == t.block {
			return true
		}
	}
	for _, x := range n.saved {
		if x.block == t.block {
			return true
		}
	}
	return n.out != nil && n.out.block == t.block
}

// handOver returns g, which leaves the engine, as the owner of its memory, or as a
// view of it if that is shared: with another gradient, or with a graph that was
// asked for.
func (e *engine) handOver(g *Tensor) *Tensor {
	if e.held[g.block] == 1 && !e.create {
		return g.owned()
	}
	return g.alias()
}

// passes reports whether a gradient must flow through n to its inputs.
func (e *engine) passes(n *node) bool {
	return !e.ends[n] && slices.ContainsFunc(n.inputs, func(t *Tensor) bool { return t.node != nil && e.useful[t.node] })
}

// add adds to the gradient of a node's result.
func (e *engine) add(n *node, g *Tensor) {
	if !e.create {
		g = g.detach()
	}
	old := e.grads[n]
	if old == nil {
		e.grads[n] = g
		e.held[g.block]++
		return
	}
	sum := e.sum(old, g)
	e.grads[n] = sum
	e.held[sum.block]++
	e.release(old, nil)
}

// seen returns n as its rule sees it. Without history, computing with its tensors
// records nothing.
func (n *node) seen(useful map[*node]bool, history bool) *node {
	d := &node{def: n.def, own: n.own, attrs: n.attrs, inputs: make([]*Tensor, len(n.inputs)), out: n.out, saved: n.saved}
	for i, t := range n.inputs {
		if !useful[t.node] && i < 64 {
			d.skip |= 1 << i
		}
		switch {
		case history:
		case i == 1 && n.filter != nil:
			t = n.filter
		default:
			t = t.detach()
		}
		d.inputs[i] = t
	}
	if n.out != nil && !history {
		d.out = n.out.detach()
	}
	return d
}

// add adds g to what the leaf has collected. It reports whether g was added to
// another tensor and is no longer needed.
func (l *leaf) add(g *Tensor) (used bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := g
	if l.grad != nil {
		sum = l.grad.Add(g)
		if !l.lent {
			l.grad.Free()
		}
	}
	sum.keep("Backward") // it outlives the step
	l.grad, l.lent = sum, false
	return sum != g
}
