package locus

import (
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Pin returns the tensor in main memory that is page-locked: t itself if it lies
// there already, else a copy. GPUs copy from and to such memory at the full speed
// of the bus, and [Tensor.To] from there to a GPU does not make the program wait:
//
//	batch := next().Pin()
//	x := batch.To(gpu) // on its way while the program goes on
//	batch.Free()       // its memory stays until the GPU has read it
//
// It is a tensor on the CPU like any other, from which gradients flow back as
// through To. Memory that is locked is lost to the rest of the machine, so pin
// what is copied often. Where there is no GPU, or too much is locked already, the
// tensor is on the CPU in ordinary memory: [Tensor.IsPinned] tells.
func (t *Tensor) Pin() *Tensor {
	t.check("Pin")
	if t.IsPinned() {
		return t
	}
	t.single("Pin")
	readable("Pin")
	out := allocatePinned(t.spec(), scopeOf([]*Tensor{t}))
	if out == nil {
		return t.To(CPU())
	}
	if t.place.host {
		t.hold("Pin")
		defer t.letGo()
		if !out.block.TryHold() { // another goroutine closed its scope
			out.failClosed("Pin")
		}
		defer out.letGo()
		call := &backend.Call{Op: op.Copy, In: []backend.View{t.view()}, Out: out.view()}
		if err := machine.cpu.backend.Run(call); err != nil {
			fail("Pin", err, t)
		}
	} else {
		move(out, t.contiguous(), callsite.Here(1))
	}
	t.moved(out)
	return out
}

// IsPinned reports whether the tensor lies in page-locked main memory: see
// [Tensor.Pin].
func (t *Tensor) IsPinned() bool {
	t.made("IsPinned")
	return t.block != nil && t.block.Pinned()
}

// pinned is where page-locked memory comes from: one pool for all GPUs, once
// there is one.
var pinned atomic.Pointer[memory.Pool]

func pinnedPool() *memory.Pool {
	if p := pinned.Load(); p != nil {
		return p
	}
	for _, g := range gpus() {
		if b, ok := g.backend.(backend.Pinner); ok {
			pinned.CompareAndSwap(nil, memory.NewPool(newLocked(b.Pinned())).Pinned().Drain(drainGPUs))
			return pinned.Load()
		}
	}
	return nil
}

// drainGPUs waits for copies that hold on to the memory that they read.
func drainGPUs() {
	for _, g := range gpus() {
		g.backend.Record().Wait()
	}
}

// allocatePinned returns an unset tensor in page-locked memory, or nil if there is
// none to be had: ordinary memory does in its place.
func allocatePinned(spec op.Spec, s *Scope) *Tensor {
	pool := pinnedPool()
	if pool == nil {
		return nil
	}
	t, err := allocateFrom(pool, machine.cpu, spec, s, nil)
	if err != nil {
		return nil
	}
	return t
}

// locked is page-locked memory with a limit: half of what this process may use.
// Beyond that the machine would rather end it than do without.
type locked struct {
	memory.Source
	limit int64
	used  atomic.Int64
}

func newLocked(s memory.Source) *locked {
	total, _ := machine.cpu.backend.Memory()
	return &locked{Source: s, limit: total / 2}
}

// Allocate returns memory within the limit.
func (l *locked) Allocate(size int) (memory.Region, error) {
	if l.used.Add(int64(size)) > l.limit && l.limit > 0 {
		l.used.Add(-int64(size))
		return memory.Region{}, memory.ErrExhausted
	}
	r, err := l.Source.Allocate(size)
	if err != nil {
		l.used.Add(-int64(size))
	}
	return r, err
}

// Free frees memory.
func (l *locked) Free(r memory.Region) {
	l.used.Add(-int64(r.Size))
	l.Source.Free(r)
}

// Memory returns the limit and what is left of it.
func (l *locked) Memory() (total, free int64) { return l.limit, l.limit - l.used.Load() }
