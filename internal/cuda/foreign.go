//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
)

// WithContext calls f on a thread on which the card's context is current, for libraries that
// are not this package's own. The device is not held: f may wait.
func (d *Device) WithContext(f func() error) error {
	if err := d.begin(); err != nil { // makes the context and the stream
		return err
	}
	d.end()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := calls.Get().(*call)
	c.fn, c.a[0] = d.card.drv.ctxSetCurrent, d.card.ctx
	r := Result(c.do())
	calls.Put(c)
	if r != success {
		return d.card.drv.check("cuCtxSetCurrent", r)
	}
	return f()
}

// Foreign lets another library queue work that reads in and writes out, which may be nil. The
// work runs beside kernels, on the stream of large copies, behind everything queued so far;
// what is queued later waits for it where it uses out. release is called when the device has
// passed it, or at once with an error: until then in must be held. queue is called with the
// context current and the device not held.
func (d *Device) Foreign(in []*memory.Block, out *memory.Block, queue func(stream uintptr) error, release func()) (backend.Event, error) {
	e, err := d.foreign(in, out, queue)
	if err != nil {
		d.waitForCopies() // some of it may be on its way
		release()
		return nil, err
	}
	d.releaseAfter(e, release)
	return e, nil
}

func (d *Device) foreign(in []*memory.Block, out *memory.Block, queue func(stream uintptr) error) (*event, error) {
	stream, err := d.openForeign(append(in[:len(in):len(in)], out))
	if err != nil {
		return nil, err
	}
	if err := d.WithContext(func() error { return queue(stream) }); err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if out == nil {
		return d.recordQuiet(stream)
	}
	return d.closeLane(&d.copies, out)
}

// openForeign makes the stream of copies wait for everything queued so far.
func (d *Device) openForeign(blocks []*memory.Block) (uintptr, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	defer d.end()
	for _, b := range blocks {
		if err := d.arrived(b); err != nil {
			return 0, err
		}
	}
	if err := d.openCopies(); err != nil {
		return 0, err
	}
	return d.copies.stream, nil
}

// Card returns what tells the card from others of the machine.
func (d *Device) Card() string { return d.card.pci }
