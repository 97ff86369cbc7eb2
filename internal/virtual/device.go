// Package virtual provides GPUs that live in host memory. They behave like real
// ones where programs can tell: memory of their own with an enforced limit, work
// that is queued and runs later, failures that surface at the next wait. So
// programs for several GPUs run, and are tested, on any machine.
package virtual

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// DefaultMemory is the memory of a virtual GPU for which none is asked.
const DefaultMemory = 1 << 30

// Device is a virtual GPU.
type Device struct {
	index  int
	host   *cpu.Device
	limit  int64
	stream stream
	delay  atomic.Int64 // nanoseconds
	fault  fault

	mu   sync.Mutex
	used int64
}

var (
	_ backend.Device   = (*Device)(nil)
	_ backend.Pinner   = (*Device)(nil)
	_ backend.Fetcher  = (*Device)(nil)
	_ backend.Recorder = (*Device)(nil)
)

// New makes virtual GPU number index with so many bytes of memory; 0 means
// [DefaultMemory].
func New(index int, memory int64) *Device {
	if memory <= 0 {
		memory = DefaultMemory
	}
	d := &Device{index: index, host: cpu.Open(), limit: memory}
	d.stream.init()
	d.loseFromEnv()
	return d
}

// Index is the number that the device was made with.
func (d *Device) Index() int { return d.index }

// SetDelay makes every op take at least so long, for tests of what happens
// while work is queued.
func (d *Device) SetDelay(delay time.Duration) { d.delay.Store(int64(delay)) }

// Info describes the device.
func (d *Device) Info() backend.Info {
	return backend.Info{Kind: backend.GPU, Name: fmt.Sprintf("virtual GPU %d", d.index), Backing: "host memory"}
}

// Allocate returns host memory within the limit.
func (d *Device) Allocate(size int) (memory.Region, error) {
	if err := d.gone(); err != nil {
		return memory.Region{}, err
	}
	d.mu.Lock()
	if int64(size) > d.limit-d.used {
		d.mu.Unlock()
		return memory.Region{}, memory.ErrExhausted
	}
	d.used += int64(size)
	d.mu.Unlock()
	r, err := d.host.Allocate(size)
	if err != nil {
		d.account(-int64(size))
		return memory.Region{}, err
	}
	r.Size = size
	return r, nil
}

// Free takes a region back. Queued work that still uses it keeps the host's
// memory alive.
func (d *Device) Free(r memory.Region) {
	d.account(-int64(r.Size))
	d.host.Free(memory.Region{Ptr: r.Ptr, Size: r.Size})
}

func (d *Device) account(n int64) {
	d.mu.Lock()
	d.used += n
	d.mu.Unlock()
}

// Memory returns the limit and what is left of it.
func (d *Device) Memory() (total, free int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit, d.limit - d.used
}

// Pinned returns ordinary memory, all of which is the same to a virtual GPU: programs
// take the same paths as on real ones.
func (d *Device) Pinned() memory.Source { return d.host }

// Supports answers as the CPU does, whose kernels do the work.
func (*Device) Supports(id op.ID, t dtype.DType) bool {
	_, ok := cpu.Kernel(id, t)
	return ok
}

// Fuses answers as the CPU does.
func (d *Device) Fuses(id op.ID, t, out dtype.DType) bool { return d.host.Fuses(id, t, out) }

// Arranges answers as the CPU does.
func (d *Device) Arranges(c *backend.Call) (can bool, saves int) { return d.host.Arranges(c) }

// Run queues the op's kernel.
func (d *Device) Run(c *backend.Call) error {
	t := c.KernelType()
	k, ok := cpu.Kernel(c.Op, t)
	if !ok {
		return op.Problemf(op.ErrUnsupported, "virtual GPU %d has no kernel for %s of %s", d.index, c.Op, t)
	}
	if err := d.gone(); err != nil {
		return err
	}
	queued := *c
	queued.In, queued.More = slices.Clone(c.In), slices.Clone(c.More)
	d.stream.enqueue(task{kernel: k, call: &queued, device: d})
	return nil
}

