package ring

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
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
	bell    [2]chan struct{} // a neighbor has woken this rank
	lost    [2]atomic.Pointer[error]
	closed  atomic.Bool
	busy    sync.Mutex // the memory is in use
}

// The connections of a rank, by which shared.bell and shared.lost are numbered.
const (
	toNext = iota
	fromPrev
)

// share connects the rank with its neighbors through shared memory. Nil, without an error, if
// not all ranks can.
func (r *Ring) share(ctx context.Context) (*shared, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.m.Over(): // a rank that hangs closes no connection
			cancel()
		case <-ctx.Done():
		}
	}()
	defer r.until(ctx)()
	s := &shared{bell: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
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

// close unmaps the memory when the collective that uses it has ended. The connections are
// closed.
func (s *shared) close() {
	if s == nil {
		return
	}
	s.closed.Store(true)
	s.wake(toNext)
	s.wake(fromPrev)
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
			s.wake(which)
			return
		}
		s.wake(which)
	}
}

func (s *shared) wake(which int) {
	select {
	case s.bell[which] <- struct{}{}:
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

// overMemory carries a flow out. What is large, and more than one thread may work on, is sent
// and received at the same time; else in turns, which needs no other goroutine.
func (r *Ring) overMemory(ctx context.Context, f *flow) error {
	s := r.shared
	s.busy.Lock()
	defer s.busy.Unlock()
	t := &transfer{r: r, s: s, f: f}
	if f.bytes <= pipeSize || runtime.GOMAXPROCS(0) == 1 {
		return t.run(ctx, true, true)
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	t.apart = true
	sent := make(chan error, 1)
	go func() {
		err := t.run(both, true, false)
		if err != nil {
			cancel() // the other direction would wait
		}
		sent <- err
	}()
	err := t.run(both, false, true)
	if err != nil {
		cancel()
	}
	other := <-sent
	if err == nil || errors.Is(err, context.Canceled) && other != nil {
		err = other
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// transfer is a flow on its way through shared memory.
type transfer struct {
	r              *Ring
	s              *shared
	f              *flow
	apart          bool         // two goroutines work on it
	sent, received atomic.Int64 // whole segments

	sending bool
	rest    []byte // of the segment that is being sent

	// What comes back around the ring overwrites what was sent. That is read by then, since the
	// others have it; filled shows the order to the race detector, which sees one process.
	filled atomic.Int64

	receiving bool
	place     place // of the rest of the segment that is being received
}

// run sends, receives, or does both in turns, until all is done.
func (t *transfer) run(ctx context.Context, sends, receives bool) error {
	s := t.s
	for idle, armed := 0, false; ; {
		next, prev := s.lost[toNext].Load(), s.lost[fromPrev].Load() // before what they left is looked for
		if s.closed.Load() {
			return net.ErrClosed
		}
		moved := false
		if sends {
			did, err := t.send()
			if err != nil {
				return err
			}
			moved = did
		}
		if receives {
			did, err := t.receive()
			if err != nil {
				return err
			}
			moved = moved || did
		}
		toSend, toReceive := sends && int(t.sent.Load()) < t.f.sends, receives && int(t.received.Load()) < t.f.receives
		if moved || !toSend && !toReceive {
			if armed {
				t.sleeps(sends, receives, 0)
			}
			idle, armed = 0, false
		}
		switch {
		case !toSend && !toReceive:
			return nil
		case moved:
			continue
		case toReceive && prev != nil:
			return t.r.receiving(*prev)
		case toSend && next != nil:
			return t.r.sending(*next)
		}
		switch idle++; {
		case idle < looks:
			runtime.Gosched()
		case idle < looks+yields:
			if err := ctx.Err(); err != nil { // where others want the core, each turn takes milliseconds
				return err
			}
			runtime.Gosched()
			yield()
		case !armed:
			t.sleeps(toSend, toReceive, 1) // and once more: something may have happened just before
			armed = true
		default:
			if err := t.sleep(ctx, sends, receives); err != nil {
				return err
			}
			t.sleeps(sends, receives, 0)
			idle, armed = 0, false
		}
	}
}

// sleeps notes for the neighbors whether the rank must be woken when there is room, and when
// something has come: 1 if so.
func (t *transfer) sleeps(writer, reader bool, on uint32) {
	if writer {
		t.s.out.c.writerSleeps.Store(on)
	}
	if reader {
		t.s.in.c.readerSleeps.Store(on)
	}
}

// sleep waits until a neighbor wakes the rank.
func (t *transfer) sleep(ctx context.Context, sends, receives bool) error {
	var room, come chan struct{}
	if sends {
		room = t.s.bell[toNext]
	}
	if receives {
		come = t.s.bell[fromPrev]
	}
	select {
	case <-room:
	case <-come:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (t *transfer) send() (bool, error) {
	n := int(t.sent.Load())
	if n == t.f.sends || !t.sending && !t.f.may(n, int(t.received.Load())) {
		return false, nil
	}
	out := t.s.out
	if !t.sending {
		b, err := out.room(pipeAlign)
		if err != nil || len(b) == 0 {
			return false, err
		}
		var h head
		h, t.rest = t.f.out(n)
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
		t.filled.Add(1)
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
		t.sent.Add(1)
	}
	return true, nil
}

func (t *transfer) receive() (bool, error) {
	i := int(t.received.Load())
	if i == t.f.receives {
		return false, nil
	}
	in := t.s.in
	if !t.receiving {
		b, err := in.there(pipeAlign)
		if err != nil || len(b) == 0 {
			return false, err
		}
		var h head
		h, t.place = t.f.in(i)
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
		t.filled.Load()
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
		if t.received.Add(1); t.apart {
			t.s.wake(toNext) // the sender may wait for this segment
		}
	}
	return true, nil
}

// ring wakes a neighbor.
func (t *transfer) ring(c net.Conn) { _, _ = c.Write([]byte{1}) } // one that is gone needs no waking
