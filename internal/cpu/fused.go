package cpu

import (
	"sync"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// An expression of elementwise ops is computed in blocks that stay in the caches: for
// each block the ops' own kernels run one after the other, on the operands' memory
// where that is contiguous, else on what was gathered. So every op and type that has
// a kernel can be part of an expression, and the bits are the same as those of the
// kernels alone.

// The lengths of blocks in elements. Where all ops have loops of their own, operands
// and buffers stay in the first-level cache; where kernels are called, longer blocks
// cost less. They are no longer than any kernel's grain, so that kernels of a block
// stay on the thread that calls them.
const (
	loopBlock  = 512
	fusedBlock = 4 << 10
)

// expensive marks the ops whose loops take long: grainExpensive.
var expensive [op.NumOps]bool

func init() {
	for _, d := range dtype.All {
		register(op.FusedOps, d, fused)
	}
}

// Fuses reports whether an expression may have the op of a kernel type, with results
// of type out.
func (*Device) Fuses(id op.ID, t, _ dtype.DType) bool {
	switch op.Get(id).Family {
	case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		_, ok := Kernel(id, t)
		return ok
	}
	return false
}

// fusedPlan is how an expression is computed.
type fusedPlan struct {
	e       *op.Expression
	nodes   []fusedStep
	slots   int // buffers for results of nodes that are not the call's
	width   int // bytes of the widest element
	grain   int
	block   int
	workers sync.Pool // of *fusedWorker
}

// fusedStep is how a node is computed.
type fusedStep struct {
	kernel, stream kernel // stream is nil unless the result may be written past the caches
	direct         *direct
	last           bool // no other node reads the result
	result         int  // of the call, or -1
	slot           int  // else the buffer
}

// fusedPlanKey is where expressions keep their plan.
type fusedPlanKey struct{}

func fusedPlanOf(e *op.Expression) *fusedPlan {
	if p, ok := e.Prepared.Load(fusedPlanKey{}); ok {
		return p.(*fusedPlan)
	}
	p, _ := e.Prepared.LoadOrStore(fusedPlanKey{}, newFusedPlan(e))
	return p.(*fusedPlan)
}

func newFusedPlan(e *op.Expression) *fusedPlan {
	p := &fusedPlan{e: e, nodes: make([]fusedStep, len(e.Nodes)), width: 1, block: loopBlock}
	last := make([]int, len(e.Nodes)) // the last user, or -1
	for i := range e.Nodes {
		last[i] = -1
		for _, o := range e.Nodes[i].In {
			if o.Node {
				last[o.Index] = i
			}
		}
		p.nodes[i].result = -1
	}
	for r, i := range e.Results {
		p.nodes[i].result = r
	}
	for _, t := range e.Inputs {
		p.width = max(p.width, t.Size())
	}
	var free []int
	cost := 0
	for i := range e.Nodes {
		n, s := &e.Nodes[i], &p.nodes[i]
		p.width = max(p.width, n.DType.Size())
		s.kernel, s.direct, s.last = table[n.Op][e.KernelType(i)], &directs[n.Op][e.KernelType(i)], last[i] < 0
		if s.direct.loop == nil {
			p.block = fusedBlock
		}
		cost++
		if expensive[n.Op] {
			cost += 7
		}
		if s.result >= 0 {
			// What is read again is better left in the cache.
			if n.DType == dtype.Float32 && e.KernelType(i) == dtype.Float32 && last[i] < 0 {
				s.stream = streams[n.Op]
			}
		} else if len(free) > 0 {
			s.slot, free = free[len(free)-1], free[:len(free)-1]
		} else {
			s.slot = p.slots
			p.slots++
		}
		for k, o := range n.In { // a buffer is free behind its last user, which never writes where it reads
			again := false
			for _, other := range n.In[:k] {
				again = again || other == o
			}
			if o.Node && last[o.Index] == i && p.nodes[o.Index].result < 0 && !again {
				free = append(free, p.nodes[o.Index].slot)
			}
		}
	}
	p.grain = max(p.block, 2*grainCheap/cost/p.block*p.block)
	p.workers.New = func() any { return newFusedWorker(p) }
	return p
}

// fusedWorker computes blocks on one thread. Its calls stay, and are pointed to the
// next block's memory.
type fusedWorker struct {
	p       *fusedPlan
	calls   []backend.Call
	ways    []way
	buffers []memory.Block // first those of nodes, then one for each input
	mem     *scratch
	shape   [1]int
	moving  []moving
}

// moving is an offset that goes on from block to block.
type moving struct {
	offset *int
	first  int
}

var oneStride, noStride = []int{1}, []int{0}

func newFusedWorker(p *fusedPlan) *fusedWorker {
	e := p.e
	w := &fusedWorker{p: p, calls: make([]backend.Call, len(e.Nodes)), ways: make([]way, len(e.Nodes)), buffers: make([]memory.Block, p.slots+len(e.Inputs))}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		w.calls[i] = backend.Call{Op: n.Op, Attrs: n.Attrs, In: make([]backend.View, len(n.In)),
			Out: backend.View{DType: n.DType, Shape: w.shape[:], Strides: oneStride}}
	}
	return w
}

