//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"time"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
)

// event is a point in a device's stream.
type event struct {
	d      *Device
	handle uintptr
}

// events are driver events for reuse, all with the same flags.
type events struct {
	flags uintptr
	free  []uintptr
}

const (
	eventUntimed = 2     // has no time, which saves the device and whoever waits a microsecond
	eventQuiet   = 1 | 2 // and is waited for by a thread that sleeps meanwhile
)

// eventLists are the events of a device. Guarded by its mu.
type eventLists struct{ timed, untimed, quiet events }

func newEventLists() eventLists {
	return eventLists{untimed: events{flags: eventUntimed}, quiet: events{flags: eventQuiet}}
}

// takeEvent returns a driver event between begin and end.
func (d *Device) takeEvent(l *events) (uintptr, error) {
	if n := len(l.free); n > 0 {
		e := l.free[n-1]
		l.free = l.free[:n-1]
		return e, nil
	}
	d.c.fn, d.c.a[0], d.c.a[1] = d.card.drv.eventCreate, uintptr(unsafe.Pointer(&d.word)), l.flags
	err := d.result("cuEventCreate", Result(d.c.do()))
	return d.word, err
}

// record marks the end of a stream between begin and end.
func (d *Device) record(event, stream uintptr) error {
	d.c.fn, d.c.a[0], d.c.a[1] = d.card.drv.eventRecord, event, stream
	return d.result("cuEventRecord", Result(d.c.do()))
}

// recordEvent marks the end of the queue between begin and end.
func (d *Device) recordEvent() (*event, error) { return d.recordFrom(&d.events.timed, d.stream) }

// recordQuiet marks the end of a stream for somebody who sleeps until then.
func (d *Device) recordQuiet(stream uintptr) (*event, error) {
	return d.recordFrom(&d.events.quiet, stream)
}

func (d *Device) recordFrom(l *events, stream uintptr) (*event, error) {
	h, err := d.takeEvent(l)
	if err != nil {
		return nil, err
	}
	if err := d.record(h, stream); err != nil {
		l.free = append(l.free, h)
		return nil, err
	}
	e := &event{d, h}
	runtime.AddCleanup(e, func(h uintptr) {
		d.mu.Lock()
		l.free = append(l.free, h)
		d.mu.Unlock()
	}, h)
	return e, nil
}

// mark marks the end of the queue, copies to the device included.
func (d *Device) mark() (*event, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if err := d.joinAll(); err != nil {
		return nil, err
	}
	return d.recordEvent()
}

// Record marks the present end of the queue. On a lost device the event is
// done at once.
func (d *Device) Record() backend.Event {
	e, err := d.mark()
	if err != nil {
		return &event{d: d}
	}
	return e
}

// Mark marks the end of the queue of kernels; copies to the device may still be under
// way.
func (d *Device) Mark() backend.Event {
	if d.begin() != nil {
		return &event{d: d}
	}
	defer d.end()
	e, err := d.recordEvent()
	if err != nil {
		return &event{d: d}
	}
	return e
}

// Side marks the end of the stream of large copies and collectives; with open, behind
// everything queued so far.
func (d *Device) Side(open bool) backend.Event {
	if d.begin() != nil {
		return &event{d: d}
	}
	defer d.end()
	if open && d.openCopies() != nil || d.copies.stream == 0 {
		return &event{d: d}
	}
	e, err := d.recordFrom(&d.events.timed, d.copies.stream)
	if err != nil {
		return &event{d: d}
	}
	return e
}

// Aside reports whether a copy of n bytes to the device runs on that stream.
func (d *Device) Aside(n int) bool { return n > smallSlot }

// Wait blocks until the device has passed the event. What failed before it is
// reported by Synchronize.
func (e *event) Wait() { _ = e.wait() } // a lost device answers every later call

func (e *event) wait() (err error) {
	if e.handle != 0 {
		err = e.d.wait("cuEventSynchronize", e.d.card.drv.eventSynchronize, e.handle)
	}
	runtime.KeepAlive(e)
	return err
}

// Done reports whether the device has passed the event.
func (e *event) Done() bool {
	if e.handle == 0 {
		return true
	}
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.first, c.firstArg = e.d.card.drv.ctxSetCurrent, e.d.card.ctx
	c.fn, c.a[0] = e.d.card.drv.eventQuery, e.handle
	r := Result(c.do())
	runtime.KeepAlive(e)
	return r != resultNotReady
}

// Since is the device's time between two events.
func (e *event) Since(earlier backend.Event) time.Duration {
	b, ok := earlier.(*event)
	if !ok || e.handle == 0 || b.handle == 0 || e.d.begin() != nil {
		return 0
	}
	d := e.d
	defer d.end()
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2] = d.card.drv.eventElapsedTime, uintptr(unsafe.Pointer(&d.word)), b.handle, e.handle
	if d.result("cuEventElapsedTime", Result(d.c.do())) != nil {
		return 0
	}
	ms := *(*float32)(unsafe.Pointer(&d.word))
	runtime.KeepAlive(e)
	runtime.KeepAlive(b)
	return time.Duration(float64(ms) * float64(time.Millisecond))
}
