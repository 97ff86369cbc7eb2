//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/locusml/locus/internal/memory"
)

// queueOut copies to page-locked memory.
func (d *Device) queueOut(host, src uintptr, n int) error {
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3] = d.card.drv.memcpyDtoHAsync, host, src, uintptr(n), d.stream
	return d.result("cuMemcpyDtoHAsync", Result(d.c.do()))
}

// CopyOut waits for what is queued and copies src at an offset to dst.
func (d *Device) CopyOut(dst []byte, src *memory.Block, offset int) error {
	if len(dst) == 0 {
		return d.Synchronize() // nothing to copy, but the wait was asked for
	}
	var err error
	switch {
	case len(dst) > smallSlot && pinnedRanges.contain(dst):
		err = d.copyPinnedOut(dst, src, offset)
	case len(dst) <= smallSlot:
		err = d.copySmallOut(dst, src, offset)
	default:
		err = d.copyStagedOut(dst, src, offset)
	}
	if err != nil {
		return err
	}
	return d.failed()
}

func (d *Device) copyPinnedOut(dst []byte, src *memory.Block, offset int) error {
	if err := d.begin(); err != nil {
		return err
	}
	err := d.arrived(src)
	if err == nil {
		err = d.queueOut(uintptr(unsafe.Pointer(&dst[0])), src.Addr+uintptr(offset), len(dst))
	}
	var done *event
	if err == nil {
		done, err = d.recordFrom(&d.events.untimed, d.stream)
	}
	d.end()
	if err != nil {
		return err
	}
	return done.wait()
}

// copySmallOut copies what fits into one small slot.
func (d *Device) copySmallOut(dst []byte, src *memory.Block, offset int) error {
	if len(dst) == 4 || len(dst) == 8 {
		return d.copyNumberOut(dst, src, offset)
	}
	x, err := d.fetch(&d.stages.small, src, offset, len(dst))
	if err != nil {
		return err
	}
	err = d.wait("cuEventSynchronize", d.card.drv.eventSynchronize, x.event)
	copy(dst, x.bytes(len(dst)))
	d.giveBack(&d.stages.small, x)
	return err
}

// copyStagedOut copies by way of large slots, which a crew empties.
func (d *Device) copyStagedOut(dst []byte, src *memory.Block, offset int) (err error) {
	s := &d.stages.large
	crew := newCrew(len(dst), s.size, true)
	var slots []*slot // on their way or being emptied, oldest first
	defer func() {
		crew.dismiss()
		if err != nil { // some are on their way
			_ = d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, d.stream) // it has failed already
			d.giveBack(s, slots...)
		}
	}()
	fetched, arrived, emptied := 0, 0, 0 // pieces
	pieces := len(crew.pieces)
	for emptied < pieces {
		for fetched < pieces && fetched-emptied < s.limit {
			p := &crew.pieces[fetched]
			x, err := d.fetch(s, src, offset+p.from, p.to-p.from)
			if err != nil {
				return err
			}
			slots = append(slots, x)
			fetched++
		}
		if arrived < fetched {
			x, p := slots[arrived-emptied], &crew.pieces[arrived]
			if err := d.wait("cuEventSynchronize", d.card.drv.eventSynchronize, x.event); err != nil {
				return err
			}
			crew.give(dst[p.from:p.to], x.bytes(p.to-p.from))
			arrived++
		}
		// The bus must not run out of slots.
		for emptied < arrived && (crew.copied(emptied) || arrived == pieces || fetched < pieces && fetched-arrived < 2) {
			crew.wait(emptied)
			d.giveBack(s, slots[0])
			slots = slots[1:]
			emptied++
		}
	}
	return nil
}

// watched is how long copyNumberOut looks for a number itself: about as long as a wait for
// an event takes to begin and to end.
const watched = 20 * time.Microsecond

// unset is what the words of a number are before it arrives: half of a NaN that no op makes.
const unset = 0x7fc0dead

