// Package memory is the allocator that every device shares: it caches what is
// freed, counts, watches the collector's garbage, and knows what to try before
// it reports that memory has run out. What differs between devices is only the
// [Source] it draws from.
package memory

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/locusml/locus/internal/callsite"
)

// Source is where a pool's memory comes from.
type Source interface {
	// Allocate returns at least size bytes, aligned to 64, or ErrExhausted.
	Allocate(size int) (Region, error)
	// Free takes back a region that Allocate returned.
	Free(Region)
	// Memory returns the device's total and free bytes.
	Memory() (total, free int64)
}

// ErrExhausted is what a Source returns when it has no room for a request.
var ErrExhausted = errors.New("memory exhausted")

const (
	align     = 64
	smallMax  = 4 << 10   // blocks up to this are cut from slabs
	slabSize  = 64 << 10  // what they are cut from
	recordMin = 256 << 10 // blocks from this on are named in an out-of-memory report
)

// Stats are a device's memory counters, in bytes and calls.
type Stats struct {
	InUse       int64         // bytes that tensors, and ops while they are queued, hold now
	Peak        int64         // largest InUse since the start or ResetPeak
	Cached      int64         // bytes kept for reuse
	Allocations int64         // blocks handed out
	Frees       int64         // blocks freed
	OutOfMemory int64         // requests that failed
	Collections int64         // garbage collections the allocator asked for
	Waited      time.Duration // the program waited for them
}

// Pool is one device's allocator. It is safe for concurrent use.
type Pool struct {
	source Source
	drain  func()
	behind func() (idle func() bool)
	pinned bool
	paper  bool // there is no memory: see Paper

	mu       sync.Mutex
	free     map[int]*[]Region        // by class size
	small    [smallMax/align + 1][]sm // freed small blocks by size
	slab     *slab
	handles  []Block // made for the slab's next blocks, eight at a time
	stats    Stats
	live     map[*record]struct{}
	lent     []loan    // large working memory that is out
	watching []watched // blocks and slabs that the collector is to free
	pace

	arena Arena
}

type sm struct {
	region Region
	slab   *slab
}

// record describes a large block for the report; it does not keep it alive.
type record struct {
	label Label
	size  int
	site  callsite.Site
}

// Label says what a block holds.
type Label struct {
	DType string
	Shape string
}

// NewPool makes a pool that draws from source.
func NewPool(source Source) *Pool {
	p := &Pool{source: source, drain: func() {}, behind: synchronous, free: map[int]*[]Region{}, live: map[*record]struct{}{}}
	p.arena.pool = p
	return p
}

// Drain sets what waits for queued work, which holds on to what it uses, before
// the pool asks for a collection.
func (p *Pool) Drain(wait func()) *Pool {
	p.drain = wait
	return p
}

// Behind sets what marks the end of queued work. What it returns tells whether the
// device has come so far, and so has nothing to do.
func (p *Pool) Behind(mark func() (idle func() bool)) *Pool {
	p.behind = mark
	return p
}

// synchronous is Behind of a device that is done with everything at once.
func synchronous() (idle func() bool) { return func() bool { return true } }

// Pinned says that the source has page-locked main memory.
func (p *Pool) Pinned() *Pool {
	p.pinned = true
	return p
}

// Paper says that the source has addresses without memory, for blocks that only have
// an identity: nothing is worth a collection then.
func (p *Pool) Paper() *Pool {
	p.paper = true
	return p
}

// class rounds a size up to one of 32 steps per doubling, so that sizes that are
// nearly equal share their cache and waste stays below a thirty-second.
func class(size int) int {
	if size <= smallMax {
		return (size + align - 1) / align * align
	}
	step := 1 << (bits.Len(uint(size-1)) - 6)
	return (size + step - 1) / step * step
}

