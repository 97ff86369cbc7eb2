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
	countPad, last                int32
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
	name, suffix := c.Op.String(), "_"+typeName(c.In[0].DType)
	if c.Out.ChannelsLast() {
		p.last = 1
	}
	wide := p.wide(c)
	switch {
	case c.Op == op.MaxPool && wide > 1:
		p.n, p.channels = p.n/uint64(wide), p.channels/int32(wide)
		return runKernel(d, "pool", name+"_wide"+suffix, &p, oneEach(int(p.n)))
	case c.Op == op.MaxPoolGrad && p.apart():
		cells := ceil(x[2], a.Kernel[0]) * ceil(x[3], a.Kernel[1]) * x[0] * x[1]
		p.n = uint64(cells)
		if p.pairs(c) {
			return runKernel(d, "pool", name+"_pairs"+suffix, &p, oneEach(cells))
		}
		return runKernel(d, "pool", name+"_apart"+suffix, &p, oneEach(cells))
	case c.Op == op.MaxPoolGrad && a.Kernel[0]*a.Kernel[1] <= 255:
		done, err := d.maxPoolGrad(&p, wide, op.Elements(y), suffix)
		if done || err != nil {
			return err
		}
	}
	g := oneEach(n)
	if tiles, ok := p.tiles(); ok && c.Op == op.MaxPoolGrad && p.last == 0 {
		name, g = name+"_tile", grid{x: tiles, threads: 256}
	}
	return runKernel(d, "pool", name+suffix, &p, g)
}

// apart reports whether windows lie side by side, from the first place on.
func (p *poolParams) apart() bool {
	return p.last == 0 && p.kernel == p.stride && p.pad == [2]int32{} && p.dilation == [2]int32{1, 1}
}

// pairs reports whether windows that lie so are of 2×2, and rows of them can be loaded and
// stored at once.
func (p *poolParams) pairs(c *backend.Call) bool {
	at := uintptr(2 * c.Out.DType.Size())
	return p.kernel == [2]int32{2, 2} && p.w%2 == 0 && p.xs[3] == 1 && (p.xs[0]|p.xs[1]|p.xs[2])%2 == 0 && (p.in|p.out)%at == 0
}

// wide returns how many channels a thread can take at a time.
func (p *poolParams) wide(c *backend.Call) int {
	v := lanes(c.In[0].DType)
	if p.last == 0 || int(p.channels)%v != 0 || (p.in|p.grad|p.out)%16 != 0 || !c.In[0].DType.IsFloat() {
		return 1
	}
	for i := range c.In {
		s := c.In[i].Strides
		if s[1] != 1 || (s[0]|s[2]|s[3])%v != 0 {
			return 1
		}
	}
	return v
}

// maxPoolGrad queues the gradient in two steps, with a byte for each window between them. It
// reports false if there is no room for those.
func (d *Device) maxPoolGrad(p *poolParams, wide, windows int, suffix string) (bool, error) {
	won, err := d.workspace(windows)
	if d.refused(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if wide > 1 {
		suffix = "_wide" + suffix
	}
	q := *p
	q.channels /= int32(wide)
	q.out, q.n = won, uint64(windows/wide)
	if err := runKernel(d, "pool", "max_pool_winners"+suffix, &q, oneEach(int(q.n))); err != nil {
		return false, err
	}
	q.in, q.out, q.n = won, p.out, p.n/uint64(wide)
	return true, runKernel(d, "pool", "max_pool_won"+suffix, &q, oneEach(int(q.n)))
}

// tiles returns the number of blocks of max_pool_grad_tile. It reports false where a tile
// has more windows than a block has room for.
func (p *poolParams) tiles() (int, bool) {
	const height, width, windows = 16, 32, 1024 // TILE_H, TILE_W, WINDOWS
	tiles := ceil(int(p.h), height) * ceil(int(p.w), width) * (int(p.n) / max(int(p.h)*int(p.w), 1))
	return tiles, p.touching(height, 0)*p.touching(width, 1) <= windows && tiles < 1<<31
}

// touching returns how many windows at most touch so many places of an axis.
func (p *poolParams) touching(size, i int) int {
	return (size-1+int(p.dilation[i]*(p.kernel[i]-1)))/int(p.stride[i]) + 2
}
