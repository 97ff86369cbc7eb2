package ring

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/engine"
)

// Ranks of one machine exchange segments through memory that they share, which costs a third
// of what the kernel's TCP does: a copy on each side and no call of the system. The
// connections remain: they wake a rank that sleeps, and end with the process on the other
// side.

// Sharing turns shared memory on, where ranks can have it. Tests of TCP turn it off.
var Sharing = true

// shared is the memory that a rank shares with its neighbors.
type shared struct {
	out, in *pipe
	unmap   []func()
	bell    chan struct{} // a neighbor has woken this rank
	lost    [2]atomic.Pointer[error]
	closed  atomic.Bool
	busy    sync.Mutex // the memory is in use
}

// The connections of a rank, in the order of shared.lost.
const (
	toNext = iota
	fromPrev
)

// share connects the rank with its neighbors through shared memory. Nil, without an error, if
// not all ranks can.
func (r *Ring) share(ctx context.Context) (*shared, error) {
	defer r.until(ctx)()
	s := &shared{bell: make(chan struct{}, 1)}
	var offer [32]byte // process, file and what the memory begins with
	if Sharing && here(r.next) && here(r.prev) {
		if m, err := newMemory(pipeControlSize + pipeSize); err == nil {
			defer m.closeFile()
			s.out, s.unmap = newPipe(m.bytes), append(s.unmap, m.unmap)
			rand.Read(s.out.c.nonce[:])
			binary.LittleEndian.PutUint64(offer[0:], uint64(m.process))
			binary.LittleEndian.PutUint64(offer[8:], uint64(m.file))
			copy(offer[16:], s.out.c.nonce[:])
		}
	}
	if _, err := r.next.Write(offer[:]); err != nil {
		s.drop()
		return nil, r.sending(err)
	}
	var theirs [32]byte
	if _, err := io.ReadFull(r.prev, theirs[:]); err != nil {
		s.drop()
		return nil, r.receiving(err)
	}
	if s.out != nil && theirs != [32]byte{} {
		process, file := binary.LittleEndian.Uint64(theirs[0:]), binary.LittleEndian.Uint64(theirs[8:])
		if m, err := openMemory(int(process), int(file), pipeControlSize+pipeSize); err == nil {
			s.unmap = append(s.unmap, m.unmap)
			if p := newPipe(m.bytes); p.c.nonce == [16]byte(theirs[16:]) {
				s.in = p
			}
		}
	}
	ok, all := []byte{0}, []byte{0}
	if s.in != nil {
		ok[0] = 1
	}
	if err := r.AllReduce(ctx, &engine.Call{Kind: magic, DType: dtype.Uint8, Op: engine.Min, In: ok, Out: all}); err != nil {
		s.drop()
		return nil, err
	}
	if all[0] == 0 {
		s.drop()
		return nil, nil
	}
	go s.listen(r.next, toNext)
	go s.listen(r.prev, fromPrev)
	return s, nil
}

// here reports whether both ends of a connection have the same address, as they have on one
// machine.
func here(c net.Conn) bool {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	b, also := c.RemoteAddr().(*net.TCPAddr)
	return ok && also && a.IP.Equal(b.IP)
}

func (s *shared) drop() {
	for _, f := range s.unmap {
		f()
	}
	s.unmap = nil
}

// close gives the memory back when the collective that uses it has ended. The connections are
// closed.
func (s *shared) close() {
	if s == nil {
		return
	}
	s.closed.Store(true)
	s.wake()
	s.busy.Lock()
	defer s.busy.Unlock()
	s.drop()
}

// listen wakes the rank when a neighbor writes something, or is gone.
func (s *shared) listen(c net.Conn, which int) {
	buf := make([]byte, 16)
	for {
		if _, err := c.Read(buf); err != nil {
			s.lost[which].Store(&err)
			s.wake()
			return
		}
		s.wake()
	}
}

func (s *shared) wake() {
	select {
	case s.bell <- struct{}{}:
	default: // it is awake
	}
}

// The number of times that a rank looks for its neighbors before it sleeps, which is about a
// millisecond: ranks wait for each other in every step of a training run, mostly for less than
// that, and a core that has fallen asleep takes long to wake up. In the second part the rank
// leaves the core to other processes, one of which may be the neighbor.
const (
	looks  = 200
	yields = 2000
)

