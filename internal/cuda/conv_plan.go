//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// How cuDNN computes a convolution: what a plan depends on, the algorithms and engines that
// it may use, and the calls.

// convKey is what a plan depends on.
type convKey struct {
	id      op.ID
	attrs   op.Conv
	dtype   dtype.DType
	tf32    bool
	varies  bool   // bits need not repeat
	a, b    [4]int // shapes of the operands
	as, bs  [4]int // their strides
	last    bool   // the result lies channels last
	aligned bool   // everything begins at a multiple of dnnAlignment
}

// convPlan is a convolution that cuDNN has agreed to.
type convPlan struct {
	x, y, w, conv uintptr      // descriptors
	choices       []convChoice // best first; none if our own kernels do it
	work          int          // multiplications, while the choices are to be timed
	less          bool         // memory was short: there were more choices

	graph *dnnGraph  // of choices that are plans
	addrs [3]uintptr // what a call of one points to
}

// convChoice is one of cuDNN's algorithms, or a plan of its backend interface.
type convChoice struct {
	algorithm int32
	plan      uintptr // 0 for an algorithm
	engine    int64   // of a plan
	memory    uint64
	took      float32 // milliseconds, if it was timed
	name      string  // in the store
}

func (c convChoice) String() string {
	if c.plan != 0 {
		return fmt.Sprintf("plan of engine %d", c.engine)
	}
	return fmt.Sprintf("algorithm %d", c.algorithm)
}

// cuDNN's numbers for how it computes.
const (
	crossCorrelation = 1
	filterLast       = 1 // of a filter: its channels are last
	mathDefault      = 0 // tensor cores for half-precision types, TF32 for float32
	mathFMA          = 3 // float32 is float32
	dnnMemory        = 256 << 20
)

// convKeyOf returns what the plan of a call depends on.
func convKeyOf(c *backend.Call) convKey {
	k := convKey{id: c.Op, attrs: c.Attrs.(op.Conv), dtype: c.Out.DType, tf32: tf32.Load(), varies: varying.Load(), last: c.Out.ChannelsLast()}
	for i, v := range c.In {
		shape, strides := &k.a, &k.as
		if i == 1 {
			shape, strides = &k.b, &k.bs
		}
		copy(shape[:], v.Shape)
		copy(strides[:], v.Strides)
	}
	k.aligned = (addr(&c.In[0])|addr(&c.In[1])|addr(&c.Out))%dnnAlignment == 0
	return k
}

// plan finds how cuDNN would do a call, or that it would not.
func (n *dnn) plan(d *Device, c *backend.Call) (*convPlan, error) {
	k := convKeyOf(c)
	p := n.plans[k]
	if p == nil {
		if d.capturing() {
			return nil, n.planLater(d, c, k)
		}
		p = n.newPlan(d, c, k)
	}
	if p.work > 0 {
		if err := n.choose(d, c, p, k); err != nil {
			return nil, err
		}
		p.work = 0
		p.keepFirst()
	}
	return p, nil
}

// newPlan asks cuDNN how it would do a call.
func (n *dnn) newPlan(d *Device, c *backend.Call, k convKey) *convPlan {
	p := &convPlan{}
	n.plans[k] = p
	n.prepare(d, c, p, k.aligned)
	return p
}

// planLater does so when a capture has ended.
func (n *dnn) planLater(d *Device, c *backend.Call, k convKey) error {
	return d.again(func() error { n.newPlan(d, c, k); return nil })
}

// errUntimed is why a convolution cannot be recorded: timing runs it.
var errUntimed = errors.New("cuDNN's algorithms have not been timed for it: it must run once before")

// convRoles says which of a call's tensors is which of the forward op.
func convRoles(c *backend.Call) (x, w, y *backend.View) {
	switch c.Op {
	case op.ConvGradInput:
		return &c.Out, &c.In[1], &c.In[0]
	case op.ConvGradWeight:
		return &c.In[1], &c.Out, &c.In[0]
	}
	return &c.In[0], &c.In[1], &c.Out
}

// prepare finds the choices for a call: none for a layout that cuDNN does not know.
func (n *dnn) prepare(d *Device, c *backend.Call, p *convPlan, aligned bool) {
	x, w, y := convRoles(c)
	for _, v := range []*backend.View{x, w, y} {
		for i, s := range v.Strides {
			if s <= 0 && v.Shape[i] > 1 {
				return // it knows no broadcasts and no reversed axes
			}
		}
	}
	last := channelsLast(c)
	if !last && !w.Contiguous() || c.Out.ChannelsLast() && !last {
		return
	}
	work := multiplications(w, y)
	if last && work < worthTiming {
		if aligned {
			n.addPlans(d, c, p, tf32.Load())
			p.keepFirst()
		}
		return
	}
	// Of groups our other kernels compute a tile each, most of which is empty.
	if work < worthTiming && (c.Attrs.(op.Conv).Groups == 1 || ownFew(c)) {
		n.chooseBySize(d, c, p, aligned)
		return
	}
	n.addAlgorithms(d, c, p)
	if work < worthTiming || !timing {
		return
	}
	if aligned {
		n.addPlans(d, c, p, tf32.Load())
	}
	p.work = work
}

