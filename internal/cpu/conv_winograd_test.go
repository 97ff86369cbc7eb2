package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/locusml/locus/internal/op"
)

// How far results are from those computed in float64, relative to the sum of
// the products' magnitudes: transformed filters and plain sums.
func TestWinogradError(t *testing.T) {
	v := newConvolution(op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1},
		[]int{2, 64, 15, 13}, []int{48, 64, 3, 3}, []int{2, 48, 15, 13})
	r := rand.New(rand.NewPCG(1, 2))
	x, weight := make([]float32, v.n*v.c*v.h*v.w), make([]float32, v.o*v.k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range weight {
		weight[i] = float32(r.NormFloat64())
	}
	want, size := make([]float64, v.n*v.o*v.p), make([]float64, v.n*v.o*v.p)
	naive(v, func(o, i, w int) {
		p := float64(x[i]) * float64(weight[w])
		want[o] += p
		size[o] += math.Abs(p)
	})
	worst := func(f func(dst []float32)) (largest, rms float64) {
		got := make([]float32, len(want))
		f(got)
		for i := range got {
			d := (float64(got[i]) - want[i]) / size[i]
			largest = max(largest, math.Abs(d))
			rms += d * d
		}
		return largest, math.Sqrt(rms / float64(len(got)))
	}
	direct, directRMS := worst(func(dst []float32) { convolve(v, dst, x, weight, finish[float32]{}) })
	got, gotRMS := worst(func(dst []float32) { winograd(v, dst, x, weight, false) })
	t.Logf("transformed: largest %.2g, rms %.2g; plain sums: %.2g, %.2g", got, gotRMS, direct, directRMS)
	if got > 4*direct || got > 1e-6 {
		t.Errorf("the largest error is %.2g, that of plain sums %.2g", got, direct)
	}
}
