package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// naive calls f for every product of a convolution: of an element of the result, one
// of x and one of the weight.
func naive(v *convolution, f func(out, x, weight int)) {
	for n := range v.n {
		for o := range v.o {
			for c := range v.cg {
				for i := range v.oh * v.ow * v.kh * v.kw {
					tap, p := i%(v.kh*v.kw), i/(v.kh*v.kw)
					iy := p/v.ow*v.Stride[0] - v.Pad[0] + tap/v.kw*v.Dilation[0]
					ix := p%v.ow*v.Stride[1] - v.Pad[1] + tap%v.kw*v.Dilation[1]
					if iy >= 0 && iy < v.h && ix >= 0 && ix < v.w {
						f((n*v.o+o)*v.p+p, ((n*v.c+o/v.og*v.cg+c)*v.h+iy)*v.w+ix, (o*v.cg+c)*v.kh*v.kw+tap)
					}
				}
			}
		}
	}
}

// Every path of the convolutions, with all elements finite and with one that is
// not: only what it is multiplied with may change. (A weight that is not finite also
// meets the padding's zeros, so the result is checked with finite weights.)
func TestConvolutionPaths(t *testing.T) {
	pair := func(a, b int) [2]int { return [2]int{a, b} }
	for _, s := range []struct {
		n, c, h, w, o, kh, kw int
		op.Conv
	}{
		{2, 1, 9, 11, 6, 5, 5, op.Conv{Stride: pair(1, 1), Pad: pair(2, 2), Dilation: pair(1, 1), Groups: 1}},
		{3, 6, 14, 14, 16, 5, 5, op.Conv{Stride: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{2, 6, 14, 13, 32, 5, 5, op.Conv{Stride: pair(2, 2), Dilation: pair(1, 1), Groups: 2}},
		{2, 4, 8, 7, 70, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{2, 3, 13, 12, 8, 7, 7, op.Conv{Stride: pair(2, 2), Pad: pair(3, 3), Dilation: pair(1, 1), Groups: 1}},
		{2, 6, 10, 9, 4, 1, 1, op.Conv{Stride: pair(2, 3), Dilation: pair(1, 1), Groups: 2}},
		{2, 4, 11, 12, 6, 3, 2, op.Conv{Stride: pair(1, 1), Pad: pair(1, 3), Dilation: pair(2, 3), Groups: 2}},
		{2, 4, 6, 5, 3, 2, 3, op.Conv{Stride: pair(1, 1), Pad: pair(4, 5), Dilation: pair(1, 1), Groups: 1}},
		{1, 2, 9, 10, 3, 3, 4, op.Conv{Stride: pair(3, 2), Pad: pair(2, 1), Dilation: pair(2, 3), Groups: 1}},
		{2, 17, 9, 7, 19, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{3, 16, 8, 11, 16, 3, 3, op.Conv{Stride: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{5, 32, 6, 5, 34, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(0, 2), Dilation: pair(1, 1), Groups: 2}},
		{1, 20, 13, 36, 40, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(2, 1), Dilation: pair(1, 1), Groups: 1}},
		{130, 16, 1, 1, 16, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{2, 5, 9, 12, 5, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 5}},
		{2, 5, 9, 12, 5, 3, 3, op.Conv{Stride: pair(2, 2), Pad: pair(1, 0), Dilation: pair(1, 1), Groups: 5}},
		{2, 3, 9, 12, 6, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(0, 2), Dilation: pair(1, 1), Groups: 3}},
		{2, 4, 9, 12, 4, 5, 5, op.Conv{Stride: pair(1, 1), Pad: pair(2, 2), Dilation: pair(1, 1), Groups: 4}},
		{1, 3, 9, 64, 7, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{1, 8, 41, 60, 9, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
	} {
		oh := (s.h+2*s.Pad[0]-(s.kh-1)*s.Dilation[0]-1)/s.Stride[0] + 1
		ow := (s.w+2*s.Pad[1]-(s.kw-1)*s.Dilation[1]-1)/s.Stride[1] + 1
		v := newConvolution(s.Conv, []int{s.n, s.c, s.h, s.w}, []int{s.o, s.c / s.Groups, s.kh, s.kw}, []int{s.n, s.o, oh, ow})
		for _, odd := range []float32{1, float32(math.Inf(1)), float32(math.NaN())} {
			r := rand.New(rand.NewPCG(1, 2))
			random := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				return x
			}
			x, weight, grad := random(v.n*v.c*v.h*v.w), random(v.o*v.k), random(v.n*v.o*v.p)
			x[v.w-1], grad[0] = odd, 1
			for _, threads := range []int{1, 3} {
				old := pool.SetThreads(threads)
				what := fmt.Sprintf("%+v with %v on %d threads", s, odd, threads)
				checkConvolution(t, what, v, x, weight, grad)
				pool.SetThreads(old)
			}
			if t.Failed() {
				return
			}
		}
	}
}

func checkConvolution(t *testing.T, what string, v *convolution, x, weight, grad []float32) {
	t.Helper()
	out, dx, dw := make([]float32, len(grad)), make([]float32, len(x)), make([]float32, len(weight))
	plain := make([]float32, len(grad))
	convolve(v, plain, x, weight, finish[float32]{})
	forward(v, out, x, weight, finish[float32]{})
	ended, bias := make([]float32, len(grad)), make([]float32, v.o)
	for i := range bias {
		bias[i] = float32(i%5) - 2
	}
	forward(v, ended, x, weight, finish[float32]{bias, op.Relu})
	finite := weight
	weight = slices.Clone(weight)
	weight[1%v.k] = x[v.w-1]
	gradInput(v, dx, grad, weight)
	gradWeight(v, dw, [3][]float32{grad, x})
	wantOut, wantX, wantW := make([]float64, len(grad)), make([]float64, len(x)), make([]float64, len(weight))
	naive(v, func(o, i, w int) {
		wantOut[o] += float64(x[i]) * float64(finite[w])
		wantX[i] += float64(grad[o]) * float64(weight[w])
		wantW[w] += float64(grad[o]) * float64(x[i])
	})
	wantEnded := make([]float64, len(grad))
	for i, w := range wantOut {
		wantEnded[i] = max(0, w+float64(bias[i/v.p%v.o]))
	}
	for name, pair := range map[string]struct {
		got  []float32
		want []float64
	}{"result": {out, wantOut}, "result with bias and relu": {ended, wantEnded}, "plain result": {plain, wantOut}, "grad x": {dx, wantX}, "grad weight": {dw, wantW}} {
		for i, want := range pair.want {
			got := float64(pair.got[i])
			if got != want && !(got != got && want != want) && !(math.Abs(got-want) <= 1e-4*(1+math.Abs(want))) {
				t.Errorf("%s: %s[%d] is %v, want %v", what, name, i, got, want)
				break
			}
		}
	}
}

// Whatever was in the memory before, the patches of a block are the image's elements and zeros.
func TestCanvasOfUsedMemory(t *testing.T) {
	for _, s := range []op.Conv{
		{Stride: [2]int{1, 1}, Pad: [2]int{1, 2}, Dilation: [2]int{1, 1}, Groups: 1},
		{Stride: [2]int{2, 3}, Pad: [2]int{2, 1}, Dilation: [2]int{3, 2}, Groups: 1},
	} {
		const h, w, k = 45, 30, 3
		oh, ow := (h+2*s.Pad[0]-(k-1)*s.Dilation[0]-1)/s.Stride[0]+1, (w+2*s.Pad[1]-(k-1)*s.Dilation[1]-1)/s.Stride[1]+1
		v := newConvolution(s, []int{1, 2, h, w}, []int{5, 2, k, k}, []int{1, 5, oh, ow})
		x := make([]float32, 2*h*w)
		for i := range x {
			x[i] = float32(i + 1)
		}
		l := newCanvas[float32](v, v.og, 4)
		if y0, y1 := l.span(l.blocks - 1); l.blocks < 2 || y1-y0 == l.rows {
			t.Fatalf("%d blocks of %d rows: the last one is to be shorter", l.blocks, l.rows)
		}
		for block := range l.blocks {
			memory := make([]float32, l.size)
			for i := range memory {
				memory[i] = float32(math.NaN())
			}
			l.fill(memory, x, block)
			y0, y1 := l.span(block)
			for r, at := range l.at {
				for y := y0; y < y1; y++ {
					for j := range ow {
						iy, ix := y*s.Stride[0]-s.Pad[0]+r/k%k*s.Dilation[0], j*s.Stride[1]-s.Pad[1]+r%k*s.Dilation[1]
						want := float32(0)
						if iy >= 0 && iy < h && ix >= 0 && ix < w {
							want = x[(r/(k*k)*h+iy)*w+ix]
						}
						if got := memory[at+(y-y0)*l.width+j]; got != want {
							t.Fatalf("%+v: row %d of the patches at %d, %d is %v, want %v", s, r, y, j, got, want)
						}
					}
				}
			}
		}
	}
}
