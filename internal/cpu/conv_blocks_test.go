package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// withBlocks makes products of bfloat16 use blocks, in plain Go where the CPU has no tensor cores.
func withBlocks(t *testing.T) {
	old := blockProducts
	blockProducts = func() bool { return true }
	t.Cleanup(func() { blockProducts = old })
}

// bfloats makes a view of random numbers and returns them as float32.
func bfloats(t *testing.T, r *rand.Rand, shape []int) (backend.View, []float32) {
	v := contiguous(t, dtype.BFloat16, shape)
	n := op.Elements(shape)
	f, h := make([]float32, n), elements[dtype.BF16](&v, n)
	for i := range f {
		f[i] = float32(r.NormFloat64())
	}
	_, down := conversions[dtype.BF16]()
	down(h, f)
	fromBF16(f, h)
	return v, f
}

// Every way of the convolutions with blocks, with all elements finite and with some that are not, on one
// thread and on several, compared with sums in float64; the bits must not depend on the threads.
func TestConvolutionBlocks(t *testing.T) {
	withBlocks(t)
	defer pool.SetThreads(pool.SetThreads(0))
	pair := func(a, b int) [2]int { return [2]int{a, b} }
	for i, s := range []struct {
		n, c, h, w, o, kh, kw int
		op.Conv
	}{
		{2, 64, 9, 11, 40, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{5, 33, 5, 4, 17, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{3, 64, 7, 9, 96, 3, 2, op.Conv{Stride: pair(2, 2), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 2}},
		{9, 40, 8, 8, 48, 1, 1, op.Conv{Stride: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{10, 40, 9, 8, 48, 1, 1, op.Conv{Stride: pair(2, 2), Dilation: pair(1, 1), Groups: 1}},
		{2, 32, 13, 20, 16, 3, 3, op.Conv{Stride: pair(1, 1), Pad: pair(4, 5), Dilation: pair(2, 3), Groups: 1}},
		{2, 32, 19, 23, 16, 5, 3, op.Conv{Stride: pair(3, 2), Pad: pair(2, 1), Dilation: pair(2, 3), Groups: 1}},
		{1, 48, 40, 50, 16, 3, 3, op.Conv{Stride: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{1, 16, 60, 60, 32, 3, 3, op.Conv{Stride: pair(2, 2), Pad: pair(1, 1), Dilation: pair(1, 1), Groups: 1}},
		{2, 40, 12, 12, 20, 2, 2, op.Conv{Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(3, 1), Groups: 1}},
		{1, 24, 9, 30, 24, 1, 7, op.Conv{Stride: pair(4, 1), Pad: pair(0, 3), Dilation: pair(1, 1), Groups: 1}},
	} {
		if raceEnabled && i%4 != 0 {
			continue
		}
		oh := (s.h+2*s.Pad[0]-(s.kh-1)*s.Dilation[0]-1)/s.Stride[0] + 1
		ow := (s.w+2*s.Pad[1]-(s.kw-1)*s.Dilation[1]-1)/s.Stride[1] + 1
		shapes := [3][]int{{s.n, s.c, s.h, s.w}, {s.o, s.c / s.Groups, s.kh, s.kw}, {s.n, s.o, oh, ow}}
		v := newConvolution(s.Conv, shapes[0], shapes[1], shapes[2])
		if !v.fillsBlocks() {
			t.Fatalf("%+v does not use blocks", s)
		}
		r := rand.New(rand.NewPCG(1, uint64(i)))
		x, fx := bfloats(t, r, shapes[0])
		w, fw := bfloats(t, r, shapes[1])
		g, fg := bfloats(t, r, shapes[2])
		bias, fb := bfloats(t, r, []int{s.o})
		for _, odd := range []float64{1, math.Inf(1), math.NaN()} {
			if odd != 1 && (raceEnabled || i%3 != 0) {
				continue
			}
			// Of x for the weight's gradient, of the weight for that of x: what is not multiplied with it
			// must stay finite. The result is checked with finite weights.
			_, down := conversions[dtype.BF16]()
			set := func(view *backend.View, f []float32, i int) {
				f[i] = float32(odd)
				down(elements[dtype.BF16](view, len(f))[i:i+1], f[i:i+1])
			}
			set(&x, fx, s.w-1)
			check := func(name string, id op.ID, attrs op.Attrs, in []backend.View, shape []int, want []float64) {
				t.Helper()
				what := fmt.Sprintf("%+v with %v: %s", s, odd, name)
				var first []uint16
				for _, threads := range []int{1, 3} {
					pool.SetThreads(threads)
					c := &backend.Call{Op: id, Attrs: attrs, In: in, Out: contiguous(t, dtype.BFloat16, shape)}
					if err := Open().Run(c); err != nil {
						t.Fatal(err)
					}
					bits := elements[uint16](&c.Out, len(want))
					got := make([]float32, len(want))
					fromBF16(got, convert[dtype.BF16](bits))
					for i, want := range want {
						got := float64(got[i])
						if got != want && !(got != got && want != want) && !(math.Abs(got-want) <= 1e-3+math.Abs(want)*0x1p-8) {
							t.Fatalf("%s[%d] is %v, want %v", what, i, got, want)
						}
					}
					if first == nil {
						first = slices.Clone(bits)
					} else if !slices.Equal(first, bits) {
						t.Fatalf("%s differs on %d threads", what, threads)
					}
				}
			}
			out, ended := make([]float64, len(fg)), make([]float64, len(fg))
			naive(v, func(o, i, w int) { out[o] += float64(fx[i]) * float64(fw[w]) })
			for i, e := range out {
				ended[i] = max(0, e+float64(fb[i/v.p%v.o]))
			}
			check("result", op.Conv2D, s.Conv, []backend.View{x, w}, shapes[2], out)
			check("result with bias and relu", op.ConvAct, op.ConvEpilogue{Conv: s.Conv, Act: op.Relu}, []backend.View{x, w, bias}, shapes[2], ended)
			old := slices.Clone(fw)
			set(&w, fw, 1)
			dx, dw := make([]float64, len(fx)), make([]float64, len(fw))
			naive(v, func(o, i, w int) {
				dx[i] += float64(fg[o]) * float64(fw[w])
				dw[w] += float64(fg[o]) * float64(fx[i])
			})
			a := s.Conv
			a.Size = [2]int{s.h, s.w}
			check("grad x", op.ConvGradInput, a, []backend.View{g, w}, shapes[0], dx)
			a.Size = [2]int{s.kh, s.kw}
			check("grad weight", op.ConvGradWeight, a, []backend.View{g, x}, shapes[1], dw)
			copy(fw, old)
			down(elements[dtype.BF16](&w, len(fw)), fw)
		}
	}
}
