//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.Conv2D, op.ConvGradInput, op.ConvGradWeight} {
		runners[id] = (*Device).runConv
	}
}

// divisor is Div of kernels/conv.cu.
type divisor struct{ d, mul, shr uint32 }

func divideBy(d int) divisor {
	s := bits.Len64(uint64(d) - 1)
	return divisor{uint32(d), uint32((1<<32)*((1<<s)-uint64(d))/uint64(d) + 1), uint32(s)}
}

// convParams is Conv of kernels/conv.cu.
type convParams struct {
	x, w, g, out, partial         uintptr
	xs, gs                        [4]int64
	m, n, k, chunk, splits, total int32
	cin, cout                     int32
	channels, outputs             int32
	h, wd, oh, ow                 int32
	stride, pad, dilation         [2]int32
	taps, kw, pixels, row         divisor
	strideY, strideX              divisor
}

func (d *Device) runConv(c *backend.Call) error {
	if n := d.cudnn(); n != nil && c.In[0].Elements() > 0 && c.In[1].Elements() > 0 && n.run(d, c) {
		return nil
	}
	return d.ownConv(c)
}

// ownConv queues a convolution by this package's kernels.
func (d *Device) ownConv(c *backend.Call) error {
	a, t := c.Attrs.(op.Conv), c.Out.DType
	var x, w, y []int // the forward op's shapes
	p := convParams{out: c.Out.Block.Addr, splits: 1}
	weight := c.In[1]
	switch c.Op {
	case op.Conv2D:
		x, w, y = c.In[0].Shape, weight.Shape, c.Out.Shape
		p.x, p.xs = addr(&c.In[0]), strides4(&c.In[0])
	case op.ConvGradInput:
		y, w, x = c.In[0].Shape, weight.Shape, c.Out.Shape
		p.g, p.gs = addr(&c.In[0]), strides4(&c.In[0])
	case op.ConvGradWeight:
		y, x, w = c.In[0].Shape, c.In[1].Shape, c.Out.Shape
		p.g, p.gs = addr(&c.In[0]), strides4(&c.In[0])
		p.x, p.xs = addr(&c.In[1]), strides4(&c.In[1])
	}
	if c.Op != op.ConvGradWeight {
		if !weight.Contiguous() {
			work, err := d.copyspace(weight.Elements() * t.Size())
			if err != nil {
				return err
			}
			if weight, err = d.contiguous(&weight, work); err != nil {
				return err
			}
		}
		p.w = addr(&weight)
	}
	taps := w[2] * w[3]
	p.cin, p.cout = int32(w[1]), int32(w[0]/a.Groups)
	p.channels, p.outputs = int32(x[1]), int32(y[1])
	p.h, p.wd, p.oh, p.ow = int32(x[2]), int32(x[3]), int32(y[2]), int32(y[3])
	for i := range 2 {
		p.stride[i], p.pad[i], p.dilation[i] = int32(a.Stride[i]), int32(a.Pad[i]), int32(a.Dilation[i])
	}
	p.taps, p.kw, p.strideY, p.strideX = divideBy(taps), divideBy(w[3]), divideBy(a.Stride[0]), divideBy(a.Stride[1])
	p.pixels, p.row = divideBy(y[2]*y[3]), divideBy(y[3])
	m, n, k := int(p.cout), y[0]*y[2]*y[3], w[1]*taps
	switch c.Op {
	case op.ConvGradInput:
		m, n, k = w[1], x[0]*x[2]*x[3], int(p.cout)*taps
		p.pixels, p.row = divideBy(x[2]*x[3]), divideBy(x[3])
	case op.ConvGradWeight:
		n, k = k, n
	}
	if n > math.MaxInt32 || k > math.MaxInt32 || c.Out.Elements() > math.MaxInt32 {
		return fmt.Errorf("%s: more than 2³¹ places in one call: %w", c.Op, op.ErrUnsupported)
	}
	if k == 0 {
		return d.fill(p.out, t, 0, c.Out.Elements())
	}
	p.m, p.n, p.k, p.chunk, p.total = int32(m), int32(n), int32(k), int32(k), int32(c.Out.Elements())
	if c.Op == op.ConvGradInput && m <= 4 {
		return runKernel(d, "conv", "conv2d_grad_input_few_"+typeName(t), &p, ceil(n, blockThreads), a.Groups, 1, blockThreads, 0)
	}

	bm, bn := 64, 128
	switch {
	case t == dtype.Float64:
		bn = 64
	case m > 64:
		bm = 128
	}
	blocks := ceil(m, bm) * ceil(n, bn)
	// A weight's gradient has few results, each a long sum: blocks share it.
	if splits := min(ceil(2*d.card.sms, blocks*a.Groups), k/256, 1024); splits > 1 && c.Op == op.ConvGradWeight {
		chunk := ceil(ceil(k, splits), 8) * 8
		p.chunk, p.splits = int32(chunk), int32(ceil(k, chunk))
		var err error
		if p.partial, err = d.workspace(int(p.splits) * int(p.total) * max(4, t.Size())); err != nil {
			return err
		}
	}
	kernel := c.Op.String()
	// The step of gemm.cuh along k stays within one tap.
	if along := map[op.ID]int32{op.Conv2D: p.cin, op.ConvGradInput: p.cout}[c.Op]; along > 0 && along%8 == 0 {
		kernel += "_by_tap"
	}
	if err := runKernel(d, "conv", fmt.Sprintf("%s_%d_%s", kernel, bm, typeName(t)), &p, blocks, a.Groups, int(p.splits), 256, 0); err != nil || p.splits == 1 {
		return err
	}
	return d.sumSplits(t, p.partial, p.out, int(p.splits), int(p.total))
}

// sumSplits queues adding up what several blocks have summed in parts.
func (d *Device) sumSplits(t dtype.DType, partial, out uintptr, splits, results int) error {
	p := reduceParams{partial: partial, out: out, outs: uint64(results), splits: int32(splits), threads: 1}
	return runKernel(d, "reduce", "sum_parts_"+typeName(t), &p, ceil(results, blockThreads), 1, 1, blockThreads, 0)
}

func strides4(v *backend.View) (s [4]int64) {
	for i := range s {
		s[i] = int64(v.Strides[i])
	}
	return s
}
