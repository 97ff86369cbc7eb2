//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// While calls are recorded, runners queue on a separate stream that captures. Nothing
// else uses it, because querying a capturing stream would invalidate the capture. The
// device is held meanwhile. What a capture does not allow, such as loading a kernel, is
// done after it has ended, and then it starts over; what runs something, such as timing
// algorithms, is an error.

// recorder is a device's part of recording. Guarded by its mu.
type recorder struct {
	stream  uintptr     // that captures; 0 before the first recording
	capture *capture    // in progress, or changing late calls; nil as a rule
	change  capture     // for reuse
	held    []*heldRoom // rooms of all recordings
	info    captureInfo
	node    nodeParams
}

// capture is one attempt to record calls, or a change of a late call.
type capture struct {
	r        *recording
	changing bool         // launches change nodes
	pool     *memory.Pool // of the call in progress
	call     int          // its number
	late     *lateCall    // if it is one
	launches int          // of a call that is changed, so far
	missing  func() error // makes what the capture lacked
	short    shortage     // what room it lacked
	whole    bool         // what fails concerns no single call
	queued   bool         // something was captured
	moved    bool         // a room was replaced by a larger one, and nodes refer to both
	blas     uintptr      // the workspace that cuBLAS was given
	dry      *[]wanted    // nothing is captured: the kernels that calls need are listed here
}

// captureInfo is where cuStreamGetCaptureInfo writes.
type captureInfo struct {
	status, _ int32
	nodes     uintptr // where the last nodes are listed
	count     uint64
}

// nodeParams is CUDA_KERNEL_NODE_PARAMS.
type nodeParams struct {
	kernel        uintptr
	grid, threads [3]uint32
	shared, _     uint32
	args, extra   uintptr
}

// errAgain is what an op returns that needs something a capture cannot make. It is
// passed on as it is, as errShort is.
var errAgain = errors.New("something is missing that cannot be made while calls are recorded")

const captureThreadLocal = 1 // other threads may do what they like

// capturing reports whether a capture is in progress: nothing may be allocated, loaded,
// waited for or timed. Between begin and end.
func (d *Device) capturing() bool { return d.rec.capture != nil && !d.rec.capture.changing }

// divert makes ops launch and work as c says; nil restores the usual way.
func (d *Device) divert(c *capture) { d.rec.capture, d.work.capture = c, c }

// again leaves making what is missing until the capture has ended.
func (d *Device) again(make func() error) error {
	d.rec.capture.missing = make
	return errAgain
}

// opStream is the stream on which ops are queued.
func (d *Device) opStream() uintptr {
	if d.capturing() {
		return d.rec.stream
	}
	return d.stream
}

// captureAll captures the calls as a graph. Between begin and end.
func (d *Device) captureAll(c *capture, calls []*backend.Call) (graph uintptr, err error) {
	if d.rec.stream == 0 {
		if err := d.result("cuStreamCreate", d.current().StreamCreate(&d.rec.stream, streamNonBlocking)); err != nil {
			return 0, err
		}
	}
	drv := d.card.drv
	c.whole = true
	if err := d.lead(d.rec.stream); err != nil {
		return 0, err
	}
	d.c.fn, d.c.a[0], d.c.a[1] = drv.graphs.beginCapture, d.rec.stream, captureThreadLocal
	if err = d.result("cuStreamBeginCapture", Result(d.c.do())); err == nil {
		d.divert(c)
		err = c.queue(d, calls)
		c.whole = err == nil
		d.divert(nil)
		d.word = 0
		d.c.fn, d.c.a[0], d.c.a[1] = drv.graphs.endCapture, d.rec.stream, uintptr(unsafe.Pointer(&d.word))
		if e := d.result("cuStreamEndCapture", Result(d.c.do())); err == nil {
			err = e
		}
		graph = d.word
	}
	if e := d.lead(d.stream); err == nil {
		err = e
	}
	if err != nil && graph != 0 {
		d.c.fn, d.c.a[0] = drv.graphs.destroy, graph
		d.c.do() // there is an error already
		graph = 0
	}
	return graph, err
}

