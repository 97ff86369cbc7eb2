package ring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
)

// Ring is a rank's place in the ring.
type Ring struct {
	m          *control.Member
	rank, size int
	next, prev net.Conn
	scratch    [2][]byte // a segment that arrives; what is reduced and passed on

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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pairs {
		p.close()
	}
}

// plan is a collective as the ring sees it: in each step a rank sends one part and
// receives another.
type plan struct {
	c           *engine.Call
	from, steps int                // the first step, and the one behind the last
	reduces     int                // steps below this one reduce
	memory      func(p int) []byte // where a part is kept
	segments    int                // of each part
}

// part returns which part is sent in a step; the one before it is received.
func (r *Ring) part(step int) int { return mod(r.rank-step-1, r.size) }

func mod(a, n int) int { return ((a % n) + n) % n }

// cut returns a segment of a part.
func (p *plan) cut(b []byte, segment int) []byte {
	from, to := p.span(len(b), segment)
	return b[from:to]
}

// span returns where a segment of n bytes begins and ends. No element is cut.
func (p *plan) span(n, segment int) (from, to int) {
	es := p.c.DType.Size()
	n /= es
	return segment * n / p.segments * es, (segment + 1) * n / p.segments * es
}

// run carries a plan out. Sends and receives go on at the same time: what is sent in a step
// is what arrived in the step before.
func (r *Ring) run(ctx context.Context, p *plan) error {
	longest := 0
	es := p.c.DType.Size()
	for i := range r.size {
		longest = max(longest, (p.c.Parts[i+1]-p.c.Parts[i])*es)
	}
	if longest == 0 {
		return nil
	}
	p.segments = (longest + segmentSize - 1) / segmentSize
	total := (p.steps - p.from) * p.segments
	ready := make(chan struct{}, total) // one for each segment that has arrived
	in := func(part int) []byte { return p.c.In[p.c.Parts[part]*es : p.c.Parts[part+1]*es] }
	send := func(i int) error {
		step, segment := p.from+i/p.segments, i%p.segments
		part := r.part(step)
		b := p.memory(part)
		if step == p.from && p.reduces > p.from { // not reduced yet
			b = in(part)
		}
		return r.send(head{step: uint32(step), segment: uint32(segment), seq: p.c.Seq, kind: p.c.Kind}, p.cut(b, segment))
	}
	receive := func(i int) error {
		step, segment := p.from+i/p.segments, i%p.segments
		part := mod(r.part(step)-1, r.size)
		dst := p.cut(p.memory(part), segment)
		h := head{step: uint32(step), segment: uint32(segment), seq: p.c.Seq, kind: p.c.Kind, length: uint32(len(dst))}
		if step >= p.reduces {
			return r.receive(h, dst)
		}
		got := r.room(0, len(dst))
		if err := r.receive(h, got); err != nil {
			return err
		}
		reduce(p.c.Op, p.c.DType, dst, got, p.cut(in(part), segment), r.size, p.c.Op == engine.Mean && step == p.reduces-1)
		return nil
	}
	return r.both(ctx, total, total, func(i int) error {
		if i >= p.segments {
			if _, ok := <-ready; !ok {
				return errStopped
			}
		}
		return send(i)
	}, receive, ready)
}

var errStopped = errors.New("stopped")

// both sends and receives, each in a goroutine of its own. ready gets one value for each
// segment that has arrived, and is closed if one does not.
func (r *Ring) both(ctx context.Context, sends, receives int, send, receive func(i int) error, ready chan struct{}) error {
	defer r.until(ctx)()
	sent := make(chan error, 1)
	go func() {
		for i := range sends {
			if err := send(i); err != nil {
				if err != errStopped {
					r.expire() // the other side would wait
				}
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var err error
	for i := range receives {
		if err = receive(i); err != nil {
			close(ready)
			r.expire()
			break
		}
		ready <- struct{}{}
	}
	other := <-sent
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil || isExpired(err) && other != nil && other != errStopped && !isExpired(other) {
		err = other
	}
	return err
}

// until makes the end of a context break off what waits for the network. The function that
// it returns undoes that.
func (r *Ring) until(ctx context.Context) (stop func()) {
	cancel := context.AfterFunc(ctx, r.expire)
	return func() { cancel() }
}

var past = time.Unix(1, 0)

func (r *Ring) expire() {
	for _, c := range []net.Conn{r.next, r.prev} {
		if c != nil {
			_ = c.SetDeadline(past) // a closed connection has ended as well
		}
	}
}

func isExpired(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

func (r *Ring) send(h head, b []byte) error {
	var buf [headSize]byte
	h.length = uint32(len(b))
	h.encode(&buf)
	bufs := net.Buffers{buf[:], b}
	if _, err := bufs.WriteTo(r.next); err != nil {
		return fmt.Errorf("sending to %s: %w", r.m.Peer((r.rank+1)%r.size), err)
	}
	return nil
}

func (r *Ring) receive(h head, b []byte) error {
	var buf [headSize]byte
	_, err := io.ReadFull(r.prev, buf[:])
	if err == nil {
		if err := h.check(&buf); err != nil {
			return err
		}
		_, err = io.ReadFull(r.prev, b)
	}
	if err != nil {
		return fmt.Errorf("receiving from %s: %w", r.m.Peer(r.before()), err)
	}
	return nil
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
	if r.size == 1 {
		copy(c.Out, c.In)
		return nil
	}
	es := c.DType.Size()
	c.Parts = engine.Even(len(c.In)/es, r.size)
	out := func(p int) []byte { return c.Out[c.Parts[p]*es : c.Parts[p+1]*es] }
	return r.run(ctx, &plan{c: c, steps: 2 * (r.size - 1), reduces: r.size - 1, memory: out})
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
	return r.run(ctx, &plan{c: c, steps: r.size - 1, reduces: r.size - 1, memory: memory})
}

// AllGather copies In of all ranks, each its part, to Out.
func (r *Ring) AllGather(ctx context.Context, c *engine.Call) error {
	es := c.DType.Size()
	out := func(p int) []byte { return c.Out[c.Parts[p]*es : c.Parts[p+1]*es] }
	copy(out(r.rank), c.In)
	if r.size == 1 {
		return nil
	}
	return r.run(ctx, &plan{c: c, from: r.size - 1, steps: 2 * (r.size - 1), reduces: 0, memory: out})
}

// Broadcast copies the root's In to the others' Out, from each rank to the next.
func (r *Ring) Broadcast(ctx context.Context, c *engine.Call) error {
	place := mod(r.rank-c.Root, r.size) // in the chain that begins with the root
	memory := c.Out
	if place == 0 {
		memory = c.In
	}
	return r.chain(ctx, c, place, memory, func(h head, from, to int) error { return r.receive(h, memory[from:to]) })
}

// Reduce reduces In of all ranks to Out of the root: partial results go from the rank
// behind the root around the ring.
func (r *Ring) Reduce(ctx context.Context, c *engine.Call) error {
	if r.size == 1 {
		copy(c.Out, c.In)
		return nil
	}
	place := mod(r.rank-c.Root-1, r.size) // the root is the last
	memory := c.In
	switch {
	case place == r.size-1:
		memory = c.Out
	case place > 0:
		memory = r.room(1, len(c.In))
	}
	return r.chain(ctx, c, place, memory, func(h head, from, to int) error {
		got := r.room(0, to-from)
		if err := r.receive(h, got); err != nil {
			return err
		}
		reduce(c.Op, c.DType, memory[from:to], got, c.In[from:to], r.size, c.Op == engine.Mean && place == r.size-1)
		return nil
	})
}

// chain passes memory from rank to rank in segments. place is the rank's in the chain: the
// first only sends, the last only receives, which take does.
func (r *Ring) chain(ctx context.Context, c *engine.Call, place int, memory []byte, take func(h head, from, to int) error) error {
	if len(memory) == 0 || r.size == 1 {
		return nil
	}
	p := &plan{c: c, segments: (len(memory) + segmentSize - 1) / segmentSize}
	sends, receives := p.segments, p.segments
	if place == 0 {
		receives = 0
	}
	if place == r.size-1 {
		sends = 0
	}
	ready := make(chan struct{}, p.segments)
	send := func(i int) error {
		if place > 0 {
			if _, ok := <-ready; !ok {
				return errStopped
			}
		}
		return r.send(head{segment: uint32(i), seq: c.Seq, kind: c.Kind}, p.cut(memory, i))
	}
	receive := func(i int) error {
		from, to := p.span(len(memory), i)
		return take(head{segment: uint32(i), seq: c.Seq, kind: c.Kind, length: uint32(to - from)}, from, to)
	}
	return r.both(ctx, sends, receives, send, receive, ready)
}
