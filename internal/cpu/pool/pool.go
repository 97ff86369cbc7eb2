// Package pool runs loops in parallel on a small, process-wide set of helper
// goroutines.
//
// The way it divides a loop depends only on the loop, never on the number of
// threads, so a kernel that combines per-chunk results in chunk order gives the
// same bits on any machine. A caller always works on its own loop and waits
// only for chunks a helper has already begun, so a helper that is slow to wake
// costs nothing, nested loops cannot deadlock, and when every helper is busy
// (many goroutines computing at once) the caller simply begins alone: the
// process never runs more than Threads()-1 helpers in all. A loop that got
// fewer helpers than it could use stays open, and helpers that become free,
// among them those that woke too late for the loop before, join it.
package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// For calls f(lo, hi) for the consecutive chunks [0,grain), [grain,2*grain), …
// of [0,n), the last one possibly shorter, on up to Threads() goroutines
// including the caller's, and returns when all have ended. Chunks may run in
// any order and at the same time. grain < 1 means 1. With a single chunk, or a
// single thread, everything runs on the caller's goroutine, in order.
//
// If a call of f panics, chunks not yet begun are skipped and For panics with
// the same value (the first one, should there be several) once the running
// ones have ended.
func For(n, grain int, f func(lo, hi int)) {
	if n <= 0 {
		return
	}
	if grain < 1 {
		grain = 1
	}
	if n <= grain {
		f(0, n)
		return
	}
	chunks := (n-1)/grain + 1
	want := min(Threads(), chunks) - 1
	if want > 0 && fanOut(n, grain, chunks, want, f) {
		return
	}
	for lo := 0; lo < n; lo += grain {
		f(lo, min(lo+grain, n))
	}
}

// A job is one For loop shared with helpers. It is recycled through jobs once
// its caller and every helper it was handed to have let go of it.
type job struct {
	f        func(lo, hi int)
	n, grain int
	chunks   int64
	places   int // for helpers that come later; guarded by mu while the job is open

	next    atomic.Int64 // next chunk to begin
	left    atomic.Int64 // chunks not yet ended
	refs    atomic.Int32 // caller + helpers that may still touch the job
	waiting atomic.Bool  // the caller parks on done
	done    chan struct{}

	failed  atomic.Bool
	mu      sync.Mutex
	failure any
}

var jobs = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// fanOut runs a loop with helpers; it reports false, having done nothing, if
// there are none now and others are so busy with the pool that none is likely
// to become free.
func fanOut(n, grain, chunks, want int, f func(lo, hi int)) bool {
	if spare.Load() > 0 {
		mu.Lock()
	} else if !mu.TryLock() {
		return false
	}
	var hired [32]*worker
	ws := hire(hired[:0], want)
	j := jobs.Get().(*job)
	j.f, j.n, j.grain, j.chunks = f, n, grain, int64(chunks)
	j.next.Store(0)
	j.left.Store(int64(chunks))
	j.waiting.Store(false)
	j.refs.Store(int32(len(ws)) + 1)
	j.places = want - len(ws)
	if j.places > 0 {
		open = append(open, j)
	}
	mu.Unlock()
	for _, w := range ws {
		w.give(j)
	}
	j.work()
	if len(ws) < want {
		shut(j)
	}
	j.wait()
	if j.failed.Load() {
		j.mu.Lock()
		failure := j.failure
		j.mu.Unlock()
		j.release()
		panic(failure)
	}
	j.release()
	return true
}

// work begins chunks until none is left to begin.
func (j *job) work() {
	for {
		c := j.next.Add(1) - 1
		if c >= j.chunks {
			return
		}
		if !j.failed.Load() {
			j.chunk(int(c))
		} else {
			j.end()
		}
	}
}

// chunk runs one chunk and turns a panic in it, or a runtime.Goexit, into the
// job's failure.
func (j *job) chunk(c int) {
	ok := false
	defer func() {
		if !ok {
			failure := recover()
			j.mu.Lock()
			if !j.failed.Load() {
				if failure == nil {
					failure = "pool: a loop body called runtime.Goexit"
				}
				j.failure = failure
				j.failed.Store(true)
			}
			j.mu.Unlock()
		}
		j.end()
	}()
	lo := c * j.grain
	j.f(lo, min(lo+j.grain, j.n))
	ok = true
}

// end counts one chunk as ended and wakes the caller after the last.
func (j *job) end() {
	if j.left.Add(-1) == 0 && j.waiting.Load() && j.waiting.CompareAndSwap(true, false) {
		j.done <- struct{}{}
	}
}

// wait returns when every chunk has ended. What is left then is at most one
// chunk per helper, so it spins for a while before it parks.
func (j *job) wait() {
	for i := 0; i < waitSpins; i++ {
		if j.left.Load() == 0 {
			return
		}
		pause(16)
		if i&yieldMask == yieldMask {
			runtime.Gosched()
		}
	}
	j.waiting.Store(true)
	if j.left.Load() == 0 {
		if j.waiting.CompareAndSwap(true, false) {
			return
		}
		// The last helper has already decided to signal.
	}
	<-j.done
}

func (j *job) release() {
	if j.refs.Add(-1) != 0 {
		return
	}
	j.f = nil
	j.failed.Store(false)
	j.failure = nil
	jobs.Put(j)
}
