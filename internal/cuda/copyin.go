//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"iter"
	"slices"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
)

// Large copies to the device have a stream of their own, so that they run beside
// kernels. The order of the calls holds all the same: a copy starts when
// everything queued before it is done, and what is queued later waits for it
// where it uses, or reuses, the memory that is copied to.

// lane is such a stream; what other libraries send has lanes of its own (lane.go). Guarded by
// the device's mu.
type lane struct {
	stream         uintptr
	fence          uintptr    // the event that it waits for
	queued, joined int64      // copies queued there, and those that the device's stream waits for
	last           *arrival   // the last of them, while joined < queued
	pending        []*arrival // those that it does not wait for yet, in their order
}

// arrival is a copy into a block on a lane.
type arrival struct {
	d     *Device
	on    *lane
	event *event
	seq   int64 // copies are done in this order
	to    span  // where it goes
}

// Join makes everything that is queued later wait for the copy.
func (a *arrival) Join() {
	if a.d.begin() != nil {
		return // a lost device runs nothing any more
	}
	defer a.d.end()
	_ = a.d.join(a) // fails only where the device is lost, as every later call says
}

// join is Join between begin and end.
func (d *Device) join(a *arrival) error {
	l := a.on
	if a.seq <= l.joined {
		return nil
	}
	l.joined = a.seq
	i := 0
	for i < len(l.pending) && l.pending[i].seq <= a.seq {
		i++
	}
	l.pending = slices.Delete(l.pending, 0, i)
	if l.joined == l.queued {
		l.last = nil
		d.behind--
	}
	return d.waitFor(d.stream, a.event.handle)
}

// joinAll makes what is queued later wait for all copies, between begin and end.
func (d *Device) joinAll() error {
	for l := range d.late() {
		if err := d.join(l.last); err != nil {
			return err
		}
	}
	return nil
}

// late are the lanes with copies that the device's stream does not wait for yet.
func (d *Device) late() iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		if d.behind == 0 {
			return
		}
		if d.copies.last != nil && !yield(&d.copies) {
			return
		}
		for _, l := range d.lanes.all {
			if l.last != nil && !yield(l) {
				return
			}
		}
	}
}

// arrived makes what is queued next wait for what is still being copied to b,
// between begin and end.
func (d *Device) arrived(b *memory.Block) error {
	if d.behind == 0 || b == nil {
		return nil
	}
	a, ok := b.Arrival().(*arrival)
	if !ok || a.d != d {
		return nil
	}
	b.SetArrival(nil)
	return d.join(a)
}

// arrivals makes a call wait for what is still being copied to its blocks.
func (d *Device) arrivals(c *backend.Call) error {
	if d.behind == 0 {
		return nil
	}
	for i := range c.In {
		if err := d.arrived(c.In[i].Block); err != nil {
			return err
		}
	}
	for i := range c.More {
		if err := d.arrived(c.More[i].Block); err != nil {
			return err
		}
	}
	return d.arrived(c.Out.Block)
}

