//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// card is a physical GPU: what its logical devices share.
type card struct {
	drv          *driver
	ordinal      int
	dev          int32
	name, pci    string
	major, minor int // compute capability
	sms          int // multiprocessors
	sharedMax    int // bytes of shared memory a block may have
	total        int64

	started sync.Once
	ctx     uintptr // the primary context
	err     error   // why it could not be started
	lost    atomic.Pointer[LostError]

	mu      sync.Mutex
	kernels map[string]*kernel
	peers   map[*card]bool // whether direct copies from there work, as far as tried
}

// start makes the card's context. A card that is busy now stays unusable for
// the process: other errors may follow from a half-made context.
func (c *card) start() error {
	c.started.Do(func() {
		if err := c.drv.check("cuDevicePrimaryCtxRetain", c.drv.DevicePrimaryCtxRetain(&c.ctx, c.dev)); err != nil {
			c.err = fmt.Errorf("%s cannot be used: %w", c.name, withRemedy(err))
		}
	})
	return c.err
}

// Device is a GPU, or a share of one with a memory cap of its own. It has one
// stream, on which everything is queued in the order of the calls.
type Device struct {
	card *card
	name string
	cap  int64 // bytes it may allocate; 0: what the card has
	used atomic.Int64

	mu     sync.Mutex // held while something is queued
	ready  bool
	stream uintptr

	// What the driver reads during a call lies in this object, because a
	// goroutine's stack may move. Guarded by mu.
	c      call
	params [paramWords]uint64
	args   [1]unsafe.Pointer
	word   uintptr // where the driver writes one result

	flag    *flag   // in host memory that kernels can write
	flagDev uintptr // the same as kernels see it

	last    op.ID          // the op queued last
	pool    *memory.Pool   // where its working memory comes from
	rooms   [numRooms]room // that memory
	short   shortage       // what it gave up for
	pressed bool           // everything was tried to make room for the driver: libraries do without
	small   stage
	large   stage
	events  events
	untimed events
	quiet   events

	copies         uintptr  // the stream of large copies to the device
	fence          uintptr  // the event that it waits for
	copied, joined int64    // copies queued there, and those that d.stream waits for
	arriving       *arrival // the last of them, while joined < copied
	flights        []flight // host memory that the device still reads, in that order
	landing        bool     // somebody waits for them

	table    kernelTable    // of elementwise ops
	reduces  [3]kernelTable // by rowKernel, colKernel and tileKernel
	tiny     [6][16]*kernel // of small products, by layout (the last two: with bias and activation) and element type
	counts   uintptr        // the counters of kernels/reduce.cu, all 0 between launches
	blas     *blas
	lt       *lt
	dnn      *dnn
	older    bool // attention as on cards before Hopper: for tests
	split    int  // attention of float32 on the matrix units where it is worth it, with 1 always, with -1 never: for tests
	shortDNN bool // short attention by cuDNN as well: for tests
}

const paramWords = 256 // a kernel's parameters, 2 KB

var (
	_ backend.Device = (*Device)(nil)
	_ backend.Pinner = (*Device)(nil)
)

func newDevice(c *card, limit int64, name string) *Device {
	d := &Device{card: c, cap: limit, name: name}
	d.small = stage{size: smallSlot, limit: smallSlots}
	d.large = stage{size: largeSlot, limit: largeSlots}
	d.untimed.flags, d.quiet.flags = eventUntimed, eventQuiet
	return d
}

// Split divides the card into logical devices, each with its own stream and
// memory cap in bytes. The undivided device must not be used any more.
func (d *Device) Split(caps ...int64) ([]*Device, error) {
	var sum int64
	for _, c := range caps {
		if c <= 0 {
			return nil, fmt.Errorf("a logical GPU's memory must be positive, got %d bytes", c)
		}
		sum += c
	}
	if sum > d.card.total {
		return nil, fmt.Errorf("logical GPUs of %d bytes in all do not fit on %s with %d", sum, d.name, d.card.total)
	}
	shares := make([]*Device, len(caps))
	for i, c := range caps {
		shares[i] = newDevice(d.card, c, fmt.Sprintf("%s, share %d of %d", d.name, i+1, len(caps)))
	}
	return shares, nil
}

