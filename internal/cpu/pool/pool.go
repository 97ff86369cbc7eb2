// Package pool runs loops in parallel on a small, process-wide set of helper
// goroutines.
//
// The way it divides a loop depends only on the loop, never on the number of threads,
// so a kernel that combines per-chunk results in chunk order has the same bits on any
// machine. A caller always works on its own loop and waits only for chunks a helper
// has already begun, so a helper that is slow to wake costs nothing, nested loops
// cannot deadlock, and when every helper is busy (many goroutines computing at once)
// the caller simply begins alone: the process never runs more than Threads()-1
// helpers in all. A loop that got fewer helpers than it could use stays open, and
// helpers that become free, among them those that woke too late for the loop before,
// join it.
package pool

import (
	"math/bits"
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
//
// Chunks are claimed in units, each a run of as many chunks as it takes to
// have no more units than todo has bits. Each participant has a share of them
// and begins with that: a helper always with the same one, whoever else takes
// part, so that a loop that is run again over the same data finds in each
// core's cache what was there before. What others have not begun it takes from
// their ends.
//
// What all helpers write lies apart from what they read.
type job struct {
	f        func(lo, hi int)
	n, grain int
	per      int // chunks per unit
	units    int
	parties  int       // participants that have shares
	crew     []*worker // helpers hired at the start; number i has place i+1
	places   int       // for helpers that come later; guarded by mu while the job is open
	done     chan struct{}

	_       [64]byte
	todo    [todoWords]atomic.Uint64 // a bit for each unit not yet begun
	_       [56]byte
	left    atomic.Int64 // units not yet ended
	waiting atomic.Bool  // the caller parks on done
	_       [48]byte
	refs    atomic.Int32 // caller + helpers that may still touch the job

	failed  atomic.Bool
	mu      sync.Mutex
	failure any
}

const todoWords = 4

var jobs = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// fanOut runs a loop with helpers; it reports false, having done nothing, if
// there are none now and others are so busy with the pool that none is likely
// to become free.
func fanOut(n, grain, chunks, want int, f func(lo, hi int)) bool {
	var hired [32]*worker
	ws := hire(hired[:0], want)
	if len(ws) == 0 && !mu.TryLock() {
		return false
	}
	j := jobs.Get().(*job)
	j.f, j.n, j.grain = f, n, grain
	j.per = (chunks-1)/(64*todoWords) + 1
	j.units = (chunks-1)/j.per + 1
	j.parties = min(want+1, j.units)
	for i := range j.todo {
		switch left := j.units - 64*i; {
		case left >= 64:
			j.todo[i].Store(^uint64(0))
		case left > 0:
			j.todo[i].Store(1<<left - 1)
		default:
			j.todo[i].Store(0)
		}
	}
	j.left.Store(int64(j.units))
	j.waiting.Store(false)
	if len(ws) < want {
		if len(ws) > 0 {
			mu.Lock()
		}
		ws = unlatch(j, ws, want)
		mu.Unlock()
	} else {
		j.hired(ws)
	}
	j.call(0)
	j.work(0)
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

// hired takes note of the helpers that will get the job.
func (j *job) hired(ws []*worker) {
	j.refs.Store(int32(len(ws)) + 1)
	j.crew = append(j.crew[:0], ws...)
}

// call hands the job to the helpers that wait for the participant at a place:
// to hand it to one takes a fraction of a microsecond, so each passes it on.
func (j *job) call(place int) {
	for i := fanout * place; i < min(fanout*(place+1), len(j.crew)); i++ {
		w := j.crew[i]
		w.place = i + 1
		w.give(j)
	}
}

const fanout = 3

// work runs units until none is left to begin: first those of a seat, then
// others'.
func (j *job) work(seat int) {
	seat %= j.parties
	for u := seat * j.units / j.parties; u < (seat+1)*j.units/j.parties; u++ {
		if j.claim(u) {
			j.unit(u)
		}
	}
	for i := todoWords - 1; i >= 0; {
		m := j.todo[i].Load()
		if m == 0 {
			i--
			continue
		}
		if u := 64*i + bits.Len64(m) - 1; j.claim(u) {
			j.unit(u)
		}
	}
}

// claim reports whether the caller is to run unit u.
func (j *job) claim(u int) bool {
	word, bit := &j.todo[u/64], uint64(1)<<(u%64)
	return word.Load()&bit != 0 && word.And(^bit)&bit != 0
}

// begun reports whether all units have been begun.
func (j *job) begun() bool {
	for i := range j.todo {
		if j.todo[i].Load() != 0 {
			return false
		}
	}
	return true
}

// unit runs the chunks of a unit.
func (j *job) unit(u int) {
	if j.failed.Load() {
		j.end()
		return
	}
	j.chunks(u)
}

// chunks turns a panic in a unit, or a runtime.Goexit, into the job's failure.
func (j *job) chunks(u int) {
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
	lo, hi := u*j.per*j.grain, min((u+1)*j.per*j.grain, j.n)
	for ; lo < hi; lo += j.grain {
		j.f(lo, min(lo+j.grain, hi))
	}
	ok = true
}

// end counts one unit as ended and wakes the caller after the last.
func (j *job) end() {
	if j.left.Add(-1) == 0 && j.waiting.Load() && j.waiting.CompareAndSwap(true, false) {
		j.done <- struct{}{}
	}
}

// wait returns when every unit has ended. What is left then is at most one per
// helper, so it spins for a while before it parks.
func (j *job) wait() {
	for i := range waitSpins {
		if j.left.Load() == 0 {
			return
		}
		pause(1)
		if i%coldSpins == coldSpins-1 {
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

// Await returns when done reports true. It is for what another goroutine, which
// is running, is about to do: it spins.
func Await(done func() bool) {
	for i := 0; !done(); i++ {
		pause(1)
		if i%coldSpins == coldSpins-1 {
			runtime.Gosched()
		}
	}
}

func (j *job) release() {
	if j.refs.Add(-1) != 0 {
		return
	}
	j.f = nil
	clear(j.crew)
	j.crew = j.crew[:0]
	j.failed.Store(false)
	j.failure = nil
	jobs.Put(j)
}
