package locus

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Two ops in one launch, and sums in place, outside programs: passes over programs see to
// both there.

// joins reports whether the device of ts computes op id, which is not in the table of ops,
// and nobody traces them; and whether they lie in order.
func joins(id op.ID, ts ...*Tensor) bool {
	for _, t := range ts {
		if !op.IsContiguous(t.shape, t.strides) {
			return false
		}
	}
	return joinsAnyhow(id, ts...)
}

// joinsAnyhow is joins wherever they lie.
func joinsAnyhow(id op.ID, ts ...*Tensor) bool {
	for _, t := range ts {
		if t.lane != nil || t.block == nil {
			return false
		}
	}
	p := ts[0].place
	return p.of == nil && p.now() == p && p.backend.Supports(id, ts[0].dtype) && ts[0].Len() > 0
}

// runJoined runs such an op and returns its results, which have no history. over may be nil;
// else it is the first result's memory, and may be an operand that nobody else needs.
func runJoined(id op.ID, attrs op.Attrs, in []*Tensor, over *Tensor, results ...op.Spec) []*Tensor {
	def := op.Get(id)
	p := checkOperands(id.String(), in)
	scope := scopeOf(in)
	l := launches.Get().(*launch)
	if len(in) > len(l.in) {
		l.in, l.specs = make([]backend.View, len(in)), make([]op.Spec, len(in))
	}
	views := l.in[:len(in)]
	for i, t := range in {
		t.viewAs(&views[i])
	}
	all := make([]*Tensor, len(results))
	for i, s := range results {
		if i == 0 && over != nil {
			all[0] = over
			continue
		}
		all[i] = allocate(p, id.String(), s, scope, in)
	}
	l.call.Op, l.call.Attrs, l.call.In = id, attrs, views
	all[0].viewAs(&l.call.Out)
	for _, t := range all[1:] {
		l.call.More = append(l.call.More, t.view())
	}
	err := run(p, def, l, in, all[0], all[1:])
	l.release()
	if err != nil {
		for i, t := range all {
			if i > 0 || over == nil {
				t.Free()
			}
		}
		failOn(p, id.String(), err, in)
	}
	return all
}

// mayOverwrite reports whether the engine may write over g, a gradient on its way: nobody
// else has it, and all of its memory.
func (e *engine) mayOverwrite(g *Tensor) bool {
	return !e.create && e.held[g.block] == 1 && g.offset == 0 && g.place.of == nil
}

// sum returns old + g, in old's memory where nobody else needs that.
func (e *engine) sum(old, g *Tensor) *Tensor {
	if e.mayOverwrite(old) && old.dtype == g.dtype && sameShape(old.shape, g.shape) && g.lane == nil && g.place == old.place && joins(op.Add, old) {
		return runJoined(op.Add, nil, []*Tensor{old, g}, old.alias(), old.spec())[0]
	}
	return old.Add(g)
}

// added returns the gradient that n's first operand has got already, from another branch,
// if the gradient of n's op, whose result has the gradient g, can be added to it as it is
// computed; else nil.
func (e *engine) added(n *node, g *Tensor) *Tensor {
	if e.create || n.def == nil || n.def.ID != op.Normalized || g.lane != nil || n.out.lane != nil { // g may be one for all slices of a Vmap
		return nil
	}
	x := n.inputs[0]
	if x.node == nil || !e.useful[x.node] || len(e.pieces[x.node]) > 0 {
		return nil
	}
	old := e.grads[x.node]
	if old == nil || old.dtype != x.dtype || !sameShape(old.shape, x.shape) || !joins(op.NormalizeGradAdd, old) || g.place != old.place {
		return nil
	}
	return old
}

// addTo passes the gradient g of n's result on to n's inputs, the first of which has got
// old already.
func (e *engine) addTo(n *node, old, g *Tensor) []*Tensor {
	var over *Tensor
	if e.mayOverwrite(old) {
		over = old.alias()
	}
	grads := normGradient(n.seen(e.useful, false), op.NormalizeGrad, g, old, over)
	delete(e.grads, n.inputs[0].node)
	return grads
}

// addNorm returns x + d and its LayerNorm, as the two ops record them.
func addNorm(x, d *Tensor, shape []int, weight, bias *Tensor, eps float64) (sum, y *Tensor) {
	all := []*Tensor{x, d, weight, bias}
	checkOperands("LayerNorm", all)
	same := func(t *Tensor) bool { return t.dtype == x.dtype && t.place == x.place }
	if !sameShape(x.shape, d.shape) || !same(d) || !same(weight) || !same(bias) || !joins(op.AddNormalize, all...) {
		sum = x.Add(d)
		return sum, LayerNorm(sum, shape, weight, bias, eps)
	}
	from := trailing("LayerNorm", []*Tensor{x, weight, bias}, shape, weight, bias)
	a := op.Normalize{From: from, Params: [2]int{from, len(x.shape)}, Eps: eps, Weight: true, Bias: true}
	track := tracked(all)
	results := []op.Spec{x.spec(), x.spec()}
	if track {
		results = append(results, a.Stats(op.Normalized, x.spec())...)
	}
	made := runJoined(op.AddNormalize, a, all, nil, results...)
	y, sum = made[0], made[1]
	switch s := scopeOf(all[:2]); { // which the parameters have no part in
	case s == sum.scope.Load():
	case s == nil:
		sum.keep("LayerNorm")
	default:
		s.adopt(sum)
	}
	if tracked(all[:2]) {
		sum.node = &node{def: op.Get(op.Add), inputs: []*Tensor{x, d}, out: sum}
	}
	if track {
		y.node = &node{def: op.Get(op.Normalized), attrs: a, inputs: []*Tensor{sum, weight, bias}, out: y, saved: made[2:]}
	}
	return sum, y
}