// Allocate returns a block of at least size bytes. label is asked for only when
// the block is large enough to be worth a line in a report.
func (p *Pool) Allocate(size int, label func() Label) (*Block, error) {
	if size <= 0 {
		size = 1
	}
	want := class(size)
	if want <= smallMax {
		return p.allocateSmall(want, label)
	}
	b := &Block{pool: p}
	l := new(large)
	if want >= recordMin {
		l.record = &record{label(), want, callsite.Here(1)}
	}
	b.large.Store(l)
	p.mu.Lock()
	r, ok := p.cached(want)
	if !ok {
		p.mu.Unlock()
		var err error
		if r, err = p.region(want, label); err != nil {
			return nil, err
		}
		p.mu.Lock()
	}
	b.Region = r
	if l.record != nil {
		p.live[l.record] = struct{}{}
	}
	p.took(int64(want))
	p.mu.Unlock()
	return b, nil
}

// took counts a block that was handed out; p.mu is held.
func (p *Pool) took(n int64) {
	p.stats.Allocations++
	p.stats.InUse += n
	p.stats.Peak = max(p.stats.Peak, p.stats.InUse)
}

func (p *Pool) allocateSmall(want int, label func() Label) (*Block, error) {
	var b *Block
	p.mu.Lock()
	for {
		if l := p.small[want/align]; len(l) > 0 {
			s := l[len(l)-1]
			l[len(l)-1] = sm{}
			p.small[want/align] = l[:len(l)-1]
			p.stats.Cached -= int64(want)
			b = &Block{Region: s.region, slab: s.slab}
			break
		}
		if s := p.slab; s != nil && s.used+want <= s.region.Size {
			b = p.handle()
			b.Region, b.slab = s.region.slice(s.used, want), s
			s.used += want
			break
		}
		p.mu.Unlock()
		r, err := p.region(slabSize, label)
		if err != nil {
			return nil, err
		}
		s := &slab{&cut{region: r}}
		p.mu.Lock()
		if !p.paper {
			p.watch(watched{slab: weak.Make(s), cut: s.cut})
		}
		p.slab, p.handles = s, nil
	}
	b.pool = p
	b.slab.live += int64(want)
	b.slab.blocks++
	p.took(int64(want))
	p.mu.Unlock()
	return b, nil
}

// handle returns an empty Block for a piece of the present slab. Those of one
// slab may share their memory, as each keeps the slab anyway; p.mu is held.
func (p *Pool) handle() *Block {
	if len(p.handles) == 0 {
		p.handles = make([]Block, 8) // 512 bytes, a size that Go's allocator has without waste
	}
	b := &p.handles[0]
	p.handles = p.handles[1:]
	return b
}

// region takes a region of exactly the class size from the cache or the source. When
// the source has no more it tries, in this order: returning what is cached, and
// collecting garbage.
func (p *Pool) region(want int, label func() Label) (Region, error) {
	if r, ok := p.take(want); ok {
		return r, nil
	}
	if p.overdue() {
		if r, ok := p.catchUp(want); ok {
			return r, nil
		}
	}
	for attempt := 0; ; attempt++ {
		r, err := p.source.Allocate(want)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, ErrExhausted) {
			return Region{}, err
		}
		if !p.Relieve(attempt) {
			return Region{}, p.Exhausted(want, label(), nil)
		}
	}
}

// take is cached for a caller without the lock.
func (p *Pool) take(want int) (Region, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cached(want)
}

// Relieve returns memory to the source after a request has failed there. It tries
// harder with each attempt, from 0, and reports false when there is nothing left to
// try. It may wait for the device and collect garbage.
func (p *Pool) Relieve(attempt int) bool {
	switch attempt {
	case 0:
		p.Trim()
	case 1, 2, 3: // finalizers of what one collection finds can free what the next one finds
		p.Collect()
		p.Trim()
	default:
		return false
	}
	return true
}

