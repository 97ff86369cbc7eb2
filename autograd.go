package locus

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/trace"
)

// node records how a tensor was computed, for its gradient. A tensor has one if
// it was computed from a tensor whose gradient may be asked for.
type node struct {
	def    *op.Def // the primitive; nil where own says it all
	own    *ownRule
	attrs  op.Attrs
	inputs []*Tensor
	out    *Tensor
	saved  []*Tensor // its further results: see More of package op
	leaf   *leaf     // where the gradient is collected; leaves have no inputs
	skip   uint64    // bit i: no gradient is wanted for input i
	spent  atomic.Bool
}

// ownRule is the gradient of a node that is not, or not the rule of, a primitive.
type ownRule struct {
	name   string
	back   gradient
	custom bool // it is the program's: it may keep what it gets, and return what is not its own
}

// custom reports whether the node's gradient is the program's.
func (n *node) custom() bool { return n.own != nil && n.own.custom }

// needs reports whether a gradient for input i is wanted.
func (n *node) needs(i int) bool {
	if i > 63 { // variadic ops with very many operands compute all
		return true
	}
	return n.skip>>i&1 == 0
}

var leafRule = &ownRule{name: "leaf"}

// gradient gives, for the gradient g of a node's result, the gradients of its
// inputs, in order; nil where none flows. It is written with public ops, so
// that gradients have gradients. The inputs and the result that it sees are
// without history unless gradients of gradients were asked for.
type gradient func(n *node, g *Tensor) []*Tensor

// leaf collects the gradient of a tensor made with RequireGrad.
type leaf struct {
	mu   sync.Mutex
	grad *Tensor
	lent bool         // the program has a handle of grad: the leaf does not free it
	made *trace.Trace // in which it was made, if in one
}

func (n *node) String() string {
	if n.own != nil {
		return n.own.name
	}
	return n.def.Name
}

// tracked reports whether a result of in must record how it was computed.
func tracked(in []*Tensor) bool {
	for _, t := range in {
		if t.node != nil {
			return !gradDisabled()
		}
	}
	return false
}

// Detach gives the same elements without their history: no gradient flows
// through it.
func (t *Tensor) Detach() *Tensor {
	t.made("Detach")
	v := t.alias()
	v.node = nil
	return v
}

// detach is Detach that returns t itself where there is nothing to do.
func (t *Tensor) detach() *Tensor {
	t.made("Detach")
	if t.node == nil {
		return t
	}
	v := t.alias()
	v.node = nil
	return v
}

// RequireGrad gives a handle of the same elements whose gradient is collected:
// [Tensor.Backward] on something computed from it adds to what [Tensor.Grad]
// gives. Only floating-point tensors have gradients.
func (t *Tensor) RequireGrad() *Tensor {
	t.check("RequireGrad")
	if !t.dtype.IsFloat() {
		fail("RequireGrad", &op.Problem{Kind: ErrGrad, Msg: "elements are " + t.dtype.String() + "; only floating-point tensors have gradients",
			Fix: "convert first: .Cast(locus.Float32)"}, t)
	}
	v := t.alias()
	v.node = &node{own: leafRule, leaf: &leaf{made: trace.Current()}}
	return v
}

// RequiresGrad reports whether a gradient can flow to or through t.
func (t *Tensor) RequiresGrad() bool {
	t.made("RequiresGrad")
	return t.node != nil
}

// Grad returns the gradient that Backward has collected for a tensor made with
// RequireGrad, on its device; nil if there is none yet. The program may keep it:
// neither a later Backward nor an optimizer's step frees it then.
func (t *Tensor) Grad() *Tensor {
	l := t.leaf("Grad")
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = l.grad != nil
	return l.grad
}

// TakeGrad returns the gradient that Backward has collected, or nil, and forgets
// it, for an optimizer that frees it after use. Free on it does nothing if the
// program may still use it, because it asked for it with [Tensor.Grad].
func (t *Tensor) TakeGrad() *Tensor {
	l := t.leaf("TakeGrad")
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.grad
	if g != nil && l.lent {
		g = g.alias()
	}
	l.grad, l.lent = nil, false
	return g
}

