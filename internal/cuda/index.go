//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.Gather] = (*Device).runGather
	runners[op.Take] = (*Device).runTake
	runners[op.ScatterAdd] = (*Device).runScatterAdd
	runners[op.IndexAdd] = (*Device).runIndexAdd
	runners[op.Concat] = (*Device).runConcat
	runners[op.Padded] = (*Device).runPad
	runners[op.CumSum] = (*Device).runCumSum
}

// The parameters of kernels/index.cu.
type (
	gatherParams struct {
		out, x, index, flag uintptr
		n                   uint64
		axis, limit         int64
		op, wide            int32
		idx                 idx
	}
	moveParams struct {
		out, in uintptr
		n       uint64
		idx     idx
	}
	scatterParams struct {
		out, src, index, order, flag uintptr
		lines, length, inner         uint64
		axis, limit                  int64
		indexStep, srcStep           int64
		op, wide                     int32
		line, cell                   idx
	}
	scanParams struct {
		out, in         uintptr
		lines, length   uint64
		inStep, outStep int64
		reverse, _      int32
		line            idx
	}
)

func wideIndex(t dtype.DType) int32 {
	if t == dtype.Int64 {
		return 1
	}
	return 0
}

func (d *Device) runGather(c *backend.Call) error {
	x, index, axis := &c.In[0], &c.In[1], c.Attrs.(op.Axis).Axis
	p := gatherParams{out: c.Out.Block.Addr, x: addr(x), index: addr(index), flag: d.flagDev, op: int32(c.Op),
		axis: int64(x.Strides[axis]), limit: int64(x.Shape[axis]), wide: wideIndex(index.DType)}
	for i := len(index.Shape) - 1; i >= 0; i-- {
		s := [3]int{index.Strides[i], x.Strides[i]}
		if i == axis {
			s[1] = 0
		}
		p.idx.axis(index.Shape[i], s)
	}
	return d.gather(&p, x.DType, c.Out.Elements())
}

func (d *Device) runTake(c *backend.Call) error {
	x, index, axis := &c.In[0], &c.In[1], c.Attrs.(op.Axis).Axis
	p := gatherParams{out: c.Out.Block.Addr, x: addr(x), index: addr(index), flag: d.flagDev, op: int32(c.Op),
		axis: int64(x.Strides[axis]), limit: int64(x.Shape[axis]), wide: wideIndex(index.DType)}
	for i := len(x.Shape) - 1; i > axis; i-- {
		p.idx.axis(x.Shape[i], [3]int{0, x.Strides[i]})
	}
	for i := len(index.Shape) - 1; i >= 0; i-- {
		p.idx.axis(index.Shape[i], [3]int{index.Strides[i], 0})
	}
	for i := axis - 1; i >= 0; i-- {
		p.idx.axis(x.Shape[i], [3]int{0, x.Strides[i]})
	}
	return d.gather(&p, x.DType, c.Out.Elements())
}

func (d *Device) gather(p *gatherParams, t dtype.DType, n int) error {
	name := sizeName(t)
	// Rows that are contiguous in x move 16 bytes at a time.
	if v := 16 / t.Size(); p.idx.nd > 0 && p.idx.stride[0][0] == 0 && p.idx.stride[1][0] == 1 && p.x%16 == 0 && p.axis%int64(v) == 0 && p.idx.widen(v, 1) {
		name, n = "u128", n/v
		p.axis /= int64(v)
	}
	p.n = uint64(n)
	p.idx.close(n)
	return runKernel(d, "index", "gather_"+name, p, ceil(n, blockThreads), 1, 1, blockThreads, 0)
}

