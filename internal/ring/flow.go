package ring

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/engine"
)

// flow is a collective as one rank sees it: segments that it sends to the next rank, and
// segments that it receives from the one before, each in order. Both go on at the same time.
type flow struct {
	sends, receives int
	lead            int // how many segments are sent before any has arrived; each one more needs one more
	out             func(i int) (head, []byte)
	in              func(i int) (head, place)

	op    engine.Op
	dtype dtype.DType
	n     int // ranks, for the mean
}

// place is what becomes of a segment that arrives: it is copied to dst, or reduced with the
// rank's own elements.
type place struct {
	dst    []byte
	with   []byte // nil: it is copied
	first  bool   // with stands before what arrives
	divide bool   // this makes the sum whole, of which the mean is asked
}

// part returns the place of some bytes of it.
func (p place) part(from, to int) place {
	p.dst = p.dst[from:to]
	if p.with != nil {
		p.with = p.with[from:to]
	}
	return p
}

// take puts what has arrived in its place.
func (f *flow) take(p place, got []byte) {
	switch {
	case p.with == nil:
		copy(p.dst, got)
	case p.first:
		reduce(f.op, f.dtype, p.dst, p.with, got, f.n, p.divide)
	default:
		reduce(f.op, f.dtype, p.dst, got, p.with, f.n, p.divide)
	}
}

// may reports whether segment i can be sent when this many have arrived.
func (f *flow) may(i, arrived int) bool { return i < f.lead+arrived }

// cut returns where segment i of n begins and ends in this many bytes. No element is cut.
func cut(bytes, i, n, elementSize int) (from, to int) {
	e := bytes / elementSize
	return i * e / n * elementSize, (i + 1) * e / n * elementSize
}

// segmentsOf returns into how many segments memory is cut.
func segmentsOf(bytes int) int { return (bytes + segmentSize - 1) / segmentSize }

func (r *Ring) flow(c *engine.Call) *flow {
	return &flow{op: c.Op, dtype: c.DType, n: r.size}
}

// swap is a small all-reduce of two ranks: each sends the other all that it has, and adds up.
// Both do so in the order of ranks, and so have the same bits. A large one is as fast around
// the ring, where each element is added once.
func (r *Ring) swap(c *engine.Call) *flow {
	f := r.flow(c)
	n := segmentsOf(len(c.In))
	f.sends, f.receives, f.lead = n, n, n
	segment := func(i int) (h head, from, to int) {
		from, to = cut(len(c.In), i, n, c.DType.Size())
		return head{segment: uint32(i), seq: c.Seq, kind: c.Kind, length: uint32(to - from)}, from, to
	}
	f.out = func(i int) (head, []byte) {
		h, from, to := segment(i)
		return h, c.In[from:to]
	}
	f.in = func(i int) (head, place) {
		h, from, to := segment(i)
		return h, place{dst: c.Out[from:to], with: c.In[from:to], first: r.rank == 0, divide: c.Op == engine.Mean}
	}
	return f
}

// around is a collective in steps: in each one a rank sends one part and receives another. It
// sends what arrived in the step before.
func (r *Ring) around(c *engine.Call, from, steps, reduces int, memory func(part int) []byte) *flow {
	es, longest := c.DType.Size(), 0
	for i := range r.size {
		longest = max(longest, (c.Parts[i+1]-c.Parts[i])*es)
	}
	n := segmentsOf(longest)
	f := r.flow(c)
	f.sends, f.lead = (steps-from)*n, n
	f.receives = f.sends
	own := func(part int) []byte { return c.In[c.Parts[part]*es : c.Parts[part+1]*es] }
	segment := func(i, bytes int) (h head, from, to int) {
		from, to = cut(bytes, i%n, n, es)
		return head{segment: uint32(i % n), seq: c.Seq, kind: c.Kind, length: uint32(to - from)}, from, to
	}
	f.out = func(i int) (head, []byte) {
		step := from + i/n
		part := r.part(step)
		b := memory(part)
		if step == from && reduces > from { // not reduced yet
			b = own(part)
		}
		h, at, to := segment(i, len(b))
		h.step = uint32(step)
		return h, b[at:to]
	}
	f.in = func(i int) (head, place) {
		step := from + i/n
		part := mod(r.part(step)-1, r.size)
		b := memory(part)
		h, at, to := segment(i, len(b))
		h.step = uint32(step)
		p := place{dst: b[at:to]}
		if step < reduces {
			p.with, p.divide = own(part)[at:to], c.Op == engine.Mean && step == reduces-1
		}
		return h, p
	}
	return f
}

// part returns which part is sent in a step; the one before it is received.
func (r *Ring) part(step int) int { return mod(r.rank-step-1, r.size) }

func mod(a, n int) int { return ((a % n) + n) % n }

// chain passes memory from rank to rank. at is the rank's place in the chain: the first only
// sends, the last only receives. own is what is reduced with what arrives; nil: it is copied.
func (r *Ring) chain(c *engine.Call, at int, memory, own []byte) *flow {
	f := r.flow(c)
	n := segmentsOf(len(memory))
	f.sends, f.receives = n, n
	if at == 0 {
		f.receives, f.lead = 0, n
	}
	if at == r.size-1 {
		f.sends = 0
	}
	segment := func(i int) (h head, from, to int) {
		from, to = cut(len(memory), i, n, c.DType.Size())
		return head{segment: uint32(i), seq: c.Seq, kind: c.Kind, length: uint32(to - from)}, from, to
	}
	f.out = func(i int) (head, []byte) {
		h, from, to := segment(i)
		return h, memory[from:to]
	}
	f.in = func(i int) (head, place) {
		h, from, to := segment(i)
		p := place{dst: memory[from:to]}
		if own != nil {
			p.with, p.divide = own[from:to], c.Op == engine.Mean && at == r.size-1
		}
		return h, p
	}
	return f
}
