package cpu

import (
	"github.com/locusml/locus/internal/cpu/depth"
	"github.com/locusml/locus/internal/cpu/pool"
)

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
