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
	rowsParams struct {
		out, x, index, flag uintptr
		rows                uint64
		width, limit        int64
		step, stride        int64
		op, wide            int32
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
		lanes, _                     int32
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
	if r, ok := p.rows(t, n); ok {
		chunks := max(1, min(ceil(int(r.width), 128), 65535))
		return runKernel(d, "index", "gather_rows", &r, grid{x: ceil(int(r.rows), 8), y: chunks, threads: blockThreads})
	}
	name := sizeName(t)
	// Rows that are contiguous in x move 16 bytes at a time.
	if v := 16 / t.Size(); p.idx.nd > 0 && p.idx.stride[0][0] == 0 && p.idx.stride[1][0] == 1 && p.x%16 == 0 && p.axis%int64(v) == 0 && p.idx.widen(v, 1) {
		name, n = "u128", n/v
		p.axis /= int64(v)
	}
	p.n = uint64(n)
	p.idx.close(n)
	return runKernel(d, "index", "gather_"+name, p, oneEach(n))
}

// rows says how to gather whole rows, if that is what is asked for: an index for
// each, at equal distances, and rows that lie together and have work for a warp.
func (p *gatherParams) rows(t dtype.DType, n int) (r rowsParams, ok bool) {
	x, v := &p.idx, 16/t.Size()
	if x.nd == 0 || x.nd > 2 || x.stride[0][0] != 0 || x.stride[1][0] != 1 || x.nd == 2 && x.stride[1][1] != 0 {
		return r, false
	}
	width := int(x.size[0])
	if width%v != 0 || width*t.Size() < 32*16 || p.axis%int64(v) != 0 || p.x%16 != 0 {
		return r, false
	}
	return rowsParams{out: p.out, x: p.x, index: p.index, flag: p.flag, rows: uint64(n / width), width: int64(width / v),
		limit: p.limit, step: x.stride[0][1], stride: p.axis / int64(v), op: p.op, wide: p.wide}, true
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
	return runKernel(d, "index", "move_"+name, &p, oneEach(n))
}

// piecesParams are Pieces of kernels/index.cu, for few and for many operands: a
// launch takes as many as its parameters have room for.
type (
	pieces4Params struct {
		out, outer, pitch uint64
		in                [4]uintptr
		start, width      [4]uint64
	}
	pieces80Params struct {
		out, outer, pitch uint64
		in                [80]uintptr
		start, width      [80]uint64
	}
)

func (d *Device) runConcat(c *backend.Call) error {
	axis, t := c.Attrs.(op.Axis).Axis, c.Out.DType
	inner := c.Out.Strides[axis] // elements of one step along the axis
	outer, pitch := op.Elements(c.Out.Shape[:axis]), c.Out.Shape[axis]*inner
	// In units of 16 bytes, where every piece is a multiple of them.
	unit, name := 1, sizeName(t)
	if w := 16 / t.Size(); concatWide(c, axis, inner, w) {
		unit, name = w, "u128"
	}
	var p pieces80Params
	p.out, p.outer, p.pitch = uint64(c.Out.Block.Addr), uint64(outer), uint64(pitch/unit)
	count, most, start := 0, 0, 0
	flush := func() error {
		if count == 0 {
			return nil
		}
		gridX := max(1, min(ceil(outer*most, blockThreads*4), d.card.sms*16))
		var err error
		if count <= 4 {
			q := pieces4Params{out: p.out, outer: p.outer, pitch: p.pitch, in: [4]uintptr(p.in[:]), start: [4]uint64(p.start[:]), width: [4]uint64(p.width[:])}
			err = runKernel(d, "index", "join4_"+name, &q, grid{x: gridX, y: count, threads: blockThreads})
		} else {
			err = runKernel(d, "index", "join80_"+name, &p, grid{x: gridX, y: count, threads: blockThreads})
		}
		count, most = 0, 0
		return err
	}
	for i := range c.In {
		x := &c.In[i]
		width := x.Shape[axis] * inner
		switch {
		case x.Elements() == 0:
		case !x.Contiguous():
			if err := d.move(x, c.Out.Block.Addr+uintptr(start*t.Size()), c.Out.Strides); err != nil {
				return err
			}
		default:
			p.in[count], p.start[count], p.width[count] = addr(x), uint64(start/unit), uint64(width/unit)
			count, most = count+1, max(most, width/unit)
			if count == len(p.in) {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		start += width
	}
	return flush()
}

// concatWide reports whether all pieces can be moved w elements at a time.
func concatWide(c *backend.Call, axis, inner, w int) bool {
	if c.Out.Block.Addr%16 != 0 {
		return false
	}
	for i := range c.In {
		if x := &c.In[i]; x.Shape[axis]*inner%w != 0 || addr(x)%16 != 0 {
			return false
		}
	}
	return true
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
	p.out, p.src, p.index, p.flag = c.Out.Block.Addr, addr(src), addr(index), d.flagDev
	p.op, p.wide = int32(c.Op), wideIndex(index.DType)
	p.lanes = 1
	for p.lanes < 32 && int(p.lanes) < int(p.inner) {
		p.lanes *= 2
	}
	if p.atomically(x.DType) {
		return runKernel(d, "index", "scatter_atomic_"+typeName(x.DType), p, oneEach(n*int(p.lanes)))
	}
	if p.wholeRows(x.DType) {
		return d.addRows(x, p)
	}
	var err error
	if p.order, err = d.sortedOrder(p, index.DType); err != nil {
		return err
	}
	return runKernel(d, "index", "scatter_add_"+typeName(x.DType), p, oneEach(n*int(p.lanes)))
}

// atomically reports whether to add in whatever order, without sorting. Whole rows are
// sorted: of 32,768 rows of 512, XLA's atomic additions took 131 µs on an H200, and ours in
// order 90.
func (p *scatterParams) atomically(t dtype.DType) bool {
	if !varying.Load() || p.wholeRows(t) {
		return false
	}
	switch t {
	case dtype.Int32, dtype.Int64, dtype.Float32, dtype.Float64:
		return true
	}
	return false
}

// sortedOrder queues sorting the indices of each line, and returns their places.
func (d *Device) sortedOrder(p *scatterParams, t dtype.DType) (uintptr, error) {
	if radixFits(p) {
		r := newRadix(int(p.length), int(p.limit))
		work, err := d.workspace(r.working)
		if err != nil {
			return 0, err
		}
		_, order, err := r.sort(d, p, work)
		return order, err
	}
	keys := keysParams{in: p.index, lines: p.lines, length: p.length, step: p.indexStep}
	keys.line = p.line
	return d.sortKeys(&keys, t)
}

func (d *Device) runCumSum(c *backend.Call) error {
	a, x := c.Attrs.(op.Axis), &c.In[0]
	p := scanParams{out: c.Out.Block.Addr, in: addr(x), length: uint64(x.Shape[a.Axis]), inStep: int64(x.Strides[a.Axis]), outStep: int64(c.Out.Strides[a.Axis])}
	if a.Reverse {
		p.reverse = 1
	}
	lines := p.line.beside(a.Axis, x, &c.Out)
	p.lines = uint64(lines)
	if p.length >= 64 && (p.outStep == 1 || lines < d.card.sms*64) {
		return runKernel(d, "index", "scan_block_"+typeName(x.DType), &p, grid{x: lines, threads: blockThreads})
	}
	return runKernel(d, "index", "scan_lines_"+typeName(x.DType), &p, grid{x: ceil(lines, 128), threads: 128})
}
