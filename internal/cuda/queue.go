//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// queue is the device's stream, and how what runs on it reports failures.
type queue struct {
	stream  uintptr
	last    op.ID   // the op queued last
	among   int     // if that was a recording: how many calls it has, of which last is the last
	flag    *flag   // in host memory that kernels can write
	flagDev uintptr // the same as kernels see it
}

// flag is where kernels report a bad index; see Flag in kernels/locus.cuh.
type flag struct {
	op           uint32
	_            uint32
	index, limit int64
}

const (
	streamNonBlocking = 1 // not ordered with the null stream
	hostMapped        = 2 // pinned memory that kernels can reach
	hostPortable      = 1
)

// setUp makes what the device needs once. The context is current.
func (d *Device) setUp() error {
	drv := d.current()
	if d.stream == 0 { // an attempt that found no memory may have made it
		if err := d.result("cuStreamCreate", drv.StreamCreate(&d.stream, streamNonBlocking)); err != nil {
			return err
		}
	}
	var host uintptr
	if err := d.result("cuMemHostAlloc", drv.MemHostAlloc(&host, 64, hostMapped|hostPortable)); err != nil {
		return err
	}
	if err := d.result("cuMemHostGetDevicePointer", drv.MemHostGetDevicePointer(&d.flagDev, host, 0)); err != nil {
		return err
	}
	d.flag = (*flag)(pointer(host))
	*d.flag = flag{}
	d.args[0] = unsafe.Pointer(&d.params)
	d.ready = true
	return nil
}

// result turns the result of a call into an error. After one that breaks the
// context, the device is lost.
func (d *Device) result(name string, r Result) error {
	if r == success {
		return nil
	}
	err := d.card.drv.check(name, r)
	if r.sticky() {
		l := &backend.LostError{On: d, Device: d.name, Cause: err}
		if d.card.lost.CompareAndSwap(nil, l) {
			if d.last != op.Invalid {
				named := "the last op queued is named"
				if d.among > 0 {
					named = fmt.Sprintf("a replay of %d calls was queued last, the last of which is named", d.among)
				}
				return &backend.AsyncError{Op: d.last, Err: fmt.Errorf("%w (%s; LOCUS_CUDA_BLOCKING=1 waits after each op and names the right one)", l, named)}
			}
			return l
		}
		return d.card.lost.Load()
	}
	return err
}

// Synchronize waits for everything queued so far.
func (d *Device) Synchronize() error {
	if l := d.card.lost.Load(); l != nil {
		return l
	}
	d.mu.Lock()
	idle, behind := !d.ready, d.behind != 0
	d.mu.Unlock()
	if idle {
		return nil
	}
	if behind { // by copies to the device
		if err := d.begin(); err != nil {
			return err
		}
		err := d.joinAll()
		d.end()
		if err != nil {
			return err
		}
	}
	if err := d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, d.stream); err != nil {
		return err
	}
	return d.failed()
}

// failed reports what kernels have reported since the last time. The device
// has been waited for.
func (d *Device) failed() error {
	if atomic.LoadUint32(&d.flag.op) == 0 {
		return nil
	}
	d.mu.Lock()
	f := *d.flag
	atomic.StoreUint32(&d.flag.op, 0)
	d.mu.Unlock()
	if f.op == 0 {
		return nil
	}
	if id := op.ID(f.op); op.Get(id).Family == op.LinalgFamily {
		return &backend.AsyncError{Op: id, Err: unsuitable(id, f.index, f.limit)}
	}
	return &backend.AsyncError{Op: op.ID(f.op), Err: op.Problemf(op.ErrIndex, "index %d is out of range for an axis of %d elements", f.index, f.limit)}
}