// widen counts in units of v elements, if the innermost axis of the given
// operands is contiguous and everything is a multiple of v.
func (x *idx) widen(v int, operands ...int) bool {
	if x.nd == 0 || int(x.size[0])%v != 0 {
		return false
	}
	for _, k := range operands {
		if x.stride[k][0] != 1 {
			return false
		}
		for i := int32(1); i < x.nd; i++ {
			if x.stride[k][i]%int64(v) != 0 {
				return false
			}
		}
	}
	x.size[0] /= uint32(v)
	for _, k := range operands {
		for i := int32(1); i < x.nd; i++ {
			x.stride[k][i] /= int64(v)
		}
	}
	return true
}

// move queues a copy of a view to memory with other strides, in elements.
func (d *Device) move(v *backend.View, to uintptr, strides []int) error {
	n := v.Elements()
	if n == 0 {
		return nil
	}
	p := moveParams{out: to, in: addr(v)}
	for i := len(v.Shape) - 1; i >= 0; i-- {
		p.idx.axis(v.Shape[i], [3]int{strides[i], v.Strides[i]})
	}
	name := sizeName(v.DType)
	if w := 16 / v.DType.Size(); p.in%16 == 0 && p.out%16 == 0 && p.idx.widen(w, 0, 1) {
		name, n = "u128", n/w
	}
	p.n = uint64(n)
	p.idx.close(n)
	return runKernel(d, "index", "move_"+name, &p, ceil(n, blockThreads), 1, 1, blockThreads, 0)
}

func (d *Device) runConcat(c *backend.Call) error {
	axis := c.Attrs.(op.Axis).Axis
	out := c.Out.Block.Addr
	for i := range c.In {
		if err := d.move(&c.In[i], out, c.Out.Strides); err != nil {
			return err
		}
		out += uintptr(c.In[i].Shape[axis] * c.Out.Strides[axis] * c.Out.DType.Size())
	}
	return nil
}

func (d *Device) runPad(c *backend.Call) error {
	a, t := c.Attrs.(op.Pad), c.Out.DType
	value := int64(a.Value)
	if t == dtype.Bool && a.Value != 0 {
		value = 1
	}
	if err := d.fill(c.Out.Block.Addr, t, valueBits(t, a.Value, value), c.Out.Elements()); err != nil {
		return err
	}
	out, strides := c.Out.Block.Addr, make([]int, len(c.Out.Shape))
	for i, s := range c.Out.Strides {
		strides[i] = s * (1 + a.Interior.D[i])
		out += uintptr(a.Low.D[i] * s * t.Size())
	}
	return d.move(&c.In[0], out, strides)
}

func (d *Device) runScatterAdd(c *backend.Call) error {
	x, index, src, axis := &c.In[0], &c.In[1], &c.In[2], c.Attrs.(op.Axis).Axis
	p := scatterParams{length: uint64(index.Shape[axis]), inner: 1, axis: int64(c.Out.Strides[axis]), limit: int64(x.Shape[axis]),
		indexStep: int64(index.Strides[axis]), srcStep: int64(src.Strides[axis])}
	lines := 1
	for i := len(index.Shape) - 1; i >= 0; i-- {
		if i != axis {
			lines *= index.Shape[i]
			p.line.axis(index.Shape[i], [3]int{index.Strides[i], src.Strides[i], c.Out.Strides[i]})
		}
	}
	p.line.close(lines)
	p.lines = uint64(lines)
	return d.scatter(c, &p)
}

