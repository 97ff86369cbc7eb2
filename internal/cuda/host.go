//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/locusml/locus/internal/memory"
)

// Pinned returns page-locked main memory, from and to which every card copies
// without a detour.
func (d *Device) Pinned() memory.Source { return hostMemory{d} }

type hostMemory struct{ d *Device }

// Allocate locks pages, which is slow: the pool caches them.
func (m hostMemory) Allocate(size int) (memory.Region, error) {
	var p uintptr
	err := m.d.aside(func(drv *driver) error {
		var r Result
		if p, r = lockPages(drv, size); r == resultOutOfMemory {
			return memory.ErrExhausted
		}
		return drv.check("cuMemHostAlloc", r)
	})
	if err != nil {
		return memory.Region{}, err
	}
	pinnedRanges.add(p, size)
	return memory.Region{Ptr: pointer(p), Size: size}, nil
}

// Free unlocks pages. Blocks that a device still reads are not freed before it is
// done.
func (m hostMemory) Free(r memory.Region) {
	p := uintptr(r.Ptr)
	pinnedRanges.remove(p)
	if err := m.d.aside(func(drv *driver) error { return unlockPages(drv, p) }); err != nil && m.d.card.lost.Load() == nil {
		panic(fmt.Sprintf("cuda: freeing page-locked memory at %#x: %v", p, err)) // it was not ours: a mistake of this package
	}
}

// Memory says nothing: the system decides.
func (hostMemory) Memory() (total, free int64) { return 0, 0 }

// aside calls the driver without keeping others from queueing.
func (d *Device) aside(f func(*driver) error) error {
	if l := d.card.lost.Load(); l != nil {
		return l
	}
	if err := d.card.start(); err != nil {
		return err
	}
	c := calls.Get().(*call)
	defer calls.Put(c)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.fn, c.a[0] = d.card.drv.ctxSetCurrent, d.card.ctx
	if err := d.card.drv.check("cuCtxSetCurrent", Result(c.do())); err != nil {
		return err
	}
	return f(d.card.drv)
}

// ranges knows which addresses are page-locked memory of ours.
type ranges struct {
	mu sync.RWMutex
	l  []span // in the order of their addresses
}

type span struct{ from, to uintptr }

var pinnedRanges ranges

func (r *ranges) find(p uintptr) (int, bool) {
	return slices.BinarySearchFunc(r.l, p, func(s span, p uintptr) int {
		switch {
		case p < s.from:
			return 1
		case p >= s.to:
			return -1
		}
		return 0
	})
}

func (r *ranges) add(p uintptr, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.find(p)
	r.l = slices.Insert(r.l, i, span{p, p + uintptr(size)})
}

func (r *ranges) remove(p uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.find(p); ok {
		r.l = slices.Delete(r.l, i, i+1)
	}
}

// contain reports whether all of b lies in one of the ranges.
func (r *ranges) contain(b []byte) bool {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, ok := r.find(p)
	return ok && p+uintptr(len(b)) <= r.l[i].to
}
