package pool

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// How long an idle helper, or a caller waiting for one, spins before it parks.
// Waking a parked thread costs several microseconds, which is more than many
// tensor operations take, so a helper stays alert for about the time to the
// next operation of a busy program and no longer. It yields to the Go
// scheduler now and then, so runnable goroutines are not held up.
const (
	idleSpins = 512
	waitSpins = 512
	// yieldMask is how many turns, less one, lie between two yields. Each takes
	// the scheduler's lock: sixteen threads that did it every 8 turns cost a
	// training step a tenth of its time.
	yieldMask = 63
)

// A worker is a helper goroutine. At most Threads()-1 exist; idle ones are
// listed in idle, last used first, and spin and then park on wake.
type worker struct {
	job    atomic.Pointer[job]
	parked atomic.Bool
	quit   bool // guarded by mu
	wake   chan struct{}
}

var (
	mu      sync.Mutex
	idle    []*worker
	workers int // alive, busy or idle
	// open has the jobs with chunks to begin and places for helpers.
	open []*job
	// spare mirrors len(idle) plus the helpers that may still be started, so
	// that a loop that finds none does not touch the lock.
	spare atomic.Int32
)

func init() { spare.Store(threads.Load() - 1) }

// hire takes up to want idle helpers, starting new ones where the limit
// allows. It is called with mu held.
func hire(ws []*worker, want int) []*worker {
	for len(ws) < want {
		if k := len(idle); k > 0 {
			ws = append(ws, idle[k-1])
			idle[k-1] = nil
			idle = idle[:k-1]
		} else if workers < Threads()-1 {
			workers++
			w := &worker{wake: make(chan struct{}, 1)}
			ws = append(ws, w)
			go w.loop()
		} else {
			break
		}
	}
	setSpare()
	return ws
}

// join finds an open job for a helper that has become free, the newest first:
// it is the innermost where loops are nested, which others wait for. It is
// called with mu held; the caller of an open job holds on to it until shut.
func join() *job {
	for i := len(open) - 1; i >= 0; i-- {
		j := open[i]
		if j.next.Load() < j.chunks {
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

// shut takes a job off the open ones, if it is still among them.
func shut(j *job) {
	mu.Lock()
	if i := slices.Index(open, j); i >= 0 {
		open = slices.Delete(open, i, i+1)
	}
	mu.Unlock()
}

// setSpare is called with mu held.
func setSpare() { spare.Store(int32(len(idle) + max(0, Threads()-1-workers))) }

// trim ends idle helpers beyond the limit.
func trim() {
	mu.Lock()
	defer mu.Unlock()
	for workers > Threads()-1 && len(idle) > 0 {
		w := idle[len(idle)-1]
		idle = idle[:len(idle)-1]
		workers--
		w.quit = true
		w.give(nil)
	}
	setSpare()
}

// give hands a hired worker its job. A nil job only wakes it, to see quit.
func (w *worker) give(j *job) {
	if j != nil {
		w.job.Store(j)
	}
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
			workers--
			setSpare()
			mu.Unlock()
		}
	}()
	for {
		j := w.next()
		if j == nil {
			return
		}
		j.work()
		w.job.Store(nil)
		j.release()
		mu.Lock()
		if workers > Threads()-1 {
			workers--
			setSpare()
			mu.Unlock()
			return
		}
		if j = join(); j != nil {
			mu.Unlock()
			w.job.Store(j)
			continue
		}
		idle = append(idle, w)
		setSpare()
		mu.Unlock()
	}
}

// next waits for a job; nil means the worker was told to quit.
func (w *worker) next() *job {
	for {
		for i := 0; i < idleSpins; i++ {
			if j := w.job.Load(); j != nil {
				return j
			}
			pause(16)
			if i&yieldMask == yieldMask {
				runtime.Gosched()
			}
		}
		w.parked.Store(true)
		if w.job.Load() != nil || w.quitting() {
			if !w.parked.CompareAndSwap(true, false) {
				<-w.wake
			}
		} else {
			<-w.wake
		}
		if w.quitting() {
			return nil
		}
	}
}

func (w *worker) quitting() bool {
	mu.Lock()
	defer mu.Unlock()
	return w.quit
}
