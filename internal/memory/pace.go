package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The Go runtime paces its collector by its own heap, which for a device's memory
// holds nothing but handles. So a pool counts the bytes whose end the collector
// decides, and asks for collections itself: ahead, in the background, when garbage
// may have grown by half of what was alive, so that memory is there to be reused
// when the program wants it; and with the program waiting only when that was not
// enough.

const (
	paceMin  = 32 << 20 // garbage below this is not worth a collection of its own
	paceBusy = 1        // after a collection in the background, so many times its duration without one
)

// pace is a pool's knowledge of garbage. The pool's lock guards it.
type pace struct {
	managed   int64 // bytes whose end the collector decides
	settled   int64 // those that were alive after the last collection
	collected int64 // bytes that the collector has found, in all
}

// due reports whether a collection would pay; p.mu is held.
func (p *Pool) due() bool { return !p.paper && p.managed > p.settled+max(p.settled/2, paceMin) }

// overdue reports whether the program should wait for a collection.
func (p *Pool) overdue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.paper && p.managed > 2*p.settled+2*paceMin
}

// ahead collects in the background, for all pools of the process.
var ahead struct {
	running atomic.Bool
	next    atomic.Int64 // not before this time, in nanoseconds since start
}

var start = time.Now()

// collectAhead starts a collection in the background, unless one is running or
// just was.
func (p *Pool) collectAhead() {
	if int64(time.Since(start)) < ahead.next.Load() || !ahead.running.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer ahead.running.Store(false)
		from := time.Now()
		p.collect(func() bool { return true })
		ahead.next.Store(int64(time.Since(start) + paceBusy*time.Since(from)))
	}()
}

// Collect runs the garbage collector and waits until what it found is freed.
func (p *Pool) Collect() {
	p.drain()
	p.collect(func() bool { return true })
}

// collectOverdue is Collect for a program that has too much garbage, unless a
// collection that is under way frees it.
func (p *Pool) collectOverdue() {
	p.drain()
	p.collect(p.overdue)
}

// collecting lets one goroutine at a time find out what a collection has found.
var collecting sync.Mutex

func (p *Pool) collect(still func() bool) {
	collecting.Lock()
	defer collecting.Unlock()
	if !still() {
		return
	}
	p.mu.Lock()
	managed, before := p.managed, p.collected
	p.mu.Unlock()
	done := make(chan struct{})
	func() {
		sentinel := new([16]int64)
		runtime.SetFinalizer(sentinel, func(*[16]int64) { close(done) })
	}()
	runtime.GC()
	select {
	case <-done: // finalizers of this cycle are running, one after the other
	case <-time.After(100 * time.Millisecond):
	}
	// Wait for the finalizer goroutine to come to rest.
	for last := int64(-1); ; {
		p.mu.Lock()
		found := p.collected
		if found == last {
			p.settled = min(max(managed-(found-before), 0), p.managed)
			p.stats.Collections++
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		last = found
		time.Sleep(100 * time.Microsecond)
	}
}

// found counts a block that the collector has found.
func (p *Pool) found(b *Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.collected += int64(b.Size)
}
