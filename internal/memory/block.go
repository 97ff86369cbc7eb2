package memory

import (
	"sync/atomic"
	"unsafe"
)

// Region is memory as a device hands it out. Host memory is at Ptr, which also
// keeps it from being collected; memory that the host cannot touch is at Addr.
type Region struct {
	Ptr  unsafe.Pointer
	Addr uintptr
	Size int
}

func (r Region) slice(off, size int) Region {
	s := Region{Size: size}
	if r.Ptr != nil {
		s.Ptr = unsafe.Add(r.Ptr, off)
	}
	if r.Addr != 0 {
		s.Addr = r.Addr + uintptr(off)
	}
	return s
}

// Block is memory that a tensor lives in. It ends in one of two ways: by
// [Block.Free], or, if it was handed to the collector with [Block.Manage], when
// nothing refers to it any more.
type Block struct {
	Region
	pool  *Pool
	slab  *slab                 // the slab it was cut from, if small
	large atomic.Pointer[large] // what else a large one has: a small block must take little
	group atomic.Pointer[Group] // changed under the group's lock
	state atomic.Int32
	at    int32 // its place in the group, guarded by the group's lock
}

// large is what a block has that is not cut from a slab.
type large struct {
	record  *record // what the out-of-memory report says of it
	arrival atomic.Pointer[Arrival]
	managed bool // the collector is to free it; guarded by the pool's lock
	at      int  // its place in Pool.watching, if managed; guarded by the pool's lock
}

// join makes everything that is queued later wait for a copy that is under way.
func (l *large) join() {
	if a := l.arrival.Swap(nil); a != nil {
		(*a).Join()
	}
}

// state counts holds, and has these bits once Free was called and once the
// memory went back to the pool.
const (
	freedBit    = 1 << 30
	releasedBit = 1 << 29
)

// Freed reports whether Free was called.
func (b *Block) Freed() bool { return b.state.Load()&freedBit != 0 }

// Free returns the memory to the pool. Work that was queued on the device before is
// not disturbed: the memory is reused in stream order. While somebody holds the block
// the memory stays, and goes back with the last [Block.LetGo]. A second call does
// nothing and reports false.
func (b *Block) Free() bool {
	for {
		s := b.state.Load()
		if s&freedBit != 0 {
			return false
		}
		to := s | freedBit
		if s == 0 {
			to |= releasedBit
		}
		if b.state.CompareAndSwap(s, to) {
			if s == 0 {
				b.release()
			}
			return true
		}
	}
}

// TryHold keeps the memory from being reused until LetGo, although the block may
// be freed meanwhile. It reports false, and holds nothing, if the block is freed.
// Whoever reads or writes a block's memory, or queues work that does, holds it
// until the work is done or queued: so nobody ever sees another tensor's bytes.
func (b *Block) TryHold() bool {
	if b.state.Add(1)&freedBit == 0 {
		return true
	}
	b.LetGo()
	return false
}

// Hold holds the block once more, for a caller that holds it already or is the
// only one who knows it.
func (b *Block) Hold() { b.state.Add(1) }

// LetGo undoes one TryHold or Hold.
func (b *Block) LetGo() {
	if b.state.Add(-1) == freedBit && b.state.CompareAndSwap(freedBit, freedBit|releasedBit) {
		b.release()
	}
}

// release lets the memory be used again, behind what still writes to it.
func (b *Block) release() {
	if l := b.large.Load(); l != nil {
		l.join()
	}
	b.pool.release(b)
}

// Pinned reports whether the memory is page-locked: devices copy from and to it
// without a detour.
func (b *Block) Pinned() bool { return b.pool.pinned }

// In reports whether the block came from p.
func (b *Block) In(p *Pool) bool { return b.pool == p }

// Paper reports whether the block has an identity and no memory: see [Pool.Paper].
func (b *Block) Paper() bool { return b.pool != nil && b.pool.paper }

// Arrival is a copy into a block that its device's queue does not wait for yet.
type Arrival interface {
	// Join makes everything that is queued later wait for it.
	Join()
}

// SetArrival notes that the block is being copied to; nil that this is over, as
// far as anything that is queued later can tell. The device that owns the block
// does so, and joins the arrival when something queued uses the block; freeing it
// joins too.
func (b *Block) SetArrival(a Arrival) {
	l := b.large.Load()
	switch {
	case a == nil && l == nil:
		return
	case a == nil:
		l.arrival.Store(nil)
		return
	case l == nil:
		b.large.CompareAndSwap(nil, new(large))
		l = b.large.Load()
	}
	l.arrival.Store(&a)
}

// Arrival returns what SetArrival noted.
func (b *Block) Arrival() Arrival {
	if l := b.large.Load(); l != nil {
		if a := l.arrival.Load(); a != nil {
			return *a
		}
	}
	return nil
}

// Manage lets the collector free the block when it finds it unreachable.
func (b *Block) Manage() {
	if b.slab != nil || b.pool.paper {
		return // its slab is managed as a whole; without memory there is nothing to free
	}
	b.pool.manage(b)
}

// Unmanage undoes Manage: the block lives until Free.
func (b *Block) Unmanage() {
	if b.slab != nil || b.pool.paper {
		return
	}
	b.pool.unmanage(b)
}

// slab is a region from which small blocks are cut, one after the other. It
// goes back as a whole when no block refers to it: the collector watches one object
// for a thousand small tensors, each of which would cost more than its arithmetic.
type slab struct{ *cut }

// cut is what is known of a slab, and what is left of it when nobody refers to it.
type cut struct {
	region Region
	used   int
	live   int64 // bytes of blocks that were not freed by hand
	blocks int64 // their number
}
