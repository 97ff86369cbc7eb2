//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"os"
	"slices"
	"sync"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cuda/kernels"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/ptx"
)

// Expressions of elementwise ops run as kernels that package ptx writes, one for each
// expression and layout of its operands; constants and the number of elements are
// parameters. The driver compiles them, and until it has, or if it cannot, an expression
// runs op by op: the results are the same to the bit.

func init() { runners[op.FusedOps] = (*Device).runFused }

var _ backend.Fuser = (*Device)(nil)

// scalars returns the ops' bodies.
var scalars = sync.OnceValue(func() *ptx.Library {
	text, err := kernels.PTX("scalars")
	if err == nil {
		var l *ptx.Library
		if l, err = ptx.Parse(text); err == nil {
			return l
		}
	}
	panic("cuda: kernels/scalars: " + err.Error()) // it is part of the program
})

// Fuses reports whether there is a body of the op.
func (*Device) Fuses(id op.ID, t, out dtype.DType) bool {
	switch op.Get(id).Family {
	case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		name := bodyOf(id, t, out)
		return name == "" || scalars().Has(name)
	}
	return false
}

// bodyOf returns the name of an op's body; "" stands for a copy.
func bodyOf(id op.ID, t, out dtype.DType) string {
	switch id {
	case op.Copy:
		return ""
	case op.CastTo:
		return "cast_" + typeName(t) + "_" + typeName(out)
	case op.Where:
		return "where_" + sizeName(t)
	}
	return id.String() + "_" + typeName(t)
}

// fusedKernel is an expression as a kernel for operands that lie in a certain way.
type fusedKernel struct {
	card    *card
	modes   [op.FusedInputs]ptx.Mode
	shape   []int
	strides [][]int // of inputs whose mode needs them
	width   int
	kernel  *kernel // nil: it is not compiled yet, or cannot be
	name    string  // of the kernel
	text    string
	params  int
	job     *job // that makes the kernel; nil when it is over
}

// fusedKernels are the kernels of an expression. Guarded by mu.
type fusedKernels struct {
	mu    sync.Mutex
	width int
	list  []*fusedKernel
}

type fusedKey struct{}

func fusedKernelsOf(e *op.Expression) *fusedKernels {
	if k, ok := e.Prepared.Load(fusedKey{}); ok {
		return k.(*fusedKernels)
	}
	k, _ := e.Prepared.LoadOrStore(fusedKey{}, &fusedKernels{width: fusedWidth(e)})
	return k.(*fusedKernels)
}

// fusedLines bounds the length of a kernel's text, which all elements of a thread have
// their own part of: the driver takes some microseconds per line.
const fusedLines = 2000

// fusedWidth returns how many elements a thread makes: 16 bytes of the widest type,
// fewer where the ops are long.
func fusedWidth(e *op.Expression) int {
	w, lines := 8, 0
	for _, t := range e.Inputs {
		w = min(w, lanes(t))
	}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		t := e.KernelType(i)
		w = min(w, lanes(n.DType), width(n.Op, t, n.DType))
		lines += scalars().Lines(bodyOf(n.Op, t, n.DType)) + 4
	}
	for w > 1 && w*lines > fusedLines {
		w /= 2
	}
	return w
}

// runFused queues an expression's kernel.
func (d *Device) runFused(c *backend.Call) error {
	e := c.Attrs.(*op.Expression)
	all := fusedKernelsOf(e)
	f, err := d.fusedKernel(c, e, all, false)
	if err != nil {
		return err
	}
	if f.kernel == nil && f.job != nil {
		if d.dry() && (fusedWait || f.job.ready()) {
			return nil
		}
		if _, size := singly(e, c.Out.Elements()); size <= maxSingly {
			if err := d.runSingly(c, e); !d.refused(err) {
				return err
			}
		}
		// The memory that single ops would need costs more than waiting for the
		// kernel.
		if f, err = d.fusedKernel(c, e, all, true); err != nil {
			return err
		}
	}
	if f.kernel == nil {
		return d.runSingly(c, e)
	}
	fusedParams(d.params[:], c)
	return d.launch(f.kernel, grid{x: ceil(c.Out.Elements(), ptx.Threads*f.width), threads: ptx.Threads})
}

// fusedParams writes the parameter that package ptx describes.
func fusedParams(p []uint64, c *backend.Call) {
	p[0] = uint64(c.Out.Elements())
	p[1] = uint64(c.Out.Block.Addr)
	at := 2
	for i := range c.More {
		p[at] = uint64(c.More[i].Block.Addr)
		at++
	}
	for i := range c.In {
		if v := &c.In[i]; v.Const() {
			p[at] = v.Bits
		} else {
			p[at] = uint64(addr(v))
		}
		at++
	}
}