// Info describes the device, with the libraries that it has used so far.
func (d *Device) Info() backend.Info {
	backing := fmt.Sprintf("CUDA %s driver, compute capability %d.%d", cudaVersion(d.card.drv.version), d.card.major, d.card.minor)
	inUse.Lock()
	defer inUse.Unlock()
	for _, name := range inUse.names {
		backing += ", " + name
	}
	return backend.Info{Kind: backend.GPU, Name: d.name, Backing: backing}
}

// Details describes a card to people.
type Details struct {
	ComputeCapability string // "9.0"
	Driver            string // the CUDA version it supports
	PCI               string
	Multiprocessors   int
	Memory            int64
	Libraries         []Library // which file serves what
}

// Details describes the card.
func (d *Device) Details() Details {
	c := d.card
	libs := append([]Library{{"libcuda", c.drv.path, "memory, kernels and copies"}}, libraries(c.drv)...)
	return Details{fmt.Sprintf("%d.%d", c.major, c.minor), cudaVersion(c.drv.version), c.pci, c.sms, c.total, libs}
}

// begin makes the calling thread ready for driver calls of this device, and
// end undoes it. Nothing that waits for the device may run in between. The
// context becomes the thread's current one with the first call through d.c, because
// an op is one such call and crossing to C twice would show; before anything else
// of the driver is called, d.current makes sure of it.
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

// current gives the driver for calls that need the context and are not made
// through d.c. Between begin and end.
func (d *Device) current() *driver {
	drv := d.card.drv
	if d.c.first != 0 {
		d.c.fn, d.c.a[0], d.c.first = drv.ctxSetCurrent, d.card.ctx, 0
		d.c.do() // if it fails, so does what follows
	}
	return drv
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

// pointer makes a pointer of an address that C memory has.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// result turns the result of a call into an error. After one that breaks the
// context, the device is lost.
func (d *Device) result(name string, r Result) error {
	if r == success {
		return nil
	}
	err := d.card.drv.check(name, r)
	if r.sticky() {
		l := &LostError{Device: d.name, Cause: err}
		if d.card.lost.CompareAndSwap(nil, l) {
			if d.last != op.Invalid {
				return &backend.AsyncError{Op: d.last, Err: fmt.Errorf("%w (the last op queued is named; LOCUS_CUDA_BLOCKING=1 waits after each and names the right one)", l)}
			}
			return l
		}
		return d.card.lost.Load()
	}
	return err
}

var blocking = os.Getenv("LOCUS_CUDA_BLOCKING") == "1"

// Supports reports whether there is a kernel.
func (d *Device) Supports(id op.ID, t dtype.DType) bool {
	def := op.Get(id)
	return def.Family != op.ViewFamily && runners[id] != nil && def.KernelTypes().Has(t)
}

// runners maps each op to what queues it. Each file of a family fills its part.
var runners [op.NumOps]func(d *Device, c *backend.Call) error

// Run queues a kernel.
func (d *Device) Run(c *backend.Call) error {
	run := runners[c.Op]
	if run == nil {
		return fmt.Errorf("%s of %s on %s: %w", c.Op, c.Out.DType, d.name, op.ErrUnsupported)
	}
	if c.Out.Elements() == 0 {
		return nil
	}
	return d.with(c.Out.Block.Pool(), c.Op, func() error {
		err := d.arrivals(c)
		if err == nil {
			err = run(d, c)
		}
		if blocking && err == nil {
			d.c.fn, d.c.a[0] = d.card.drv.streamSynchronize, d.stream
			err = d.result("cuStreamSynchronize", Result(d.c.do()))
		}
		return err
	})
}

// Synchronize waits for everything queued so far.
func (d *Device) Synchronize() error {
	if l := d.card.lost.Load(); l != nil {
		return l
	}
	d.mu.Lock()
	idle, behind := !d.ready, d.arriving != nil
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
	return &backend.AsyncError{Op: op.ID(f.op), Err: op.Problemf(op.ErrIndex, "index %d is out of range for an axis of %d elements", f.index, f.limit)}
}
