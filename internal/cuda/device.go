//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
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
	lost    atomic.Pointer[backend.LostError]

	mu      sync.Mutex
	kernels map[string]*kernel
	jobs    map[string]*job // kernels that are compiled and not loaded yet
	peers   map[*card]bool  // whether direct copies from there work, as far as tried
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
	share

	mu    sync.Mutex // held while something is queued; guards everything below
	ready bool       // setUp has run
	caller
	queue
	work    workspace      // of the op that is being queued
	found   kernelsFound   // so that an op looks no name up
	libs    libraries      // NVIDIA's, as far as they are in use
	events  eventLists     // for reuse
	stages  staging        // of copies between the device and pageable memory
	copies  lane           // of large copies to the device, and of collectives
	lanes   laneList       // of other libraries' messages
	behind  int            // lanes with something that the device's stream does not wait for yet
	fetches fetchStream    // of copies that the program does not wait for
	flights pendingFlights // host memory that the device still reads
	trial   trial
	rec     recorder // of many calls as one
	count   Launches
}

// trial is what tests set to reach code that the card would not choose.
type trial struct {
	older    bool // attention as on cards before Hopper
	split    int  // attention of float32 on the tensor cores where it is worth it, with 1 always, with -1 never
	shortDNN bool // short attention by cuDNN as well
}

var (
	_ backend.Device   = (*Device)(nil)
	_ backend.Pinner   = (*Device)(nil)
	_ backend.Fetcher  = (*Device)(nil)
	_ backend.Sider    = (*Device)(nil)
	_ backend.Recorder = (*Device)(nil)
)

func newDevice(c *card, limit int64, name string) *Device {
	return &Device{card: c, name: name, share: share{cap: limit}, events: newEventLists(), stages: newStaging()}
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
	libs := append([]Library{{"libcuda", c.drv.path, "memory, kernels and copies"}}, librariesFound(c.drv)...)
	return Details{fmt.Sprintf("%d.%d", c.major, c.minor), cudaVersion(c.drv.version), c.pci, c.sms, c.total, libs}
}

// Launches returns what the device has counted since it was made.
func (d *Device) Launches() Launches {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

var blocking = os.Getenv("LOCUS_CUDA_BLOCKING") == "1"

// Supports reports whether there is a kernel, or a detour to one.
func (d *Device) Supports(id op.ID, t dtype.DType) bool {
	def := op.Get(id)
	return def.Family != op.ViewFamily && (runners[id] != nil || mayDetour(id)) && def.KernelTypes().Has(t)
}

// runners maps each op to what queues it. Each file of a family fills its part.
var runners [op.NumOps]func(d *Device, c *backend.Call) error

// Run queues a kernel.
func (d *Device) Run(c *backend.Call) error {
	run := runners[c.Op]
	if c.Out.Elements() > 0 && d.Detours(c) {
		return d.detour(c)
	}
	if run == nil && !mayDetour(c.Op) {
		return fmt.Errorf("%s of %s on %s: %w", c.Op, c.Out.DType, d.name, op.ErrUnsupported)
	}
	if c.Out.Elements() == 0 {
		return nil
	}
	err := d.with(c.Out.Block.Pool(), c.Op, func() error {
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
	if errors.Is(err, errDetour) {
		return d.detour(c)
	}
	return err
}
