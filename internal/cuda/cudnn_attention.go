//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// When cuDNN does attention: half-precision types on Hopper, without a mask, from a length on
// that makes its kernels pay for what a call of it costs the host. A plan for a new shape
// takes a tenth of a second to a second, so a plan is made only for multiples of dnnMultiple,
// for which cuDNN was also seen to be right.
//
// Its gradients have two forms: one adds dq up in no fixed order, which only [SetVarying]
// allows, and one stores the scores' gradients and repeats its bits. The latter beats our
// own kernels where heads are wide. What it stores is kept small by passing it some of the
// heads at a time.
const (
	dnnLength    = 1024  // the least number of rows and keys
	dnnMultiple  = 128   // of which they are multiples
	dnnWide      = 64    // gradients: heads are wider than this
	dnnBlocks    = 512   // gradients: pieces of work that are enough for a card
	dnnAttention = 91002 // the first version without known mistakes in attention
)

// matrices4 is how the matrices of an operand lie: batch, head, row, column.
type matrices4 struct{ shape, strides [4]int64 }

// inOrder are matrices without holes.
func inOrder(shape [4]int64) matrices4 {
	return matrices4{shape, [4]int64{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}}
}

func (m matrices4) transposed() matrices4 {
	m.shape[2], m.shape[3] = m.shape[3], m.shape[2]
	m.strides[2], m.strides[3] = m.strides[3], m.strides[2]
	return m
}

// matricesOf describes a view of up to four axes, if cuDNN can read it: rows are
// contiguous, and everything begins at multiples of 16 bytes.
func matricesOf(v *backend.View) (m matrices4, ok bool) {
	r := len(v.Shape)
	if r > 4 || addr(v)%16 != 0 {
		return m, false
	}
	m.shape = [4]int64{1, 1, 1, 1}
	for i, n := range v.Shape {
		m.shape[4-r+i] = int64(n)
	}
	m.strides = inOrder(m.shape).strides
	for i, s := range v.Strides {
		if v.Shape[i] == 1 {
			continue // cuDNN wants one that makes sense
		}
		if i == r-1 && s != 1 || i < r-1 && (s <= 0 || s%8 != 0) {
			return m, false
		}
		m.strides[4-r+i] = int64(s)
	}
	return m, true
}

// attentionKey is what a plan depends on. The last two are of gradients: that of
// the result, and the result.
type attentionKey struct {
	dtype         dtype.DType
	grad, causal  bool
	varies        bool  // of gradients: dq is added up in no fixed order
	heads         int64 // where results lie by rows: how many heads a row has; else 0
	q, k, v, g, y matrices4
}

// result is how results of a shape lie: one of so many parts of a row, by rows.
func (a *attentionKey) result(shape [4]int64, parts int64) matrices4 {
	m := inOrder(shape)
	if a.heads > 0 {
		row := parts * a.heads * shape[3]
		m.strides = [4]int64{shape[2] * row, shape[3], row, 1}
	}
	return m
}

// rows is the shape of what is saved.
func (a *attentionKey) rows() matrices4 {
	return inOrder([4]int64{a.q.shape[0], a.q.shape[1], a.q.shape[2], 1})
}

// scores describes scale·q·kᵀ minus less, where later keys are hidden if the
// attention is causal.
func (a *attentionKey) scores(g *dnnGraph, q, kt, scale, hidden dnnTensor, less ...dnnTensor) dnnTensor {
	shape := [4]int64{a.q.shape[0], a.q.shape[1], a.q.shape[2], a.k.shape[2]}
	x := g.each(pointMul, g.matmul(q, kt, g.between(shape)), scale)
	for _, l := range less {
		x = g.each(pointSub, x, l)
	}
	if a.causal {
		row := g.index(2, x)
		col := g.index(3, x)
		x = g.each(pointSelect, x, hidden, g.compare(pointGE, row, col))
	}
	return x
}

// forward describes attention. In memory are, in this order: q, k, v, the scale,
// the score of what is hidden (if causal), the statistics, the result.
func (a *attentionKey) forward(g *dnnGraph) {
	q, kt, v := g.given(a.dtype, a.q), g.given(a.dtype, a.k.transposed()), g.given(a.dtype, a.v)
	scale, hidden := g.scalar(), a.hidden(g)
	x := a.scores(g, q, kt, scale, hidden)
	rows := a.rows()
	top := g.reduce(reduceMax, x, g.between(rows.shape))
	e := g.each(pointExp, g.each(pointSub, x, top))
	sum := g.reduce(reduceAdd, e, g.between(rows.shape))
	g.pointwise(pointAdd, g.given(dtype.Float32, rows), top, g.each(pointLog, sum))
	w := g.pointwise(pointDiv, g.virtual(a.dtype, inOrder(x.shape)), e, sum)
	g.matmul(w, v, g.given(a.dtype, a.result([4]int64{a.q.shape[0], a.q.shape[1], a.q.shape[2], a.v.shape[3]}, 1)))
}

func (a *attentionKey) hidden(g *dnnGraph) dnnTensor {
	if a.causal {
		return g.scalar()
	}
	return dnnTensor{}
}