// SetGrad puts g, which stays the caller's, in place of the collected gradient of
// a tensor made with RequireGrad: a gradient that was clipped by hand, say. The
// next Backward adds to it.
func (t *Tensor) SetGrad(g *Tensor) {
	const name = "SetGrad"
	t.check(name)
	g.check(name)
	l := t.leaf(name)
	in := []*Tensor{t, g}
	switch {
	case l == nil:
		fail(name, &op.Problem{Kind: ErrGrad, Msg: "the tensor collects no gradient", Fix: "make it with .RequireGrad()"}, t)
	case !sameShape(t.shape, g.shape):
		failf(name, ErrShape, in, "a gradient has the shape of its tensor")
	case t.dtype != g.dtype:
		failf(name, ErrDType, in, "a gradient has the element type of its tensor")
	case t.place.root() != g.place.root():
		failMixed(name, in)
	}
	t.ZeroGrad()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grad, l.lent = g.detach(), true
}

// ZeroGrad forgets the collected gradient, and frees it unless the program asked
// for it with [Tensor.Grad].
func (t *Tensor) ZeroGrad() {
	t.made("ZeroGrad")
	if g := t.TakeGrad(); g != nil {
		g.Free()
	}
}

func (t *Tensor) leaf(name string) *leaf {
	t.made(name)
	if t.node == nil {
		return nil
	}
	return t.node.leaf.now()
}

// GradOption changes what Backward and Grad do.
type GradOption uint8

// The options.
const (
	// RetainGraph keeps what was recorded, so that gradients can be asked for again.
	RetainGraph GradOption = 1 << iota
	// CreateGraph records the computation of the gradients, so that they have
	// gradients themselves. It implies RetainGraph.
	CreateGraph
	// FreeGraph frees what was computed on the way as soon as the gradient has
	// passed it, instead of when its scope ends or the collector finds it: the
	// least memory. Of the tensors that the gradient passes only the inputs and
	// the outputs stay; using another one afterwards is an [ErrFreed].
	FreeGraph
)

func options(name string, opts []GradOption) (retain, create, free bool) {
	for _, o := range opts {
		retain = retain || o&(RetainGraph|CreateGraph) != 0
		create = create || o&CreateGraph != 0
		free = free || o&FreeGraph != 0
	}
	if free && retain {
		failf(name, ErrArgument, nil, "FreeGraph and RetainGraph or CreateGraph contradict each other")
	}
	return
}

// Backward computes the gradient of t, which has one element, with respect to
// everything made with RequireGrad that it was computed from, and adds it to
// what their Grad gives. Collected gradients belong to no scope. What was
// recorded on the way is let go of; what lies beside it, for another gradient, is not.
func (t *Tensor) Backward(opts ...GradOption) {
	t.checkGrad("Backward")
	if t.Len() != 1 {
		fail("Backward", &op.Problem{Kind: ErrGrad, Msg: "the tensor has more than one element: its gradient is a matrix",
			Fix: "reduce it first, for example .Sum() or .Mean(); or use locus.VJP"}, t)
	}
	retain, create, free := options("Backward", opts)
	e := engine{create: create, retain: retain, free: free, collect: true}
	e.run([]*Tensor{t}, []*Tensor{t.OnesLike()})
}

// Grad gives the gradients of the sum of outputs with respect to inputs, each
// where its input lives. An input that the outputs do not depend on gets zeros.
// Nothing is collected in the inputs.
func Grad(outputs, inputs []*Tensor, opts ...GradOption) []*Tensor {
	seeds := make([]*Tensor, len(outputs))
	for i, t := range outputs {
		t.checkGrad("Grad")
		seeds[i] = t.OnesLike()
	}
	return gradFrom(outputs, seeds, inputs, nil, opts)
}

// gradFrom returns the gradients of Σ outputs·seeds with respect to inputs. It
// does not look behind ends.
func gradFrom(outputs, seeds, inputs, ends []*Tensor, opts []GradOption) []*Tensor {
	retain, create, free := options("Grad", opts)
	e := engine{create: create, retain: retain, free: free, wanted: map[*node]*Tensor{}, ends: nodesOf(ends)}
	for _, t := range inputs {
		t.check("Grad")
		if t.node == nil {
			fail("Grad", &op.Problem{Kind: ErrGrad, Msg: "an input records no gradient", Fix: "make it with .RequireGrad() before computing with it"}, t)
		}
		e.wanted[t.node] = nil
	}
	if free {
		e.spare(inputs)
	}
	e.run(outputs, seeds)
	grads := make([]*Tensor, len(inputs))
	for i, t := range inputs {
		g := e.wanted[t.node]
		if g == nil {
			g = t.ZerosLike()
		} else {
			g = e.handOver(g)
		}
		grads[i] = g
	}
	return grads
}

