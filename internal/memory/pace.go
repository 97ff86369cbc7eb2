package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The Go runtime paces its collector by its own heap, which for a device's memory
// holds nothing but handles. So a pool counts the bytes that the collector is to free,
// and asks for collections itself: ahead, in the background, when garbage may have
// grown to half of what is allowed, or when a known amount of it was just made; so
// memory is there to be reused when the program wants it. The program waits only when
// there may be more garbage than is allowed. It does not wait for the device
// meanwhile: what is queued goes on, and memory is reused in the order of the queue.
//
// How much is allowed depends on what waiting costs. As long as the device has work
// meanwhile it costs nothing, and half of what is alive is allowed. Where a large
// tensor becomes garbage every 200 µs the device would run dry: then more is allowed,
// up to twice what is alive.

const (
	paceMin  = 32 << 20 // garbage below this is not worth a collection of its own
	paceBusy = 1        // after a collection in the background, so many times its duration without one

	slackMin  = 0.5 // garbage that is allowed, in parts of what is alive
	slackMax  = 2
	slackRise = 1.5  // when waiting cost more than slackCost of the time
	slackFall = 0.99 // when it cost nothing
	slackCost = 0.05
)

// pace is a pool's knowledge of garbage. The pool's lock guards it.
type pace struct {
	managed   int64 // bytes that the collector is to free
	settled   int64 // managed bytes that were alive after the last collection
	collected int64 // bytes that the collector has found, in all
	dropped   int64 // bytes that are garbage now if the program has no handles of its own

	slack  float64   // garbage that is allowed, in parts of settled; 0 stands for slackMin
	waited time.Time // when the program waited last

	listening bool
}

// due reports whether a collection would pay; p.mu is held.
func (p *Pool) due() bool {
	return !p.paper && (p.managed > p.settled+max(p.allowed()/2, paceMin) || p.shed())
}

// allowed returns how much garbage there may be; p.mu is held.
func (p *Pool) allowed() int64 { return int64(max(p.slack, slackMin) * float64(p.settled)) }

// shed reports whether much was dropped; p.mu is held.
func (p *Pool) shed() bool { return p.dropped > max(p.settled/4, paceMin) }

// overdue reports whether the program should wait for a collection rather than take
// more memory from the device.
func (p *Pool) overdue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.paper && (p.managed > p.settled+p.allowed()+2*paceMin || p.shed())
}

// Drop says that the caller, and as far as it knows the program, no longer needs the
// blocks. A collection follows early if the collector is to free them and they are
// large.
func Drop(blocks []*Block) {
	var pools []*Pool
	for i, b := range blocks {
		if b.pool.drop(b) && (i == 0 || len(pools) == 0 || pools[len(pools)-1] != b.pool) {
			pools = append(pools, b.pool)
		}
	}
	for _, p := range pools {
		p.mu.Lock()
		due := p.due()
		p.mu.Unlock()
		if due {
			p.collectAhead()
		}
	}
}

// drop counts b, and reports whether the collector is to free it.
func (p *Pool) drop(b *Block) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := b.large.Load()
	if l == nil || !l.managed {
		return false
	}
	p.dropped += int64(b.Size)
	return true
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
		p.collect(always, false)
		ahead.next.Store(int64(time.Since(start) + paceBusy*time.Since(from)))
	}()
}

func always() bool { return true }

// Collect runs the garbage collector and waits until what it found is freed.
func (p *Pool) Collect() {
	p.drain()
	p.collect(always, true)
}

// catchUp collects for a program that has too much garbage and wants a region, unless
// a collection that is under way frees it.
func (p *Pool) catchUp(want int) (Region, bool) {
	from := time.Now()
	idle := p.behind()
	found := p.collect(p.overdue, false)
	r, ok := p.take(want)
	if !ok && found < int64(want) {
		p.drain() // what is queued may hold on to garbage
		p.collect(always, false)
		r, ok = p.take(want)
	}
	dry := idle()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adapt(from, time.Now(), dry)
	return r, ok
}

// adapt allows more garbage or less after the program has waited. dry says that the
// device had nothing left to do at the end. p.mu is held.
func (p *Pool) adapt(from, to time.Time, dry bool) {
	took := to.Sub(from)
	p.stats.Waited += took
	switch since := to.Sub(p.waited); {
	case !dry:
		p.slack = max(p.slack*slackFall, slackMin)
	case took.Seconds() > slackCost*since.Seconds():
		p.slack = min(max(p.slack, slackMin)*slackRise, slackMax)
	}
	p.waited = to
}

// collecting lets one goroutine at a time collect, and find out what was found.
var collecting sync.Mutex

// collect runs the garbage collector if that is still wanted when it is its turn, and
// returns the bytes found. With thorough it waits for finalizers too: scopes that were
// forgotten have one.
func (p *Pool) collect(still func() bool, thorough bool) int64 {
	collecting.Lock()
	defer collecting.Unlock()
	if !still() {
		return 0
	}
	p.mu.Lock()
	managed, before, dropped := p.managed, p.collected, p.dropped
	p.mu.Unlock()
	if thorough {
		p.collectThoroughly()
	} else {
		runtime.GC()
		p.sweep()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.collected - before
	p.settled = min(max(managed-found, 0), p.managed)
	p.dropped = max(p.dropped-dropped, 0)
	p.stats.Collections++
	return found
}

// collectThoroughly collects, and waits for the goroutine of finalizers to come to
// rest.
func (p *Pool) collectThoroughly() {
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
	for last := int64(-1); ; {
		p.sweep()
		frees := p.Stats().Frees
		if frees == last {
			return
		}
		last = frees
		time.Sleep(100 * time.Microsecond)
	}
}