// queue queues the calls where they are captured.
func (c *capture) queue(d *Device, calls []*backend.Call) error {
	for i, call := range calls {
		if c.call = i; call.Out.Elements() == 0 {
			continue
		}
		if c.late = c.r.late[i]; c.late != nil {
			*c.late = lateCall{attrs: call.Attrs}
		}
		if c.pool = call.Out.Block.Pool(); c.pool == nil {
			return errors.New("its result lies in memory of no pool")
		}
		if err := runners[call.Op](d, call); err != nil {
			return err
		}
	}
	return nil
}

// named says which call an error is about.
func (c *capture) named(calls []*backend.Call, err error) error {
	if len(calls) == 0 || c.whole {
		return fmt.Errorf("%d calls cannot be recorded: %w", len(calls), err)
	}
	return fmt.Errorf("call %d of %d, %s, cannot be recorded: %w", c.call, len(calls), calls[c.call].Op, err)
}

// lead makes the libraries that are in use queue on a stream. One that does not is
// not used any more.
func (d *Device) lead(stream uintptr) error {
	if b := d.libs.blas; b != nil && !b.unavailable {
		d.c.fn, d.c.a[0], d.c.a[1] = b.lib.setStream, b.handle, stream
		if r := int32(d.c.do()); r != 0 {
			b.unavailable = true
			return blasError("cublasSetStream", r)
		}
	}
	if n := d.libs.dnn; n != nil && !n.unavailable && !n.try(d, n.lib.setStream, n.handle, stream) {
		n.unavailable = true
		return errors.New("cuDNN does not change its stream")
	}
	return nil
}

// launch queues a kernel where it is captured, or changes its node.
func (c *capture) launch(d *Device, k *kernel, g grid) error {
	if c.changing {
		return c.change(d, k, g)
	}
	c.queued = true
	if err := d.send(k, g, d.rec.stream); err != nil || c.late == nil {
		return err
	}
	info := &d.rec.info
	d.c.fn, d.c.a[0], d.c.a[1] = d.card.drv.graphs.captureInfo, d.rec.stream, uintptr(unsafe.Pointer(&info.status))
	d.c.a[2], d.c.a[3], d.c.a[4], d.c.a[5] = 0, 0, uintptr(unsafe.Pointer(&info.nodes)), uintptr(unsafe.Pointer(&info.count))
	if err := d.result("cuStreamGetCaptureInfo", Result(d.c.do())); err != nil {
		return err
	}
	if info.count != 1 {
		return fmt.Errorf("kernel %s: the capture goes on from %d nodes", k.name, info.count)
	}
	n := lateNode{node: *(*uintptr)(pointer(info.nodes)), kernel: k, grid: g}
	if _, ok := c.late.attrs.(op.Update); ok && k.params == int(unsafe.Sizeof(updateParams{})) {
		n.params = slices.Clone(d.params[:k.params/8])
	}
	c.late.nodes = append(c.late.nodes, n)
	return nil
}

// change sets the parameters of the next node of a late call to those in d.params.
func (c *capture) change(d *Device, k *kernel, g grid) error {
	i := c.launches
	c.launches++
	if i >= len(c.late.nodes) {
		return nil // Set reports it
	}
	if was := c.late.nodes[i].kernel; was != k {
		return fmt.Errorf("it takes the kernel %s, and %s when it was recorded", k.name, was.name)
	}
	n := &d.rec.node
	*n = nodeParams{kernel: k.handle, grid: [3]uint32{uint32(g.x), uint32(max(g.y, 1)), uint32(max(g.z, 1))},
		threads: [3]uint32{uint32(g.threads), 1, 1}, shared: uint32(g.shared), args: uintptr(unsafe.Pointer(&d.args))}
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2] = d.card.drv.graphs.setKernel, c.r.exec, c.late.nodes[i].node, uintptr(unsafe.Pointer(n))
	return d.result("cuGraphExecKernelNodeSetParams", Result(d.c.do()))
}

// renumber changes a call of UpdateAll that is the same but for its numbers.
func (c *capture) renumber(d *Device, u op.Update) error {
	for i := range c.late.nodes {
		n := &c.late.nodes[i]
		if n.params == nil { // it brings a gradient into order, and knows no numbers
			c.launches++
			continue
		}
		copy(d.params[:], n.params)
		paramsOf[updateParams](d, n.kernel).numbers(u)
		if err := c.launch(d, n.kernel, n.grid); err != nil {
			return err
		}
	}
	return nil
}