// maxSingly is how much memory the values between the ops of an expression may take
// while its kernel is being compiled. Only tests change it.
var maxSingly = 256 << 20

// fusedWait is whether an expression waits for its kernel: for tests, and for those who
// want the same launches from the first step on.
var fusedWait = os.Getenv("LOCUS_FUSE") == "wait"

// fusedKernel returns the kernel for the call, which may be on its way still, unless the
// caller waits for it.
func (d *Device) fusedKernel(c *backend.Call, e *op.Expression, all *fusedKernels, wait bool) (*fusedKernel, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	modes, possible := fusedModes(c, e, all.width)
	if !possible {
		return &fusedKernel{}, nil
	}
	for _, f := range all.list {
		if f.card == d.card && f.modes == modes && f.fits(c) {
			return f, d.settle(f, wait)
		}
	}
	k := fusedText(c, e, modes, all.width)
	f := &fusedKernel{card: d.card, modes: modes, shape: k.Shape, width: all.width}
	for i := range k.Inputs {
		f.strides = append(f.strides, k.Inputs[i].Strides)
	}
	text, name, err := scalars().Render(k)
	if err != nil {
		noteFuseError(err)
	} else {
		f.name, f.text, f.params = name, text, k.ParamBytes()
		if d.dry() && d.card.known(name, text) == nil {
			d.rec.capture.want(wanted{name, text, f.params, true})
			f.job = &job{done: make(chan struct{})}
			return f, nil
		}
		f.job = d.card.compile(name, text)
	}
	all.list = append(all.list, f)
	return f, d.settle(f, wait)
}

// settle loads the kernel if it is compiled, or if somebody waits for it.
func (d *Device) settle(f *fusedKernel, wait bool) error {
	if f.job == nil || d.dry() || !wait && !fusedWait && !f.job.ready() {
		return nil
	}
	k, err := d.kernelOf(f.name, func() (string, int, error) { return f.text, f.params, nil })
	if err != nil && (d.capturing() || isExhausted(err) || d.card.lost.Load() != nil) {
		return err
	}
	if err != nil {
		noteFuseError(err)
	}
	f.kernel, f.job, f.text = k, nil, ""
	return nil
}

// compiling returns how many expressions among calls have kernels that are not compiled
// yet. Between begin and end.
func (d *Device) compiling(calls []*backend.Call) (n int) {
	for _, c := range calls {
		if c.Op != op.FusedOps || c.Out.Elements() == 0 {
			continue
		}
		e := c.Attrs.(*op.Expression)
		f, err := d.fusedKernel(c, e, fusedKernelsOf(e), false)
		if err == nil && f.job != nil {
			n++
		}
	}
	return n
}

// fusedModes says how a kernel that makes w elements per thread finds the operands of a
// call. It reports false where no kernel can.
func fusedModes(c *backend.Call, e *op.Expression, w int) (modes [op.FusedInputs]ptx.Mode, possible bool) {
	for i := range c.In {
		modes[i] = modeOf(&c.In[i], w)
		if modes[i] >= ptx.Row && c.Out.Elements() >= 1<<31 {
			return modes, false
		}
	}
	for r, n := range e.Results {
		if fusedResult(c, r).Block.Addr%uintptr(w*e.Nodes[n].DType.Size()) != 0 {
			return modes, false
		}
	}
	return modes, true
}

// fusedText describes the kernel of a call.
func fusedText(c *backend.Call, e *op.Expression, modes [op.FusedInputs]ptx.Mode, w int) *ptx.Kernel {
	k := &ptx.Kernel{Width: w, Shape: slices.Clone(c.Out.Shape), Results: e.Results}
	for i := range c.In {
		in := ptx.Input{Mode: modes[i], Size: c.In[i].DType.Size()}
		if modes[i] >= ptx.Row {
			in.Strides = slices.Clone(c.In[i].Strides)
		}
		k.Inputs = append(k.Inputs, in)
	}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		node := ptx.Node{Body: bodyOf(n.Op, e.KernelType(i), n.DType), Size: n.DType.Size()}
		for _, o := range n.In {
			node.In = append(node.In, ptx.Operand(o))
		}
		k.Nodes = append(k.Nodes, node)
	}
	return k
}

// fuseErrors has why an expression could not be compiled, for tests.
var fuseErrors struct {
	sync.Mutex
	last error
}

