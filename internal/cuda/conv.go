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

// divisor is Div of kernels/conv.cuh.
type divisor struct{ d, mul, shr uint32 }

func divideBy(d int) divisor {
	s := bits.Len64(uint64(d) - 1)
	return divisor{uint32(d), uint32((1<<32)*((1<<s)-uint64(d))/uint64(d) + 1), uint32(s)}
}

// convParams is Conv of kernels/conv.cuh.
type convParams struct {
	x, w, g, out, partial         uintptr
	xs, gs                        [4]int64
	m, n, k, chunk, splits, total int32
	cin, cout                     int32
	channels, outputs             int32
	h, wd, oh, ow                 int32
	stride, pad, dilation, phases [2]int32
	taps, kw, pixels, row         divisor
	strideY, strideX              divisor
	wide, _                       int32
}

func (d *Device) runConv(c *backend.Call) error {
	if depthwise(c) && channelsLast(c) && c.In[0].Elements() > 0 && c.In[1].Elements() > 0 {
		return d.depthPixels(c)
	}
	n, err := d.cudnn()
	if err != nil {
		return err
	}
	if n != nil && c.In[0].Elements() > 0 && c.In[1].Elements() > 0 {
		by, err := d.toKnown(c)
		if err != nil {
			return err
		}
		if by != nil {
			if done, err := n.run(d, by); done || err != nil {
				return err
			}
		}
	}
	return d.ownConvLast(c)
}

// ownConv queues a convolution by this package's kernels.
func (d *Device) ownConv(c *backend.Call) error {
	a := c.Attrs.(op.Conv)
	var x, w, y []int // the forward op's shapes
	p := convParams{out: c.Out.Block.Addr, splits: 1, phases: [2]int32{1, 1}}
	switch c.Op {
	case op.Conv2D:
		x, w, y = c.In[0].Shape, c.In[1].Shape, c.Out.Shape
		p.x, p.xs = addr(&c.In[0]), strides4(&c.In[0])
	case op.ConvGradInput:
		y, w, x = c.In[0].Shape, c.In[1].Shape, c.Out.Shape
		p.g, p.gs = addr(&c.In[0]), strides4(&c.In[0])
	case op.ConvGradWeight:
		y, x, w = c.In[0].Shape, c.In[1].Shape, c.Out.Shape
		p.g, p.gs = addr(&c.In[0]), strides4(&c.In[0])
	}
	taps := w[2] * w[3]
	p.cin, p.cout = int32(w[1]), int32(w[0]/a.Groups)
	p.channels, p.outputs = int32(x[1]), int32(y[1])
	p.h, p.wd, p.oh, p.ow = int32(x[2]), int32(x[3]), int32(y[2]), int32(y[3])
	for i := range 2 {
		p.stride[i], p.pad[i], p.dilation[i] = int32(a.Stride[i]), int32(a.Pad[i]), int32(a.Dilation[i])
	}
	p.taps, p.kw, p.strideY, p.strideX = divideBy(taps), divideBy(w[3]), divideBy(a.Stride[0]), divideBy(a.Stride[1])
	m, n, k := int(p.cout), y[0]*y[2]*y[3], w[1]*taps
	switch c.Op {
	case op.ConvGradInput:
		m, n, k = w[1], x[0]*x[2]*x[3], int(p.cout)*taps
	case op.ConvGradWeight:
		n, k = k, n
	}
	if n > math.MaxInt32 || k > math.MaxInt32 || c.Out.Elements() > math.MaxInt32 {
		return fmt.Errorf("%s: more than 2³¹ places in one call: %w", c.Op, op.ErrUnsupported)
	}
	if k == 0 {
		return d.fill(p.out, c.Out.DType, 0, c.Out.Elements())
	}
	p.m, p.n, p.k, p.chunk, p.total = int32(m), int32(n), int32(k), int32(k), int32(c.Out.Elements())
	p.pixels, p.row = divideBy(y[2]*y[3]), divideBy(y[3])
	if c.Op == op.ConvGradInput {
		p.pixels, p.row = divideBy(x[2]*x[3]), divideBy(x[3])
	}
	switch {
	case c.Op == op.ConvGradWeight:
		return d.convWeight(c, &p, a.Groups)
	case c.Op == op.Conv2D && fewOutputs(m, k, taps):
		return d.convFewOutputs(c, &p, a)
	case c.Op == op.ConvGradInput && m <= fewChannels && taps <= fewTaps && a.Stride[0]*a.Stride[1] <= maxPhases:
		return d.convFew(c, &p, a)
	}
	return d.convByPixel(c, &p, a)
}

// What kernels/conv.cu has a kernel of its own for: FEW and FEW_TAPS.
const (
	fewChannels = 4
	fewTaps     = 1024
)

// maxPhases is how many phases of a stride blocks may divide: as many as a grid has
// room for.
const maxPhases = 65535

