//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// A recording is a CUDA graph. The calls are queued by the same code as always, on a
// stream that captures: see capture.go. The graph is one chain of kernels, and replays
// are queued on the device's stream, so that all that is said of the order of ops holds
// for it as well: working memory may be shared by recordings, because what comes later in
// the stream has it later, and counters are 0 between launches.

// graphFunctions are the driver's functions for graphs, 0 where it is too old.
type graphFunctions struct {
	beginCapture, endCapture, captureInfo  uintptr
	instantiate, upload, launch, setKernel uintptr
	destroy, destroyExec                   uintptr
}

func (g *graphFunctions) all() map[string]*uintptr {
	return map[string]*uintptr{
		"cuStreamBeginCapture_v2": &g.beginCapture, "cuStreamEndCapture": &g.endCapture, "cuStreamGetCaptureInfo_v2": &g.captureInfo,
		"cuGraphInstantiateWithFlags": &g.instantiate, "cuGraphUpload": &g.upload, "cuGraphLaunch": &g.launch, "cuGraphExecKernelNodeSetParams": &g.setKernel,
		"cuGraphDestroy": &g.destroy, "cuGraphExecDestroy": &g.destroyExec,
	}
}

func (g *graphFunctions) complete() bool {
	for _, p := range g.all() {
		if *p == 0 {
			return false
		}
	}
	return true
}

// recording is a graph that can be launched. Its fields are guarded by the device's mu.
type recording struct {
	d      *Device
	exec   uintptr
	graph  uintptr            // what exec was made of, while late calls refer to its nodes
	calls  int                // how many there are
	last   op.ID              // of the last of them
	late   []*lateCall        // by call; nil for others
	places []span             // what the calls read and write, in the order of their addresses
	rooms  [numHeld]*heldRoom // working memory
	empty  bool               // the calls do nothing, and there is no graph
	broken error              // why it cannot be replayed any more
}

// lateCall is what can be changed in a recorded call: the nodes of its kernels.
type lateCall struct {
	attrs op.Attrs // as they were recorded
	nodes []lateNode
}

// lateNode is a launch in a graph.
type lateNode struct {
	node   uintptr
	kernel *kernel
	grid   grid
	params []uint64 // of a kernel with a list, which takes longer to make than to keep
}

var errClosed = errors.New("the recording is closed")

// RecordCalls returns the calls as one CUDA graph. The error wraps op.ErrUnsupported
// where this device records nothing.
func (d *Device) RecordCalls(calls []*backend.Call, late []bool) (backend.Recording, error) {
	switch {
	case blocking:
		return nil, fmt.Errorf("LOCUS_CUDA_BLOCKING=1 waits after each op, which calls that are recorded cannot do: %w", op.ErrUnsupported)
	case !d.card.drv.graphs.complete():
		return nil, fmt.Errorf("the driver supports CUDA %s, and recording calls needs 11.4: %w", cudaVersion(d.card.drv.version), op.ErrUnsupported)
	case late != nil && len(late) != len(calls):
		return nil, fmt.Errorf("%d calls with %d marks of late ones", len(calls), len(late))
	}
	r := &recording{d: d, calls: len(calls), late: make([]*lateCall, len(calls))}
	for i, c := range calls {
		if d.Detours(c) {
			return nil, fmt.Errorf("%s is computed in main memory: %w", c.Op, op.ErrUnsupported)
		}
		if runners[c.Op] == nil {
			return nil, fmt.Errorf("%s of %s on %s: %w", c.Op, c.Out.DType, d.name, op.ErrUnsupported)
		}
		if late != nil && late[i] {
			r.late[i] = &lateCall{}
		}
		r.last = c.Op
	}
	r.places = placesOf(calls)
	if err := d.begin(); err != nil {
		return nil, err
	}
	var err error
	if n := d.compiling(calls); n > 0 {
		err = fmt.Errorf("the driver compiles %d fused kernels: %w", n, backend.ErrLater)
	} else {
		err = d.recordAll(r, calls)
	}
	if err != nil {
		r.leave()
	}
	d.end()
	if err != nil {
		return nil, err
	}
	return r, nil
}

