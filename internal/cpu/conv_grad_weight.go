package cpu

import (
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

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
// surplus columns there are zeros, which times an infinity or a NaN of a weight or of
// x make a NaN where there should be none: then the gradient is computed again
// without them.
func hasNaN[T float](x []T) bool {
	var found atomic.Bool
	pool.For(len(x), grainCheap, func(lo, hi int) {
		if m := largestOf(x[lo:hi]); m != m { // NaN is the largest
			found.Store(true)
		}
	})
	return found.Load()
}

// gradAdder adds the contribution of images [n0, n1), or of as many pieces of images, to a
// weight's gradient.
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
	// Larger blocks than the result's: they are summed, and adjacent elements of a
	// gradient are read faster the more there are.
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
