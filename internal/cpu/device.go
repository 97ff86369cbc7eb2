// Package cpu runs ops on the host's processor: plain Go and, where the
// processor has them, vector instructions, on several threads.
//
// The files are named after the families of the op table. Most kernels are
// written once, as a loop over contiguous elements of one Go type; what lies
// between such a loop and an op on tensors of any strides is in elementwise.go and
// iterator.go.
package cpu

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Device is the host's processor. Its stream is the caller: Run returns when
// the kernel has ended, and errors come from Run itself.
type Device struct{}

var _ backend.Device = (*Device)(nil)

// Open returns the processor as a device.
func Open() *Device { return &Device{} }

// Info describes the processor.
func (*Device) Info() backend.Info {
	n := pool.Threads()
	s := "s"
	if n == 1 {
		s = ""
	}
	backing := fmt.Sprintf("%s, %d thread%s", instructionSet(), n, s)
	if l := BLAS(); l != nil {
		backing += ", large products by " + l.Name
	}
	return backend.Info{Kind: backend.CPU, Name: modelName(), Backing: backing}
}

// alignment is what memory.Source asks for: a cache line.
const alignment = 64

// checkedSize is the size from which on Allocate looks first whether the
// machine has the memory: Go ends the program when the system refuses it.
const checkedSize = 16 << 20

// hugePage is the size of the larger pages that systems have. Ops on large
// tensors spend a tenth of their time, or more, looking up small ones.
const hugePage = 2 << 20

// Allocate returns memory from Go's heap, aligned to a cache line.
func (d *Device) Allocate(size int) (memory.Region, error) {
	if size >= checkedSize {
		if total, free := d.Memory(); total > 0 && int64(size) > free {
			return memory.Region{}, memory.ErrExhausted
		}
	}
	b := make([]byte, size)
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment != 0 {
		b = make([]byte, size+alignment-1)
		if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % alignment); r != 0 {
			b = b[alignment-r:]
		}
	}
	if size >= hugePage {
		preferHugePages(b)
	}
	return memory.Region{Ptr: unsafe.Pointer(unsafe.SliceData(b)), Size: size}, nil
}

// Free leaves the region to the collector.
func (*Device) Free(memory.Region) {}

// Memory returns the bytes this process may use in all and those it could still
// get; zeros where the system does not say.
func (*Device) Memory() (total, free int64) { return systemMemory() }

// Supports reports whether there is a kernel.
func (*Device) Supports(id op.ID, d dtype.DType) bool {
	_, ok := Kernel(id, d)
	return ok
}

// Run runs the op's kernel on the calling goroutine.
func (*Device) Run(c *backend.Call) error {
	d := c.KernelType()
	if k := table[c.Op][d]; k != nil {
		return k(c)
	}
	return op.Problemf(op.ErrUnsupported, "the CPU has no kernel for %s of %s", c.Op, d)
}

// CopyIn copies at once.
func (*Device) CopyIn(dst *memory.Block, src []byte, release func()) error {
	copy(bytesOf(dst, 0, len(src)), src)
	if release != nil {
		release()
	}
	return nil
}

// CopyOut copies at once.
func (*Device) CopyOut(dst []byte, src *memory.Block, offset int) error {
	copy(dst, bytesOf(src, offset, len(dst)))
	runtime.KeepAlive(src)
	return nil
}

// CopyFrom copies from another device that works on host memory in its
// callers' goroutines, which is none but the CPU itself: others have queues of
// their own that only they can wait for.
func (*Device) CopyFrom(dst *memory.Block, from backend.Device, src *memory.Block, n int) (bool, error) {
	if _, ok := from.(*Device); !ok || src.Ptr == nil {
		return false, nil
	}
	copy(bytesOf(dst, 0, n), bytesOf(src, 0, n))
	return true, nil
}

func bytesOf(b *memory.Block, offset, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.Ptr), b.Size)[offset : offset+n]
}

// Synchronize has nothing to wait for.
func (*Device) Synchronize() error { return nil }

// Record returns the present time.
func (*Device) Record() backend.Event { return event(time.Now()) }

type event time.Time

func (event) Wait()      {}
func (event) Done() bool { return true }
func (e event) Since(earlier backend.Event) time.Duration {
	return time.Time(e).Sub(time.Time(earlier.(event)))
}