// overMemory carries a flow out.
func (r *Ring) overMemory(ctx context.Context, f *flow) error {
	s := r.shared
	s.busy.Lock()
	defer s.busy.Unlock()
	t := transfer{r: r, s: s, f: f}
	for idle, armed := 0, false; ; {
		next, prev := s.lost[toNext].Load(), s.lost[fromPrev].Load() // before what they left is looked for
		if s.closed.Load() {
			return net.ErrClosed
		}
		moved, err := t.move()
		if err != nil {
			return err
		}
		if moved {
			if armed {
				s.sleeps(false, false)
			}
			idle, armed = 0, false
		}
		if t.done() {
			return nil
		}
		if moved {
			continue
		}
		if prev != nil && t.received < f.receives {
			return r.receiving(*prev)
		}
		if next != nil && t.sent < f.sends {
			return r.sending(*next)
		}
		switch idle++; {
		case idle < looks:
			runtime.Gosched()
		case idle < looks+yields:
			runtime.Gosched()
			yield()
		case !armed:
			s.sleeps(t.sent < f.sends, t.received < f.receives) // and once more: something may have happened just before
			armed = true
		default:
			select {
			case <-s.bell:
			case <-ctx.Done():
				return ctx.Err()
			}
			s.sleeps(false, false)
			idle, armed = 0, false
		}
	}
}

// sleeps notes for the neighbors whether the rank must be woken when there is room, and when
// something has come.
func (s *shared) sleeps(writer, reader bool) {
	note(&s.out.c.writerSleeps, writer)
	note(&s.in.c.readerSleeps, reader)
}

func note(at *atomic.Uint32, on bool) {
	if on {
		at.Store(1)
	} else {
		at.Store(0)
	}
}

// transfer is a flow on its way through shared memory.
type transfer struct {
	r              *Ring
	s              *shared
	f              *flow
	sent, received int // whole segments

	sending bool
	rest    []byte // of the segment that is being sent

	receiving bool
	place     place // of the rest of the segment that is being received
}

func (t *transfer) done() bool { return t.sent == t.f.sends && t.received == t.f.receives }

// move sends and receives a piece, if it can.
func (t *transfer) move() (moved bool, err error) {
	sent, err := t.send()
	if err != nil {
		return false, err
	}
	received, err := t.receive()
	return sent || received, err
}

func (t *transfer) send() (bool, error) {
	if t.sent == t.f.sends || !t.sending && !t.f.may(t.sent, t.received) {
		return false, nil
	}
	out := t.s.out
	if !t.sending {
		b, err := out.room(pipeAlign)
		if err != nil || len(b) == 0 {
			return false, err
		}
		var h head
		h, t.rest = t.f.out(t.sent)
		h.encode((*[headSize]byte)(b))
		t.sending = true
		out.c.written.Add(pipeAlign) // the reader is told with what follows
	}
	if len(t.rest) > 0 {
		b, err := out.room(min(pipeStep, padded(len(t.rest))))
		if err != nil {
			return false, err
		}
		n := min(len(b), len(t.rest))
		out.fill(b[:n], t.rest[:n])
		t.rest = t.rest[n:]
		if out.wrote(padded(n)) {
			t.ring(t.r.next)
		}
		if n == 0 {
			return false, nil
		}
	} else if out.wrote(0) {
		t.ring(t.r.next)
	}
	if len(t.rest) == 0 {
		t.sending = false
		t.sent++
	}
	return true, nil
}

func (t *transfer) receive() (bool, error) {
	if t.received == t.f.receives {
		return false, nil
	}
	in := t.s.in
	if !t.receiving {
		b, err := in.there(pipeAlign)
		if err != nil || len(b) == 0 {
			return false, err
		}
		var h head
		h, t.place = t.f.in(t.received)
		if err := h.check((*[headSize]byte)(b)); err != nil {
			return false, err
		}
		t.receiving = true
		in.c.read.Add(pipeAlign) // the writer is told with what follows
	}
	if n := len(t.place.dst); n > 0 {
		b, err := in.there(min(pipeStep, padded(n)))
		if err != nil {
			return false, err
		}
		n = min(n, len(b))
		t.f.take(t.place.part(0, n), b[:n])
		t.place = t.place.part(n, len(t.place.dst))
		if in.took(padded(n)) {
			t.ring(t.r.prev)
		}
		if n == 0 {
			return false, nil
		}
	} else if in.took(0) {
		t.ring(t.r.prev)
	}
	if len(t.place.dst) == 0 {
		t.receiving = false
		t.received++
	}
	return true, nil
}

// ring wakes a neighbor.
func (t *transfer) ring(c net.Conn) { _, _ = c.Write([]byte{1}) } // one that is gone needs no waking
