//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"

	"github.com/locusml/locus/internal/memory"
)

// Allocate gives device memory. The pool of package memory caches what is
// freed, so that this is called seldom and may be slow.
func (d *Device) Allocate(size int) (memory.Region, error) {
	if d.cap > 0 && d.used.Add(int64(size)) > d.cap {
		d.used.Add(-int64(size))
		return memory.Region{}, memory.ErrExhausted
	}
	addr, err := d.allocate(size)
	if err != nil {
		if d.cap > 0 {
			d.used.Add(-int64(size))
		}
		return memory.Region{}, err
	}
	return memory.Region{Addr: addr, Size: size}, nil
}

func (d *Device) allocate(size int) (uintptr, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	defer d.end()
	return d.alloc(size)
}

// alloc allocates between begin and end.
func (d *Device) alloc(size int) (uintptr, error) {
	var p uintptr
	r := d.current().MemAlloc(&p, uint64(size))
	if r == resultOutOfMemory {
		return 0, memory.ErrExhausted
	}
	return p, d.result("cuMemAlloc", r)
}

// Free takes memory back. It waits for the device first: what is queued may
// still use it.
func (d *Device) Free(r memory.Region) {
	if d.card.lost.Load() != nil {
		return // the memory is gone with the context
	}
	if d.cap > 0 {
		d.used.Add(-int64(r.Size))
	}
	if d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, d.stream) != nil || d.begin() != nil {
		return
	}
	defer d.end()
	if err := d.result("cuMemFree", d.current().MemFree(r.Addr)); err != nil && d.card.lost.Load() == nil {
		panic(fmt.Sprintf("cuda: freeing %#x: %v", r.Addr, err)) // it was not ours: a mistake of this package
	}
}

// Memory gives total and free bytes, of the share if the device is one.
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

// buffer is device memory that kernels use between one launch and the next.
// Because the device has one stream, the next op may use it again at once.
type buffer struct {
	addr uintptr
	size int
}

// workspace gives at least size bytes between begin and end, good until the
// next call of workspace.
func (d *Device) workspace(size int) (uintptr, error) { return d.scratch[0].atLeast(d, size) }

// copyspace is another workspace, for copies of operands that a kernel cannot
// read where they lie.
func (d *Device) copyspace(size int) (uintptr, error) { return d.scratch[1].atLeast(d, size) }

func (b *buffer) atLeast(d *Device, size int) (uintptr, error) {
	if size <= b.size {
		return b.addr, nil
	}
	size = max(size+min(size/4, 16<<20), 1<<20)
	addr, err := d.alloc(size)
	if errors.Is(err, memory.ErrExhausted) {
		return 0, fmt.Errorf("%d bytes of working memory for %s: %w", size, d.last, err)
	}
	if err != nil {
		return 0, err
	}
	if b.size > 0 {
		d.c.fn, d.c.a[0] = d.card.drv.streamSynchronize, d.stream
		if err := d.result("cuStreamSynchronize", Result(d.c.do())); err != nil {
			return 0, err
		}
		if err := d.result("cuMemFree", d.current().MemFree(b.addr)); err != nil {
			return 0, err
		}
	}
	b.addr, b.size = addr, size
	return addr, nil
}
