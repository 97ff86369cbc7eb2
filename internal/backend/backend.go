// Package backend is the contract between Locus and the devices it runs on: a
// device allocates, copies, runs kernels on an ordered stream, and reports. The
// CPU, virtual GPUs and CUDA implement it; the conformance suite in
// backendtest is what each of them must pass.
//
// Who checks what: package locus checks operands against the op table (count,
// dtypes, shapes, device) before it calls a device. A device may trust that, and
// answers only for what depends on the data, on memory and on the hardware.
package backend

import (
	"errors"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Kind tells CPUs from GPUs.
type Kind uint8

// The kinds of device.
const (
	CPU Kind = iota
	GPU
)

func (k Kind) String() string { return op.EnumName("Kind", int(k), "cpu", "gpu") }

// Info describes a device to people.
type Info struct {
	Kind    Kind
	Name    string // "NVIDIA H200", "AMD EPYC", "virtual GPU 0"
	Backing string // what does the work: "CUDA driver 13.0, cuBLAS 13.1", "AVX2, 2 threads", "host memory"
}

// Device is one place where tensors live and ops run. All methods may be
// called from any goroutine.
//
// Order: Run, CopyIn and CopyFrom are queued in the order of the calls and run
// in that order, as far as their results can tell: a copy may run beside kernels
// that do not use its memory. They may return before the work is done. CopyOut and
// Synchronize wait. Memory that is freed may be handed out again at once,
// because whatever uses it next is queued behind.
//
// Failure: what fails after it was queued is reported once, by the next
// Synchronize or CopyOut, as an *[AsyncError] that names the op.
type Device interface {
	memory.Source

	Info() Info

	// Supports reports whether Run has a kernel for the op whose KernelType (see
	// op.Def) is d. A false answer for an op outside the fused family makes using it an
	// ErrUnsupported.
	Supports(id op.ID, d dtype.DType) bool

	// Run queues a kernel. The call and its list of views are the caller's again
	// when Run returns: a device that needs them later copies them. The shapes,
	// blocks and attributes they point to are not changed afterwards.
	Run(c *Call) error

	// CopyIn queues a copy of src to the start of dst. release is called once
	// when src is no longer needed, before or after CopyIn returns; it may run on
	// the device's stream, so it must not call the device.
	CopyIn(dst *memory.Block, src []byte, release func()) error

	// CopyOut waits for queued work and copies from src at a byte offset.
	CopyOut(dst []byte, src *memory.Block, offset int) error

	// CopyFrom queues a copy of the first n bytes of src, which lives on another
	// device, to the start of dst, after everything queued so far on both; what is
	// queued later on either waits for it where it must. It reports false, and
	// does nothing, if there is no direct way from that device: the caller then
	// goes through the host.
	CopyFrom(dst *memory.Block, from Device, src *memory.Block, n int) (bool, error)

	// Synchronize waits for everything queued so far.
	Synchronize() error

	// Record marks the present end of the queue.
	Record() Event
}

// Pinner is a device that copies from and to some main memory without a detour,
// at the full speed of the bus: pages that the system may not move.
type Pinner interface {
	// Pinned returns the source of such memory. Its regions have a Ptr. CopyIn from it may
	// return before anything is read, and calls release later.
	Pinned() memory.Source
}

// Fetcher is a device from which main memory can be copied to without waiting for what is
// queued later.
type Fetcher interface {
	// Fetch queues a copy from src at a byte offset to dst, memory that Pinned returned,
	// behind what is queued so far. wait returns when dst has it, with what failed
	// before, as CopyOut does; it is called once, or never. release is called once, when
	// neither src nor dst is used any more, also with an error; it must not call the
	// device.
	Fetch(dst []byte, src *memory.Block, offset int, release func()) (wait func() error, err error)
}

// Fuser is a device that computes expressions of elementwise ops: op.FusedOps.
type Fuser interface {
	// Fuses reports whether an expression may have the op whose KernelType (see op.Def)
	// is t, with a result of type out.
	Fuses(id op.ID, t, out dtype.DType) bool
}

// Preparer is a device that gains from knowing calls before they are queued.
type Preparer interface {
	// Prepare begins to make what the device needs for calls that will be queued soon,
	// such as code that it compiles while others run. It queues nothing, waits for
	// nothing and has no errors: what it cannot make is made when it is needed.
	Prepare(calls []*Call)
}

// ErrLater is in the chain of what RecordCalls returns if the calls are better recorded
// later, because faster code for them is being made. Trying again costs little.
var ErrLater = errors.New("not yet")

// Arranger is a device that has kernels for images, tensors (N, C, H, W), that lie channels
// last: the channels of a pixel beside each other.
type Arranger interface {
	// Arranges reports whether the call, whose views have no blocks, can have all its
	// images channels last, operands and results alike, and how many bytes the device
	// need not move then. Either every image whose two layouts differ lies channels
	// last, or none does.
	Arranges(c *Call) (can bool, saves int)
}

// Recorder is a device that can queue many calls as one: a CUDA graph, for instance.
// A recording is bound to addresses: what counts is the memory in which the blocks of
// its calls lay, which by the time of a replay may belong to other blocks.
type Recorder interface {
	// RecordCalls returns the calls, in their order, as one piece of work. It runs
	// none of them. Each replay reads and writes the blocks of the calls' views, which
	// stay the caller's: they must not be freed before Close. Scratch memory that
	// kernels need belongs to the recording. The calls were run before with the same
	// blocks, so that what is made once, such as modules and handles, is there. late
	// marks calls whose attributes will be changed with Set; nil marks none. The calls
	// are the caller's again when RecordCalls returns.
	//
	// An error means that these calls cannot be recorded, and says why; the device is
	// as before, and the caller goes on with Run.
	RecordCalls(calls []*Call, late []bool) (Recording, error)
}

// Recording is what RecordCalls returns. One goroutine at a time may use it.
type Recording interface {
	// Set changes the attributes of late call i for the replays to come; those that are
	// queued keep theirs. c is the call with the views that it was recorded with. An
	// error means that the recording does not fit the new attributes, or is lost: it
	// must be closed, and may be made again.
	Set(i int, c *Call) error

	// Replay queues the calls, as Run would one after the other.
	Replay() error

	// Close frees what the recording holds, behind what is queued. The second call
	// does nothing.
	Close()
}

// Event is a point in a device's queue.
type Event interface {
	// Wait blocks until the queue has passed the point.
	Wait()
	// Done reports whether it has, without waiting.
	Done() bool
	// Since is the device's time from an earlier event of the same device to
	// this one; both must be done.
	Since(earlier Event) time.Duration
}

// View is a tensor as a kernel sees it: memory, and how elements lie in it.
//
// An operand may have any strides, zero (broadcast) and negative ones included.
// A result is contiguous from offset 0 of its own block, or, where an [Arranger] said
// that it can be, channels last.
//
// A scalar written as a Go number arrives as a constant: Block is nil, Bits
// holds the value in the element type's own representation in its low bytes, and
// all strides are zero. Only operands of the broadcast families and of op.FusedOps can
// be constants.
type View struct {
	Block   *memory.Block
	Bits    uint64
	Offset  int // elements
	Shape   []int
	Strides []int // elements
	DType   dtype.DType
}

// Const reports whether v is a constant.
func (v *View) Const() bool { return v.Block == nil }

// Elements is the number of elements of v.
func (v *View) Elements() int { return op.Elements(v.Shape) }

// RowStep reports whether one stride leads from each row of the last axis to the
// next, whatever the axes before it, and which.
func (v *View) RowStep() (step int, ok bool) {
	want, first := 0, true
	for i := len(v.Shape) - 2; i >= 0; i-- {
		n := v.Shape[i]
		switch {
		case n == 1:
			continue
		case first:
			step, first = v.Strides[i], false
			want = step * n
		case v.Strides[i] != want:
			return 0, false
		default:
			want *= n
		}
	}
	return step, true
}

// Contiguous reports whether v's elements lie in order without holes.
func (v *View) Contiguous() bool { return op.IsContiguous(v.Shape, v.Strides) }

// ChannelsLast reports whether v is an image (N, C, H, W) that lies as (N, H, W, C)
// does, without holes, and not as (N, C, H, W).
func (v *View) ChannelsLast() bool {
	if len(v.Shape) != 4 || v.Contiguous() {
		return false
	}
	n := 1
	for _, i := range [...]int{1, 3, 2, 0} {
		if v.Shape[i] != 1 && v.Strides[i] != n {
			return false
		}
		n *= v.Shape[i]
	}
	return true
}

// Call is one op to run.
type Call struct {
	Op    op.ID
	Attrs op.Attrs
	In    []View
	Out   View

	// More are the results behind the first, for ops that have several: see More of
	// op.Def. They are contiguous. Results that an op saves only for its gradient are
	// missing where no gradient is wanted.
	More []View

	// Step is what the call is part of: a step of a program, for those who watch. Devices
	// do not look at it.
	Step any
}

// KernelType returns the element type that selects the kernel: see KernelType of
// op.Def, which sees specs where a device sees views.
func (c *Call) KernelType() dtype.DType {
	if len(c.In) == 0 {
		return c.Out.DType
	}
	return c.In[op.Get(c.Op).Leading()].DType
}

// AsyncError is a failure of queued work.
type AsyncError struct {
	Op  op.ID
	Err error
}

func (e *AsyncError) Error() string {
	return "queued op " + e.Op.String() + " failed: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *AsyncError) Unwrap() error { return e.Err }
