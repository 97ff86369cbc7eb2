//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"runtime"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
)

// CopyFrom copies between two CUDA devices: over the bus between cards where
// that has been seen to work, and within a card.
func (d *Device) CopyFrom(dst *memory.Block, from backend.Device, src *memory.Block, n int) (bool, error) {
	f, ok := from.(*Device)
	if !ok || f == d {
		return false, nil
	}
	if f.card != d.card && !d.card.reaches(d, f, dst.Pool(), src.Pool()) {
		return false, nil
	}
	return true, d.copyFrom(dst, f, src, n)
}

func (d *Device) copyFrom(dst *memory.Block, f *Device, src *memory.Block, n int) error {
	// The other device's work so far must be done before the copy, and what it
	// does later must not reuse the memory before the copy is done.
	src.Hold()
	ready, err := f.markOf(src)
	if err != nil {
		src.LetGo()
		return err
	}
	if err := d.begin(); err != nil {
		src.LetGo()
		return err
	}
	if err = d.arrived(dst); err == nil {
		err = d.waitFor(d.stream, ready.handle)
	}
	if err == nil {
		d.c.fn = d.card.drv.memcpyPeerAsync
		d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3], d.c.a[4], d.c.a[5] = dst.Addr, d.card.ctx, src.Addr, f.card.ctx, uintptr(n), d.stream
		err = d.result("cuMemcpyPeerAsync", Result(d.c.do()))
	}
	var done *event
	if err == nil {
		done, err = d.recordEvent()
	}
	d.end()
	if err != nil {
		src.LetGo()
		return err
	}
	if err := f.begin(); err != nil {
		src.LetGo()
		return err
	}
	err = f.waitFor(f.stream, done.handle)
	f.end()
	src.LetGo() // from here on the other stream waits before it reuses the memory
	runtime.KeepAlive(ready)
	runtime.KeepAlive(done)
	return err
}

// markOf marks the end of the queue, what is still being copied to b included.
func (d *Device) markOf(b *memory.Block) (*event, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if err := d.arrived(b); err != nil {
		return nil, err
	}
	return d.recordEvent()
}

// reaches tries a copy from one card to the other once and compares what
// arrived: on some machines such copies report success and move garbage. Where there is no
// room for that, in the pools of both, the answer is no for this time.
func (c *card) reaches(d, f *Device, to, from *memory.Pool) bool {
	c.mu.Lock()
	ok, known := c.peers[f.card]
	c.mu.Unlock()
	if known {
		return ok
	}
	label := func() memory.Label { return memory.Label{DType: "workspace", Shape: "of a copy between GPUs"} }
	src, err := from.Allocate(peerTrial, label)
	if err != nil {
		return false
	}
	defer src.Free()
	dst, err := to.Allocate(peerTrial, label)
	if err != nil {
		return false
	}
	defer dst.Free()
	ok = d.tryPeer(f, dst, src)
	c.mu.Lock()
	c.peers[f.card] = ok
	c.mu.Unlock()
	return ok
}

const peerTrial = 1 << 20 // bytes

func (d *Device) tryPeer(f *Device, dst, src *memory.Block) bool {
	var can int32
	drv := d.card.drv
	if drv.DeviceCanAccessPeer(&can, d.card.dev, f.card.dev) == success && can == 1 {
		if f.begin() != nil { // the other context must exist
			return false
		}
		f.end()
		if d.begin() != nil {
			return false
		}
		d.current().CtxEnablePeerAccess(f.card.ctx, 0) // without it the driver stages the copy
		d.end()
	}
	pattern, got := make([]byte, peerTrial), make([]byte, peerTrial)
	for i := range pattern {
		pattern[i] = byte(i*7 + i>>8)
	}
	return f.CopyIn(src, pattern, nil) == nil && d.copyFrom(dst, f, src, peerTrial) == nil &&
		d.CopyOut(got, dst, 0) == nil && bytes.Equal(got, pattern)
}
