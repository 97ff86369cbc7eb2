//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"sync/atomic"

	"github.com/locusml/locus/internal/memory"
)

// share is how much of the card's memory a device may have.
type share struct {
	cap  int64 // bytes; 0: what the card has
	used atomic.Int64
}

// reserve takes size bytes of the share, and reports false if they are not left.
func (s *share) reserve(size int) bool {
	if s.cap > 0 && s.used.Add(int64(size)) > s.cap {
		s.used.Add(-int64(size))
		return false
	}
	return true
}

// giveUp returns size bytes to the share.
func (s *share) giveUp(size int) {
	if s.cap > 0 {
		s.used.Add(-int64(size))
	}
}

// Allocate returns device memory. The pool of package memory caches what is freed, so
// that this is called rarely and may be slow.
func (d *Device) Allocate(size int) (memory.Region, error) {
	if err := d.begin(); err != nil {
		return memory.Region{}, err
	}
	defer d.end()
	addr, err := d.take(size)
	if err != nil {
		return memory.Region{}, err
	}
	return memory.Region{Addr: addr, Size: size}, nil
}

// take allocates between begin and end: all memory of the device that is not the
// driver's own comes from here, so that a share keeps to its cap.
func (d *Device) take(size int) (uintptr, error) {
	if !d.reserve(size) {
		return 0, memory.ErrExhausted
	}
	var p uintptr
	err := memory.ErrExhausted
	if r := d.current().MemAlloc(&p, uint64(size)); r != resultOutOfMemory {
		err = d.result("cuMemAlloc", r)
	}
	if err != nil {
		d.giveUp(size)
	}
	return p, err
}

// Free takes memory back. It waits for the device first: what is queued may
// still use it.
func (d *Device) Free(r memory.Region) {
	if d.card.lost.Load() != nil {
		return // the memory is gone with the context
	}
	d.giveUp(r.Size)
	if d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, d.stream) != nil || d.begin() != nil {
		return
	}
	defer d.end()
	if err := d.result("cuMemFree", d.current().MemFree(r.Addr)); err != nil && d.card.lost.Load() == nil {
		panic(fmt.Sprintf("cuda: freeing %#x: %v", r.Addr, err)) // it was not ours: a mistake of this package
	}
}

// Memory returns total and free bytes, of the share if the device is one.
func (d *Device) Memory() (total, free int64) {
	if d.begin() != nil {
		return d.card.total, 0
	}
	defer d.end()
	var f, t uint64
	if d.result("cuMemGetInfo", d.current().MemGetInfo(&f, &t)) != nil {
		return d.card.total, 0
	}
	total, free = int64(t), int64(f)
	if d.cap > 0 {
		total, free = d.cap, min(free, d.cap-d.used.Load())
	}
	return total, free
}