// backward describes the gradients. In memory are: q, k, v, the result, its gradient, the
// statistics, the scale, 1, the score of what is hidden (if causal), Σ g·y, dv, dk, the
// sums of dq in float32 (if they have no fixed order), dq. (The product with 1 is a place
// that cuDNN expects, for dropout.)
func (a *attentionKey) backward(g *dnnGraph) {
	q, kt, vt := g.given(a.dtype, a.q), g.given(a.dtype, a.k.transposed()), g.given(a.dtype, a.v.transposed())
	y, dy, stats := g.given(a.dtype, a.y), g.given(a.dtype, a.g), g.given(dtype.Float32, a.rows())
	scale, one, hidden := g.scalar(), g.scalar(), a.hidden(g)
	less := g.reduce(reduceAdd, g.each(pointMul, dy, y), g.between(a.rows().shape))
	less = g.pointwise(pointMul, g.given(dtype.Float32, a.rows()), less, one)

	w := g.each(pointExp, a.scores(g, q, kt, scale, hidden, stats))
	across := inOrder(w.shape).transposed()
	g.matmul(g.reshape(w, a.dtype, across), dy, g.given(a.dtype, a.result(a.v.shape, 3)))

	t := g.each(pointSub, g.matmul(dy, vt, g.between(w.shape)), less)
	t = g.each(pointMul, g.each(pointMul, t, w), scale)
	g.matmul(g.reshape(t, a.dtype, across), q, g.given(a.dtype, a.result(a.k.shape, 3)))
	keys := g.reshape(kt, a.dtype, a.k)
	if a.varies {
		sums := g.matmul(t, keys, g.given(dtype.Float32, inOrder(a.q.shape)))
		g.pointwise(pointSame, g.given(a.dtype, a.result(a.q.shape, 3)), sums)
		return
	}
	g.matmul(t, keys, g.given(a.dtype, a.result(a.q.shape, 3)))
}

// attentionPlan is cuDNN's way to compute attention, or says that there is none.
type attentionPlan struct {
	graph *dnnGraph
	dnnPlan
	ok bool

	// What calls point to: addresses of tensors, and numbers: the scale, 1, a hidden score.
	addrs   [16]uintptr
	numbers [3]float32
}

// attention finds how cuDNN would do it.
func (n *dnn) attention(d *Device, k *attentionKey) (*attentionPlan, error) {
	if p := n.attentions[*k]; p != nil {
		return p, nil
	}
	if d.capturing() {
		return nil, n.attentionLater(d, *k)
	}
	return n.newAttention(d, k), nil
}

// attentionLater does so when a capture has ended.
func (n *dnn) attentionLater(d *Device, k attentionKey) error {
	return d.again(func() error { n.newAttention(d, &k); return nil })
}

func (n *dnn) newAttention(d *Device, k *attentionKey) *attentionPlan {
	p := &attentionPlan{numbers: [3]float32{0, 1, float32(math.Inf(-1))}}
	n.attentions[*k] = p
	if !n.lib.hasGraphs(dnnAttention) {
		return p
	}
	n.lib.loadCompiler(d.card.drv)
	p.graph = newDNNGraph(n.lib, &d.c)
	if k.grad {
		k.backward(p.graph)
	} else {
		k.forward(p.graph)
	}
	if p.dnnPlan, p.ok = p.graph.plan(n.handle); !p.ok {
		p.graph.forget()
	}
	return p
}

// number is where cuDNN reads one of the plan's numbers.
func (p *attentionPlan) number(i int) uintptr { return uintptr(unsafe.Pointer(&p.numbers[i])) }

// run queues the plan with the given tensors, of which the scores' own are left out
// where nothing is hidden. A plan that fails is not tried again.
func (p *attentionPlan) run(d *Device, n *dnn, work uintptr, addrs ...uintptr) (bool, error) {
	if err := d.library(libDNN.Name); err != nil {
		return false, err
	}
	count := 0
	for _, a := range addrs {
		if a != 0 {
			p.addrs[count] = a
			count++
		}
	}
	done := p.ok && count == len(p.graph.ids) && p.graph.execute(n.handle, p.desc, &p.addrs[0], work)
	if !done && d.capturing() {
		return false, errDNN // nothing else may be tried
	}
	p.ok = done
	return done, nil
}

// room returns the plan's workspace. A plan that there is no room for is not tried again:
// our own kernels need less.
func (p *attentionPlan) room(d *Device, size int) (uintptr, error) {
	work, err := d.workspace(size)
	if d.refused(err) {
		p.ok, err = false, nil
	}
	return work, err
}

// hiddenAt is where a hidden score lies, or 0 if there are none.
func (p *attentionPlan) hiddenAt(causal bool) uintptr {
	if causal {
		return p.number(2)
	}
	return 0
}

// attentionByDNN returns cuDNN's handle if cuDNN is to compute attention of this size,
// else nil.
func (d *Device) attentionByDNN(p *attentionParams, t dtype.DType) (*dnn, error) {
	least := dnnLength
	if d.trial.shortDNN {
		least = dnnMultiple
	}
	if p.maskKind != 0 || p.depth != p.width || p.depth%8 != 0 || int(min(p.rows, p.keys)) < least || (p.rows|p.keys)%dnnMultiple != 0 || !d.canAttendWGMMA(p, t) {
		return nil, nil
	}
	return d.cudnn()
}

