//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"sync"
	"unsafe"
)

// caller is how a device calls the driver and libraries. What they read and write
// during a call lies here, because a goroutine's stack may move.
type caller struct {
	c      call
	params [paramWords]uint64 // of the kernel that is launched
	args   [1]unsafe.Pointer  // points to them
	word   uintptr            // where a call writes one result
}

const paramWords = 512 // a kernel's parameters, 4 KB, which is the most that drivers take

// begin makes the calling thread ready for driver calls of this device, and end
// undoes it. In between the device is held: others cannot queue, and finalizers that
// free its memory cannot run. So whatever waits for the card lets go of the device
// first (see wait), with these exceptions: after every op with LOCUS_CUDA_BLOCKING=1
// and while an algorithm of cuDNN is timed, where waiting is the purpose; and inside
// cuSOLVER's functions and cuFFT's destruction of plans, which may wait by
// themselves. The context becomes the thread's current one with the first call
// through d.c, because an op is one such call and a second crossing to C would be
// noticeable; before anything else of the driver is called, d.current makes sure of
// it.
func (d *Device) begin() error {
	d.mu.Lock()
	if err := d.enter(); err != nil {
		d.mu.Unlock()
		return err
	}
	return nil
}

func (d *Device) end() {
	runtime.UnlockOSThread()
	d.mu.Unlock()
}

func (d *Device) enter() error {
	if l := d.card.lost.Load(); l != nil {
		return l
	}
	if err := d.card.start(); err != nil {
		return err
	}
	runtime.LockOSThread()
	d.c.first, d.c.firstArg = d.card.drv.ctxSetCurrent, d.card.ctx
	if d.ready {
		return nil
	}
	err := d.setUp()
	if err != nil {
		runtime.UnlockOSThread()
	}
	return err
}

// current returns the driver for calls that need the context and are not made
// through d.c. Between begin and end.
func (d *Device) current() *driver {
	drv := d.card.drv
	if d.c.first != 0 {
		d.c.fn, d.c.a[0], d.c.first = drv.ctxSetCurrent, d.card.ctx, 0
		d.c.do() // if it fails, so does what follows
	}
	return drv
}

// calls holds calls for waiting, during which the device's own must stay free.
var calls = sync.Pool{New: func() any { return new(call) }}

// wait calls a driver function that may block, without holding the device.
func (d *Device) wait(name string, fn uintptr, arg uintptr) error {
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.first, c.firstArg = d.card.drv.ctxSetCurrent, d.card.ctx
	c.fn, c.a[0] = fn, arg
	r := Result(c.do())
	if r == success {
		return nil
	}
	d.mu.Lock() // result reads the op queued last
	defer d.mu.Unlock()
	return d.result(name, r)
}

// pointer makes a pointer of an address that C memory has.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }
