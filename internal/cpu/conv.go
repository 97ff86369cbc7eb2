package cpu

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Convolutions are matrix products with the patches of an image, a matrix with a
// row for each channel and place in the kernel and a column for each pixel of
// the result:
//
//	result      = weight · patches
//	grad weight = gradient · patchesᵀ, summed over images
//	grad x      = weightᵀ · gradient, each row added back to where it came from
//
// The patches are never made. In an image with its padding in place, every row of
// them is the image itself from some element on, if the result has rows as long as
// the padded image's and the surplus columns are dropped. With a stride s the image
// is first taken apart into s×s planes of every s-th element, of which the same is
// true. See canvas.go.
//
// With a 1×1 kernel the image itself is the patches; with one channel in a
// group products would be thin, and sums of shifted rows are used instead.

func init() {
	forward, weight := images{in: [3]bool{true}, out: true}, images{in: [3]bool{true, true}}
	registerConv(op.Conv2D, forward, conv2D[float32], conv2D[float64], convBlocks)
	registerConv(op.ConvAct, forward, convAct[float32], convAct[float64], convBlocks)
	registerConv(op.ConvGradInput, forward, convGradInput[float32], convGradInput[float64], convGradInputBlocks)
	registerConv(op.ConvGradWeight, weight, convGradWeight[float32], convGradWeight[float64], convGradWeightBlocks)
}

// convolution is the geometry of one call, in terms of the forward convolution.
type convolution struct {
	op.Conv
	n, c, h, w int // x
	o, kh, kw  int // weight
	oh, ow     int
	cg, og     int // channels of a group, in and out
	k, p       int // rows and columns of the patches of an image's group
	pointwise  bool
	depthwise  bool
}

func newConvolution(a op.Conv, x, weight, out []int) *convolution {
	v := &convolution{Conv: a, n: x[0], c: x[1], h: x[2], w: x[3], o: weight[0], kh: weight[2], kw: weight[3], oh: out[2], ow: out[3]}
	v.cg, v.og = v.c/v.Groups, v.o/v.Groups
	v.k, v.p = v.cg*v.kh*v.kw, v.oh*v.ow
	v.pointwise = v.kh == 1 && v.kw == 1 && v.Stride == [2]int{1, 1} && v.Pad == [2]int{}
	v.depthwise = v.cg == 1 && v.Groups > 1
	return v
}

// span returns the columns j of the result for which place k of the kernel is inside an
// axis of the given size: j·stride - pad + k·dilation in [0, size).
func (v *convolution) span(axis, k, size, out int) (lo, hi, from int) {
	s := v.Stride[axis]
	from = k*v.Dilation[axis] - v.Pad[axis]
	if from < 0 {
		lo = (-from + s - 1) / s
	}
	hi = 0
	if size > from {
		hi = min(out, (size-from-1)/s+1)
	}
	return min(lo, out), max(hi, min(lo, out)), from
}

// conv2D: operands x and weight.
func conv2D[T float](c *backend.Call, dst []T, in [3][]T) {
	forward(newConvolution(c.Attrs.(op.Conv), c.In[0].Shape, c.In[1].Shape, c.Out.Shape), dst, in[0], in[1], finish[T]{})
}

// convAct: operands x, weight and perhaps a bias.
func convAct[T float](c *backend.Call, dst []T, in [3][]T) {
	a := c.Attrs.(op.ConvEpilogue)
	forward(newConvolution(a.Conv, c.In[0].Shape, c.In[1].Shape, c.Out.Shape), dst, in[0], in[1], finish[T]{in[2], a.Act})
}

// finish is what a convolution ends with, applied to what was just computed
// while it is in the cache.
type finish[T float] struct {
	bias []T // one for each channel, or nil
	act  op.ID
}

// rows finishes elements [lo, hi) of each of the planes of p elements at x, which
// belong to channels c0, c0+1, ….
func (f finish[T]) rows(x []T, p, lo, hi, c0, channels int) {
	if f.bias == nil && f.act == op.Invalid {
		return
	}
	for c := range channels {
		row := x[c*p+lo : c*p+hi]
		if f.bias != nil {
			shift(row, row, -f.bias[c0+c])
		}
		gemm.Activate(f.act, row)
	}
}

// forward is the convolution with the method that suits it.
func forward[T float](v *convolution, dst, x, weight []T, f finish[T]) {
	switch {
	case v.depthwise:
		depthwise(v, dst, x, weight, f)
	case v.pointwise:
		v.each(func(n, g int) {
			to := group(v, dst, n, g, v.og*v.p)
			product(v.og, v.p, v.k, gemm.RowMajor(sub0(weight, g*v.og*v.k), v.k), gemm.RowMajor(group(v, x, n, g, v.cg*v.p), v.p), to, v.p, false)
			f.rows(to, v.p, 0, v.p, g*v.og, v.og)
		})
	default:
		if dst, ok := any(dst).([]float32); ok && v.minimal() {
			winograd(v, dst, any(x).([]float32), any(weight).([]float32), false)
			f.whole(v, any(dst).([]T))
			return
		}
		convolve(v, dst, x, weight, f)
	}
}