// fewOutputs reports whether a convolution with m output channels in a group, each a sum
// of k products, has a kernel of its own: a tile would be mostly empty, and a thread
// that makes whole pixels does not have too much to do.
func fewOutputs(m, k, taps int) bool { return m <= 2*fewChannels && k <= 512 && taps <= fewTaps }

// convFewOutputs queues such a convolution.
func (d *Device) convFewOutputs(c *backend.Call, p *convParams, a op.Conv) error {
	weight := c.In[1]
	if err := d.inOrder([]*backend.View{&weight}, (*backend.View).Contiguous); err != nil {
		return err
	}
	p.w = addr(&weight)
	const rows = 4 // FEW_ROWS
	groups, w, each := ceil(int(p.oh), rows), int(p.ow), fewChannels
	p.n, p.pixels, p.row = int32(c.Out.Shape[0]*groups*w), divideBy(groups*w), divideBy(w)
	kernel := "conv2d_few_"
	if p.m == 1 { // one channel each, as a rule
		kernel, each = "conv2d_one_", 1
	}
	return runKernel(d, "conv", kernel+typeName(weight.DType), p, grid{x: ceil(int(p.n), blockThreads), y: a.Groups, z: ceil(int(p.m), each), threads: blockThreads})
}

// convFew queues the gradient of an input of few channels.
func (d *Device) convFew(c *backend.Call, p *convParams, a op.Conv) error {
	weight := c.In[1]
	if err := d.inOrder([]*backend.View{&weight}, (*backend.View).Contiguous); err != nil {
		return err
	}
	p.w, p.phases = addr(&weight), p.stride
	const rows = 4 // FEW_ROWS
	groups, w := ceil(ceil(int(p.h), a.Stride[0]), rows), ceil(int(p.wd), a.Stride[1])
	p.n, p.pixels, p.row = int32(c.Out.Shape[0]*groups*w), divideBy(groups*w), divideBy(w)
	return runKernel(d, "conv", "conv2d_grad_input_few_"+typeName(weight.DType), p, grid{x: ceil(int(p.n), blockThreads), y: a.Groups, z: a.Stride[0] * a.Stride[1], threads: blockThreads})
}

// convByPixel queues a convolution or the gradient of its input.
func (d *Device) convByPixel(c *backend.Call, p *convParams, a op.Conv) error {
	kernel, t, weight := c.Op.String(), c.Out.DType, c.In[1]
	// The weight is laid out as [group][k][m], k counting taps first where the step
	// of kernels/gemm.cuh along k stays within one.
	s, n := weight.Strides, weight.Shape
	along, across := 1, 0 // the weight's axes that k and m count
	channels := n[1]
	if c.Op == op.ConvGradInput {
		along, across = 0, 1
		channels = int(p.cout)
	}
	group := int(p.cout) * s[0]
	weight.Shape, weight.Strides = []int{a.Groups, channels, n[2], n[3], int(p.m)}, []int{group, s[along], s[2], s[3], s[across]}
	if channels%8 == 0 {
		kernel += "_by_tap"
		weight.Shape, weight.Strides = []int{a.Groups, n[2], n[3], channels, int(p.m)}, []int{group, s[2], s[3], s[along], s[across]}
		if c.Op == op.ConvGradInput && a.Stride[0]*a.Stride[1] <= maxPhases {
			p.phases = p.stride
			h, w := ceil(int(p.h), a.Stride[0]), ceil(int(p.wd), a.Stride[1])
			p.n, p.pixels, p.row = int32(c.Out.Shape[0]*h*w), divideBy(h*w), divideBy(w)
		}
	}
	if err := d.inOrder([]*backend.View{&weight}, func(*backend.View) bool { return false }); err != nil {
		return err
	}
	p.w = addr(&weight)
	phases := int(p.phases[0] * p.phases[1])
	tile := fastest(pixelTiles, t, func(x tile) float64 {
		area, blocks := float64(x.m*x.n), ceil(int(p.m), x.m)*ceil(int(p.n), x.n)*a.Groups
		switch {
		case phases > 1: // with different numbers of taps: the card is busy, or waits for those with the most
			most := ceil(n[2], a.Stride[0]) * ceil(n[3], a.Stride[1])
			return max(2*area, area*float64(blocks*n[2]*n[3])/float64(most*d.card.sms))
		case blocks <= d.card.sms: // alone on a multiprocessor, a block waits for memory
			return 1.3 * area
		}
		return 2 * area * float64(ceil(blocks, 2*d.card.sms)) // two share one
	})
	if int(p.m)%(tile.m*8/256) == 0 { // elements of a load: E of kernels/gemm.cuh
		p.wide = 1
	}
	blocks := ceil(int(p.m), tile.m) * ceil(int(p.n), tile.n)
	return runKernel(d, "conv", fmt.Sprintf("%s_%dx%d_%s", kernel, tile.m, tile.n, typeName(t)), p, grid{x: blocks, y: a.Groups, z: phases, threads: 256})
}

