//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "unsafe"

// Go's memory is pageable, and the driver copies it slowly and waits meanwhile.
// So what is not page-locked goes through slots that are: small ones for small
// copies, and for large ones a few of largeSlot bytes, which a crew fills or
// empties while others are on the bus.
const (
	smallSlot  = 64 << 10
	smallSlots = 32
	largeSlot  = 8 << 20
	largeSlots = 6
)

// slot is page-locked memory. Whoever has taken it from a stage owns it.
type slot struct {
	host  uintptr
	event uintptr // passed when the device is done with it
}

func (s *slot) bytes(n int) []byte { return unsafe.Slice((*byte)(pointer(s.host)), n) }

// stage is a set of slots of one size. Guarded by the device's mu.
type stage struct {
	size, limit, made int
	free              []*slot
	queued            []*slot // in the order in which the device will be done with them
}

// staging has the slots of both sizes.
type staging struct{ small, large stage }

func newStaging() staging {
	return staging{stage{size: smallSlot, limit: smallSlots}, stage{size: largeSlot, limit: largeSlots}}
}

// slot takes a slot, between begin and end. If it is busy, the device may still
// use it: the caller waits for its event first, when the device is free for others.
func (d *Device) slot(s *stage) (x *slot, busy bool, err error) {
	if n := len(s.free); n > 0 {
		x = s.free[n-1]
		s.free = s.free[:n-1]
		return x, false, nil
	}
	if len(s.queued) > 0 {
		d.c.fn, d.c.a[0] = d.card.drv.eventQuery, s.queued[0].event
		r := Result(d.c.do())
		if r != success && r != resultNotReady {
			return nil, false, d.result("cuEventQuery", r)
		}
		if r == success || s.made >= s.limit {
			x = s.queued[0]
			s.queued = append(s.queued[:0], s.queued[1:]...)
			return x, r != success, nil
		}
	}
	host, r := lockPages(d.current(), s.size)
	if r != success {
		return nil, false, d.result("cuMemHostAlloc", r)
	}
	event, err := d.takeEvent(&d.events.untimed)
	if err != nil {
		_ = unlockPages(d.current(), host) // there is an error already
		return nil, false, err
	}
	s.made++
	return &slot{host, event}, false, nil
}

// takeSlot returns a slot that nothing uses. It may wait for the device.
func (d *Device) takeSlot(s *stage) (*slot, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	x, busy, err := d.slot(s)
	d.end()
	if err != nil || !busy {
		return x, err
	}
	if err := d.wait("cuEventSynchronize", d.card.drv.eventSynchronize, x.event); err != nil {
		return nil, err // the device is lost, and its slots with it
	}
	return x, nil
}

// giveBack returns slots that nothing uses.
func (d *Device) giveBack(s *stage, x ...*slot) {
	d.mu.Lock()
	s.free = append(s.free, x...)
	d.mu.Unlock()
}