// runIndexAdd treats the index as one line, each of whose positions adds a
// slice of src. An index of several axes lies in src as it does contiguously, so
// it is enough to know src's stride where its own axes merge into one.
func (d *Device) runIndexAdd(c *backend.Call) error {
	x, index, src, axis := &c.In[0], c.In[1], c.In[2], c.Attrs.(op.Axis).Axis
	r := len(index.Shape)
	merged := indexAxes(rangeOf(0, r), &index)
	srcAxes := indexAxes(rangeOf(axis, axis+r), &src)
	need, room := 0, 0
	if merged.nd > 1 {
		need += (index.Elements()*index.DType.Size() + 255) &^ 255
	}
	if srcAxes.nd > 1 {
		room = need
		need += src.Elements() * src.DType.Size()
	}
	if need > 0 { // rare: an index or source that is a view with gaps
		work, err := d.copyspace(need)
		if err != nil {
			return err
		}
		if merged.nd > 1 {
			if index, err = d.contiguous(&index, work); err != nil {
				return err
			}
		}
		if srcAxes.nd > 1 {
			if src, err = d.contiguous(&src, work+uintptr(room)); err != nil {
				return err
			}
		}
	}
	p := scatterParams{lines: 1, length: uint64(index.Elements()), axis: int64(c.Out.Strides[axis]), limit: int64(x.Shape[axis]), inner: 1,
		indexStep: stepOf(&index, 0, r), srcStep: stepOf(&src, axis, axis+r)}
	inner := 1
	for i := len(x.Shape) - 1; i >= 0; i-- {
		if i == axis {
			continue
		}
		from := i // the same axis in src
		if i > axis {
			from = i + r - 1
		}
		p.cell.axis(x.Shape[i], [3]int{src.Strides[from], c.Out.Strides[i]})
		inner *= x.Shape[i]
	}
	p.cell.close(inner)
	p.inner = uint64(inner)
	call := &backend.Call{Op: c.Op, In: []backend.View{*x, index, src}, Out: c.Out}
	return d.scatter(call, &p)
}

func rangeOf(from, to int) []int {
	l := make([]int, 0, op.MaxRank)
	for i := from; i < to; i++ {
		l = append(l, i)
	}
	return l
}

// stepOf is the stride of axes that merge into one.
func stepOf(v *backend.View, from, to int) int64 {
	for i := to - 1; i >= from; i-- {
		if v.Shape[i] != 1 {
			return int64(v.Strides[i])
		}
	}
	return 0
}

// scatter queues out = x with src added where index says. c's operands are x,
// index and src.
func (d *Device) scatter(c *backend.Call, p *scatterParams) error {
	x, index, src := &c.In[0], &c.In[1], &c.In[2]
	if err := d.copyView(x, c.Out.Block.Addr); err != nil {
		return err
	}
	n := int(p.lines * p.length)
	if n == 0 {
		return nil
	}
	keys := keysParams{in: addr(index), lines: p.lines, length: p.length, step: p.indexStep}
	keys.line = p.line
	order, err := d.sortKeys(&keys, index.DType)
	if err != nil {
		return err
	}
	p.out, p.src, p.index, p.order, p.flag = c.Out.Block.Addr, addr(src), addr(index), order, d.flagDev
	p.op, p.wide = int32(c.Op), wideIndex(index.DType)
	return runKernel(d, "index", "scatter_add_"+typeName(x.DType), p, ceil(n*int(p.inner), blockThreads), 1, 1, blockThreads, 0)
}

func (d *Device) runCumSum(c *backend.Call) error {
	a, x := c.Attrs.(op.Axis), &c.In[0]
	p := scanParams{out: c.Out.Block.Addr, in: addr(x), length: uint64(x.Shape[a.Axis]), inStep: int64(x.Strides[a.Axis]), outStep: int64(c.Out.Strides[a.Axis])}
	if a.Reverse {
		p.reverse = 1
	}
	lines := 1
	for i := len(x.Shape) - 1; i >= 0; i-- {
		if i != a.Axis {
			p.line.axis(x.Shape[i], [3]int{x.Strides[i], c.Out.Strides[i]})
			lines *= x.Shape[i]
		}
	}
	p.line.close(lines)
	p.lines = uint64(lines)
	if p.length >= 64 && (p.outStep == 1 || lines < d.card.sms*64) {
		return runKernel(d, "index", "scan_block_"+typeName(x.DType), &p, lines, 1, 1, blockThreads, 0)
	}
	return runKernel(d, "index", "scan_lines_"+typeName(x.DType), &p, ceil(lines, 128), 1, 1, 128, 0)
}
