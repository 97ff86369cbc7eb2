package virtual

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
)

// task is one entry of a queue: a kernel's call, recorded calls, or anything else.
type task struct {
	kernel func(*backend.Call) error
	call   *backend.Call
	device *Device
	work   *recorded
	f      func()
}

// depth is how many tasks may be queued and unfinished. A program that queues
// faster than the device works waits at that point, so that what it holds for the
// device cannot grow without end.
const depth = 1024

// stream runs tasks one after the other, in a goroutine that exists only while
// there are any.
type stream struct {
	id uint64 // the order in which two streams are locked

	mu      sync.Mutex
	pending []task // queued and not yet taken by the worker
	running bool   // there is a worker
	moved   sync.Cond

	issued  atomic.Uint64 // tasks ever queued; grows under mu
	done    atomic.Uint64 // tasks ever finished
	awaited atomic.Uint64 // the first task that somebody waits for; shrinks under mu
	failure atomic.Pointer[backend.AsyncError]
}

const nobody = math.MaxUint64 // as stream.awaited

var streams atomic.Uint64

func (s *stream) init() {
	s.id = streams.Add(1)
	s.moved.L = &s.mu
	s.awaited.Store(nobody)
}

// enqueue appends a task, waiting for room if need be, and returns its number.
func (s *stream) enqueue(t task) uint64 {
	s.waitForRoom()
	s.mu.Lock()
	n := s.push(t)
	s.mu.Unlock()
	return n
}

// enqueueBoth appends a task to each of two streams at one moment, so that all
// pairs of two streams have one order.
func enqueueBoth(s1 *stream, t1 task, s2 *stream, t2 task) {
	s1.waitForRoom()
	s2.waitForRoom()
	if s1.id > s2.id {
		s1, t1, s2, t2 = s2, t2, s1, t1
	}
	s1.mu.Lock()
	s2.mu.Lock()
	s1.push(t1)
	s2.push(t2)
	s2.mu.Unlock()
	s1.mu.Unlock()
}

// push appends under the lock and sees to it that somebody works.
func (s *stream) push(t task) uint64 {
	s.pending = append(s.pending, t)
	if !s.running {
		s.running = true
		go s.work()
	}
	return s.issued.Add(1)
}

// waitForRoom waits, when depth tasks are unfinished, until half of them are
// done. Callers that find room at the same time may exceed depth, each by one.
func (s *stream) waitForRoom() {
	if n := s.issued.Load(); n >= s.done.Load()+depth {
		s.wait(n - depth/2)
	}
}

// linger is how often a worker without work, or somebody who waits, looks again
// before it goes to sleep, which costs more than a small op.
const linger = 60

// work runs tasks until there are none.
func (s *stream) work() {
	var batch []task
	for {
		for i := 0; i < linger && s.issued.Load() == s.done.Load(); i++ {
			runtime.Gosched()
		}
		s.mu.Lock()
		batch, s.pending = s.pending, batch[:0]
		if len(batch) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for i := range batch {
			s.run(&batch[i])
			batch[i] = task{} // let go of its memory
			if s.done.Add(1) >= s.awaited.Load() {
				s.mu.Lock()
				s.awaited.Store(nobody)
				s.moved.Broadcast()
				s.mu.Unlock()
			}
		}
	}
}

func (s *stream) run(t *task) {
	switch {
	case t.work != nil:
		for i, c := range t.work.calls {
			s.call(t.device, t.work.kernels[i], c)
		}
	case t.kernel != nil:
		s.call(t.device, t.kernel, t.call)
	default:
		t.f()
	}
}

func (s *stream) call(d *Device, kernel func(*backend.Call) error, c *backend.Call) {
	if e := d.execute(kernel, c); e != nil {
		s.failure.CompareAndSwap(nil, e) // the first is kept
	}
}

func (s *stream) passed(seq uint64) bool { return s.done.Load() >= seq }

// wait returns when task number seq has finished.
func (s *stream) wait(seq uint64) {
	for range linger {
		if s.passed(seq) {
			return
		}
		runtime.Gosched()
	}
	s.mu.Lock()
	for {
		// Say what is awaited before looking: the worker counts before it looks.
		s.awaited.Store(min(s.awaited.Load(), seq))
		if s.passed(seq) {
			break
		}
		s.moved.Wait()
	}
	s.mu.Unlock()
}