// cached takes a region from the cache; p.mu is held.
func (p *Pool) cached(want int) (Region, bool) {
	l := p.free[want]
	if l == nil || len(*l) == 0 {
		return Region{}, false
	}
	last := len(*l) - 1
	r := (*l)[last]
	*l = (*l)[:last]
	p.stats.Cached -= int64(want)
	return r, true
}

// cache keeps a region for reuse; p.mu is held.
func (p *Pool) cache(r Region) {
	l := p.free[r.Size]
	if l == nil {
		l = new([]Region)
		p.free[r.Size] = l
	}
	*l = append(*l, r)
	p.stats.Cached += int64(r.Size)
}

// release takes back a block that was freed.
func (p *Pool) release(b *Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := int64(b.Size)
	p.stats.Frees++
	p.stats.InUse -= n
	if s := b.slab; s != nil {
		p.stats.Cached += n
		s.live -= n
		s.blocks--
		p.small[b.Size/align] = append(p.small[b.Size/align], sm{b.Region, s})
		return
	}
	l := b.large.Load()
	if l.managed {
		p.forget(l.at)
		l.managed = false
	}
	p.retire(l, b.Region)
}

// retire keeps the region of a large block that has ended; p.mu is held.
func (p *Pool) retire(l *large, r Region) {
	if l.record != nil {
		delete(p.live, l.record)
	}
	p.cache(r)
}

// Trim returns what is cached to the source, including the arena unless a program has
// it.
func (p *Pool) Trim() {
	p.arena.trim()
	p.mu.Lock()
	var regions []Region
	for size, l := range p.free {
		regions = append(regions, *l...)
		p.stats.Cached -= int64(size * len(*l))
	}
	clear(p.free)
	for i, l := range p.small { // forgetting them lets their slabs be collected
		p.stats.Cached -= int64(i * align * len(l))
		p.small[i] = nil
	}
	p.mu.Unlock()
	for _, r := range regions {
		p.source.Free(r)
	}
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// ResetPeak makes the present use the new peak.
func (p *Pool) ResetPeak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Peak = p.stats.InUse
}

// Exhausted is the error of a request that could not be met.
type Exhausted struct {
	Label         Label
	Asked         int64 // bytes; 0 where the device's driver does not say
	Cause         error // what the driver says, if it was the driver that found no room
	Total, Free   int64 // the device's, after everything was tried
	InUse, Cached int64
	Largest       []Holder // the largest live blocks
}

// Holder is one live block in an out-of-memory report.
type Holder struct {
	Label Label
	Bytes int64
	Site  string // the line that made it; "" for working memory of an op
}

func (e *Exhausted) Error() string {
	if e.Cause != nil {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%d bytes asked for, %d free of %d", e.Asked, e.Free, e.Total)
}

// Unwrap makes errors.Is(err, ErrExhausted) work, and leads to the cause.
func (e *Exhausted) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrExhausted}
	}
	return []error{ErrExhausted, e.Cause}
}

const reported = 5 // live blocks named in a report

// Exhausted counts a request that could not be met and returns its error. Asked and
// cause are as in the error.
func (p *Pool) Exhausted(asked int, label Label, cause error) error {
	total, free := p.source.Memory()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.OutOfMemory++
	e := &Exhausted{Label: label, Asked: int64(asked), Cause: cause, Total: total, Free: free, InUse: p.stats.InUse, Cached: p.stats.Cached}
	type holder struct {
		label Label
		size  int
		made  *record // nil for working memory
	}
	holders := make([]holder, 0, len(p.live)+len(p.lent))
	for r := range p.live {
		holders = append(holders, holder{r.label, r.size, r})
	}
	for _, l := range p.lent {
		holders = append(holders, holder{l.label, l.region.Size, nil})
	}
	slices.SortFunc(holders, func(a, b holder) int { return b.size - a.size })
	for _, h := range holders[:min(reported, len(holders))] {
		site := ""
		if h.made != nil {
			site = h.made.site.String()
		}
		e.Largest = append(e.Largest, Holder{h.label, int64(h.size), site})
	}
	return e
}
