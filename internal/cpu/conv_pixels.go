package cpu

import "github.com/locusml/locus/internal/cpu/gemm"

// windowed reports whether a weight's gradient is summed over the pixels of the result, each
// with its window of the padded image, whatever the stride: then no pixel is computed that
// is not there, and neither patches nor planes are copied.
func windowed[T float](v *convolution) bool {
	return v.Dilation[1] == 1 && v.kw > 1 && gemm.FitsWindows[T](v.k, v.og)
}

// windowPieces is into how many pieces of rows an image is divided where there are few images:
// a part of the sums then has some of them. It depends on the shape alone.
func windowPieces(v *convolution) int {
	return max(1, min(gradParts/v.n, v.oh/(2*v.kh)))
}

// gradWindows returns a gradAdder for such convolutions, which counts pieces of images. See
// gradWeights for transposed.
func gradWindows[T float](v *convolution, pieces int) (add gradAdder[T], transposed bool) {
	type piece struct {
		at     int // in the result
		canvas *canvas[T]
		gemm.Windows
	}
	list := make([]piece, pieces)
	for i := range list {
		y0, y1 := v.oh*i/pieces, v.oh*(i+1)/pieces
		// The image is laid out as for a convolution without strides, from the piece's first row on.
		u := *v
		u.Stride = [2]int{1, 1}
		u.Pad[0] -= y0 * v.Stride[0]
		u.oh, u.ow = (y1-y0-1)*v.Stride[0]+1, (v.ow-1)*v.Stride[1]+1
		l := newCanvas[T](&u, 0, 1)
		at := make([]int, (y1-y0)*v.ow)
		for i := range at {
			at[i] = i/v.ow*v.Stride[0]*l.width + i%v.ow*v.Stride[1]
		}
		list[i] = piece{y0 * v.ow, l, gemm.Windows{Channels: v.cg, Rows: v.kh, Cols: v.kw,
			Area: l.height * l.width, Step: v.Dilation[0] * l.width, Starts: gemm.NewStarts[T](at)}}
	}
	pitch := gemm.Whole[T](v.og)
	transposed = pitch == v.og
	return func(v *convolution, to, grad, x []T, n0, n1 int) {
		size := 0
		for _, p := range list {
			size = max(size, p.canvas.size)
		}
		si, image := scratchOf[T](size)
		defer si.free()
		sums := to
		if !transposed {
			var room *scratch
			room, sums = scratchOf[T](v.Groups * v.k * pitch)
			defer room.free()
			clear(sums)
		}
		for i := n0; i < n1; i++ {
			p := &list[i%pieces]
			for g := range v.Groups {
				p.canvas.refill(image, group(v, x, i/pieces, g, v.cg*v.h*v.w), 0, g > 0 || pieces == 1 && i > n0)
				gemm.AddWindows(&p.Windows, v.og, image, group(v, grad, i/pieces, g, v.og*v.p)[p.at:], v.p, sums[g*v.k*pitch:])
			}
		}
		if transposed {
			return
		}
		for o := range v.o {
			g := o / v.og
			for r := range v.k {
				to[o*v.k+r] += sums[(g*v.k+r)*pitch+o%v.og]
			}
		}
	}, transposed
}