// dnnAttend queues attention and reports whether cuDNN took it. It always makes the
// statistics, so that a result does not depend on whether they are wanted.
func (d *Device) dnnAttend(c *backend.Call, a *attentionParams) (bool, error) {
	n, err := d.attentionByDNN(a, c.Out.DType)
	if n == nil {
		return false, err
	}
	k := attentionKey{dtype: c.Out.DType, causal: a.causal != 0}
	if c.Attrs.(op.Attention).Rows {
		k.heads = int64(a.heads)
	}
	for i, m := range []*matrices4{&k.q, &k.k, &k.v} {
		var ok bool
		if *m, ok = matricesOf(&c.In[i]); !ok {
			return false, nil
		}
	}
	p, err := n.attention(d, &k)
	if err != nil || !p.ok {
		return false, err
	}
	memory := (int(p.memory) + 15) &^ 15
	work, err := p.room(d, memory+int(a.batches)*int(a.rows)*4)
	if !p.ok || err != nil {
		return false, err
	}
	saved := a.saved
	if saved == 0 {
		saved = work + uintptr(memory)
	}
	p.numbers[0] = float32(a.scale)
	return p.run(d, n, work, a.q, a.k, a.v, p.number(0), p.hiddenAt(k.causal), saved, a.out)
}

// dnnAttendGrad queues the gradients and reports whether cuDNN took them, some of
// the heads at a time.
func (d *Device) dnnAttendGrad(c *backend.Call, g *attentionGradParams) (bool, error) {
	a := &g.a
	varies := varying.Load()
	if a.depth <= dnnWide && !varies {
		return false, nil
	}
	n, err := d.attentionByDNN(a, c.Out.DType)
	if n == nil {
		return false, err
	}
	k := attentionKey{dtype: c.Out.DType, grad: true, causal: a.causal != 0, varies: varies}
	if c.Attrs.(op.Attention).Rows {
		k.heads = int64(a.heads)
	}
	all := [...]*matrices4{&k.g, &k.q, &k.k, &k.v, &k.y}
	for i, m := range all {
		var ok bool
		if *m, ok = matricesOf(&c.In[i]); !ok {
			return false, nil
		}
	}
	batches, heads := k.q.shape[0], k.q.shape[1]
	each := attentionRoom / (2 * int64(a.rows) * int64(a.keys)) // matrices at a time
	someBatches, someHeads := min(batches, each/heads), heads
	if varies { // it stores no scores
		someBatches = batches
	}
	if someBatches == 0 {
		someBatches, someHeads = 1, min(heads, each)
	}
	for someHeads > 0 && heads%someHeads != 0 {
		someHeads--
	}
	for someBatches > 0 && batches%someBatches != 0 {
		someBatches--
	}
	if some := someBatches * someHeads; some < batches*heads && some*int64(a.keys)/dnnMultiple < dnnBlocks {
		return false, nil // too few at a time to keep the card busy
	}
	for _, m := range all {
		m.shape[0], m.shape[1] = someBatches, someHeads
	}
	p, err := n.attention(d, &k)
	if err != nil || !p.ok {
		return false, err
	}
	memory := (int(p.memory) + 15) &^ 15
	less := int(someBatches*someHeads) * int(a.rows) * 4 // Σ g·y, and behind it the sums of dq
	less = (less + 15) &^ 15
	room := memory + less
	if varies {
		room += int(someBatches*someHeads) * int(a.rows) * int(a.depth) * 4
	}
	work, err := p.room(d, room)
	if !p.ok || err != nil {
		return false, err
	}
	var sums uintptr
	if varies {
		sums = work + uintptr(memory+less)
	}
	p.numbers[0] = float32(a.scale)
	at := func(base uintptr, strides [4]int64, size, b, h int64) uintptr {
		return base + uintptr((b*strides[0]+h*strides[1])*size)
	}
	ofQueries := k.result([4]int64{batches, heads, int64(a.rows), int64(a.depth)}, 3).strides
	ofKeys := k.result([4]int64{batches, heads, int64(a.keys), int64(a.depth)}, 3).strides
	for b := int64(0); b < batches; b += someBatches {
		for h := int64(0); h < heads; h += someHeads {
			rows := (b*heads + h) * int64(a.rows)
			if done, err := p.run(d, n, work, at(a.q, k.q.strides, 2, b, h), at(a.k, k.k.strides, 2, b, h), at(a.v, k.v.strides, 2, b, h),
				at(g.y, k.y.strides, 2, b, h), at(g.g, k.g.strides, 2, b, h), a.saved+uintptr(rows*4), p.number(0), p.number(1), p.hiddenAt(k.causal),
				work+uintptr(memory), at(g.dv, ofKeys, 2, b, h), at(g.dk, ofKeys, 2, b, h), sums, at(g.dq, ofQueries, 2, b, h)); !done {
				return false, err
			}
		}
	}
	return true, nil
}
