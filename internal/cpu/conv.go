package cpu

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Convolutions are matrix products. For an image and a group, with the patches
// of x as columns (a row for each channel and place in the kernel, a column for
// each pixel of the result),
//
//	result      = weight · patches
//	grad weight = gradient · patchesᵀ, summed over images
//	grad x      = weightᵀ · gradient, each row added back to where it came from
//
// Patches are made for a few rows of the result at a time, so that they stay in
// the cache. With a 1×1 kernel the image itself is the patches; with one
// channel in a group products would be thin, and sums of shifted rows are used instead.

func init() {
	registerDense(op.Conv2D, conv2D[float32], conv2D[float64])
	registerDense(op.ConvGradInput, convGradInput[float32], convGradInput[float64])
	registerDense(op.ConvGradWeight, convGradWeight[float32], convGradWeight[float64])
}

// convolution is the geometry of one call, in terms of the forward convolution.
type convolution struct {
	op.Conv
	n, c, h, w   int // x
	o, kh, kw    int // weight
	oh, ow       int
	cg, og       int // channels of a group, in and out
	k, p         int // rows and columns of the patches of an image's group
	pointwise    bool
	depthwise    bool
	rows, blocks int // rows of the result whose patches are made at once
}

// patchBytes is the size of a block of patches.
const patchBytes = 512 << 10

func newConvolution(a op.Conv, x, weight, out []int, width int) *convolution {
	v := &convolution{Conv: a, n: x[0], c: x[1], h: x[2], w: x[3], o: weight[0], kh: weight[2], kw: weight[3], oh: out[2], ow: out[3]}
	v.cg, v.og = v.c/v.Groups, v.o/v.Groups
	v.k, v.p = v.cg*v.kh*v.kw, v.oh*v.ow
	v.pointwise = v.kh == 1 && v.kw == 1 && v.Stride == [2]int{1, 1} && v.Pad == [2]int{}
	v.depthwise = v.cg == 1 && v.Groups > 1
	v.rows = min(v.oh, max(1, patchBytes/(max(1, v.k)*max(1, v.ow)*width)))
	v.blocks = (v.oh-1)/v.rows + 1
	return v
}

// span gives the columns j of the result for which place k of the kernel is inside an
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

// patches writes those of rows y0 to y1 of the result; x is the group's image.
func patches[T float](v *convolution, dst, x []T, y0, y1 int) {
	width := (y1 - y0) * v.ow
	pool.For(v.k, max(1, grainCheap/width), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			c, kh, kw := r/(v.kh*v.kw), r/v.kw%v.kh, r%v.kw
			plane := x[c*v.h*v.w:][:v.h*v.w]
			j0, j1, from := v.span(1, kw, v.w, v.ow)
			for y := y0; y < y1; y++ {
				row := dst[r*width+(y-y0)*v.ow:][:v.ow]
				iy := y*v.Stride[0] - v.Pad[0] + kh*v.Dilation[0]
				if iy < 0 || iy >= v.h || j0 == j1 {
					clear(row)
					continue
				}
				clear(row[:j0])
				clear(row[j1:])
				line := plane[iy*v.w:][:v.w]
				if v.Stride[1] == 1 {
					copy(row[j0:j1], line[from+j0:])
					continue
				}
				at := from + j0*v.Stride[1]
				for j := j0; j < j1; j++ {
					row[j] = line[at]
					at += v.Stride[1]
				}
			}
		}
	})
}

// addPatches is the transpose of patches: it adds src to the image x.
func addPatches[T float](v *convolution, x, src []T, y0, y1 int) {
	width := (y1 - y0) * v.ow
	// Channels are independent; within one, rows are added in order.
	pool.For(v.cg, max(1, grainCheap/(width*v.kh*v.kw)), func(lo, hi int) {
		for r := lo * v.kh * v.kw; r < hi*v.kh*v.kw; r++ {
			c, kh, kw := r/(v.kh*v.kw), r/v.kw%v.kh, r%v.kw
			plane := x[c*v.h*v.w:][:v.h*v.w]
			j0, j1, from := v.span(1, kw, v.w, v.ow)
			for y := y0; y < y1; y++ {
				iy := y*v.Stride[0] - v.Pad[0] + kh*v.Dilation[0]
				if iy < 0 || iy >= v.h || j0 == j1 {
					continue
				}
				row := src[r*width+(y-y0)*v.ow:][j0:j1]
				line := plane[iy*v.w:][:v.w]
				if v.Stride[1] == 1 {
					line = line[from+j0:][:len(row)]
					addTo(line, row)
					continue
				}
				at := from + j0*v.Stride[1]
				for _, g := range row {
					line[at] += g
					at += v.Stride[1]
				}
			}
		}
	})
}

// conv2D: operands x and weight.
func conv2D[T float](c *backend.Call, dst []T, in [2][]T) {
	v := newConvolution(c.Attrs.(op.Conv), c.In[0].Shape, c.In[1].Shape, c.Out.Shape, widthOf[T]())
	x, weight := in[0], in[1]
	if v.depthwise {
		depthwise(v, dst, x, weight)
		return
	}
	v.each(func(n, g int) {
		image, w := group(v, x, n, g, v.cg*v.h*v.w), gemm.RowMajor(weight[g*v.og*v.k:], v.k)
		out := group(v, dst, n, g, v.og*v.p)
		if v.pointwise {
			product(v.og, v.p, v.k, w, gemm.RowMajor(image, v.p), out, v.p, false)
			return
		}
		s, buf := scratchOf[T](v.k * v.rows * v.ow)
		for y := 0; y < v.oh; y += v.rows {
			y1 := min(y+v.rows, v.oh)
			width := (y1 - y) * v.ow
			patches(v, buf, image, y, y1)
			product(v.og, width, v.k, w, gemm.RowMajor(buf, width), out[y*v.ow:], v.p, false)
		}
		s.free()
	})
}