// convWeight queues the gradient of a convolution's weight.
func (d *Device) convWeight(c *backend.Call, p *convParams, groups int) error {
	x, t := c.In[1], c.Out.DType
	// The kernel uses 32-bit indices within an image.
	near := func(v *backend.View) bool {
		far := 0
		for i := 1; i < 4; i++ {
			far += v.Shape[i] * max(v.Strides[i], -v.Strides[i])
		}
		return far <= math.MaxInt32
	}
	if err := d.inOrder([]*backend.View{&x}, near); err != nil {
		return err
	}
	if !near(&x) {
		return fmt.Errorf("%s: more than 2³¹ places in one image: %w", c.Op, op.ErrUnsupported)
	}
	p.x, p.xs = addr(&x), strides4(&x)
	if p.m == 1 && p.cin == 1 {
		return d.convWeightOne(c, p, groups)
	}
	tile := fastest(weightTiles, t, func(x tile) float64 { return float64(ceil(int(p.m), x.m) * x.m * ceil(int(p.n), x.n) * x.n) })
	blocks := ceil(int(p.m), tile.m) * ceil(int(p.n), tile.n)
	resident := 2 * d.card.sms // blocks
	if tile.n <= 64 {
		resident *= 2
	}
	if err := d.splitPixels(p, t, min(ceil(resident, blocks*groups), int(p.k)/256, 1024)); err != nil {
		return err
	}
	name := fmt.Sprintf("conv2d_grad_weight_%dx%d_%s", tile.m, tile.n, typeName(t))
	if err := runKernel(d, "conv_weight", name, p, grid{x: blocks, y: groups, z: int(p.splits), threads: 256}); err != nil || p.splits == 1 {
		return err
	}
	return d.sumSplits(t, p.partial, p.out, int(p.splits), int(p.total))
}

// splitPixels divides the pixels that a gradient of a weight sums up among so many blocks,
// if there is memory for their parts.
func (d *Device) splitPixels(p *convParams, t dtype.DType, splits int) (err error) {
	if splits <= 1 {
		return nil
	}
	p.chunk = int32(ceil(ceil(int(p.k), splits), 32) * 32)
	p.splits = int32(ceil(int(p.k), int(p.chunk)))
	p.partial, err = d.workspace(int(p.splits) * int(p.total) * max(4, t.Size()))
	if d.refused(err) {
		p.splits, p.chunk, err = 1, p.k, nil // slower, without
	}
	return err
}

// convWeightOne queues the gradient of a weight whose groups have one channel each.
func (d *Device) convWeightOne(c *backend.Call, p *convParams, groups int) error {
	const each = 9 // ONE_TAPS
	t, blocks := c.Out.DType, ceil(int(p.n), each)
	if err := d.splitPixels(p, t, min(ceil(8*d.card.sms, blocks*groups), int(p.k)/2048, 1024)); err != nil {
		return err
	}
	if err := runKernel(d, "conv_weight", "conv2d_grad_weight_one_"+typeName(t), p, grid{x: blocks, y: groups, z: int(p.splits), threads: blockThreads}); err != nil || p.splits == 1 {
		return err
	}
	return d.sumSplits(t, p.partial, p.out, int(p.splits), int(p.total))
}

// tile is a block's part of a result.
type tile struct {
	m, n int
	rate float64 // how fast it is where the results fill it, relative to others
}

// The tiles of kernels/conv.cu and of kernels/conv_weight.cu.
var (
	pixelTiles  = []tile{{64, 64, 0.7}, {64, 128, 0.85}, {128, 128, 1}}
	weightTiles = []tile{{32, 32, 0.55}, {64, 64, 0.75}, {64, 128, 0.9}, {128, 128, 1}}
)

// fastest chooses the tile that takes the least time: its work over its rate.
// There are none larger than 64×64 for float64.
func fastest(tiles []tile, t dtype.DType, work func(tile) float64) (best tile) {
	least := math.Inf(1)
	for _, x := range tiles {
		if t == dtype.Float64 && x.n > 64 {
			break
		}
		if time := work(x) / x.rate; time < least {
			least, best = time, x
		}
	}
	return best
}

// manyParts is MANY of kernels/reduce.cu: how many threads share the parts of a
// result.
const manyParts = 32

// sumSplits queues adding up what several blocks have summed in parts.
func (d *Device) sumSplits(t dtype.DType, partial, out uintptr, splits, results int) error {
	p := reduceParams{partial: partial, out: out, outs: uint64(results), splits: int32(splits), threads: 1}
	if splits >= manyParts {
		return runKernel(d, "reduce", "sum_parts_many_"+typeName(t), &p, grid{x: ceil(results, 32), threads: 32 * manyParts})
	}
	return runKernel(d, "reduce", "sum_parts_"+typeName(t), &p, oneEach(results))
}

func strides4(v *backend.View) (s [4]int64) {
	for i := range s {
		s[i] = int64(v.Strides[i])
	}
	return s
}
