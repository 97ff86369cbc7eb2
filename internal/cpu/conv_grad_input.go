package cpu

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

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
// does not compute much more than convScatter: the convolution of the gradient with
// flipped kernels.
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

// flip calls f for each element of the weights of a backward convolution, which are flipped
// and have input and output channels exchanged within a group: with its place and its place
// in the forward convolution's weights.
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

// convScatter computes the gradient of x by adding the gradients of the patches to
// their places.
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