// lend lends the worker memory for as many buffers as it uses.
func (w *fusedWorker) lend(gathered int) {
	size := w.p.block * w.p.width
	w.mem = borrow((w.p.slots + gathered) * size)
	base := unsafe.Pointer(unsafe.SliceData(w.mem.mem))
	for i := range w.p.slots + gathered {
		w.buffers[i].Region = memory.Region{Ptr: unsafe.Add(base, i*size), Size: size}
	}
}

// free puts the worker back; it keeps no memory alive.
func (w *fusedWorker) free() {
	for i := range w.calls {
		c := &w.calls[i]
		c.Out.Block = nil
		for k := range c.In {
			c.In[k].Block = nil
		}
	}
	for i := range w.buffers {
		w.buffers[i].Region = memory.Region{}
	}
	w.mem.free()
	w.mem = nil
	w.p.workers.Put(w)
}

// fusedRun is a call on its way.
type fusedRun struct {
	p        *fusedPlan
	c        *backend.Call
	its      []*iterator // by input; nil where it is contiguous or one element
	uniform  []bool      // by input: one element
	gathered int
	past     bool // results are written past the caches
}

func fused(c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	p := fusedPlanOf(c.Attrs.(*op.Expression))
	r := fusedRun{p: p, c: c, past: n >= vec.StreamBytes/4}
	var its [op.FusedInputs]*iterator
	var uniform [op.FusedInputs]bool
	r.its, r.uniform = its[:0], uniform[:0]
	for k := range c.In {
		v := &c.In[k]
		u := v.Const() || isUniform(v)
		var it *iterator
		if !u && !v.Contiguous() {
			it = iterators.Get().(*iterator)
			it.most = 0
			it.reset(c.Out.Shape, c.In[k:k+1])
			r.gathered++
		}
		r.its, r.uniform = append(r.its, it), append(r.uniform, u)
	}
	if n <= p.grain {
		r.run(0, n)
	} else {
		shared := r // separate, because what other threads may use is allocated
		shared.its, shared.uniform = append([]*iterator(nil), r.its...), append([]bool(nil), r.uniform...)
		grain := p.grain
		for n/grain > 256 {
			grain *= 2
		}
		pool.For(n, grain, func(lo, hi int) { shared.run(lo, hi) })
	}
	for _, it := range r.its {
		if it != nil {
			it.free()
		}
	}
	return nil
}

// isUniform reports whether all elements of v are one.
func isUniform(v *backend.View) bool {
	for i, n := range v.Shape {
		if n != 1 && v.Strides[i] != 0 {
			return false
		}
	}
	return true
}

// run computes elements lo to hi-1.
func (r *fusedRun) run(lo, hi int) {
	p := r.p
	w := p.workers.Get().(*fusedWorker)
	w.lend(r.gathered)
	r.point(w)
	for at := lo; at < hi; at += p.block {
		n := min(p.block, hi-at)
		w.shape[0] = n
		for i := range w.moving {
			*w.moving[i].offset = w.moving[i].first + at
		}
		next := p.slots
		for _, it := range r.its {
			if it != nil {
				it.gatherRows(w.buffers[next].Ptr, at, n)
				next++
			}
		}
		for i := range w.ways {
			w.ways[i].do(&w.calls[i], n)
		}
	}
	w.free()
}

