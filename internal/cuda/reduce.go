//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.Sum, op.Prod, op.Max, op.Min, op.LogSumExp, op.Norm, op.ArgMax, op.ArgMin} {
		runners[id] = (*Device).runReduce
	}
}

// reduceParams is Reduce of kernels/reduce.cuh.
type reduceParams struct {
	in, out, partial, arrived uintptr
	outs, length              uint64
	chunk                     uint64
	splits, threads           int32
	wide, _                   int32
	kept, red                 idx
}

// The kernels of a reduction, by what a block makes.
const (
	rowKernel = iota
	colKernel
	tileKernel
)

var reduceNames = [...]string{rowKernel: "_row_", colKernel: "_col_", tileKernel: "_tile_"}

func (d *Device) runReduce(c *backend.Call) error {
	axes, ok := c.Attrs.(op.Reduce)
	if !ok {
		axes.Axes = op.AxesOf(c.Attrs.(op.Axis).Axis)
	}
	return d.reduce(c.Op, &c.In[0], axes.Axes, c.Out.Block.Addr)
}

// reduce queues a reduction of x over a set of axes.
func (d *Device) reduce(id op.ID, x *backend.View, axes op.AxisSet, out uintptr) error {
	t := x.DType
	// Filled in place, where the launch reads it: few of its many bytes change, and
	// copying them all would be noticeable beside a small reduction.
	p := (*reduceParams)(unsafe.Pointer(&d.params))
	which, g, err := d.planReduce(p, id, x, axes, out)
	if err != nil {
		return err
	}
	k := d.found.reduces[which][id][t]
	if k == nil {
		if k, err = d.kernel("reduce", id.String()+reduceNames[which]+typeName(t)); err != nil {
			return err
		}
		d.found.reduces[which][id][t] = k
	}
	paramsOf[reduceParams](d, k) // that the kernel takes these
	return d.launch(k, g)
}

// planReduce sets the parameters of a reduction of x over a set of axes, and returns which of
// the kernels does it and the grid.
func (d *Device) planReduce(p *reduceParams, id op.ID, x *backend.View, axes op.AxisSet, out uintptr) (which int, g grid, err error) {
	t := x.DType
	p.in, p.out, p.partial, p.arrived = addr(x), out, 0, 0
	p.splits, p.threads, p.wide = 1, 0, 0
	p.kept.clear()
	p.red.clear()
	outs, length := 1, 1
	for i := len(x.Shape) - 1; i >= 0; i-- {
		part, n := &p.kept, &outs
		if axes.Has(i) {
			part, n = &p.red, &length
		}
		part.axis(x.Shape[i], [3]int{x.Strides[i]})
		*n *= x.Shape[i]
	}
	p.kept.close(outs)
	p.red.close(length)
	p.outs, p.length, p.chunk = uint64(outs), uint64(length), uint64(length)

	target := d.card.sms * 8 // blocks that fill the card
	blocks, threads := outs, blockThreads
	which = rowKernel
	switch {
	case p.byRow(length):
		v := lanes(t)
		p.wide = p.canLoadWide(&p.red, &p.kept, v, t.Size())
		p.threads = blockThreads
		switch bound := rowBound(id); {
		case length <= 1024:
			p.threads, blocks = 32, ceil(outs, blockThreads/32)
		case length <= 8*bound*v && outs < d.card.sms: // a large block is done before blocks have found each other
			p.threads, threads = int32(bound), bound
		default:
			p.splitInto(ceil(target, outs), blockThreads*v*4, length)
		}
	case length >= 64:
		v := tileLanes(t)
		if p.wide = p.canLoadWide(&p.kept, &p.red, v, t.Size()); p.wide == 0 {
			v = 1
		}
		which, blocks = tileKernel, ceil(outs, 32*v)
		p.splitInto(ceil(target, blocks), 32, length)
	default:
		which, blocks = colKernel, ceil(outs, blockThreads)
	}
	if p.splits > 1 {
		if p.partial, err = d.workspace(int(p.splits) * outs * stateSize(id, t)); err == nil {
			p.arrived, err = d.counters(p, blocks)
		}
		if d.refused(err) {
			p.splits, p.chunk, err = 1, uint64(length), nil // slower, without
		}
	}
	return which, grid{x: blocks, y: int(p.splits), threads: threads}, err
}

// tileLanes is TILE_LANES of kernels/reduce.cuh.
func tileLanes(t dtype.DType) int { return min(4, lanes(t)) }

// maxCounters is how many results may be shared by several blocks each: fewer
// than would fill any card without sharing.
const maxCounters = 1 << 14

// counters returns at least n counters that are 0 between launches: kernels set them
// back. What p holds, where a launch reads it, stays.
func (d *Device) counters(p *reduceParams, n int) (uintptr, error) {
	if n > maxCounters {
		return 0, fmt.Errorf("%d counters were asked for, there are %d", n, maxCounters)
	}
	if d.dry() {
		return noRoom, nil
	}
	if d.work.counts == 0 && d.capturing() {
		return 0, d.again(func() error { _, err := d.counters(new(reduceParams), 1); return err })
	}
	if d.work.counts == 0 {
		saved := *p
		at, err := d.take(4 * maxCounters) // for good, as the device's stream: no op's memory
		if err != nil {
			return 0, err
		}
		if err := d.fill(at, dtype.Int32, 0, maxCounters); err != nil {
			return 0, err
		}
		*p, d.work.counts = saved, at
	}
	return d.work.counts, nil
}

// rowBound is how many threads a block of the row kernel may have: the bounds at
// the end of kernels/reduce.cu.
func rowBound(id op.ID) int {
	switch id {
	case op.LogSumExp, op.ArgMax, op.ArgMin:
		return 512
	}
	return 1024
}

// byRow decides between the row and the column kernel.
func (p *reduceParams) byRow(length int) bool {
	near := func(x *idx) int64 { // distance of neighbors
		if x.nd == 0 {
			return 1 << 40
		}
		return max(x.stride[0][0], -x.stride[0][0])
	}
	switch {
	case length <= 16:
		return false
	case near(&p.red) == 1 || p.outs < 32:
		return true
	case near(&p.kept) == 1:
		return false
	}
	return length >= 64
}

// canLoadWide reports (1 or 0, as kernels want it) whether v elements along the
// innermost of some axes lie together and aligned, wherever the other axes stand.
func (p *reduceParams) canLoadWide(along, other *idx, v, size int) int32 {
	if along.nd == 0 || along.stride[0][0] != 1 || p.in%uintptr(v*size) != 0 {
		return 0
	}
	if (along.nd > 1 || along == &p.kept) && int(along.size[0])%v != 0 {
		return 0
	}
	for i := int32(1); i < along.nd; i++ {
		if along.stride[0][i]%int64(v) != 0 {
			return 0
		}
	}
	for i := range other.nd {
		if other.stride[0][i]%int64(v) != 0 {
			return 0
		}
	}
	return 1
}

// splitInto divides the elements of a result among at most n blocks, each
// with a multiple of unit.
func (p *reduceParams) splitInto(n, unit, length int) {
	n = max(1, min(n, length/unit, 65535))
	if n == 1 {
		return
	}
	chunk := ceil(ceil(length, n), unit) * unit
	p.chunk, p.splits = uint64(chunk), int32(max(1, ceil(length, chunk)))
}

// stateSize is the size of a reducer's State in kernels/reduce.cu.
func stateSize(id op.ID, t dtype.DType) int {
	size := max(4, t.Size())
	switch id {
	case op.LogSumExp:
		return 2 * size
	case op.ArgMax, op.ArgMin:
		return 16
	}
	return size
}
