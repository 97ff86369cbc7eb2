package cpu

import (
	"math"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Half-precision types are computed some images, or matrices, at a time: what comes out is what float32
// gives for the same numbers, rounded once. (Blocks, which round more, have tests of their own.)
func TestHalvesInParts(t *testing.T) {
	old := blockProducts
	blockProducts = func() bool { return false }
	defer func() { blockProducts = old }()
	defer pool.SetThreads(pool.SetThreads(0))
	conv := op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	sized := func(size int) op.Conv { c := conv; c.Size = [2]int{size, size}; return c }
	halved := op.Pool{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Dilation: [2]int{1, 1}}
	spread := halved
	spread.Size = [2]int{120, 120}
	images, small, weight := []int{10, 8, 120, 120}, []int{10, 8, 60, 60}, []int{8, 8, 3, 3}
	heads := []int{3, 11, 200, 64}
	if op.Elements(images) <= wideElements || op.Elements(heads) < wideElements/3 {
		t.Fatalf("%v and %v are too few for several parts", images, heads)
	}
	for _, c := range []struct {
		op    op.ID
		attrs op.Attrs
		in    [][]int
		out   []int
	}{
		{op.Conv2D, conv, [][]int{images, weight}, images},
		{op.ConvAct, op.ConvEpilogue{Conv: conv, Act: op.Sigmoid}, [][]int{images, weight, weight[:1]}, images},
		{op.ConvGradInput, sized(120), [][]int{images, weight}, images},
		{op.ConvGradWeight, sized(3), [][]int{images, images}, weight},
		{op.AvgPool, halved, [][]int{images}, small},
		{op.AvgPoolGrad, spread, [][]int{small}, images},
		{op.MaxPool, halved, [][]int{images}, small},
		{op.MaxPoolGrad, halved, [][]int{small, images}, images},
		{op.Attend, op.Attention{Scale: 0.1}, [][]int{heads, heads, heads}, heads},
		{op.Attend, op.Attention{Scale: 0.1, Causal: true}, [][]int{heads, heads, heads, {3, 11, 200, 200}}, heads},
		{op.AttendGrad, op.Attention{Scale: 0.1}, [][]int{heads, heads, heads, heads, heads, heads[:3]}, []int{3 * op.Elements(heads)}},
	} {
		wide := &backend.Call{Op: c.op, Attrs: c.attrs, Out: contiguous(t, dtype.Float32, c.out)}
		half := &backend.Call{Op: c.op, Attrs: c.attrs, Out: contiguous(t, dtype.BFloat16, c.out)}
		for k, shape := range c.in {
			w, h := contiguous(t, dtype.Float32, shape), contiguous(t, dtype.BFloat16, shape)
			bits := elements[uint16](&h, h.Elements())
			for i := range bits { // numbers between ±1 and ±2 with few digits
				r := uint32(i+1) * (2654435761 + 2*uint32(k))
				bits[i] = uint16(r>>31)<<15 | 0x3f80 | uint16(r>>20&0x7f)
			}
			fromBF16(elements[float32](&w, w.Elements()), convert[dtype.BF16](bits))
			if c.op == op.AttendGrad && k == 5 { // what attention saves is float32 for either
				h = w
			}
			wide.In, half.In = append(wide.In, w), append(half.In, h)
		}
		if err := Open().Run(wide); err != nil {
			t.Fatal(err)
		}
		n := wide.Out.Elements()
		want, got := elements[float32](&wide.Out, n), make([]float32, n)
		for _, threads := range []int{1, 3} {
			pool.SetThreads(threads)
			if err := Open().Run(half); err != nil {
				t.Fatal(err)
			}
			fromBF16(got, convert[dtype.BF16](elements[uint16](&half.Out, n)))
			for i, x := range got {
				// Half a step of rounding, and what another order of sums makes of float32.
				if d := math.Abs(float64(x - want[i])); d > math.Abs(float64(want[i]))*0x1p-8+1e-3 || math.IsNaN(d) {
					t.Fatalf("%v on %d threads: element %d is %v, in float32 %v", c.op, threads, i, x, want[i])
				}
			}
		}
	}
}

// contiguous makes a view with a block of its own.
func contiguous(t testing.TB, d dtype.DType, shape []int) backend.View {
	return backend.View{Block: block(t, op.Elements(shape)*d.Size()), Shape: shape, Strides: op.Strides(shape), DType: d}
}

func fromBF16(dst []float32, src []dtype.BF16) {
	up, _ := conversions[dtype.BF16]()
	up(dst, src)
}