// placesOf returns the memory of all blocks that calls use. It is the memory that counts:
// what is copied there before a replay may belong to another block by then.
func placesOf(calls []*backend.Call) (places []span) {
	add := func(views ...backend.View) {
		for i := range views {
			if b := views[i].Block; b != nil {
				places = append(places, span{b.Addr, b.Addr + uintptr(b.Size)})
			}
		}
	}
	for _, c := range calls {
		add(c.In...)
		add(c.Out)
		add(c.More...)
	}
	slices.SortFunc(places, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	n := 0
	for _, p := range places { // those that touch become one
		if n > 0 && p.from <= places[n-1].to {
			places[n-1].to = max(places[n-1].to, p.to)
			continue
		}
		places[n] = p
		n++
	}
	return slices.Clip(places[:n])
}

// recordAll captures the calls until nothing is missing, and makes the graph ready to
// launch. Between begin and end.
func (d *Device) recordAll(r *recording, calls []*backend.Call) error {
	// What a capture finds missing is made, and then it starts over: rarely at all,
	// because the calls have run before.
	pressed := 0
	for range 64 + 8*len(calls) {
		c := &capture{r: r}
		graph, err := d.captureAll(c, calls)
		if err == nil && !c.moved && c.queued {
			if err = d.instantiate(r, graph); err == nil {
				return nil
			}
			c.whole = true
		} else if err == nil { // the next one finds the rooms as large as they must be
			d.c.fn, d.c.a[0] = d.card.drv.graphs.destroy, graph
			err = d.result("cuGraphDestroy", Result(d.c.do()))
			if r.empty = err == nil && !c.queued; r.empty {
				return nil
			}
		}
		switch {
		case errors.Is(err, errAgain):
			err = c.missing()
		case errors.Is(err, errShort):
			err = d.makeRoom(c)
		}
		if isExhausted(err) && !isRefusal(err) && c.pool != nil { // the driver, or a library, has found no room for itself
			relieved := false
			if lost := d.letGo(func() { relieved = c.pool.Relieve(pressed) }); lost != nil {
				err = lost
			} else if relieved {
				err = nil
			}
			pressed++
		}
		if err != nil {
			return c.named(calls, err)
		}
	}
	return errors.New("the calls cannot be recorded: something that they need stays missing")
}

// instantiate makes a graph ready to launch, with all that it needs on the card, so
// that a replay does not fail for lack of memory.
func (d *Device) instantiate(r *recording, graph uintptr) error {
	drv := d.card.drv
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2] = drv.graphs.instantiate, uintptr(unsafe.Pointer(&d.word)), graph, 0
	err := d.result("cuGraphInstantiateWithFlags", Result(d.c.do()))
	if err == nil {
		exec := d.word
		d.c.fn, d.c.a[0], d.c.a[1] = drv.graphs.upload, exec, d.stream
		if err = d.result("cuGraphUpload", Result(d.c.do())); err != nil {
			d.c.fn, d.c.a[0] = drv.graphs.destroyExec, exec
			d.c.do() // there is an error already
		} else {
			r.exec = exec
		}
	}
	if err == nil {
		for _, l := range r.late {
			if l != nil {
				r.graph = graph
				return nil
			}
		}
	}
	d.c.fn, d.c.a[0] = drv.graphs.destroy, graph
	if e := d.result("cuGraphDestroy", Result(d.c.do())); err == nil {
		err = e
	}
	return err
}

// usable returns why the recording cannot be used, or nil.
func (r *recording) usable() error {
	switch {
	case r.broken != nil:
		return r.broken
	case r.exec == 0 && !r.empty:
		return errClosed
	}
	return nil
}

// Set changes the attributes of a late call. The code that queues the call runs, and what
// it would launch becomes the parameters of the call's nodes.
func (r *recording) Set(i int, c *backend.Call) error {
	d := r.d
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	if err := r.usable(); err != nil {
		return err
	}
	if i < 0 || i >= len(r.late) || r.late[i] == nil {
		return fmt.Errorf("call %d of %d was not recorded as one that can be changed", i, r.calls)
	}
	if c.Out.Elements() == 0 {
		return nil
	}
	change := &d.rec.change
	*change = capture{r: r, late: r.late[i], changing: true, pool: c.Out.Block.Pool()}
	d.divert(change)
	var err error
	if c.Op == op.UpdateAll && onlyNumbers(c.Attrs, r.late[i].attrs) {
		err = change.renumber(d, c.Attrs.(op.Update))
	} else {
		err = runners[c.Op](d, c)
	}
	d.divert(nil)
	if n := len(r.late[i].nodes); err == nil && change.launches != n {
		err = fmt.Errorf("it takes %d launches, and %d when it was recorded", change.launches, n)
	}
	if err != nil { // a part of it may have changed
		r.broken = fmt.Errorf("call %d of a recording, %s, cannot be changed: %w", i, c.Op, err)
	}
	return r.broken
}

// Replay queues the graph.
func (r *recording) Replay() error {
	d := r.d
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	if err := r.usable(); err != nil {
		return err
	}
	if d.behind != 0 {
		if err := d.arrivedAt(r.places); err != nil {
			return err
		}
	}
	if r.empty {
		return nil
	}
	d.last, d.among = r.last, r.calls
	d.count.Graphs++
	d.c.fn, d.c.a[0], d.c.a[1] = d.card.drv.graphs.launch, r.exec, d.stream
	return d.result("cuGraphLaunch", Result(d.c.do()))
}

// Close returns the working memory, behind what is queued, and destroys the graph
// when the device is done with it.
func (r *recording) Close() {
	d := r.d
	d.mu.Lock()
	exec, graph := r.exec, r.graph
	r.exec, r.graph, r.places, r.late, r.empty = 0, 0, nil, nil, false
	r.leave()
	d.mu.Unlock()
	if exec == 0 {
		return
	}
	if d.begin() != nil {
		return // a lost device has nothing left to destroy
	}
	e, err := d.recordQuiet(d.stream)
	d.end()
	if err != nil {
		return
	}
	d.releaseAfter(e, func() { // what fails here is lost, as every later call says
		drv := d.card.drv
		_ = d.wait("cuGraphExecDestroy", drv.graphs.destroyExec, exec)
		if graph != 0 {
			_ = d.wait("cuGraphDestroy", drv.graphs.destroy, graph)
		}
	})
}
