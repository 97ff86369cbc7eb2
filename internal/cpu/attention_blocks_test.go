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

// attentionCase is a shape that blocks are used for.
type attentionCase struct {
	batch                       []int
	queries, keys, depth, width int
	op.Attention
	mask string // "", "bool" or "float"
}

var attentionCases = []attentionCase{
	{[]int{2}, 64, 64, 64, 64, op.Attention{Scale: 0.125}, ""},
	{[]int{2, 2}, 33, 300, 40, 48, op.Attention{Scale: 0.2}, ""},
	{[]int{1}, 300, 300, 32, 32, op.Attention{Scale: 0.2, Causal: true}, ""},
	{[]int{3}, 50, 70, 64, 20, op.Attention{Scale: 0.1}, "bool"},
	{[]int{3}, 50, 270, 24, 64, op.Attention{Scale: 0.1}, "float"},
	{[]int{2}, 70, 70, 33, 33, op.Attention{Scale: -0.1, Causal: true}, "bool"},
	{[]int{2}, 40, 64, 64, 64, op.Attention{Scale: 0}, "float"},
}

// attentionOperands makes q, k, v, g and perhaps a mask, of the half-precision type and of float32.
func attentionOperands(t *testing.T, r *rand.Rand, a *attentionCase) (half, wide []backend.View) {
	shape := func(n ...int) []int { return append(slices.Clone(a.batch), n...) }
	for _, s := range [][]int{shape(a.queries, a.depth), shape(a.keys, a.depth), shape(a.keys, a.width), shape(a.queries, a.width)} {
		h, f := bfloats(t, r, s)
		w := contiguous(t, dtype.Float32, s)
		copy(elements[float32](&w, len(f)), f)
		half, wide = append(half, h), append(wide, w)
	}
	switch s := shape(a.queries, a.keys); a.mask {
	case "bool":
		m := contiguous(t, dtype.Bool, s)
		for i, b := 0, elements[uint8](&m, op.Elements(s)); i < len(b); i++ {
			b[i] = uint8(r.IntN(2))
			if i/a.keys%a.queries == 3 { // sees nothing
				b[i] = 0
			}
		}
		half, wide = append(half, m), append(wide, m)
	case "float":
		h, f := bfloats(t, r, s)
		for i := range f {
			if i%7 == 0 || i/a.keys%a.queries == 3 {
				f[i] = float32(math.Inf(-1))
			}
		}
		_, down := conversions[dtype.BF16]()
		down(elements[dtype.BF16](&h, len(f)), f)
		w := contiguous(t, dtype.Float32, s)
		copy(elements[float32](&w, len(f)), f)
		half, wide = append(half, h), append(wide, w)
	}
	return half, wide
}

// Attention with blocks is what float32 gives for the same numbers but for the rounding of weights and
// results, on any number of threads.
func TestAttentionBlocks(t *testing.T) {
	withBlocks(t)
	defer pool.SetThreads(pool.SetThreads(0))
	for i, a := range attentionCases {
		if raceEnabled && i > 2 {
			break
		}
		if !fillsAttention(a.queries, a.keys, a.depth, a.width, op.Elements(a.batch)) {
			t.Fatalf("%+v does not use blocks", a)
		}
		half, wide := attentionOperands(t, rand.New(rand.NewPCG(3, uint64(i))), &a)
		shape := append(slices.Clone(a.batch), a.queries, a.width)
		call := func(d dtype.DType, in []backend.View) (c *backend.Call) {
			c = &backend.Call{Op: op.Attend, Attrs: a.Attention, In: slices.Delete(slices.Clone(in), 3, 4), Out: contiguous(t, d, shape),
				More: []backend.View{contiguous(t, dtype.Float32, shape[:len(shape)-1])}}
			if err := Open().Run(c); err != nil {
				t.Fatal(err)
			}
			return c
		}
		pool.SetThreads(1)
		want := call(dtype.Float32, wide)
		n := op.Elements(shape)
		var first []uint16
		for _, threads := range []int{1, 3} {
			pool.SetThreads(threads)
			c := call(dtype.BFloat16, half)
			got := make([]float32, n)
			bits := elements[uint16](&c.Out, n)
			fromBF16(got, convert[dtype.BF16](bits))
			closeHalves(t, fmt.Sprintf("%+v", a), got, elements[float32](&want.Out, n), 2e-3)
			rows := n / a.width
			closeHalves(t, fmt.Sprintf("%+v saved", a), elements[float32](&c.More[0], rows), elements[float32](&want.More[0], rows), 1e-4)
			if first == nil {
				first = slices.Clone(bits)
			} else if !slices.Equal(first, bits) {
				t.Fatalf("%+v differs on %d threads", a, threads)
			}
		}
	}
}

// The same of the gradients, which are divided in one way for few matrices and in another for many.
func TestAttentionGradBlocks(t *testing.T) {
	withBlocks(t)
	defer pool.SetThreads(pool.SetThreads(0))
	many := attentionCase{[]int{manyBatches}, 40, 150, 64, 40, op.Attention{Scale: 0.125}, ""}
	for i, a := range append(slices.Clone(attentionCases), many) {
		if raceEnabled && i > 1 {
			break
		}
		half, wide := attentionOperands(t, rand.New(rand.NewPCG(4, uint64(i))), &a)
		shape := func(n ...int) []int { return append(slices.Clone(a.batch), n...) }
		size := op.Elements(a.batch) * (a.queries*a.depth + a.keys*(a.depth+a.width))
		pool.SetThreads(1)
		y := &backend.Call{Op: op.Attend, Attrs: a.Attention, In: slices.Delete(slices.Clone(wide), 3, 4),
			Out: contiguous(t, dtype.Float32, shape(a.queries, a.width)), More: []backend.View{contiguous(t, dtype.Float32, shape(a.queries))}}
		if err := Open().Run(y); err != nil {
			t.Fatal(err)
		}
		n := y.Out.Elements()
		rounded := contiguous(t, dtype.BFloat16, y.Out.Shape)
		_, down := conversions[dtype.BF16]()
		down(elements[dtype.BF16](&rounded, n), elements[float32](&y.Out, n))
		fromBF16(elements[float32](&y.Out, n), elements[dtype.BF16](&rounded, n)) // the same for both
		call := func(d dtype.DType, in []backend.View, y, saved backend.View) backend.View {
			c := &backend.Call{Op: op.AttendGrad, Attrs: a.Attention, In: slices.Concat([]backend.View{in[3]}, in[:3], []backend.View{y, saved}, in[4:]),
				Out: contiguous(t, d, []int{size})}
			if err := Open().Run(c); err != nil {
				t.Fatal(err)
			}
			return c.Out
		}
		want := call(dtype.Float32, wide, y.Out, y.More[0])
		var first []uint16
		for _, threads := range []int{1, 3} {
			pool.SetThreads(threads)
			out := call(dtype.BFloat16, half, rounded, y.More[0])
			bits := elements[uint16](&out, size)
			got := make([]float32, size)
			fromBF16(got, convert[dtype.BF16](bits))
			closeHalves(t, fmt.Sprintf("%+v", a), got, elements[float32](&want, size), 5e-3)
			if first == nil {
				first = slices.Clone(bits)
			} else if !slices.Equal(first, bits) {
				t.Fatalf("%+v differs on %d threads", a, threads)
			}
		}
	}
}

// closeHalves allows half a step of bfloat16, and more.
func closeHalves(t *testing.T, what string, got, want []float32, more float64) {
	t.Helper()
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - float64(w)); got[i] != w && !(d <= math.Abs(float64(w))*0x1p-8+more) && !(w != w && got[i] != got[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}
