//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"runtime"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
)

// Go's memory is pageable, and the driver copies it slowly and waits meanwhile.
// So every copy goes through pinned slots: small ones for small copies, and for large
// ones a few of largeSlot bytes, filled by several threads while others are on the bus.
const (
	smallSlot = 64 << 10
	largeSlot = 8 << 20
)

type slot struct {
	host  uintptr
	event uintptr // passed when the device is done with it
}

func (s *slot) bytes(n int) []byte { return unsafe.Slice((*byte)(pointer(s.host)), n) }

// stage is a set of pinned slots of one size. Guarded by the device's mu.
type stage struct {
	size, limit, made int
	free              []*slot
	queued            []*slot // in the order in which the device will be done with them
}

// slot gives a slot that nothing uses, between begin and end.
func (d *Device) slot(s *stage) (*slot, error) {
	if n := len(s.free); n > 0 {
		x := s.free[n-1]
		s.free = s.free[:n-1]
		return x, nil
	}
	if len(s.queued) > 0 {
		x := s.queued[0]
		done := s.made >= s.limit
		d.c.fn, d.c.a[0] = d.card.drv.eventQuery, x.event
		if done {
			d.c.fn = d.card.drv.eventSynchronize
		}
		r := Result(d.c.do())
		if r == success {
			s.queued = append(s.queued[:0], s.queued[1:]...)
			return x, nil
		}
		if r != resultNotReady {
			return nil, d.result("cuEventQuery", r)
		}
	}
	host, err := d.pinned(s.size)
	if err != nil {
		return nil, err
	}
	event, err := d.newEvent()
	if err != nil {
		return nil, err
	}
	s.made++
	return &slot{host, event}, nil
}

func (d *Device) record(event uintptr) error {
	d.c.fn, d.c.a[0], d.c.a[1] = d.card.drv.eventRecord, event, d.stream
	return d.result("cuEventRecord", Result(d.c.do()))
}

// queueIn copies from pinned memory.
func (d *Device) queueIn(dst, host uintptr, n int) error {
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3] = d.card.drv.memcpyHtoDAsync, dst, host, uintptr(n), d.stream
	return d.result("cuMemcpyHtoDAsync", Result(d.c.do()))
}

func (d *Device) queueOut(host, src uintptr, n int) error {
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3] = d.card.drv.memcpyDtoHAsync, host, src, uintptr(n), d.stream
	return d.result("cuMemcpyDtoHAsync", Result(d.c.do()))
}

// CopyIn copies src to dst. src has been read when it returns.
func (d *Device) CopyIn(dst *memory.Block, src []byte, release func()) error {
	if release != nil {
		defer release()
	}
	if len(src) <= smallSlot {
		return d.copySmallIn(dst.Addr, src)
	}
	s := &d.large
	crew := newCrew(len(src), s.size)
	defer crew.dismiss()
	var slots []*slot // whose contents are being filled, oldest first
	queued := 0       // pieces on their way to the device
	flush := func() error {
		x, off := slots[0], queued*s.size
		n := min(s.size, len(src)-off)
		crew.wait(queued)
		slots = slots[1:]
		queued++
		if err := d.begin(); err != nil {
			return err
		}
		defer d.end()
		if err := d.queueIn(dst.Addr+uintptr(off), x.host, n); err != nil {
			s.free = append(s.free, x)
			return err
		}
		err := d.record(x.event)
		s.queued = append(s.queued, x)
		return err
	}
	for off := 0; off < len(src); off += s.size {
		if len(slots) == 2 { // one is filled while the other is queued
			if err := flush(); err != nil {
				return err
			}
		}
		x, err := d.takeSlot(s)
		if err != nil {
			return err
		}
		slots = append(slots, x)
		n := min(s.size, len(src)-off)
		crew.copy(x.bytes(n), src[off:off+n])
	}
	for len(slots) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// copySmallIn copies what fits into one small slot.
func (d *Device) copySmallIn(to uintptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	x, err := d.slot(&d.small)
	if err != nil {
		return err
	}
	copy(x.bytes(len(src)), src)
	if err = d.queueIn(to, x.host, len(src)); err == nil {
		err = d.record(x.event)
	}
	d.small.queued = append(d.small.queued, x)
	return err
}

func (d *Device) takeSlot(s *stage) (*slot, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	return d.slot(s)
}

// CopyOut waits for what is queued and copies src at an offset to dst.
func (d *Device) CopyOut(dst []byte, src *memory.Block, offset int) error {
	if len(dst) <= smallSlot {
		return d.copySmallOut(dst, src.Addr+uintptr(offset))
	}
	s := &d.large
	crew := newCrew(len(dst), s.size)
	defer crew.dismiss()
	var flight []*slot // on their way from the device, oldest first
	arrived := 0       // pieces that the crew has been given
	var slots []*slot  // theirs
	giveBack := func(keep int) {
		for len(slots) > keep {
			crew.wait(arrived - len(slots))
			d.mu.Lock()
			s.free = append(s.free, slots[0])
			d.mu.Unlock()
			slots = slots[1:]
		}
	}
	land := func() error {
		x, off := flight[0], arrived*s.size
		if err := d.wait("cuEventSynchronize", d.card.drv.eventSynchronize, x.event); err != nil {
			return err
		}
		flight = flight[1:]
		n := min(s.size, len(dst)-off)
		crew.copy(dst[off:off+n], x.bytes(n))
		slots = append(slots, x)
		arrived++
		return nil
	}
	for off := 0; off < len(dst); off += s.size {
		if len(flight) == 2 {
			if err := land(); err != nil {
				return err
			}
			giveBack(1)
		}
		x, err := d.fetch(s, src.Addr+uintptr(offset+off), min(s.size, len(dst)-off))
		if err != nil {
			return err
		}
		flight = append(flight, x)
	}
	for len(flight) > 0 {
		if err := land(); err != nil {
			return err
		}
	}
	giveBack(0)
	return d.failed()
}

// copySmallOut copies what fits into one small slot.
func (d *Device) copySmallOut(dst []byte, from uintptr) error {
	if len(dst) == 0 {
		return d.Synchronize() // nothing to copy, but the wait was asked for
	}
	x, err := d.fetch(&d.small, from, len(dst))
	if err != nil {
		return err
	}
	err = d.wait("cuEventSynchronize", d.card.drv.eventSynchronize, x.event)
	copy(dst, x.bytes(len(dst)))
	d.mu.Lock()
	d.small.free = append(d.small.free, x)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return d.failed()
}

// fetch queues a copy from the device to a slot.
func (d *Device) fetch(s *stage, from uintptr, n int) (*slot, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	x, err := d.slot(s)
	if err != nil {
		return nil, err
	}
	if err = d.queueOut(x.host, from, n); err == nil {
		err = d.record(x.event)
	}
	if err != nil {
		s.free = append(s.free, x)
	}
	return x, err
}

// CopyFrom copies between two CUDA devices: over the bus between cards where
// that has been seen to work, and within a card.
func (d *Device) CopyFrom(dst *memory.Block, from backend.Device, src *memory.Block, n int) (bool, error) {
	f, ok := from.(*Device)
	if !ok || f == d {
		return false, nil
	}
	if f.card != d.card && !d.card.reaches(d, f) {
		return false, nil
	}
	return true, d.copyFrom(dst.Addr, f, src, n)
}

func (d *Device) copyFrom(dst uintptr, f *Device, src *memory.Block, n int) error {
	// The other device's work so far must be done before the copy, and what it
	// does later must not reuse the memory before the copy is done.
	src.Pin()
	ready, err := f.mark()
	if err != nil {
		src.Unpin()
		return err
	}
	if err := d.begin(); err != nil {
		src.Unpin()
		return err
	}
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2] = d.card.drv.streamWaitEvent, d.stream, ready.handle, 0
	err = d.result("cuStreamWaitEvent", Result(d.c.do()))
	if err == nil {
		d.c.fn = d.card.drv.memcpyPeerAsync
		d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3], d.c.a[4], d.c.a[5] = dst, d.card.ctx, src.Addr, f.card.ctx, uintptr(n), d.stream
		err = d.result("cuMemcpyPeerAsync", Result(d.c.do()))
	}
	var done *event
	if err == nil {
		done, err = d.recordEvent()
	}
	d.end()
	if err != nil {
		src.Unpin()
		return err
	}
	if err := f.begin(); err != nil {
		src.Unpin()
		return err
	}
	f.c.fn, f.c.a[0], f.c.a[1], f.c.a[2] = d.card.drv.streamWaitEvent, f.stream, done.handle, 0
	err = f.result("cuStreamWaitEvent", Result(f.c.do()))
	f.end()
	src.Unpin() // from here on the other stream waits before it reuses the memory
	runtime.KeepAlive(ready)
	runtime.KeepAlive(done)
	return err
}

// reaches tries a copy from one card to the other once and compares what
// arrived: on some machines such copies report success and move garbage.
func (c *card) reaches(d, f *Device) bool {
	c.mu.Lock()
	ok, known := c.peers[f.card]
	c.mu.Unlock()
	if known {
		return ok
	}
	ok = d.tryPeer(f)
	c.mu.Lock()
	c.peers[f.card] = ok
	c.mu.Unlock()
	return ok
}

func (d *Device) tryPeer(f *Device) bool {
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
		drv.CtxEnablePeerAccess(f.card.ctx, 0) // without it the driver stages the copy
		d.end()
	}
	const n = 1 << 20
	pattern := make([]byte, n)
	for i := range pattern {
		pattern[i] = byte(i*7 + i>>8)
	}
	a, errA := f.Allocate(n)
	b, errB := d.Allocate(n)
	if errA != nil || errB != nil {
		return false
	}
	defer f.Free(a)
	defer d.Free(b)
	src, dst := &memory.Block{Region: a}, &memory.Block{Region: b}
	got := make([]byte, n)
	return f.CopyIn(src, pattern, nil) == nil && d.copyFrom(b.Addr, f, src, n) == nil &&
		d.CopyOut(got, dst, 0) == nil && bytes.Equal(got, pattern)
}
