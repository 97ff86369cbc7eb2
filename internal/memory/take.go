package memory

import "weak"

// Take ends b as Free does, but hands its memory on: the block that it returns lies
// in the same memory and holds the same bytes. It is for results that replace an
// operand, so that an update needs no second copy. Handles of b are handles of freed
// memory afterwards, so nobody sees the bytes change.
//
// Take reports false, and does nothing, if somebody holds b, if b is freed, or if b is
// in a group, which frees it. Work that was queued before is not disturbed as long as
// what writes to the new block is queued behind it.
//
// Nothing is allocated or freed as far as the counters tell. The new block ends by
// Free or by the collector as b would have.
func (b *Block) Take() (*Block, bool) { return b.take(0) }

// TakeHeld is Take for a caller that holds b once, and still does afterwards.
func (b *Block) TakeHeld() (*Block, bool) { return b.take(1) }

// take is Take where all holds of b are the caller's.
func (b *Block) take(holds int32) (*Block, bool) {
	if b.pool.paper || b.group.Load() != nil || !b.state.CompareAndSwap(holds, freedBit|releasedBit|holds) {
		return nil, false
	}
	n := &Block{Region: b.Region, pool: b.pool, slab: b.slab}
	pass(b, n)
	return n, true
}

// GiveBack undoes Take: b, which Take returned and nobody else knows yet, is freed and
// from is alive again, with what its memory holds now. It is for an update that failed.
func (b *Block) GiveBack(from *Block) {
	b.state.Store(freedBit | releasedBit)
	pass(b, from)
	from.state.Add(-(freedBit | releasedBit)) // a reader may be about to find it freed, and counts itself out again
}

// pass makes to the block that is responsible for from's memory.
func pass(from, to *Block) {
	l := from.large.Swap(nil)
	to.large.Store(l)
	if from.slab != nil {
		return // the slab answers
	}
	p := from.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.managed {
		p.watching[l.at].block = weak.Make(to)
	}
}