// arrivedAt makes what is queued next wait for what is still being copied to any of the
// places, which are in the order of their addresses, whatever block it is copied to there.
func (d *Device) arrivedAt(places []span) error {
	for l := range d.late() {
		for i := len(l.pending) - 1; i >= 0; i-- { // the last one stands for those before it
			a := l.pending[i]
			at, _ := slices.BinarySearchFunc(places, a.to.from, func(s span, from uintptr) int {
				if s.to <= from {
					return -1
				}
				return 1
			})
			if at < len(places) && places[at].from < a.to.to {
				if err := d.join(a); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// waitFor makes a stream wait for an event.
func (d *Device) waitFor(stream, event uintptr) error {
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2] = d.card.drv.streamWaitEvent, stream, event, 0
	return d.result("cuStreamWaitEvent", Result(d.c.do()))
}

// openCopiesTo is openCopies for copies to b, behind what uses it on another lane.
func (d *Device) openCopiesTo(b *memory.Block) error {
	if err := d.leaveLanes(b, &d.copies); err != nil {
		return err
	}
	return d.openCopies()
}

// openCopies makes the stream of copies wait for everything queued so far.
func (d *Device) openCopies() error {
	if d.copies.stream == 0 {
		if err := d.result("cuStreamCreate", d.current().StreamCreate(&d.copies.stream, streamNonBlocking)); err != nil {
			return err
		}
	}
	if d.copies.fence == 0 { // on its own: it may have failed where the stream did not
		e, err := d.takeEvent(&d.events.untimed)
		if err != nil {
			return err
		}
		d.copies.fence = e
	}
	// The event serves again at once: a stream waits for what was recorded last
	// when it was told to.
	if err := d.record(d.copies.fence, d.stream); err != nil {
		return err
	}
	return d.waitFor(d.copies.stream, d.copies.fence)
}

// closeLane notes that everything that goes to b is queued on a lane.
func (d *Device) closeLane(l *lane, b *memory.Block) (*event, error) {
	e, err := d.recordQuiet(l.stream)
	if err != nil {
		return nil, err
	}
	if l.last == nil {
		d.behind++
	}
	l.queued++
	l.last = &arrival{d, l, e, l.queued, span{b.Addr, b.Addr + uintptr(b.Size)}}
	l.pending = append(l.pending, l.last)
	b.SetArrival(l.last)
	return e, nil
}

// queueIn copies from page-locked memory.
func (d *Device) queueIn(dst, host uintptr, n int, stream uintptr) error {
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2], d.c.a[3] = d.card.drv.memcpyHtoDAsync, dst, host, uintptr(n), stream
	return d.result("cuMemcpyHtoDAsync", Result(d.c.do()))
}

// CopyIn copies src to dst. From page-locked memory it only queues the copy, and
// release follows when that is done; anything else has been read when it returns.
func (d *Device) CopyIn(dst *memory.Block, src []byte, release func()) error {
	if release == nil {
		release = func() {}
	}
	if len(src) > smallSlot && pinnedRanges.contain(src) {
		return d.copyPinnedIn(dst, src, release)
	}
	defer release()
	if len(src) <= smallSlot {
		return d.copySmallIn(dst, src)
	}
	return d.copyStagedIn(dst, src)
}

func (d *Device) copyPinnedIn(dst *memory.Block, src []byte, release func()) error {
	e, err := d.queuePinnedIn(dst, src)
	if err != nil {
		d.waitForCopies() // some of it may be on its way
		release()
		return err
	}
	d.releaseAfter(e, release)
	return nil
}

// waitForCopies waits until the device reads and writes nothing more for copies
// to it, after one of them has failed.
func (d *Device) waitForCopies() {
	d.mu.Lock()
	stream := d.copies.stream
	d.mu.Unlock()
	if stream != 0 {
		_ = d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, stream) // it has failed already
	}
}

func (d *Device) queuePinnedIn(dst *memory.Block, src []byte) (*event, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if err := d.openCopiesTo(dst); err != nil {
		return nil, err
	}
	if err := d.queueIn(dst.Addr, uintptr(unsafe.Pointer(&src[0])), len(src), d.copies.stream); err != nil {
		return nil, err
	}
	return d.closeLane(&d.copies, dst)
}

// copySmallIn copies what fits into one small slot.
func (d *Device) copySmallIn(dst *memory.Block, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	x, err := d.takeSlot(&d.stages.small)
	if err != nil {
		return err
	}
	copy(x.bytes(len(src)), src)
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	if err := d.arrived(dst); err != nil {
		return err
	}
	if err = d.queueIn(dst.Addr, x.host, len(src), d.stream); err == nil {
		err = d.record(x.event, d.stream)
	}
	d.stages.small.queued = append(d.stages.small.queued, x)
	return err
}

// copyStagedIn copies by way of large slots, which a crew fills.
func (d *Device) copyStagedIn(dst *memory.Block, src []byte) (err error) {
	s := &d.stages.large
	crew := newCrew(len(src), s.size, false)
	var filling []*slot // oldest first
	defer func() {
		crew.dismiss()
		if err != nil { // some of it may be on its way
			d.waitForCopies()
			d.giveBack(s, filling...)
		}
	}()
	queued := 0 // pieces
	flush := func() error {
		x, p := filling[0], &crew.pieces[queued]
		filling = filling[1:]
		crew.wait(queued)
		queued++
		return d.queueSlot(x, dst, p.from, p.to-p.from, queued == 1, p.to == len(src))
	}
	for i := range crew.pieces {
		p := &crew.pieces[i]
		if len(filling) == s.limit/2 { // the others are on the bus
			if err := flush(); err != nil {
				return err
			}
		}
		x, err := d.takeSlot(s)
		if err != nil {
			return err
		}
		filling = append(filling, x)
		crew.give(x.bytes(p.to-p.from), src[p.from:p.to])
	}
	for len(filling) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// queueSlot sends a slot on its way to dst at an offset.
func (d *Device) queueSlot(x *slot, dst *memory.Block, off, n int, first, last bool) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	var err error
	if first {
		err = d.openCopiesTo(dst)
	}
	if err == nil {
		err = d.queueIn(dst.Addr+uintptr(off), x.host, n, d.copies.stream)
	}
	if err != nil {
		d.stages.large.free = append(d.stages.large.free, x)
		return err
	}
	err = d.record(x.event, d.copies.stream)
	d.stages.large.queued = append(d.stages.large.queued, x)
	if err == nil && last {
		_, err = d.closeLane(&d.copies, dst)
	}
	return err
}