func noteFuseError(err error) {
	fuseErrors.Lock()
	defer fuseErrors.Unlock()
	fuseErrors.last = err
}

func fusedResult(c *backend.Call, i int) *backend.View {
	if i == 0 {
		return &c.Out
	}
	return &c.More[i-1]
}

// fits reports whether the kernel's strides are the call's. An expression nearly
// always comes with the same strides.
func (f *fusedKernel) fits(c *backend.Call) bool {
	for i, s := range f.strides {
		if s != nil && (!slices.Equal(s, c.In[i].Strides) || !slices.Equal(f.shape, c.Out.Shape)) {
			return false
		}
	}
	return true
}

// modeOf says how threads that make w elements each find those of an operand.
func modeOf(v *backend.View, w int) ptx.Mode {
	if v.Const() {
		return ptx.Constant
	}
	size := v.DType.Size()
	aligned := addr(v)%uintptr(w*size) == 0
	if v.Contiguous() {
		if aligned {
			return ptx.Wide
		}
		return ptx.Each
	}
	uniform := true
	inner, stride := 1, 0 // of the last axis, with those that lie in one with it
	outer := false        // that axis has ended
	for i := len(v.Shape) - 1; i >= 0; i-- {
		n, s := v.Shape[i], v.Strides[i]
		if n == 1 {
			continue
		}
		uniform = uniform && s == 0
		switch {
		case inner == 1 && !outer:
			inner, stride = n, s
		case !outer && s == inner*stride:
			inner *= n
		default:
			outer = true
			aligned = aligned && s%w == 0
		}
	}
	switch {
	case uniform:
		return ptx.Uniform
	case inner%w != 0:
		return ptx.Scattered
	case stride == 0:
		return ptx.Splat
	case stride == 1 && aligned:
		return ptx.Row
	}
	return ptx.Scattered
}

// singly returns where the values between the ops of an expression over n elements lie,
// by node, and how much room they take: a value that nobody needs any more makes room
// for the next. Results have memory of their own.
func singly(e *op.Expression, n int) (at []int, size int) {
	type slot struct{ at, size, user int } // the user: a node, or -1
	var slots []slot
	last := make([]int, len(e.Nodes)) // the node that reads it last
	for i := range e.Nodes {
		last[i] = i
		for _, o := range e.Nodes[i].In {
			if o.Node {
				last[o.Index] = i
			}
		}
	}
	at = make([]int, len(e.Nodes))
	for i := range e.Nodes {
		if !slices.Contains(e.Results, i) {
			need, best := ceil(n*e.Nodes[i].DType.Size(), 256)*256, -1
			for s := range slots {
				if slots[s].user < 0 && slots[s].size >= need && (best < 0 || cmp.Less(slots[s].size, slots[best].size)) {
					best = s
				}
			}
			if best < 0 {
				best = len(slots)
				slots = append(slots, slot{at: size, size: need})
				size += need
			}
			slots[best].user = i
			at[i] = slots[best].at
		}
		for s := range slots {
			if u := slots[s].user; u >= 0 && last[u] <= i {
				slots[s].user = -1
			}
		}
	}
	return at, size
}

// runSingly queues the ops of an expression one after the other.
func (d *Device) runSingly(c *backend.Call, e *op.Expression) error {
	n := c.Out.Elements()
	at, size := singly(e, n)
	room, err := d.statespace(size)
	if err != nil {
		return err
	}
	made := make([]backend.View, len(e.Nodes))
	for i := range e.Nodes {
		t := e.Nodes[i].DType
		made[i] = backend.View{Block: &memory.Block{Region: memory.Region{Addr: room + uintptr(at[i]), Size: n * t.Size()}}, Shape: c.Out.Shape, Strides: op.Strides(c.Out.Shape), DType: t}
	}
	for r, i := range e.Results {
		made[i].Block = fusedResult(c, r).Block
	}
	calls := make([]*backend.Call, len(e.Nodes))
	for i := range e.Nodes {
		node := &e.Nodes[i]
		calls[i] = &backend.Call{Op: node.Op, Attrs: node.Attrs, Out: made[i]}
		for _, o := range node.In {
			if o.Node {
				calls[i].In = append(calls[i].In, made[o.Index])
			} else {
				calls[i].In = append(calls[i].In, c.In[o.Index])
			}
		}
	}
	if err := d.preload(calls...); err != nil {
		return err
	}
	for _, one := range calls {
		if err := runners[one.Op](d, one); err != nil {
			return err
		}
	}
	return nil
}
