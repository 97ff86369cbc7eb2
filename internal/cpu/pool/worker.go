package pool

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// How long an idle helper, or a caller waiting for one, spins before it parks,
// and how often it yields to the Go scheduler meanwhile, so that runnable
// goroutines are not held up. One spin is a pause, 15 to 50 ns. Waking a parked
// thread costs several microseconds, which is more than many tensor operations
// take, so a helper stays alert for about the time to the next operation of a
// busy program and no longer. To yield costs a microsecond, more where many
// helpers do it, and may move the helper to another core, away from the data
// in its cache; so a helper does it after many short waits, and one that has
// waited for long more often.
const (
	idleSpins  = 4096
	waitSpins  = 4096
	coldSpins  = 512
	yieldSpins = 8192
)

// A worker is a helper goroutine. At most Threads()-1 exist. One that has
// nothing to do says so by its bit in idle, spins and then parks on wake.
type worker struct {
	job    atomic.Pointer[job]
	parked atomic.Bool
	quit   atomic.Bool
	slot   int
	place  int // in the job's crew
	spun   int // since it last yielded
	wake   chan struct{}
	_      [80]byte // nobody else's polling disturbs the line
}

// Hiring and coming to rest touch nothing but a word of idle, so that many
// helpers that end at the same time do not queue for a lock. mu guards the
// rest: it is for helpers that begin or end for good, and for open jobs.
var (
	idle    [maxThreads / 64]atomic.Uint64 // a bit for each slot of team
	workers atomic.Int32                   // alive, busy or idle; changes with mu held
	opened  atomic.Int32                   // len(open)

	mu   sync.Mutex
	team [maxThreads]*worker // nil where there is none
	// open has the jobs with chunks to begin and places for helpers.
	open []*job
)

// take claims up to want-len(ws) idle helpers, those with the lowest slots,
// which are therefore the ones least likely to be parked.
func take(ws []*worker, want int) []*worker {
	for i := range idle {
		for len(ws) < want {
			had := idle[i].Load()
			if had == 0 {
				break
			}
			left := had
			for range min(want-len(ws), bits.OnesCount64(had)) {
				left &= left - 1
			}
			if !idle[i].CompareAndSwap(had, left) {
				continue
			}
			for m := had &^ left; m != 0; m &= m - 1 {
				ws = append(ws, team[64*i+bits.TrailingZeros64(m)])
			}
		}
	}
	return ws
}

// hire claims up to want helpers, starting new ones where the limit allows.
func hire(ws []*worker, want int) []*worker {
	ws = take(ws, want)
	if len(ws) == want || int(workers.Load()) >= Threads()-1 {
		return ws
	}
	mu.Lock()
	defer mu.Unlock()
	for slot := 0; len(ws) < want && int(workers.Load()) < Threads()-1; slot++ {
		if team[slot] == nil {
			w := &worker{slot: slot, wake: make(chan struct{}, 1)}
			team[slot] = w
			workers.Add(1)
			ws = append(ws, w)
			go w.loop()
		}
	}
	return ws
}

// dismiss frees a helper's place. It is called with mu held.
func dismiss(w *worker) {
	team[w.slot] = nil
	workers.Add(-1)
}

// join finds an open job for a helper that has become free, the newest first:
// it is the innermost where loops are nested, which others wait for. The
// caller of an open job holds on to it until shut.
func join() *job {
	mu.Lock()
	defer mu.Unlock()
	defer func() { opened.Store(int32(len(open))) }()
	for i := len(open) - 1; i >= 0; i-- {
		j := open[i]
		if !j.begun() {
			j.refs.Add(1)
			if j.places--; j.places == 0 {
				open = slices.Delete(open, i, i+1)
			}
			return j
		}
		open = slices.Delete(open, i, i+1)
	}
	return nil
}

// unlatch lets helpers join a job that has hired ws, fewer than want. One that
// came to rest meanwhile saw nothing to join, so it looks for such once more.
// It is called with mu held.
func unlatch(j *job, ws []*worker, want int) []*worker {
	opened.Add(1)
	ws = take(ws, want)
	if j.places = want - len(ws); j.places > 0 {
		open = append(open, j)
	}
	opened.Store(int32(len(open)))
	j.hired(ws)
	return ws
}

// shut takes a job off the open ones, if it is still among them.
func shut(j *job) {
	mu.Lock()
	if i := slices.Index(open, j); i >= 0 {
		open = slices.Delete(open, i, i+1)
		opened.Store(int32(len(open)))
	}
	mu.Unlock()
}

// trim ends idle helpers beyond the limit; busy ones see it when they rest.
func trim() {
	mu.Lock()
	defer mu.Unlock()
	var one [1]*worker
	for int(workers.Load()) > Threads()-1 {
		ws := take(one[:0], 1)
		if len(ws) == 0 {
			return
		}
		dismiss(ws[0])
		ws[0].quit.Store(true)
		ws[0].rouse()
	}
}

// give hands its job to a hired worker.
func (w *worker) give(j *job) {
	w.job.Store(j)
	w.rouse()
}

func (w *worker) rouse() {
	if w.parked.Load() && w.parked.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

func (w *worker) loop() {
	defer func() {
		// Reached with a job in hand only if a loop body called
		// runtime.Goexit, which ends this goroutine: free its place.
		if j := w.job.Load(); j != nil {
			j.release()
			mu.Lock()
			dismiss(w)
			mu.Unlock()
		}
	}()
	for {
		j := w.next()
		if j == nil {
			return
		}
		j.call(w.place)
		for j != nil {
			j.work(w.slot + 1) // the caller has seat 0
			w.job.Store(nil)
			j.release()
			if j = w.rest(); j != nil {
				w.job.Store(j)
			}
		}
		if w.quit.Load() {
			return
		}
	}
}

// rest finds another job for a helper that has ended one, or sets its idle
// bit, or, where there are too many helpers, lets it quit.
func (w *worker) rest() *job {
	word, bit := &idle[w.slot/64], uint64(1)<<(w.slot%64)
	for {
		if opened.Load() > 0 {
			if j := join(); j != nil {
				return j
			}
		}
		if int(workers.Load()) > Threads()-1 {
			mu.Lock()
			if int(workers.Load()) > Threads()-1 {
				dismiss(w)
				w.quit.Store(true)
				mu.Unlock()
				return nil
			}
			mu.Unlock()
		}
		word.Or(bit)
		// Whoever opened a job, or lowered the limit, just before saw the bit
		// unset: look again, and if there is something take the bit back,
		// unless somebody has hired this helper by now.
		if opened.Load() == 0 && int(workers.Load()) <= Threads()-1 || word.And(^bit)&bit == 0 {
			return nil
		}
	}
}

// next waits for a job; nil means the worker was told to quit.
func (w *worker) next() *job {
	for {
		for i := range idleSpins {
			if j := w.job.Load(); j != nil {
				return j
			}
			pause(1)
			if w.spun++; w.spun >= yieldSpins || i%coldSpins == coldSpins-1 {
				w.spun = 0
				runtime.Gosched()
			}
		}
		w.parked.Store(true)
		if w.job.Load() != nil || w.quit.Load() {
			if !w.parked.CompareAndSwap(true, false) {
				<-w.wake
			}
		} else {
			<-w.wake
		}
		if w.quit.Load() {
			return nil
		}
	}
}
