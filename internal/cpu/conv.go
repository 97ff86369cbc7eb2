package cpu

import (
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/depth"
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
// The patches are never made. In an image with its padding in place, every row
// of them is the image itself from some element on, if the result is given rows
// as long as the padded image's and what comes out in the columns too many is
// dropped. With a stride s the image is first taken apart into s×s planes of every
// s-th element, of which the same is true. See canvas.go.
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

// rows finishes elements [lo, hi) of each of the planes of p elements at x, those
// of channels c0, c0+1, ….
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
	pool.For(v.n*v.o, max(1, grainDear/max(1, v.p)), func(lo, hi int) {
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
			case l.width == v.ow && columns == gemm.Whole[T](columns): // no columns too many
				left[g].Times(columns, image, l.starts, to[block*l.rows*v.ow:], v.p)
			case v.ow%gemm.TileColumns[T]() == 0: // none in a row
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

// pixelwise is convolve for few filters and rows so short that many columns would be too many.
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

// convGradInput: operands gradient and weight.
func convGradInput[T float](c *backend.Call, dst []T, in [3][]T) {
	gradInput(newConvolution(c.Attrs.(op.Conv), c.Out.Shape, c.In[1].Shape, c.In[0].Shape), dst, in[0], in[1])
}

func gradInput[T float](v *convolution, dst, grad, weight []T) {
	switch b, ok := v.backward(); {
	case v.o == 0 || v.p == 0:
		clear(dst)
	case v.depthwise:
		s, flipped := scratchOf[T](len(weight))
		defer s.free()
		b.flip(func(to, from int) { flipped[to] = weight[from] })
		if !ok || !filterPlanes(b, dst, grad, flipped, finish[T]{}) || hasNaN(dst) {
			shiftedGradInput(v, dst, grad, weight)
		}
	case v.pointwise:
		v.each(func(n, g int) {
			product(v.k, v.p, v.og, gemm.RowMajor(weight[g*v.og*v.k:], v.k).T(), gemm.RowMajor(group(v, grad, n, g, v.og*v.p), v.p),
				group(v, dst, n, g, v.k*v.p), v.p, false)
		})
	case !b.minimal() && v.byRows(b, gemm.Whole[T](1)):
		s, flipped := scratchOf[T](len(weight))
		taps := v.kh * v.kw
		b.flip(func(to, from int) {
			o, c, ky, kx := to/b.k, to%b.k/taps, to%taps/v.kw, to%v.kw
			flipped[o*b.k+(ky*b.cg+c)*v.kw+kx] = weight[from]
		})
		convolveRows(b, dst, grad, flipped)
		s.free()
	case ok:
		if dst, ok := any(dst).([]float32); ok && b.minimal() {
			if !winograd(b, dst, any(grad).([]float32), any(weight).([]float32), true) {
				return // all of it is finite
			}
			break
		}
		s, flipped := scratchOf[T](len(weight))
		b.flip(func(to, from int) { flipped[to] = weight[from] })
		convolve(b, dst, grad, flipped, finish[T]{})
		s.free()
	default:
		convScatter(v, dst, grad, weight)
	}
	if !v.depthwise && !v.pointwise && hasNaN(dst) {
		shiftedGradInput(v, dst, grad, weight)
	}
}

// scatterCost is how many products take as long as convScatter needs to store an element
// of the patches' gradient and to add it to its place.
const scatterCost = 12

// backward returns the convolution whose result is the gradient of x, if there is one that
// does not compute much more than convScatter: of the gradient with flipped kernels.
func (v *convolution) backward() (*convolution, bool) {
	b := *v
	b.c, b.h, b.w, b.o, b.oh, b.ow = v.o, v.oh, v.ow, v.c, v.h, v.w
	b.cg, b.og = v.og, v.cg
	b.k, b.p = b.cg*v.kh*v.kw, b.oh*b.ow
	dy, dx := (v.kh-1)*v.Dilation[0], (v.kw-1)*v.Dilation[1]
	b.Pad = [2]int{dy - v.Pad[0], dx - v.Pad[1]}
	// The padding at the end of a row is shared with the next.
	return &b, v.Stride == [2]int{1, 1} && b.Pad[0] >= 0 && b.Pad[1] >= 0 && b.oh*(b.ow+v.Pad[1])*v.og <= v.oh*(v.ow+dx)*(v.og+scatterCost)
}

// flip calls f with each element of the weights of a backward convolution, flipped, in
// and out channels changed over within a group, and where in the forward one's it comes from.
func (v *convolution) flip(f func(to, from int)) {
	taps := v.kh * v.kw
	to := 0
	for g := range v.Groups {
		for o := range v.og {
			for c := g * v.cg; c < (g+1)*v.cg; c++ {
				from := (c*v.og+o)*taps + taps - 1
				for t := range taps {
					f(to+t, from-t)
				}
				to += taps
			}
		}
	}
}

// convScatter computes the gradient of x by adding the patches' to their places.
func convScatter[T float](v *convolution, dst, grad, weight []T) {
	left := lefts(v, func(g int) gemm.Mat[T] { return gemm.RowMajor(weight[g*v.og*v.k:], v.k).T() }, v.k, v.og)
	defer freeLefts(left)
	l := newCanvas[T](v, v.k, 1)
	whole := newCanvas[T](v, 0, 1) // of an image
	pitch := gemm.Whole[T](l.columns(0))
	at := make([]int, v.og)
	for o := range at {
		at[o] = o * pitch
	}
	rows := gemm.NewStarts[T](at)
	pool.For(v.n*v.Groups, max(1, serialProduct/max(1, v.og*v.k*v.p)), func(lo, hi int) {
		si, image := scratchOf[T](whole.size)
		sg, wide := scratchOf[T](v.og * pitch)
		sp, patches := scratchOf[T](v.k * pitch)
		for i := lo; i < hi; i++ {
			clear(image)
			for block := range l.blocks {
				n := l.columns(block)
				l.widen(wide, group(v, grad, i/v.Groups, i%v.Groups, v.og*v.p), pitch, block)
				left[i%v.Groups].Times(n, wide, rows, patches, pitch)
				for r, at := range whole.at {
					at += block * l.rows * l.width
					addTo(image[at:at+n], patches[r*pitch:r*pitch+n])
				}
			}
			whole.gather(group(v, dst, i/v.Groups, i%v.Groups, v.cg*v.h*v.w), image)
		}
		si.free()
		sg.free()
		sp.free()
	})
}

// Partial sums of the weight's gradient: so many at most, and so many bytes.
const (
	gradParts = 32
	gradBytes = 8 << 20
)

// convGradWeight: operands gradient and x.
func convGradWeight[T float](c *backend.Call, dst []T, in [3][]T) {
	gradWeight(newConvolution(c.Attrs.(op.Conv), c.In[1].Shape, c.Out.Shape, c.In[0].Shape), dst, in)
}

func gradWeight[T float](v *convolution, dst []T, in [3][]T) {
	if v.n == 0 || v.p == 0 {
		clear(dst)
		return
	}
	if w, ok := any(dst).([]float32); ok && v.minimal() && winogradGrad(v, w, any(in[0]).([]float32), any(in[1]).([]float32)) {
		return
	}
	if !v.depthwise && !v.pointwise && windowed[T](v) {
		pieces := windowPieces(v)
		add, transposed := gradWindows[T](v, pieces)
		sumGradWeights(v, dst, in, add, v.n*pieces, transposed)
	} else {
		add, transposed := gradWeights[T](v)
		sumGradWeights(v, dst, in, add, v.n, transposed)
	}
	if !v.depthwise && !v.pointwise && hasNaN(dst) {
		sumGradWeights(v, dst, in, shiftedGradWeight[T], v.n, false)
	}
}

// hasNaN reports whether one of x is not a number. Around a gradient and in the
// columns too many there are zeros, which with an infinity or a NaN of a weight or
// an element of x make a NaN where there is none: then the gradient is
// computed again without them.
func hasNaN[T float](x []T) bool {
	var found atomic.Bool
	pool.For(len(x), grainCheap, func(lo, hi int) {
		if m := largestOf(x[lo:hi]); m != m { // NaN is the largest
			found.Store(true)
		}
	})
	return found.Load()
}

// gradAdder adds the part that images [n0, n1), or as many pieces of images, have of a weight's gradient.
type gradAdder[T float] func(v *convolution, to, grad, x []T, n0, n1 int)

// sumGradWeights adds up n images, or pieces of images.
func sumGradWeights[T float](v *convolution, dst []T, in [3][]T, add gradAdder[T], n int, transposed bool) {
	// They are summed in parts whose number does not depend on the threads.
	parts := max(1, min(n, gradParts, gradBytes/(len(dst)*widthOf[T]())))
	s, sums := scratchOf[T](len(dst) * parts)
	defer s.free()
	pool.For(parts, 1, func(lo, hi int) {
		for part := lo; part < hi; part++ {
			to := sums[part*len(dst):][:len(dst)]
			clear(to)
			add(v, to, in[0], in[1], n*part/parts, n*(part+1)/parts)
		}
	})
	pool.For(len(dst), grainCheap/parts+1, func(lo, hi int) {
		for part := 1; part < parts; part++ {
			addTo(sums[lo:hi], sums[part*len(dst):][lo:hi])
		}
	})
	if !transposed {
		copy(dst, sums)
		return
	}
	for o := range v.o { // sums has a row for each row of a group's patches
		g := o / v.og
		for r := range v.k {
			dst[o*v.k+r] = sums[(g*v.k+r)*v.og+o%v.og]
		}
	}
}

// gradWeights picks the function that adds images' parts; transposed means that its sums
// are k×og matrices, one for each group, instead of og×k ones.
func gradWeights[T float](v *convolution) (add gradAdder[T], transposed bool) {
	switch {
	case v.depthwise:
		return shiftedGradWeight[T], false
	case v.pointwise:
		return func(v *convolution, to, grad, x []T, n0, n1 int) {
			for i := n0 * v.Groups; i < n1*v.Groups; i++ {
				n, g := i/v.Groups, i%v.Groups
				product(v.og, v.k, v.p, gemm.RowMajor(group(v, grad, n, g, v.og*v.p), v.p),
					gemm.RowMajor(group(v, x, n, g, v.cg*v.p), v.p).T(), to[g*v.og*v.k:], v.k, true)
			}
		}, false
	}
	// Larger blocks than the result's: they are summed, and what lies adjacent in a
	// gradient is read faster the longer it is.
	l := newCanvas[T](v, (v.og+3)/4, 1)
	// Few channels are summed for the places of a row of the kernel at once, in
	// whose patches one element follows the other.
	few := v.og <= 2*gemm.TileColumns[T]() && v.Stride == [2]int{1, 1}
	return func(v *convolution, to, grad, x []T, n0, n1 int) {
		si, image := scratchOf[T](l.size)
		sg, wide := scratchOf[T](v.og*l.columns(0) + gemm.Slack)
		first := n0 * v.Groups * l.blocks
		for i := first; i < n1*v.Groups*l.blocks; i++ {
			n, g, block := i/l.blocks/v.Groups, i/l.blocks%v.Groups, i%l.blocks
			l.refill(image, group(v, x, n, g, v.cg*v.h*v.w), block, i > first)
			out, w, columns := group(v, grad, n, g, v.og*v.p), to[g*v.og*v.k:][:v.og*v.k], l.columns(block)
			if !few {
				l.widen(wide, out, columns, block)
				gemm.AddLines(v.og, v.k, columns, gemm.RowMajor(wide, columns), image, l.starts, w, v.k)
				continue
			}
			l.turn(wide, out, block)
			for c := range v.cg {
				taps := v.kh * v.kw
				gemm.Taps(v.kh, v.kw, v.og, columns, image[l.at[c*taps]:], v.Dilation[1], v.Dilation[0]*l.width, wide, v.og, w[c*taps*v.og:], v.og)
			}
		}
		si.free()
		sg.free()
	}, few
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

// eachTap calls f for every place of the kernel and every row of the result where
// it is inside x: columns j0 to j1 of row y meet row iy of x from column at on.
func (v *convolution) eachTap(f func(tap, y, iy, j0, j1, at int)) {
	for kh := range v.kh {
		y0, y1, fromY := v.span(0, kh, v.h, v.oh)
		for kw := range v.kw {
			j0, j1, from := v.span(1, kw, v.w, v.ow)
			if j0 == j1 {
				continue
			}
			for y := y0; y < y1; y++ {
				f(kh*v.kw+kw, y, fromY+y*v.Stride[0], j0, j1, from+j0*v.Stride[1])
			}
		}
	}
}

// filter returns what convolves planes of float32 with a 3×3 filter each, or nil.
func (v *convolution) filter() *depth.Filter {
	if v.cg != 1 || v.og != 1 || v.kh != 3 || v.kw != 3 || v.Dilation != [2]int{1, 1} || v.Stride[0] != v.Stride[1] {
		return nil
	}
	return depth.New(depth.Shape{H: v.h, W: v.w, OH: v.oh, OW: v.ow, Stride: v.Stride[0], Pad: v.Pad})
}

// filterPlanes convolves planes with a Filter if there is one.
func filterPlanes[T float](v *convolution, dst, x, weight []T, end finish[T]) bool {
	y, ok := any(dst).([]float32)
	if !ok {
		return false
	}
	f := v.filter()
	if f == nil {
		return false
	}
	pool.For(v.n*v.c, max(1, grainCheap/(v.h*v.w)), func(lo, hi int) {
		f.Convolve(y, any(x).([]float32), any(weight).([]float32), lo, hi)
		for i := lo; i < hi; i++ {
			end.rows(dst[i*v.p:], v.p, 0, v.p, i%v.o, 1)
		}
	})
	return true
}

func depthwise[T float](v *convolution, dst, x, weight []T, f finish[T]) {
	if filterPlanes(v, dst, x, weight, f) {
		return
	}
	step, taps := v.Stride[1], v.kh*v.kw
	pool.For(v.n*v.o, max(1, grainCheap/(v.p*taps)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			n, o := i/v.o, i%v.o
			to, from := dst[i*v.p:][:v.p], x[(n*v.c+o/v.og)*v.h*v.w:][:v.h*v.w]
			clear(to)
			v.eachTap(func(tap, y, iy, j0, j1, at int) {
				w, row, line := weight[o*taps+tap], to[y*v.ow+j0:y*v.ow+j1], from[iy*v.w:][:v.w]
				if step == 1 {
					axpy(row, w, line[at:at+len(row)])
					return
				}
				for j := range row {
					row[j] += w * line[at]
					at += step
				}
			})
			f.rows(to, v.p, 0, v.p, o, 1)
		}
	})
}

func shiftedGradInput[T float](v *convolution, dst, grad, weight []T) {
	step, taps := v.Stride[1], v.kh*v.kw
	pool.For(v.n*v.c, max(1, grainCheap/(v.og*v.p*taps)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			n, g, c := i/v.c, i%v.c/v.cg, i%v.cg
			to := dst[i*v.h*v.w:][:v.h*v.w]
			clear(to)
			for o := g * v.og; o < (g+1)*v.og; o++ {
				from, weights := grad[(n*v.o+o)*v.p:][:v.p], weight[(o*v.cg+c)*taps:][:taps]
				v.eachTap(func(tap, y, iy, j0, j1, at int) {
					w, row, line := weights[tap], from[y*v.ow+j0:y*v.ow+j1], to[iy*v.w:][:v.w]
					if step == 1 {
						axpy(line[at:at+len(row)], w, row)
						return
					}
					for _, g := range row {
						line[at] += w * g
						at += step
					}
				})
			}
		}
	})
}

func shiftedGradWeight[T float](v *convolution, to, grad, x []T, n0, n1 int) {
	step, taps, all := v.Stride[1], v.kh*v.kw, v.o*v.cg
	for i := n0 * all; i < n1*all; i++ {
		n, i := i/all, i%all
		o, c := i/v.cg, i/v.cg/v.og*v.cg+i%v.cg
		from, image := grad[(n*v.o+o)*v.p:][:v.p], x[(n*v.c+c)*v.h*v.w:][:v.h*v.w]
		w := to[i*taps:][:taps]
		v.eachTap(func(tap, y, iy, j0, j1, at int) {
			row, line := from[y*v.ow+j0:y*v.ow+j1], image[iy*v.w:][:v.w]
			if step == 1 {
				w[tap] += dotOf(row, line[at:at+len(row)])
				return
			}
			var s T
			for _, g := range row {
				s += g * line[at]
				at += step
			}
			w[tap] += s
		})
	}
}
