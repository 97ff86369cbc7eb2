//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.Sum, op.Prod, op.Max, op.Min, op.LogSumExp, op.Norm, op.ArgMax, op.ArgMin} {
		runners[id] = (*Device).runReduce
	}
}

// reduceParams is Reduce of kernels/reduce.cu.
type reduceParams struct {
	in, out, partial uintptr
	outs, length     uint64
	chunk            uint64
	splits, threads  int32
	wide, _          int32
	kept, red        idx
}

func (d *Device) runReduce(c *backend.Call) error {
	x := &c.In[0]
	axes, ok := c.Attrs.(op.Reduce)
	if !ok {
		axes.Axes = op.AxesOf(c.Attrs.(op.Axis).Axis)
	}
	return d.reduce(c.Op, x, axes.Axes, c.Out.Block.Addr)
}

// split says how to divide the axes of a view: those in the set and the others.
func splitAxes(rank int, set op.AxisSet) (in, others []int) {
	var buf [2 * op.MaxRank]int
	in, others = buf[:0:op.MaxRank], buf[op.MaxRank:op.MaxRank]
	for i := range rank {
		if set.Has(i) {
			in = append(in, i)
		} else {
			others = append(others, i)
		}
	}
	return in, others
}

func sizeOf(shape, axes []int) int {
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	return n
}

// reduce queues a reduction of x over a set of axes.
func (d *Device) reduce(id op.ID, x *backend.View, axes op.AxisSet, out uintptr) error {
	red, kept := splitAxes(len(x.Shape), axes)
	outs, length := sizeOf(x.Shape, kept), sizeOf(x.Shape, red)
	p := reduceParams{in: addr(x), out: out, outs: uint64(outs), length: uint64(length), splits: 1, kept: indexAxes(kept, x), red: indexAxes(red, x)}
	stem, t := id.String(), x.DType

	state := stateSize(id, t)
	v := lanes(t)
	target := d.card.sms * 8 // blocks that fill the card
	if p.byRow(length) {
		p.wide = p.canLoadWide(v, t.Size())
		threads := 256
		blocks := outs
		if length <= 1024 {
			threads = 32
			blocks = ceil(outs, 8)
		}
		p.threads = int32(threads)
		if threads != 32 {
			p.splitInto(ceil(target, outs), 256*v*4, length)
		}
		return d.launchReduce(stem+"_row_"+typeName(t), stem+"_finish_"+typeName(t), &p, blocks, max(threads, 256), length, state)
	}
	blocks := ceil(outs, blockThreads)
	p.splitInto(ceil(target, blocks), 32, length)
	return d.launchReduce(stem+"_col_"+typeName(t), stem+"_finish_"+typeName(t), &p, blocks, blockThreads, length, state)
}

// byRow decides between the row and the column kernel.
func (p *reduceParams) byRow(length int) bool {
	near := func(x *idx) int64 { // distance of neighbours
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

// canLoadWide reports whether v elements of a result lie together and aligned everywhere.
func (p *reduceParams) canLoadWide(v, size int) int32 {
	if p.red.nd == 0 || p.red.stride[0][0] != 1 || p.in%uintptr(v*size) != 0 {
		return 0
	}
	if p.red.nd > 1 && int(p.red.size[0])%v != 0 {
		return 0
	}
	for i := int32(1); i < p.red.nd; i++ {
		if p.red.stride[0][i]%int64(v) != 0 {
			return 0
		}
	}
	for i := range p.kept.nd {
		if p.kept.stride[0][i]%int64(v) != 0 {
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

func (d *Device) launchReduce(kernel, finish string, p *reduceParams, blocks, threads, length, state int) error {
	if p.splits == 1 {
		p.chunk = uint64(length)
	} else {
		var err error
		if p.partial, err = d.workspace(int(p.splits) * int(p.outs) * state); err != nil {
			return err
		}
	}
	if err := runKernel(d, "reduce", kernel, p, blocks, int(p.splits), 1, threads, 0); err != nil || p.splits == 1 {
		return err
	}
	outs := int(p.outs)
	if outs >= 2048 || p.splits < 32 {
		p.threads = 1
		return runKernel(d, "reduce", finish, p, ceil(outs, blockThreads), 1, 1, blockThreads, 0)
	}
	p.threads = 0
	return runKernel(d, "reduce", finish, p, outs, 1, 1, blockThreads, 0)
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
