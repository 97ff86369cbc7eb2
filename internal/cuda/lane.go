//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
)

// laneList are streams for another library's work that must not wait for anything but the
// memory that it uses: not for kernels that were queued meanwhile, nor for the stream of
// large copies and collectives. Guarded by the device's mu.
type laneList struct {
	all  []*lane
	free []int // places in all that nobody uses
}

// Fence makes the device's queue wait for what is still on its way to b's memory, whatever
// block it was queued for, and marks its end: when the event is done, so is everything that
// was queued before with that memory.
func (d *Device) Fence(b *memory.Block) (backend.Event, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if err := d.arrived(b); err != nil {
		return nil, err
	}
	if err := d.arrivedAt([]span{{b.Addr, b.Addr + uintptr(b.Size)}}); err != nil {
		return nil, err
	}
	return d.recordQuiet(d.stream)
}

// OpenLane returns the number of a stream that nobody else uses until CloseLane.
func (d *Device) OpenLane() (int, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	defer d.end()
	if n := len(d.lanes.free); n > 0 {
		i := d.lanes.free[n-1]
		d.lanes.free = d.lanes.free[:n-1]
		return i, nil
	}
	l := &lane{}
	if err := d.result("cuStreamCreate", d.current().StreamCreate(&l.stream, streamNonBlocking)); err != nil {
		return 0, err
	}
	d.lanes.all = append(d.lanes.all, l)
	return len(d.lanes.all) - 1, nil
}

// CloseLane returns a stream, for others to use behind what is queued there.
func (d *Device) CloseLane(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.lanes.free, i) {
		d.lanes.free = append(d.lanes.free, i)
	}
}

// OnLane lets another library queue work on a lane that reads or writes b. The work waits
// for nothing: the caller has waited for b's fence. What is queued later on the device waits
// for it where it uses b. release is called when the device has passed it. queue is called
// with the context current and the device not held.
func (d *Device) OnLane(i int, b *memory.Block, queue func(stream uintptr) error, release func()) error {
	d.mu.Lock()
	l := d.lanes.all[i]
	d.mu.Unlock()
	e, err := d.onLane(l, b, queue)
	if err != nil {
		go func() { // some of it may be on its way
			_ = d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, l.stream) // it has failed already
			release()
		}()
		return err
	}
	go func() { // not in the order of the device's other flights, which may take longer
		e.Wait()
		release()
	}()
	return nil
}

func (d *Device) onLane(l *lane, b *memory.Block, queue func(stream uintptr) error) (*event, error) {
	if err := d.WithContext(func() error { return queue(l.stream) }); err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if err := d.leaveLanes(b, l); err != nil { // which a message of the same tensor may use
		return nil, err
	}
	return d.closeLane(l, b)
}

// leaveLanes makes the device's stream wait for what uses b on another lane than l, between
// begin and end.
func (d *Device) leaveLanes(b *memory.Block, l *lane) error {
	if a, ok := b.Arrival().(*arrival); ok && a.on != l {
		return d.arrived(b)
	}
	return nil
}