func (t *Tensor) checkGrad(name string) {
	t.check(name)
	if t.node == nil {
		fail(name, &op.Problem{Kind: ErrGrad, Msg: "the tensor was not computed from anything that requires a gradient",
			Fix: "make the inputs with .RequireGrad() first"}, t)
	}
}

// engine walks from results back to what they were computed from.
type engine struct {
	create  bool
	retain  bool
	free    bool              // the results on the way
	collect bool              // add to the leaves' gradients
	wanted  map[*node]*Tensor // or give those of these nodes
	ends    map[*node]bool    // nodes that are not passed

	useful map[*node]bool         // nodes through which a gradient must flow
	passed []*node                // nodes whose inputs have got their gradients
	grads  map[*node]*Tensor      // gradients on their way
	held   map[*memory.Block]int  // how many of them share a block
	keep   map[*memory.Block]bool // what free spares: outputs and inputs
}

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
		roots = append(roots, t.node)
		e.held[seeds[i].block]++ // seeds are the caller's
		e.add(t.node, seeds[i])
	}
	order := sorted(roots, e.ends)
	e.prune(order)
	for i := len(order) - 1; i >= 0; i-- {
		e.visit(order[i])
	}
	if !e.retain {
		for _, n := range e.passed { // let go of what was saved
			n.spent.Store(true)
			n.inputs, n.out, n.saved = nil, nil, nil
		}
	}
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
	e.useful = make(map[*node]bool, len(order))
	for _, n := range order {
		_, useful := e.wanted[n]
		// What lies behind a node that was let go of is not known: assume the worst.
		useful = useful || n.spent.Load() || e.collect && n.leaf != nil
		for _, t := range n.inputs {
			useful = useful || t.node != nil && e.useful[t.node]
		}
		e.useful[n] = useful
	}
}

// visit passes the gradient of a node's result on to its inputs.
func (e *engine) visit(n *node) {
	g := e.grads[n]
	if g == nil || !e.useful[n] {
		return
	}
	delete(e.grads, n)
	if _, ok := e.wanted[n]; ok {
		e.wanted[n] = g
		if n.spent.Load() || n.leaf != nil || !e.passes(n) {
			return
		}
		e.held[g.block]++
	}
	if n.spent.Load() {
		fail(n.String(), &op.Problem{Kind: ErrGrad, Msg: "a gradient through this op was asked for before, and what it needs was let go of",
			Fix: "pass locus.RetainGraph to the first call"})
	}
	if n.leaf != nil {
		if e.collect {
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
	var rule gradient
	if n.own != nil {
		rule = n.own.back
	} else {
		rule = gradients[n.def.ID]
		if rule == nil {
			fail(n.def.Name, op.Problemf(ErrGrad, "%s has no gradient; detach its result if none is wanted", n.def.Name), n.inputs...)
		}
	}
	grads := rule(n.seen(e.useful, e.create), g)
	passed := func(i int) bool { return grads[i] != nil && e.useful[n.inputs[i].node] }
	if n.custom() { // what they are made of belongs to the program
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
	e.release(g, n)
	if e.free {
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

// freeResult frees the result of a node that the gradient has passed, and with
// it all that needed the result. Views have no memory of their own, and where
// that of a custom node comes from is not known.
func (e *engine) freeResult(n *node) {
	if n.def != nil && n.def.Family != op.ViewFamily && !e.keep[n.out.block] {
		n.out.Free()
		if n.def.Saves {
			for _, t := range n.saved {
				t.Free()
			}
		}
	}
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
	sum := old.Add(g)
	e.grads[n] = sum
	e.held[sum.block]++
	e.release(old, nil)
}

// release frees a gradient that was passed on, unless it shares its memory with
// one that is still on its way, or somebody else may hold it. This keeps the
// memory of a long backward pass as low as the collector cannot.
func (e *engine) release(g *Tensor, n *node) {
	e.held[g.block]--
	if n != nil && n.custom() {
		e.held[g.block]++ // for good
	}
	if e.held[g.block] == 0 && !e.create {
		g.freeMemory()
	}
}

// seen gives n as its rule sees it. Without history, computing with its tensors
// records nothing.
func (n *node) seen(useful map[*node]bool, history bool) *node {
	d := &node{def: n.def, own: n.own, attrs: n.attrs, inputs: make([]*Tensor, len(n.inputs)), out: n.out, saved: n.saved}
	for i, t := range n.inputs {
		if !useful[t.node] && i < 64 {
			d.skip |= 1 << i
		}
		if !history {
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