// CopyIn queues the copy and calls release after it. release runs on the
// stream: it must not call the device.
func (d *Device) CopyIn(dst *memory.Block, src []byte, release func()) error {
	if err := d.gone(); err != nil {
		if release != nil {
			release()
		}
		return err
	}
	d.stream.enqueue(task{f: func() {
		copy(bytesOf(dst, 0, len(src)), src)
		runtime.KeepAlive(dst)
		if release != nil {
			release()
		}
	}})
	return nil
}

// CopyOut waits for what is queued, then copies.
func (d *Device) CopyOut(dst []byte, src *memory.Block, offset int) error {
	if err := d.Synchronize(); err != nil {
		return err
	}
	copy(dst, bytesOf(src, offset, len(dst)))
	runtime.KeepAlive(src)
	return nil
}

// Fetch queues the copy.
func (d *Device) Fetch(dst []byte, src *memory.Block, offset int, release func()) (func() error, error) {
	if err := d.gone(); err != nil {
		release()
		return nil, err
	}
	n := d.stream.enqueue(task{f: func() {
		copy(dst, bytesOf(src, offset, len(dst)))
		runtime.KeepAlive(src)
		release()
	}})
	return func() error {
		d.stream.wait(n)
		return d.failed()
	}, nil
}

// CopyFrom copies directly from another virtual GPU.
//
// Both streams get an entry at the same moment: the source's says that its data
// is ready and waits until it has been read, the destination's waits for that
// and copies. Because entries of a pair are queued together, pairs have the same
// order on both streams, and the oldest unfinished pair can always go on: copies
// in both directions cannot block each other.
func (d *Device) CopyFrom(dst *memory.Block, from backend.Device, src *memory.Block, n int) (bool, error) {
	other, ok := from.(*Device)
	if !ok {
		return false, nil
	}
	for _, x := range []*Device{d, other} {
		if err := x.gone(); err != nil {
			return true, err
		}
	}
	move := func() {
		copy(bytesOf(dst, 0, n), bytesOf(src, 0, n))
		runtime.KeepAlive(dst)
		runtime.KeepAlive(src)
	}
	if other == d {
		d.stream.enqueue(task{f: move})
		return true, nil
	}
	ready, read := make(chan struct{}), make(chan struct{})
	enqueueBoth(&other.stream, task{f: func() { close(ready); <-read }},
		&d.stream, task{f: func() { <-ready; move(); close(read) }})
	return true, nil
}

func bytesOf(b *memory.Block, offset, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.Ptr), b.Size)[offset : offset+n]
}

// Synchronize waits for everything queued so far and reports the first failure
// since it was last asked.
func (d *Device) Synchronize() error {
	d.stream.wait(d.stream.issued.Load())
	return d.failed()
}

// failed returns the first failure since it was last asked.
func (d *Device) failed() error {
	if e := d.stream.failure.Swap(nil); e != nil {
		return e
	}
	return d.gone()
}

// Record marks the present end of the queue.
func (d *Device) Record() backend.Event {
	e := &event{stream: &d.stream}
	e.seq = d.stream.enqueue(task{f: func() { e.at = time.Now() }})
	return e
}

type event struct {
	stream *stream
	seq    uint64
	at     time.Time // written by the stream before it passes seq
}

func (e *event) Wait()      { e.stream.wait(e.seq) }
func (e *event) Done() bool { return e.stream.passed(e.seq) }
func (e *event) Since(earlier backend.Event) time.Duration {
	return e.at.Sub(earlier.(*event).at)
}

// execute runs a kernel and turns its failure into one of the device.
func (d *Device) execute(k func(*backend.Call) error, c *backend.Call) (failure *backend.AsyncError) {
	if d.fails(c.Op) {
		return nil
	}
	if delay := d.delay.Load(); delay > 0 {
		time.Sleep(time.Duration(delay))
	}
	defer func() {
		if p := recover(); p != nil { // as a real GPU's fault: the program goes on and learns of it
			failure = &backend.AsyncError{Op: c.Op, Err: op.Problemf(op.ErrDeviceLost, "the kernel panicked: %v\n%s", p, debug.Stack())}
		}
	}()
	if err := k(c); err != nil {
		return &backend.AsyncError{Op: c.Op, Err: err}
	}
	return nil
}