// copyNumberOut copies one or two words. A program that reads a number waits for it, so most
// arrive in a moment: to look for it saves the event, and the call that waits for that. On an
// H200, of a number that is there 5.0 µs instead of 7.8, behind a kernel 9.7 instead of 12.5.
func (d *Device) copyNumberOut(dst []byte, src *memory.Block, offset int) error {
	s := &d.stages.small
	x, err := d.takeSlot(s)
	if err != nil {
		return err
	}
	words := unsafe.Slice((*uint32)(pointer(x.host)), len(dst)/4)
	for i := range words {
		atomic.StoreUint32(&words[i], unset)
	}
	if err := d.queueFetchTo(s, x, src, offset, len(dst), false); err != nil {
		return err
	}
	here := func() bool {
		for i := range words {
			if atomic.LoadUint32(&words[i]) == unset {
				return false
			}
		}
		return true
	}
	for start := time.Now(); !here(); {
		if time.Since(start) < watched {
			continue
		}
		if err = d.waitLate(x); err != nil {
			return err // the slot is not used again
		}
		break
	}
	copy(dst, x.bytes(len(dst)))
	d.giveBack(s, x)
	return nil
}

// waitLate waits until the device has done all that is queued now, a slot's copy with it.
func (d *Device) waitLate(x *slot) error {
	if err := d.begin(); err != nil {
		return err
	}
	err := d.record(x.event, d.stream)
	d.end()
	if err != nil {
		return err
	}
	return d.wait("cuEventSynchronize", d.card.drv.eventSynchronize, x.event)
}

// fetch queues a copy from the device to a slot.
func (d *Device) fetch(s *stage, src *memory.Block, offset, n int) (*slot, error) {
	x, err := d.takeSlot(s)
	if err != nil {
		return nil, err
	}
	return x, d.queueFetchTo(s, x, src, offset, n, true)
}

// queueFetchTo queues a copy from the device to a slot, and with mark what it is done by.
func (d *Device) queueFetchTo(s *stage, x *slot, src *memory.Block, offset, n int, mark bool) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	err := d.arrived(src)
	if err == nil {
		err = d.queueOut(x.host, src.Addr+uintptr(offset), n)
	}
	if err == nil && mark {
		err = d.record(x.event, d.stream)
	}
	if err != nil {
		s.free = append(s.free, x)
	}
	return err
}

// fetchStream is the stream on which Fetch copies, beside kernels that are queued later. Of
// products of 4096² on an H200 whose results were fetched, 2.68 ms each, the copies cost
// 0.03 ms then, and 1.23 on the device's own stream. Guarded by the device's mu.
type fetchStream struct {
	stream uintptr
	fence  uintptr // the event that it waits for
}

// Fetch queues a copy to page-locked memory. Who holds src keeps its memory from being
// written until release, so nothing that is queued later needs to wait for the copy.
func (d *Device) Fetch(dst []byte, src *memory.Block, offset int, release func()) (func() error, error) {
	if len(dst) == 0 || !pinnedRanges.contain(dst) {
		err := d.CopyOut(dst, src, offset)
		release()
		return func() error { return nil }, err
	}
	done, err := d.queueFetch(dst, src, offset)
	if err != nil {
		d.waitForFetches() // some of it may be on its way
		release()
		return nil, err
	}
	d.releaseAfter(done, release)
	return func() error {
		if err := done.wait(); err != nil {
			return err
		}
		return d.failed()
	}, nil
}

func (d *Device) queueFetch(dst []byte, src *memory.Block, offset int) (*event, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if err := d.arrived(src); err != nil {
		return nil, err
	}
	if err := d.openFetches(); err != nil {
		return nil, err
	}
	stream := d.fetches.stream
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3] = d.card.drv.memcpyDtoHAsync, uintptr(unsafe.Pointer(&dst[0])), src.Addr+uintptr(offset), uintptr(len(dst)), stream
	if err := d.result("cuMemcpyDtoHAsync", Result(d.c.do())); err != nil {
		return nil, err
	}
	return d.recordQuiet(stream)
}

// openFetches makes the stream of Fetch wait for everything queued so far.
func (d *Device) openFetches() error {
	if d.fetches.stream == 0 {
		if err := d.result("cuStreamCreate", d.current().StreamCreate(&d.fetches.stream, streamNonBlocking)); err != nil {
			return err
		}
	}
	if d.fetches.fence == 0 {
		e, err := d.takeEvent(&d.events.untimed)
		if err != nil {
			return err
		}
		d.fetches.fence = e
	}
	if err := d.record(d.fetches.fence, d.stream); err != nil {
		return err
	}
	return d.waitFor(d.fetches.stream, d.fetches.fence)
}

// waitForFetches waits until the device writes nothing more for Fetch, after one has failed.
func (d *Device) waitForFetches() {
	d.mu.Lock()
	streams := []uintptr{d.stream, d.fetches.stream}
	d.mu.Unlock()
	for _, s := range streams {
		if s != 0 {
			_ = d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, s) // it has failed already
		}
	}
}
