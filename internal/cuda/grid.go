//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.GridSample, op.GridSampleGradInput, op.GridSampleGradGrid} {
		runners[id] = (*Device).runGridSample
	}
}

// gridParams is Sampling of kernels/grid.cu.
type gridParams struct {
	out, sums, x, grad, grid            uintptr
	n                                   uint64
	nearest, padding, corners, channels int32
	size                                [4]int32
	length, places                      uint64
	at                                  [4]int32
	xs, gs, ts                          [5]int64
}

func (d *Device) runGridSample(c *backend.Call) error {
	const piece = 8 // CHANNELS
	a := c.Attrs.(op.Grid)
	grids := &c.In[len(c.In)-1]
	axes, batch := len(grids.Shape)-2, grids.Shape[0]
	p := gridParams{out: c.Out.Block.Addr, grid: start(grids), ts: strides5(grids), padding: int32(a.Padding)}
	if a.Nearest {
		p.nearest = 1
	}
	if a.Corners {
		p.corners = 1
	}
	x := c.Out.Shape // of the forward op
	switch c.Op {
	case op.GridSample:
		x = c.In[0].Shape
		p.x, p.xs = start(&c.In[0]), strides5(&c.In[0])
	case op.GridSampleGradInput:
		p.grad, p.gs = start(&c.In[0]), strides5(&c.In[0])
	case op.GridSampleGradGrid:
		x = c.In[1].Shape
		p.grad, p.gs = start(&c.In[0]), strides5(&c.In[0])
		p.x, p.xs = start(&c.In[1]), strides5(&c.In[1])
	}
	p.channels, p.length, p.places = int32(x[1]), uint64(op.Elements(x[2:])), uint64(op.Elements(grids.Shape[1:1+axes]))
	for i := range axes {
		p.size[i], p.at[i] = int32(x[2+i]), int32(grids.Shape[1+i])
	}
	t := c.In[0].DType
	var g grid
	switch c.Op {
	case op.GridSample:
		p.n = uint64(batch*ceil(x[1], piece)) * p.places
		g = grid{x: ceil(int(p.n), 256), threads: 256}
	case op.GridSampleGradGrid:
		p.n = uint64(batch) * p.places
		g = grid{x: ceil(int(p.n), 256), threads: 256}
	case op.GridSampleGradInput:
		p.n, p.sums = uint64(batch*x[1]), p.out
		if t.Size() < 4 { // sums in half precision would lose their digits
			var err error
			if p.sums, err = d.workspace(c.Out.Elements() * 4); err != nil {
				return err
			}
		}
		g = grid{x: ceil(int(p.n), 4), threads: 128}
	}
	return runKernel(d, "grid", fmt.Sprintf("%s_%d_%s", c.Op, axes, typeName(t)), &p, g)
}

func strides5(v *backend.View) (s [5]int64) {
	for i, n := range v.Strides {
		s[i] = int64(n)
	}
	return s
}

// start is addr for an operand that may have no elements, and then no memory.
func start(v *backend.View) uintptr {
	if v.Block == nil {
		return 0
	}
	return addr(v)
}