// addAlgorithms adds cuDNN's algorithms for a call to the choices, what it thinks best
// first.
func (n *dnn) addAlgorithms(d *Device, c *backend.Call, p *convPlan) {
	a, t, l := c.Attrs.(op.Conv), c.Out.DType, n.lib
	x, w, y := convRoles(c)
	compute := dnnTypes[dtype.Float32]
	mode, order := uintptr(mathDefault), uintptr(0)
	if channelsLast(c) {
		order = filterLast
	}
	switch {
	case t == dtype.Float64:
		compute = dnnTypes[t]
	case t == dtype.Float32 && !tf32.Load():
		mode = mathFMA
	}
	ok := n.tensor(d, t, x.Shape, x.Strides, &p.x) && n.tensor(d, t, y.Shape, y.Strides, &p.y) &&
		n.made(d, l.newFilter, &p.w) &&
		n.try(d, l.setFilter, p.w, dnnTypes[t], order, uintptr(w.Shape[0]), uintptr(w.Shape[1]), uintptr(w.Shape[2]), uintptr(w.Shape[3])) &&
		n.made(d, l.newConv, &p.conv) &&
		n.try(d, l.setConv, p.conv, uintptr(a.Pad[0]), uintptr(a.Pad[1]), uintptr(a.Stride[0]), uintptr(a.Stride[1]),
			uintptr(a.Dilation[0]), uintptr(a.Dilation[1]), crossCorrelation, compute) &&
		n.try(d, l.setGroups, p.conv, uintptr(a.Groups)) && n.try(d, l.setMath, p.conv, mode)
	if !ok {
		return
	}
	count, perf := uintptr(unsafe.Pointer(&n.count)), uintptr(unsafe.Pointer(&n.perf))
	room := uintptr(len(n.perf))
	switch c.Op {
	case op.Conv2D:
		ok = n.try(d, l.adviseForward, n.handle, p.x, p.w, p.conv, p.y, room, count, perf)
	case op.ConvGradInput:
		ok = n.try(d, l.adviseData, n.handle, p.w, p.y, p.conv, p.x, room, count, perf)
	case op.ConvGradWeight:
		ok = n.try(d, l.adviseFilter, n.handle, p.x, p.y, p.conv, p.w, room, count, perf)
	}
	if !ok {
		return
	}
	for _, a := range n.perf[:min(int(n.count), len(n.perf))] {
		if a.status == 0 && (a.deterministic == 1 || varying.Load()) && a.memory <= dnnMemory && (mode != mathFMA || a.math == mathFMA) &&
			!coarse(c.Op, t, a.algorithm, w.Shape) {
			p.choices = append(p.choices, convChoice{algorithm: a.algorithm, memory: a.memory})
		}
	}
}

// winograd is cuDNN's number of Winograd's algorithm in several kernels.
var winograd = map[op.ID]int32{op.Conv2D: 7, op.ConvGradInput: 5, op.ConvGradWeight: 5}

// coarse reports whether an algorithm is known to lose digits. Winograd's was seen to
// leave three of a float32 with kernels larger than 3×3, and four in a gradient of a
// weight. The first one for the gradient of an input was seen to be off by more than a
// rounding of float16, as if it added up in that; of bfloat16 it takes several times as
// long as our own kernels.
func coarse(id op.ID, t dtype.DType, algorithm int32, weight []int) bool {
	if id == op.ConvGradInput && algorithm == 1 && t.Size() == 2 {
		return true
	}
	return algorithm == winograd[id] && (id == op.ConvGradWeight || weight[2] != 3 || weight[3] != 3)
}

// run queues a convolution and reports whether cuDNN took it.
func (n *dnn) run(d *Device, c *backend.Call) (bool, error) {
	p, err := n.plan(d, c)
	if err != nil {
		return false, err
	}
	for len(p.choices) > 0 {
		by := p.choices[0]
		err := n.queue(d, c, p, by)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, errShort), d.capturing(): // in a capture nothing else may be tried
			return false, err
		case d.refused(err):
			p.doWithLess(by.memory)
		default:
			p.choices = nil
		}
		if len(p.choices) == 0 {
			p.keepFirst()
		}
	}
	return false, nil
}

var errDNN = errors.New("cuDNN refuses it")

// queue queues a convolution by one of its choices.
func (n *dnn) queue(d *Device, c *backend.Call, p *convPlan, by convChoice) error {
	work, err := d.workspace(int(by.memory))
	if err != nil {
		return err
	}
	if err := d.library(libDNN.Name); err != nil {
		return err
	}
	one, zero := uintptr(unsafe.Pointer(&n.one32)), uintptr(unsafe.Pointer(&n.zero32))
	if c.Out.DType == dtype.Float64 {
		one, zero = uintptr(unsafe.Pointer(&n.one64)), uintptr(unsafe.Pointer(&n.zero64))
	}
	a, b, out := addr(&c.In[0]), addr(&c.In[1]), c.Out.Block.Addr
	if by.plan != 0 {
		p.addrs = [...]uintptr{a, b, out}
		if !p.graph.execute(n.handle, by.plan, &p.addrs[0], work) {
			return errDNN
		}
		return nil
	}
	ok := false
	algorithm, memory := uintptr(by.algorithm), uintptr(by.memory)
	switch c.Op {
	case op.Conv2D:
		ok = n.try(d, n.lib.forward, n.handle, one, p.x, a, p.w, b, p.conv, algorithm, work, memory, zero, p.y, out)
	case op.ConvGradInput:
		ok = n.try(d, n.lib.backwardData, n.handle, one, p.w, b, p.y, a, p.conv, algorithm, work, memory, zero, p.x, out)
	case op.ConvGradWeight:
		ok = n.try(d, n.lib.backwardFilter, n.handle, one, p.x, b, p.y, a, p.conv, algorithm, work, memory, zero, p.w, out)
	}
	if !ok {
		return errDNN
	}
	return nil
}
