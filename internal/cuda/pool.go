//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.MaxPoolIndices, op.MaxPool, op.MaxPoolGrad, op.AvgPool, op.AvgPoolGrad} {
		runners[id] = (*Device).runPool
	}
}

// poolParams is Pool of kernels/pool.cu.
type poolParams struct {
	out, in, grad                 uintptr
	n                             uint64
	channels, h, w, oh, ow        int32
	kernel, stride, pad, dilation [2]int32
	countPad, _                   int32
	_                             int32 // C aligns the strides
	xs, gs                        [4]int64
}

func (d *Device) runPool(c *backend.Call) error {
	a, n := c.Attrs.(op.Pool), c.Out.Elements()
	p := poolParams{out: c.Out.Block.Addr, n: uint64(n), channels: int32(c.Out.Shape[1])}
	for i := range 2 {
		p.kernel[i], p.stride[i], p.pad[i], p.dilation[i] = int32(a.Kernel[i]), int32(a.Stride[i]), int32(a.Pad[i]), int32(a.Dilation[i])
	}
	if a.CountPad {
		p.countPad = 1
	}
	x, y := c.In[0].Shape, c.Out.Shape // the forward op's shapes
	switch c.Op {
	case op.MaxPoolGrad:
		x, y = c.In[1].Shape, c.In[0].Shape
		p.grad, p.gs = addr(&c.In[0]), strides4(&c.In[0])
		p.in, p.xs = addr(&c.In[1]), strides4(&c.In[1])
	case op.AvgPoolGrad:
		x, y = c.Out.Shape, c.In[0].Shape
		p.grad, p.gs = addr(&c.In[0]), strides4(&c.In[0])
	default:
		p.in, p.xs = addr(&c.In[0]), strides4(&c.In[0])
	}
	p.h, p.w, p.oh, p.ow = int32(x[2]), int32(x[3]), int32(y[2]), int32(y[3])
	name, g := c.Op.String(), oneEach(n)
	if tiles, ok := p.tiles(); ok && c.Op == op.MaxPoolGrad {
		name, g = name+"_tile", grid{x: tiles, threads: 256}
	}
	return runKernel(d, "pool", name+"_"+typeName(c.In[0].DType), &p, g)
}

// tiles returns the number of blocks of max_pool_grad_tile. It reports false where a tile
// has more windows than a block has room for.
func (p *poolParams) tiles() (int, bool) {
	const height, width, windows = 16, 32, 1024 // TILE_H, TILE_W, WINDOWS
	touching := func(size, i int) int { return (size-1+int(p.dilation[i]*(p.kernel[i]-1)))/int(p.stride[i]) + 2 }
	tiles := ceil(int(p.h), height) * ceil(int(p.w), width) * (int(p.n) / max(int(p.h)*int(p.w), 1))
	return tiles, touching(height, 0)*touching(width, 1) <= windows && tiles < 1<<31
}
