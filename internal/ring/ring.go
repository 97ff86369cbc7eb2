package ring

import (
	"context"
	"net"
	"sync"

	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
)

// Ring is a rank's place in the ring.
type Ring struct {
	m          *control.Member
	rank, size int
	next, prev net.Conn
	scratch    [2][]byte // a segment that arrives; what is reduced and passed on
	shared     *shared   // nil where ranks are on several machines

	mu    sync.Mutex
	pairs map[string]*pair // connections for Send and Recv
}

var _ engine.Host = (*Ring)(nil)

// segmentSize is what travels as one piece: large enough that its head and the calls are
// nothing, small enough that a ring of several ranks is soon busy.
const segmentSize = 256 << 10

// Open connects the rank to its neighbors.
func Open(ctx context.Context, m *control.Member, rank int) (*Ring, error) {
	r := &Ring{m: m, rank: rank, size: len(m.Peers()), pairs: map[string]*pair{}}
	if r.size == 1 {
		return r, nil
	}
	var err error
	if r.next, err = m.Dial(ctx, (rank+1)%r.size, "ring"); err != nil {
		return nil, err
	}
	if r.prev, err = m.Accept(ctx, r.before(), "ring"); err != nil {
		r.next.Close()
		return nil, err
	}
	if r.shared, err = r.share(ctx); err != nil {
		r.Close(true)
		return nil, err
	}
	return r, nil
}

func (r *Ring) before() int { return (r.rank + r.size - 1) % r.size }

// Name returns "ring".
func (r *Ring) Name() string { return "ring" }

// Close ends the rank's connections.
func (r *Ring) Close(bool) {
	for _, c := range []net.Conn{r.next, r.prev} {
		if c != nil {
			c.Close()
		}
	}
	r.shared.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pairs {
		p.close()
	}
}

// run carries a flow out.
func (r *Ring) run(ctx context.Context, f *flow) error {
	if f.sends == 0 && f.receives == 0 {
		return nil
	}
	if r.shared != nil {
		return r.overMemory(ctx, f)
	}
	return r.overTCP(ctx, f)
}

// room returns one of the ring's own buffers, aligned for any element.
func (r *Ring) room(i, n int) []byte {
	if cap(r.scratch[i]) < n {
		r.scratch[i] = make([]byte, n)
	}
	return r.scratch[i][:n]
}

// AllReduce reduces In of all ranks to Out.
func (r *Ring) AllReduce(ctx context.Context, c *engine.Call) error {
	switch {
	case r.size == 1:
		copy(c.Out, c.In)
		return nil
	case r.size == 2 && len(c.In) <= segmentSize:
		return r.run(ctx, r.swap(c))
	}
	es := c.DType.Size()
	c.Parts = engine.Even(len(c.In)/es, r.size)
	out := func(p int) []byte { return c.Out[c.Parts[p]*es : c.Parts[p+1]*es] }
	return r.run(ctx, r.around(c, 0, 2*(r.size-1), r.size-1, out))
}

// ReduceScatter reduces In of all ranks; Out gets the rank's part.
func (r *Ring) ReduceScatter(ctx context.Context, c *engine.Call) error {
	if r.size == 1 {
		copy(c.Out, c.In)
		return nil
	}
	es := c.DType.Size()
	scratch := r.room(1, len(c.In))
	memory := func(p int) []byte {
		if p == r.rank {
			return c.Out
		}
		return scratch[c.Parts[p]*es : c.Parts[p+1]*es]
	}
	return r.run(ctx, r.around(c, 0, r.size-1, r.size-1, memory))
}

// AllGather copies In of all ranks, each its part, to Out.
func (r *Ring) AllGather(ctx context.Context, c *engine.Call) error {
	es := c.DType.Size()
	out := func(p int) []byte { return c.Out[c.Parts[p]*es : c.Parts[p+1]*es] }
	copy(out(r.rank), c.In)
	if r.size == 1 {
		return nil
	}
	return r.run(ctx, r.around(c, r.size-1, 2*(r.size-1), 0, out))
}

// Broadcast copies the root's In to the others' Out, from each rank to the next.
func (r *Ring) Broadcast(ctx context.Context, c *engine.Call) error {
	if r.size == 1 {
		return nil
	}
	at := mod(r.rank-c.Root, r.size) // in the chain that begins with the root
	memory := c.Out
	if at == 0 {
		memory = c.In
	}
	return r.run(ctx, r.chain(c, at, memory, nil))
}

// Reduce reduces In of all ranks to Out of the root: partial results go from the rank
// behind the root around the ring.
func (r *Ring) Reduce(ctx context.Context, c *engine.Call) error {
	if r.size == 1 {
		copy(c.Out, c.In)
		return nil
	}
	at := mod(r.rank-c.Root-1, r.size) // the root is the last
	memory := c.In
	switch {
	case at == r.size-1:
		memory = c.Out
	case at > 0:
		memory = r.room(1, len(c.In))
	}
	return r.run(ctx, r.chain(c, at, memory, c.In))
}