// convGradInput: operands gradient and weight.
func convGradInput[T float](c *backend.Call, dst []T, in [2][]T) {
	v := newConvolution(c.Attrs.(op.Conv), c.Out.Shape, c.In[1].Shape, c.In[0].Shape, widthOf[T]())
	grad, weight := in[0], in[1]
	if v.depthwise {
		depthwiseGradInput(v, dst, grad, weight)
		return
	}
	v.each(func(n, g int) {
		image, w := group(v, dst, n, g, v.cg*v.h*v.w), gemm.RowMajor(sub0(weight, g*v.og*v.k), v.k).T()
		out := group(v, grad, n, g, v.og*v.p)
		if v.pointwise {
			product(v.k, v.p, v.og, w, gemm.RowMajor(out, v.p), image, v.p, false)
			return
		}
		clear(image)
		s, buf := scratchOf[T](v.k * v.rows * v.ow)
		for y := 0; y < v.oh; y += v.rows {
			y1 := min(y+v.rows, v.oh)
			width := (y1 - y) * v.ow
			product(v.k, width, v.og, w, gemm.RowMajor(sub0(out, y*v.ow), v.p), buf, width, false)
			addPatches(v, image, buf, y, y1)
		}
		s.free()
	})
}

// Partial sums of the weight's gradient: so many at most, and so many bytes.
const (
	gradParts = 8
	gradBytes = 16 << 20
)

// convGradWeight: operands gradient and x.
func convGradWeight[T float](c *backend.Call, dst []T, in [2][]T) {
	v := newConvolution(c.Attrs.(op.Conv), c.In[1].Shape, c.Out.Shape, c.In[0].Shape, widthOf[T]())
	grad, x := in[0], in[1]
	// Images are summed in parts whose number does not depend on the threads.
	parts := max(1, min(v.n, gradParts, gradBytes/(len(dst)*widthOf[T]())))
	s, partial := scratchOf[T](len(dst) * (parts - 1))
	defer s.free()
	sums := func(part int) []T {
		if part == 0 {
			return dst
		}
		return partial[(part-1)*len(dst):][:len(dst)]
	}
	pool.For(parts, 1, func(lo, hi int) {
		for part := lo; part < hi; part++ {
			to := sums(part)
			clear(to)
			for n := v.n * part / parts; n < v.n*(part+1)/parts; n++ {
				gradWeightImage(v, to, grad, x, n)
			}
		}
	})
	for part := 1; part < parts; part++ {
		pool.For(len(dst), grainCheap, func(lo, hi int) { addTo(dst[lo:hi], sums(part)[lo:hi]) })
	}
}

// gradWeightImage adds image n's part.
func gradWeightImage[T float](v *convolution, to, grad, x []T, n int) {
	if v.depthwise {
		depthwiseGradWeight(v, to, grad, x, n)
		return
	}
	for g := range v.Groups {
		image, out := group(v, x, n, g, v.cg*v.h*v.w), group(v, grad, n, g, v.og*v.p)
		w := to[g*v.og*v.k:][:v.og*v.k]
		if v.pointwise {
			product(v.og, v.k, v.p, gemm.RowMajor(out, v.p), gemm.RowMajor(image, v.p).T(), w, v.k, true)
			continue
		}
		s, buf := scratchOf[T](v.k * v.rows * v.ow)
		for y := 0; y < v.oh; y += v.rows {
			y1 := min(y+v.rows, v.oh)
			width := (y1 - y) * v.ow
			patches(v, buf, image, y, y1)
			product(v.og, v.k, width, gemm.RowMajor(sub0(out, y*v.ow), v.p), gemm.RowMajor(buf, width).T(), w, v.k, true)
		}
		s.free()
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

// group gives the part of an image tensor that belongs to image n and group g.
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

func depthwise[T float](v *convolution, dst, x, weight []T) {
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
		}
	})
}

func depthwiseGradInput[T float](v *convolution, dst, grad, weight []T) {
	step, taps := v.Stride[1], v.kh*v.kw
	pool.For(v.n*v.c, max(1, grainCheap/(v.og*v.p*taps)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			n, c := i/v.c, i%v.c
			to := dst[i*v.h*v.w:][:v.h*v.w]
			clear(to)
			for o := c * v.og; o < (c+1)*v.og; o++ {
				from := grad[(n*v.o+o)*v.p:][:v.p]
				v.eachTap(func(tap, y, iy, j0, j1, at int) {
					w, row, line := weight[o*taps+tap], from[y*v.ow+j0:y*v.ow+j1], to[iy*v.w:][:v.w]
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

func depthwiseGradWeight[T float](v *convolution, to, grad, x []T, n int) {
	step, taps := v.Stride[1], v.kh*v.kw
	for o := range v.o {
		from, image := grad[(n*v.o+o)*v.p:][:v.p], x[(n*v.c+o/v.og)*v.h*v.w:][:v.h*v.w]
		w := to[o*taps:][:taps]
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
