package locus

import (
	"sync"
	"sync/atomic"

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
	filter *Tensor   // a copy of input 1 as its op has read it, for the gradient; may be nil
	leaf   *leaf     // where the gradient is collected; leaves have no inputs
	lane   *lane     // of a leaf's tensor
	skip   uint64    // bit i: no gradient is wanted for input i
	spent  atomic.Bool
	lost   bool    // the graph has the only handle of the results: see Tensor.lose
	sums   *Tensor // of a node as its rule sees it: the gradient of its bias, if that is there already; see engine.summed
	within bool    // of a node as its rule sees it: rules of the program have run inside of it
}

// ownRule is the gradient of a node that is not, or not the rule of, a primitive.
type ownRule struct {
	name   string
	back   gradient
	custom bool  // it is the program's: it may keep what it gets, and return what is not its own
	level  int64 // of the Vmap whose axis it hides or shows
}

// custom reports whether the node's gradient is the program's, or has just run one that is,
// as that of a checkpoint may.
func (n *node) custom() bool { return n.own != nil && n.own.custom || n.within }

// needs reports whether a gradient for input i is wanted.
func (n *node) needs(i int) bool {
	if i > 63 { // variadic ops with very many operands compute all
		return true
	}
	return n.skip>>i&1 == 0
}

var leafRule = &ownRule{name: "leaf"}

// gradient returns, for the gradient g of a node's result, the gradients of its
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

// Detach returns the same elements without their history: no gradient flows
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

// RequireGrad returns a handle of the same elements whose gradient is collected:
// [Tensor.Backward] on something computed from it adds to its [Tensor.Grad]. Only
// floating-point tensors have gradients.
func (t *Tensor) RequireGrad() *Tensor {
	t.check("RequireGrad")
	if !t.dtype.IsFloat() {
		fail("RequireGrad", &op.Problem{Kind: ErrGrad, Msg: "elements are " + t.dtype.String() + "; only floating-point tensors have gradients",
			Fix: "convert first: .Cast(locus.Float32)"}, t)
	}
	v := t.alias()
	v.node = &node{own: leafRule, leaf: &leaf{made: trace.Current()}, lane: v.lane}
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
	if t.lane == nil {
		g.single(name)
	}
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
	// the outputs stay, and those that others were computed from without their history
	// ([Tensor.Detach]); using another one afterwards is an [ErrFreed].
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
// everything made with RequireGrad that it was computed from, and adds it to their
// Grad. Collected gradients belong to no scope. What was recorded on the way is
// released; what was recorded for other gradients is kept.
func (t *Tensor) Backward(opts ...GradOption) {
	t.checkGrad("Backward")
	if t.Len() != 1 {
		fail("Backward", &op.Problem{Kind: ErrGrad, Msg: "the tensor has more than one element: its gradient is a matrix",
			Fix: "reduce it first, for example .Sum() or .Mean(); or use locus.VJP"}, t)
	}
	retain, create, free := options("Backward", opts)
	e := engine{create: create, retain: retain, free: free, collect: true}
	e.run([]*Tensor{t}, []*Tensor{nil})
}

// Grad returns the gradients of the sum of outputs with respect to inputs, each
// where its input lives. An input that the outputs do not depend on gets zeros.
// Nothing is collected in the inputs.
func Grad(outputs, inputs []*Tensor, opts ...GradOption) []*Tensor {
	for _, t := range outputs {
		t.checkGrad("Grad")
	}
	return gradFrom(outputs, make([]*Tensor, len(outputs)), inputs, nil, opts)
}

// GradOf returns the gradients of loss with respect to inputs: [Grad] for the
// usual case of one loss, without slices.
//
//	grads := locus.GradOf(loss, w, b)
func GradOf(loss *Tensor, inputs ...*Tensor) []*Tensor {
	loss.checkGrad("GradOf")
	return gradFrom([]*Tensor{loss}, []*Tensor{nil}, inputs, nil, nil)
}

// gradFrom returns the gradients of Σ outputs·seeds with respect to inputs. It
// does not look behind ends.
func gradFrom(outputs, seeds, inputs, ends []*Tensor, opts []GradOption) []*Tensor {
	grads, _ := gradIn(outputs, seeds, inputs, ends, opts)
	return grads
}

// gradIn is gradFrom, and reports whether rules of the program have run on the way.
func gradIn(outputs, seeds, inputs, ends []*Tensor, opts []GradOption) (grads []*Tensor, custom bool) {
	retain, create, free := options("Grad", opts)
	e := engine{create: create, retain: retain, free: free, wanted: map[*node]*Tensor{}, ends: nodesOf(ends)}
	for _, t := range inputs {
		t.check("Grad")
		t.records("Grad")
		notesInput(t)
		e.wanted[t.node] = nil
	}
	if free {
		e.spare(inputs)
	}
	e.run(outputs, seeds)
	grads = make([]*Tensor, len(inputs))
	for i, t := range inputs {
		g := e.wanted[t.node]
		if g == nil {
			g = t.ZerosLike()
		} else {
			g = e.handOver(g)
		}
		grads[i] = g
	}
	return grads, len(e.customs) > 0
}

func (t *Tensor) checkGrad(name string) {
	t.check(name)
	if t.node == nil {
		fail(name, &op.Problem{Kind: ErrGrad, Msg: "the tensor was not computed from anything that requires a gradient",
			Fix: "make the inputs with .RequireGrad() first"}, t)
	}
}