// whole finishes a result after all of it was computed.
func (f finish[T]) whole(v *convolution, dst []T) {
	if f.bias == nil && f.act == op.Invalid {
		return
	}
	pool.For(v.n*v.o, max(1, grainExpensive/max(1, v.p)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f.rows(dst[i*v.p:], v.p, 0, v.p, i%v.o, 1)
		}
	})
}

// convolve is the general forward convolution.
func convolve[T float](v *convolution, dst, x, weight []T, f finish[T]) {
	if v.k == 0 {
		clear(dst)
		f.whole(v, dst)
		return
	}
	// The division has no influence on the results: it may depend on the threads.
	l := newCanvas[T](v, v.og, 4*pool.Threads())
	if gemm.FitsRight[T](v.og) && 6*v.ow*gemm.Whole[T](v.og) < 5*l.width*v.og {
		pixelwise(v, l, dst, x, weight, f)
		return
	}
	left := lefts(v, func(g int) gemm.Mat[T] { return gemm.RowMajor(weight[g*v.og*v.k:], v.k) }, v.og, v.k)
	defer freeLefts(left)
	pool.For(v.n*v.Groups*l.blocks, max(1, serialProduct/max(1, v.og*v.k*l.rows*l.width)), func(lo, hi int) {
		pitch := gemm.Whole[T](l.columns(0))
		si, image := scratchOf[T](l.size)
		so, out := scratchOf[T](v.og * pitch)
		for i := lo; i < hi; i++ {
			n, g, block := i/l.blocks/v.Groups, i/l.blocks%v.Groups, i%l.blocks
			l.refill(image, group(v, x, n, g, v.cg*v.h*v.w), block, i > lo)
			to, columns := group(v, dst, n, g, v.og*v.p), l.columns(block)
			y0, y1 := l.span(block)
			switch {
			case l.width == v.ow && columns == gemm.Whole[T](columns): // no surplus columns
				left[g].Times(columns, image, l.starts, to[block*l.rows*v.ow:], v.p)
			case v.ow%gemm.TileColumns[T]() == 0: // none within a row
				for y := y0; y < y1; y++ {
					left[g].Times(v.ow, image[(y-y0)*l.width:], l.starts, to[y*v.ow:], v.p)
				}
			default:
				left[g].Times(columns, image, l.starts, out, pitch)
				l.narrow(to, out, pitch, block)
			}
			f.rows(to, v.p, y0*v.ow, y1*v.ow, g*v.og, v.og)
		}
		si.free()
		so.free()
	})
}

// pixelwise is convolve for few filters and rows so short that there would be many surplus
// columns.
func pixelwise[T float](v *convolution, l *canvas[T], dst, x, weight []T, f finish[T]) {
	filters := make([]*gemm.Right[T], v.Groups)
	for g := range filters {
		filters[g] = gemm.NewRight(v.k, v.og, gemm.RowMajor(weight[g*v.og*v.k:], v.k).T())
		defer filters[g].Free()
	}
	pool.For(v.n*v.Groups*l.blocks, max(1, serialProduct/max(1, v.og*v.k*l.rows*v.ow)), func(lo, hi int) {
		s, image := scratchOf[T](l.size)
		for i := lo; i < hi; i++ {
			n, g, block := i/l.blocks/v.Groups, i/l.blocks%v.Groups, i%l.blocks
			l.refill(image, group(v, x, n, g, v.cg*v.h*v.w), block, i > lo)
			y0, y1 := l.span(block)
			to := group(v, dst, n, g, v.og*v.p)
			filters[g].Times(y1-y0, v.ow, image, l.width, l.starts, to[y0*v.ow:], v.p)
			f.rows(to, v.p, y0*v.ow, y1*v.ow, g*v.og, v.og)
		}
		s.free()
	})
}

// lefts packs each group's m×k matrix.
func lefts[T float](v *convolution, a func(g int) gemm.Mat[T], m, k int) []*gemm.Left[T] {
	l := make([]*gemm.Left[T], v.Groups)
	for g := range l {
		l[g] = gemm.NewLeft(m, k, a(g))
	}
	return l
}

func freeLefts[T float](l []*gemm.Left[T]) {
	for _, l := range l {
		l.Free()
	}
}

// each calls f for every image and group.
func (v *convolution) each(f func(n, g int)) {
	pool.For(v.n*v.Groups, max(1, serialProduct/max(1, v.og*v.k*v.p)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i/v.Groups, i%v.Groups)
		}
	})
}

// group returns the part of an image tensor that belongs to image n and group g.
func group[T any](v *convolution, x []T, n, g, size int) []T {
	return sub0(x, (n*v.Groups+g)*size)[:size]
}

// sub0 is x[from:], also of no elements at all.
func sub0[T any](x []T, from int) []T {
	if len(x) == 0 {
		return nil
	}
	return x[from:]
}
