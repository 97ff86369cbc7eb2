package memory

import "sync"

// Arena is working memory that the programs of one device share: each of them lays its
// values out in it while it is queued, one after the other. It grows to what the
// largest of them needs. Between two of them it counts as cached, and [Pool.Trim]
// returns it to the source.
type Arena struct {
	pool   *Pool
	mu     sync.Mutex // held while a program has it
	region Region
}

// page is what the size of an arena is a multiple of. Arenas are few: rounding to classes
// would only waste memory.
const page = 4 << 10

// Arena returns the pool's arena.
func (p *Pool) Arena() *Arena { return &p.arena }

// Lease returns the arena's memory, at least size bytes of it, until [Arena.Return]. It
// waits for its turn, or reports false if wait is not set and another program has it.
// What the arena held is lost where it grows.
func (a *Arena) Lease(size int, wait bool, label func() Label) (Region, bool, error) {
	if wait {
		a.mu.Lock()
	} else if !a.mu.TryLock() {
		return Region{}, false, nil
	}
	if size > a.region.Size {
		a.release() // first, so that both are never there at once
		r, err := a.pool.region((size+page-1)/page*page, label)
		if err != nil {
			a.mu.Unlock()
			return Region{}, false, err
		}
		a.region = r
		a.pool.count(&a.region, label(), false)
	} else {
		a.pool.count(&a.region, label(), true)
	}
	return a.region, true, nil
}

// count counts an arena as in use; cached says that it was counted as cached.
func (p *Pool) count(r *Region, label Label, cached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cached {
		p.stats.Cached -= int64(r.Size)
	}
	p.lend(*r, label)
}

// Return ends a lease. Whoever uses the memory next is queued behind.
func (a *Arena) Return() {
	a.pool.mu.Lock()
	a.pool.takeBack(a.region)
	a.pool.stats.Cached += int64(a.region.Size)
	a.pool.mu.Unlock()
	a.mu.Unlock()
}

// release returns the memory to the source; a.mu is held, and nobody has a lease.
func (a *Arena) release() {
	r := a.region
	if r.Size == 0 {
		return
	}
	a.region = Region{}
	p := a.pool
	p.mu.Lock()
	p.stats.Cached -= int64(r.Size)
	p.mu.Unlock()
	p.source.Free(r)
}

// trim is release unless a program has the arena.
func (a *Arena) trim() {
	if a.mu.TryLock() {
		defer a.mu.Unlock()
		a.release()
	}
}

// Piece returns a block that lies in memory which somebody else answers for: an
// arena, or another block. It is never freed, and counts nowhere.
func (p *Pool) Piece(r Region) *Block { return &Block{Region: r, pool: p} }

// Slice returns a part of the region.
func (r Region) Slice(offset, size int) Region { return r.slice(offset, size) }