// library counts a call of a library that queues something. A late call may not use
// one: its launches are not known.
func (d *Device) library(name string) error {
	c := d.rec.capture
	if d.dry() {
		return errAgain
	}
	if c == nil {
		d.count.Libraries++
		return nil
	}
	if c.late != nil {
		return fmt.Errorf("%s does it, and the numbers of what it launches cannot be changed", name)
	}
	c.queued = true
	return nil
}

// The rooms of a recording: those of an op, and the workspace of cuBLAS.
const (
	blasRoom = numRooms + iota
	numHeld
)

// heldRoom is working memory that recordings have.
type heldRoom struct {
	memory.Region
	pool  *memory.Pool
	users int
}

var heldLabel = memory.Label{DType: "workspace", Shape: "of recorded calls"}

// room returns working memory for the call in progress. It is the recording's until it
// is closed.
func (c *capture) room(which, size int) (uintptr, error) {
	if c.dry != nil {
		return noRoom, nil
	}
	d, now := c.r.d, c.r.rooms[which]
	switch {
	case size <= 0:
		return 0, nil
	case now != nil && now.pool == c.pool && size <= now.Size:
		return now.Addr, nil
	case c.changing:
		return 0, errors.New("it takes more working memory than when it was recorded")
	}
	h := d.heldBy(c, size)
	if h == nil {
		region, ok := c.pool.LendCached(size, heldLabel)
		if !ok {
			c.short = shortage{which, size}
			return 0, errShort
		}
		h = d.hold(c.pool, region)
	}
	if now != nil {
		c.moved = true
	}
	c.r.move(which, h)
	return h.Addr, nil
}

// heldBy returns the smallest room of at least size bytes that other recordings have
// and c's does not, or nil.
func (d *Device) heldBy(c *capture, size int) (best *heldRoom) {
	for _, h := range d.rec.held {
		if h.pool == c.pool && h.Size >= size && (best == nil || h.Size < best.Size) && !c.r.has(h) {
			best = h
		}
	}
	return best
}

func (r *recording) has(h *heldRoom) bool {
	for _, own := range r.rooms {
		if own == h {
			return true
		}
	}
	return false
}

// hold notes memory that was lent for recordings.
func (d *Device) hold(pool *memory.Pool, region memory.Region) *heldRoom {
	h := &heldRoom{Region: region, pool: pool}
	d.rec.held = append(d.rec.held, h)
	return h
}

// move makes h the recording's room of a kind, or none.
func (r *recording) move(which int, h *heldRoom) {
	old := r.rooms[which]
	r.rooms[which] = h
	if h != nil {
		h.users++
	}
	if old == nil {
		return
	}
	if old.users--; old.users > 0 {
		return
	}
	l := r.d.rec.held
	for i := range l {
		if l[i] == old {
			l[i], l[len(l)-1] = l[len(l)-1], nil
			r.d.rec.held = l[:len(l)-1]
			break
		}
	}
	old.pool.Return(old.Region) // what uses it next is queued behind the replays
}

// leave returns all rooms. The device's mu is held.
func (r *recording) leave() {
	for which := range r.rooms {
		r.move(which, nil)
	}
}

// makeRoom gets the room that a capture lacked, with the device let go.
func (d *Device) makeRoom(c *capture) error {
	c.r.move(c.short.room, nil) // what it had was too small
	var region memory.Region
	var err error
	if lost := d.letGo(func() { region, err = c.pool.Lend(c.short.size, heldLabel) }); lost != nil {
		return lost
	}
	if err == nil {
		c.r.move(c.short.room, d.hold(c.pool, region))
	}
	return err
}

// blasWorkspace is how much memory cuBLAS may use: what it allocates by itself
// without a workspace, so that it chooses the same algorithms.
func (d *Device) blasWorkspace() int {
	if d.card.major >= 9 {
		return 32 << 20
	}
	return 4 << 20
}

// lendBLAS lends cuBLAS a workspace of the recording: its own would become part of the
// graph as an allocation that nobody counts.
func (c *capture) lendBLAS(d *Device, b *blas) error {
	if b.lib.setWorkspace == 0 {
		return errors.New("this version of cuBLAS takes no workspace")
	}
	size := d.blasWorkspace()
	work, err := c.room(blasRoom, size)
	if err != nil || work == c.blas {
		return err
	}
	c.blas = work
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2] = b.lib.setWorkspace, b.handle, work, uintptr(size)
	return blasError("cublasSetWorkspace", int32(d.c.do()))
}
