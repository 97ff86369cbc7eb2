//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.Scatter] = (*Device).runScatter
	runners[op.CumMax] = (*Device).runCumExtreme
	runners[op.CumMin] = (*Device).runCumExtreme
}

// The parameters of kernels/place.cu.
type (
	placeParams struct {
		out, src, index, order, flag uintptr
		lines, length                uint64
		axis, limit                  int64
		indexStep, srcStep           int64
		op, wide                     int32
		line                         idx
	}
	bestParams struct {
		out, in         uintptr
		lines, length   uint64
		inStep, outStep int64
		smallest, _     int32
		line            idx
	}
)

func (d *Device) runScatter(c *backend.Call) error {
	x, index, src, axis := &c.In[0], &c.In[1], &c.In[2], c.Attrs.(op.Axis).Axis
	if err := d.copyView(x, c.Out.Block.Addr); err != nil {
		return err
	}
	n := index.Elements()
	if n == 0 {
		return nil
	}
	p := placeParams{out: c.Out.Block.Addr, src: addr(src), index: addr(index), flag: d.flagDev, length: uint64(index.Shape[axis]), axis: int64(c.Out.Strides[axis]),
		limit: int64(x.Shape[axis]), indexStep: int64(index.Strides[axis]), srcStep: int64(src.Strides[axis]), op: int32(c.Op), wide: wideIndex(index.DType)}
	lines := n / index.Shape[axis]
	for i := len(index.Shape) - 1; i >= 0; i-- {
		if i != axis {
			p.line.axis(index.Shape[i], [3]int{index.Strides[i], src.Strides[i], c.Out.Strides[i]})
		}
	}
	p.line.close(lines)
	p.lines = uint64(lines)
	keys := keysParams{in: addr(index), lines: p.lines, length: p.length, step: p.indexStep}
	keys.line = p.line
	order, err := d.sortKeys(&keys, index.DType)
	if err != nil {
		return err
	}
	p.order = order
	return runKernel(d, "place", "scatter_"+sizeName(x.DType), &p, oneEach(n))
}

func (d *Device) runCumExtreme(c *backend.Call) error {
	axis, x := c.Attrs.(op.Axis).Axis, &c.In[0]
	p := bestParams{out: c.Out.Block.Addr, in: addr(x), length: uint64(x.Shape[axis]), inStep: int64(x.Strides[axis]), outStep: int64(c.Out.Strides[axis])}
	if c.Op == op.CumMin {
		p.smallest = 1
	}
	lines := p.line.beside(axis, x, &c.Out)
	p.lines = uint64(lines)
	if p.length >= 64 && (p.outStep == 1 || lines < d.card.sms*64) {
		return runKernel(d, "place", "best_block_"+typeName(x.DType), &p, grid{x: lines, threads: blockThreads})
	}
	return runKernel(d, "place", "best_lines_"+typeName(x.DType), &p, grid{x: ceil(lines, 128), threads: 128})
}
