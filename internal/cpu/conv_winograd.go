package cpu

import "github.com/locusml/locus/internal/cpu/gemm"

// winogradChannels is the least number of channels, in and out, for which the
// transforms of package gemm's Filters cost less than the multiplications they save.
const winogradChannels = 8

// minimal reports whether a convolution is computed with transformed filters: see gemm.Filters.
func (v *convolution) minimal() bool {
	return v.kh == 3 && v.kw == 3 && v.Stride == [2]int{1, 1} && v.Dilation == [2]int{1, 1} &&
		min(v.cg, v.og) >= winogradChannels && v.n*v.p >= 128
}

// winograd computes such a convolution, or, flipped, the convolution of v.backward
// with the weights of the forward one. Images with a result that is not finite are
// computed again without the transforms, which spread it to neighbors. It reports
// whether there are such images.
func winograd(v *convolution, dst, x, weight []float32, flipped bool) bool {
	bad := make([]bool, v.n)
	found := false
	for g := range v.Groups {
		o, c := v.og, v.cg
		if flipped {
			o, c = c, o
		}
		f := gemm.NewFilters(o, c, weight[g*v.og*v.k:], flipped)
		for _, n := range f.Convolve(&gemm.Images{
			X: x[g*v.cg*v.h*v.w:], Y: dst[g*v.og*v.p:], N: v.n, H: v.h, W: v.w, OH: v.oh, OW: v.ow, Pad: v.Pad,
			NextX: v.c * v.h * v.w, NextY: v.o * v.p,
		}) {
			bad[n], found = true, true
		}
		f.Free()
	}
	if !found {
		return false
	}
	if flipped {
		s, turned := scratchOf[float32](len(weight))
		defer s.free()
		v.flip(func(to, from int) { turned[to] = weight[from] })
		weight = turned
	}
	one := *v
	one.n = 1
	for n, again := range bad {
		if again {
			convolve(&one, dst[n*v.o*v.p:][:v.o*v.p], x[n*v.c*v.h*v.w:][:v.c*v.h*v.w], weight, finish[float32]{})
		}
	}
	return true
}

// winogradGrad computes the weight's gradient of such a convolution, and reports whether it
// is finite: if not, it is to be computed again, since the transforms spread infinities.
func winogradGrad(v *convolution, dst, grad, x []float32) bool {
	for g := range v.Groups {
		if !gemm.FilterGrad(v.og, v.cg, &gemm.Images{
			X: x[g*v.cg*v.h*v.w:], Y: grad[g*v.og*v.p:], N: v.n, H: v.h, W: v.w, OH: v.oh, OW: v.ow, Pad: v.Pad,
			NextX: v.c * v.h * v.w, NextY: v.o * v.p,
		}, dst[g*v.og*v.k:]) {
			return false
		}
	}
	return true
}