// point makes the worker's calls read and write where the call does.
func (r *fusedRun) point(w *fusedWorker) {
	p, e := r.p, r.p.e
	w.moving = w.moving[:0]
	var in [op.FusedInputs]backend.View
	var moves [op.FusedInputs]bool
	next := p.slots
	for k, it := range r.its {
		v := &in[k]
		*v = r.c.In[k]
		v.Shape, v.Strides = w.shape[:], oneStride
		switch {
		case r.uniform[k]:
			v.Strides = noStride
		case it != nil:
			v.Block, v.Offset = &w.buffers[next], 0
			next++
		default:
			moves[k] = true
		}
	}
	for i := range w.calls {
		s, c := &p.nodes[i], &w.calls[i]
		for k, o := range e.Nodes[i].In {
			v := &c.In[k]
			move := !o.Node && moves[o.Index]
			if o.Node {
				*v = w.calls[o.Index].Out
				move = p.nodes[o.Index].result >= 0
			} else {
				*v = in[o.Index]
			}
			if move {
				w.moving = append(w.moving, moving{&v.Offset, v.Offset})
			}
		}
		switch {
		case s.result < 0:
			c.Out.Block = &w.buffers[s.slot]
			continue
		case s.result == 0:
			c.Out.Block = r.c.Out.Block
		default:
			c.Out.Block = r.c.More[s.result-1].Block
		}
		c.Out.Offset = 0
		w.moving = append(w.moving, moving{&c.Out.Offset, 0})
	}
	for i := range w.ways {
		w.ways[i] = r.way(i, &w.calls[i])
	}
}

// way is how a node is computed for a block: by a loop, by a loop beside a number, or
// by the kernel.
type way struct {
	loop   directLoop
	number directNumber
	at     int // the operand that is not a number
	bits   uint64
	kernel kernel
}

func (r *fusedRun) way(i int, c *backend.Call) way {
	s := &r.p.nodes[i]
	past := r.past && s.result >= 0 && s.last
	numbers, which := 0, 0
	for k := range c.In {
		if c.In[k].Strides[0] == 0 {
			numbers++
			which = k
		}
	}
	d := s.direct
	switch {
	case numbers == 0 && past && d.stream != nil:
		return way{loop: d.stream}
	case numbers == 0 && d.loop != nil:
		return way{loop: d.loop}
	case numbers == 1 && len(c.In) == 2:
		loop, stream := d.second, d.secondStream
		if which == 0 {
			loop, stream = d.first, d.firstStream
		}
		if past && stream != nil {
			loop = stream
		}
		if v := &c.In[which]; loop != nil {
			return way{number: loop, at: 1 - which, bits: elementBits(v)}
		}
	}
	if past && s.stream != nil {
		return way{kernel: s.stream}
	}
	return way{kernel: s.kernel}
}

// elementBits returns the one element of a view.
func elementBits(v *backend.View) uint64 {
	if v.Const() {
		return v.Bits
	}
	switch v.DType.Size() {
	case 1:
		return uint64(whole[uint8](v)[v.Offset])
	case 2:
		return uint64(whole[uint16](v)[v.Offset])
	case 4:
		return uint64(whole[uint32](v)[v.Offset])
	}
	return whole[uint64](v)[v.Offset]
}

func (w *way) do(c *backend.Call, n int) {
	switch {
	case w.loop != nil:
		var b unsafe.Pointer
		if len(c.In) > 1 {
			b = first(&c.In[1])
		}
		w.loop(first(&c.Out), first(&c.In[0]), b, n)
	case w.number != nil:
		w.number(first(&c.Out), first(&c.In[w.at]), n, w.bits)
	default:
		_ = w.kernel(c) // elementwise kernels cannot fail
	}
}

// first is where a view begins.
func first(v *backend.View) unsafe.Pointer {
	return unsafe.Add(v.Block.Ptr, v.Offset*v.DType.Size())
}

// gatherRows copies the n elements from number at on of the iterator's one operand.
func (it *iterator) gatherRows(dst unsafe.Pointer, at, n int) {
	o := &it.operands[0]
	last := it.rank - 1
	inner, stride := it.shape[last], o.strides[last]
	if inner < 16 {
		it.gather(dst, o, at, n)
		return
	}
	var index [op.MaxRank]int
	it.at(at, &index)
	column := index[last]
	index[last] = 0
	for {
		m := min(n, inner-column)
		from := o.first + dot(&index, &o.strides, it.rank) + column*stride
		switch stride {
		case 0:
			fill(dst, o, from, m)
		case 1:
			copy(unsafe.Slice((*byte)(dst), m*o.width), unsafe.Slice((*byte)(unsafe.Add(o.data, from*o.width)), m*o.width))
		default:
			gatherRow(dst, o, from, stride, m)
		}
		if n -= m; n == 0 {
			return
		}
		dst = unsafe.Add(dst, m*o.width)
		column = 0
		it.step(&index, 1)
	}
}
