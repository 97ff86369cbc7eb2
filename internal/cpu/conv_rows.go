package cpu

import (
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
)

// The convolution that computes the gradient of an image without padding surrounds it
// with as many rows of zeros as the kernel reaches: for small images they are a large
// part of all rows. convolveRows computes the result row by row and leaves out the
// rows of the kernel that would meet zeros.

// byRows reports whether b, v's backward convolution, is to be computed row by row: where
// that takes clearly less than all of it at once, and than convScatter. Columns come in
// vectors of `columns`.
func (v *convolution) byRows(b *convolution, columns int) bool {
	dy, dx := (v.kh-1)*v.Dilation[0], (v.kw-1)*v.Dilation[1]
	if v.Stride != [2]int{1, 1} || b.Pad[0] < 0 || b.Pad[1] < 0 || b.h <= dy || 8*b.cg*b.h*(b.ow+dx) > canvasBytes {
		return false
	}
	whole := func(n int) int { return (n + columns - 1) / columns * columns }
	rows := 0
	for y := range b.oh {
		k0, k1, _ := b.rowTaps(y)
		rows += (k1 - k0) * whole(b.ow)
	}
	// A kernel with fewer than 8 sums waits for them.
	rows = rows * 8 / min(8, b.og*min(2, whole(b.ow)/columns))
	atOnce := v.kh * whole(b.oh*(b.ow+v.Pad[1]))
	scattered := v.kh * v.oh * (v.ow + dx) * (v.og + scatterCost) / v.og
	return 10*rows <= 9*min(atOnce, scattered)
}

// rowTaps returns the rows [k0, k1) of the kernel that meet the image for row y of the result,
// and the image's row that the first of them meets.
func (v *convolution) rowTaps(y int) (k0, k1, from int) {
	d := v.Dilation[0]
	top := y - v.Pad[0]
	if top < 0 {
		k0 = (-top + d - 1) / d
	}
	k1 = min(v.kh, (v.h-top+d-1)/d)
	return min(k0, max(k1, 0)), max(k1, 0), top + k0*d
}

// convolveRows is convolve for a stride of 1. The weights' element (o, c, y, x) of a group is
// at (y·cg + c)·kw + x of its row.
func convolveRows[T float](v *convolution, dst, x, weight []T) {
	left := lefts(v, func(g int) gemm.Mat[T] { return gemm.RowMajor(weight[g*v.og*v.k:], v.k) }, v.og, v.k)
	defer freeLefts(left)
	inside := *v // of the rows that the image has
	inside.Pad[0], inside.oh = 0, v.h-(v.kh-1)*v.Dilation[0]
	l := newCanvas[T](&inside, 0, 1)
	row := v.cg * v.kw // columns of the weights for a row of the kernel
	at := make([]int, v.k)
	for i := range at {
		c, ky, kx := i/v.kw%v.cg, i/row, i%v.kw
		at[i] = l.at[(c*v.kh+ky)*v.kw+kx]
	}
	starts := make([]*gemm.Starts, v.kh+1) // by the number of the kernel's rows
	for n := range starts {
		starts[n] = gemm.NewStarts[T](at[:n*row])
	}
	pitch := gemm.Whole[T](v.ow)
	pool.For(v.n*v.Groups, max(1, serialProduct/max(1, v.og*v.k*v.p)), func(lo, hi int) {
		si, image := scratchOf[T](l.size + pitch)
		so, out := scratchOf[T](v.og * pitch)
		for i := lo; i < hi; i++ {
			l.refill(image, group(v, x, i/v.Groups, i%v.Groups, v.cg*v.h*v.w), 0, i > lo)
			to := group(v, dst, i/v.Groups, i%v.Groups, v.og*v.p)
			for y := range v.oh {
				k0, k1, from := v.rowTaps(y)
				if k0 == k1 {
					for o := range v.og {
						clear(to[o*v.p+y*v.ow:][:v.ow])
					}
					continue
				}
				left[i%v.Groups].TimesSome(k0*row, k1*row, v.ow, image[from*l.width:], starts[k1-k0], out, pitch)
				for o := range v.og {
					copyShort(to[o*v.p+y*v.ow:][:v.ow], out[o*pitch:][:v.ow])
				}
			}
		}
		si.free()
		so.free()
	})
}
