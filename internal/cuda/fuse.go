//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
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
// parameters. The driver compiles them when they are used first, and keeps what it has
// made on disk. What cannot be compiled runs op by op: the results are the same.

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

// bodyOf returns the name of an op's body; "" is that of a copy.
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
	kernel  *kernel // nil: it could not be compiled
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
	f, err := d.fusedKernel(c, e, all)
	if err != nil {
		return err
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

// fusedKernel returns the kernel for the call, which it compiles if need be.
func (d *Device) fusedKernel(c *backend.Call, e *op.Expression, all *fusedKernels) (*fusedKernel, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	modes, possible := fusedModes(c, e, all.width)
	if !possible {
		return &fusedKernel{}, nil
	}
	for _, f := range all.list {
		if f.card == d.card && f.modes == modes && f.fits(c) {
			return f, nil
		}
	}
	k := fusedText(c, e, modes, all.width)
	f := &fusedKernel{card: d.card, modes: modes, shape: k.Shape, width: all.width}
	for i := range k.Inputs {
		f.strides = append(f.strides, k.Inputs[i].Strides)
	}
	text, name, err := scalars().Render(k)
	if err == nil {
		f.kernel, err = d.kernelOf(name, func() (string, int, error) { return text, k.ParamBytes(), nil })
	}
	if err != nil && (d.capturing() || isExhausted(err) || d.card.lost.Load() != nil) {
		return nil, err
	}
	if err != nil {
		fuseErrors.Lock()
		fuseErrors.last = err
		fuseErrors.Unlock()
	}
	all.list = append(all.list, f)
	return f, nil
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

func fusedResult(c *backend.Call, i int) *backend.View {
	if i == 0 {
		return &c.Out
	}
	return &c.More[i-1]
}

// fits reports whether the kernel's strides are those of the call. The same expression
// nearly always comes with the same.
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

// runSingly queues the ops of an expression one after the other.
func (d *Device) runSingly(c *backend.Call, e *op.Expression) error {
	n := c.Out.Elements()
	size := 0
	for i := range e.Nodes {
		size += ceil(n*e.Nodes[i].DType.Size(), 256) * 256
	}
	room, err := d.workspace(size)
	if err != nil {
		return err
	}
	made := make([]backend.View, len(e.Nodes))
	for i := range e.Nodes {
		node := &e.Nodes[i]
		made[i] = backend.View{Block: &memory.Block{Region: memory.Region{Addr: room, Size: n * node.DType.Size()}}, Shape: c.Out.Shape, Strides: op.Strides(c.Out.Shape), DType: node.DType}
		room += uintptr(ceil(n*node.DType.Size(), 256) * 256)
	}
	for r, i := range e.Results {
		made[i].Block = fusedResult(c, r).Block
	}
	for i := range e.Nodes {
		node := &e.Nodes[i]
		one := backend.Call{Op: node.Op, Attrs: node.Attrs, Out: made[i]}
		for _, o := range node.In {
			if o.Node {
				one.In = append(one.In, made[o.Index])
			} else {
				one.In = append(one.In, c.In[o.Index])
			}
		}
		if err := runners[node.Op](d, &one); err != nil {
			return err
		}
	}
	return nil
}
