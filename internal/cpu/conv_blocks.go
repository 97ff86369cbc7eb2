package cpu

import (
	"math"
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Convolutions of bfloat16 where the CPU has tensor cores: the same products with the patches of
// an image as for other types, but a step of the sum takes 32 channels at one place of the
// kernel. Tensor cores read pairs of channels, so two planes of an image become one plane of
// words, in a frame as for other types; patches are not made here either. What is computed for
// several images in a frame one below the other is one product.
//
// Sums are of float32, and each element is rounded once.

// blockProducts reports whether products of bfloat16 are to be computed by tensor cores. Tests
// change it.
var blockProducts = gemm.HasBlocks

// registerConv registers a convolution whose bfloat16 version may be computed with blocks.
func registerConv(id op.ID, im images, f32 denseKernel[float32], f64 denseKernel[float64], blocks func(c *backend.Call) bool) {
	register(id, dtype.Float32, native(f32))
	register(id, dtype.Float64, native(f64))
	for _, h := range halfTypes {
		register(id, h.dtype, h.inBlocks(blocks, h.dense(im, f32)))
	}
}

// blockChannels are the channels of a step; blockRows is the least number of rows of a block.
const (
	blockChannels = gemm.BlockDepth
	blockRows     = 16
)

// roundUp returns n rounded up to whole units.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// fillsBlocks reports whether blocks are worth it: they are some ten times as fast as products of
// float32 where all of a block's rows and channels are of use.
func (v *convolution) fillsBlocks() bool {
	return !v.depthwise && v.n*v.p > 0 && v.cg > 0 && v.og > 0 &&
		4*v.cg*v.og >= roundUp(v.cg, blockChannels)*roundUp(v.og, blockRows) && v.n*v.p*v.o*v.k >= serialProduct
}

// convBlocks computes op.Conv2D and op.ConvAct.
func convBlocks(c *backend.Call) bool {
	var a op.Conv
	var act op.ID
	switch x := c.Attrs.(type) {
	case op.Conv:
		a = x
	case op.ConvEpilogue:
		a, act = x.Conv, x.Act
	}
	v := newConvolution(a, c.In[0].Shape, c.In[1].Shape, c.Out.Shape)
	if !v.fillsBlocks() {
		return false
	}
	x, weight, free := bits2(c)
	defer free()
	f := finish[float32]{act: act}
	if len(c.In) == 3 {
		up, _ := conversions[dtype.BF16]()
		bias, s := widened(&c.In[2], up)
		defer s.free()
		f.bias = bias
	}
	q := newBlockConv(v)
	part := blockPart{oh: v.oh, ow: v.ow}
	for tap := range v.kh * v.kw {
		part.taps = append(part.taps, blockTap{weight: tap})
		part.taps[tap].plane, part.taps[tap].at = q.place(tap)
	}
	q.plane, q.stepY, q.stepX = v.p, v.ow, 1
	q.add(part)
	q.weights(weight, v.og*v.k, v.k, v.kh*v.kw)
	q.run(convert[uint16](elements[dtype.BF16](&c.Out, c.Out.Elements())), x, f)
	q.free()
	return true
}

// bits2 returns the first two operands of a call.
func bits2(c *backend.Call) (x, y []uint16, free func()) {
	x, s := denseOf[uint16](&c.In[0])
	y, t := denseOf[uint16](&c.In[1])
	return x, y, func() { release(s, t) }
}

// convGradInputBlocks computes op.ConvGradInput: a convolution of the gradient with flipped
// kernels. With strides it has several parts, each of the places of the kernel that meet the same
// elements of x, which it computes.
func convGradInputBlocks(c *backend.Call) bool {
	v := newConvolution(c.Attrs.(op.Conv), c.Out.Shape, c.In[1].Shape, c.In[0].Shape)
	if !v.fillsBlocks() || 4*v.cg*v.og < roundUp(v.og, blockChannels)*roundUp(v.cg, blockRows) {
		return false
	}
	grad, weight, free := bits2(c)
	defer free()
	// Zeros around the gradient would make NaNs of such weights.
	if !finiteBits(weight) {
		return false
	}
	dst := convert[uint16](elements[dtype.BF16](&c.Out, c.Out.Elements()))
	q := v.backwardBlocks()
	if len(q.parts) < v.Stride[0]*v.Stride[1] { // elements that the kernel does not meet
		pool.For(len(dst), grainCheap, func(lo, hi int) { clear(dst[lo:hi]) })
	}
	if len(q.parts) > 0 {
		q.weights(weight, v.og*v.k, v.kh*v.kw, v.k)
		q.run(dst, grad, finish[float32]{})
		q.free()
	}
	return true
}

// finiteBits reports whether bfloat16 numbers are all finite.
func finiteBits(x []uint16) bool {
	const infinite = 0x7f80
	for _, b := range x {
		if b&infinite == infinite {
			return false
		}
	}
	return true
}

// residue is what the elements of x that lie at a distance r from a multiple of the stride,
// counted with the padding, have in common along an axis.
type residue struct {
	taps  []int // places of the kernel that meet them
	rows  []int // the row of the gradient that each tap takes to the first element
	first int   // element of x
	count int
}

func (v *convolution) residues(axis int) (all []residue) {
	s, d, pad := v.Stride[axis], v.Dilation[axis], v.Pad[axis]
	kernel, size := [2]int{v.kh, v.kw}[axis], [2]int{v.h, v.w}[axis]
	for r := range s {
		// Element i of x, i + pad = s·t + r, gets row t - (k·d - r)/s of the gradient at place k.
		t := max(0, pad-r+s-1) / s
		x := residue{first: s*t + r - pad}
		for k := range kernel {
			if k*d%s == r {
				x.taps, x.rows = append(x.taps, k), append(x.rows, t-(k*d-r)/s)
			}
		}
		if x.first < size && len(x.taps) > 0 {
			x.count = (size-x.first-1)/s + 1
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b residue) int { return a.first - b.first })
	return all
}

// backwardBlocks is the convolution of the gradient that computes the gradient of x.
func (v *convolution) backwardBlocks() *blockConv {
	b := *v
	b.c, b.h, b.w, b.o = v.o, v.oh, v.ow, v.c
	b.cg, b.og = v.og, v.cg
	b.Stride, b.Dilation = [2]int{1, 1}, [2]int{1, 1}
	var parts [2][]residue
	var reach, most [2]int
	for axis := range parts {
		parts[axis] = v.residues(axis)
		lo, hi := math.MaxInt, math.MinInt
		for _, r := range parts[axis] {
			lo, hi, most[axis] = min(lo, slices.Min(r.rows)), max(hi, slices.Max(r.rows)), max(most[axis], r.count)
		}
		if most[axis] == 0 {
			return &blockConv{}
		}
		b.Pad[axis], reach[axis] = -lo, hi-lo
	}
	b.kh, b.kw, b.oh, b.ow = reach[0]+1, reach[1]+1, most[0], most[1]
	b.k, b.p = b.cg*b.kh*b.kw, b.oh*b.ow
	q := newBlockConv(&b)
	q.plane, q.stepY, q.stepX = v.h*v.w, v.Stride[0]*v.w, v.Stride[1]
	for _, y := range parts[0] {
		for _, x := range parts[1] {
			part := blockPart{first: y.first*v.w + x.first, oh: y.count, ow: x.count}
			for i, ky := range y.taps {
				for j, kx := range x.taps {
					part.taps = append(part.taps, blockTap{weight: ky*v.kw + kx, at: (y.rows[i]+b.Pad[0])*q.width + x.rows[j] + b.Pad[1]})
				}
			}
			q.add(part)
		}
	}
	return q
}
