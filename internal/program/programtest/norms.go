package programtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// Residual makes a program of normalizations with sums before them, and of their
// gradients with sums behind, of a random type over rows of random or the given lengths.
func Residual(r *rand.Rand, width int) *program.Program {
	b := &Builder{}
	typ := []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float16, dtype.Float64}[r.IntN(4)]
	if width == 0 {
		width = []int{1, 7, 16, 24, 64, 130, 768, 2048}[r.IntN(8)]
	}
	shape, from := []int{1 + r.IntN(5), 1 + r.IntN(4), width}, 2
	if r.IntN(5) == 0 {
		from = 1
	}
	a := op.Normalize{From: from, Params: [2]int{from, 3}, RMS: r.IntN(3) == 0, Weight: r.IntN(4) > 0, Bias: r.IntN(4) > 0, Eps: 1e-5}
	if r.IntN(8) == 0 && from == 1 { // one weight for some elements
		a.Params[1] = 2
	}
	grads := a
	grads.GradWeight, grads.GradBias = a.Weight, a.Bias
	arg := func(shape ...int) program.Ref { return b.Value(program.Arg, typ, shape...) }
	params := shape[a.Params[0]:a.Params[1]]
	var weight, bias program.Ref
	if a.Weight {
		weight = arg(params...)
	}
	if a.Bias {
		bias = arg(params...)
	}
	either := func(x, y program.Ref) program.Ref {
		if r.IntN(2) == 0 {
			x, y = y, x
		}
		if r.IntN(6) == 0 { // over another shape, in the same order
			n := op.Elements(shape)
			return Reshape(b.Step(op.Add, nil, Reshape(x, n), Reshape(y, n)), shape...)
		}
		return b.Step(op.Add, nil, x, y)
	}
	keep := func(x program.Ref) {
		if r.IntN(5) == 0 {
			b.Results = append(b.Results, x)
		}
	}
	type layer struct{ x, mean, rstd program.Ref }
	var layers []layer
	x := arg(shape...)
	for range 1 + r.IntN(3) {
		h := arg(shape...)
		if r.IntN(2) == 0 {
			h = b.Step(op.CumSum, op.Axis{Axis: 0}, h) // not elementwise
		}
		x = either(x, h)
		if r.IntN(8) == 0 {
			b.Results = append(b.Results, b.Step(op.CumSum, op.Axis{Axis: 0}, x)) // reads the sum before it is normalized
		}
		in := []program.Ref{x}
		if a.Weight {
			in = append(in, weight)
		}
		if a.Bias {
			in = append(in, bias)
		}
		y := b.StepAll(op.Normalized, a, in...)
		l := layer{x: x, rstd: y[len(y)-1]}
		if !a.RMS {
			l.mean = y[1]
		}
		layers = append(layers, l)
		keep(x)
		keep(y[0])
		if r.IntN(2) == 0 {
			x = b.Step(op.CumSum, op.Axis{Axis: 0}, y[0])
		}
	}
	g := arg(shape...)
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		in := []program.Ref{b.Step(op.CumSum, op.Axis{Axis: 0}, g), l.x}
		if a.Weight {
			in = append(in, weight)
		}
		if !a.RMS {
			in = append(in, l.mean)
		}
		y := b.StepAll(op.NormalizeGrad, grads, append(in, l.rstd)...)
		b.Results = append(b.Results, y[1:]...)
		keep(y[0])
		if r.IntN(8) == 0 {
			g = b.Step(op.CumSum, op.Axis{Axis: 1}, g) // what is added is made later
		}
		g = either(g, y[0])
		keep(g)
	}
	b.Results = append(b.Results, x, g)
	return &b.Program
}

// FillFinite makes numbers, and rarely something else.
func FillFinite(r *rand.Rand, t dtype.DType, data []byte) {
	special := r.IntN(4) == 0
	size := t.Size()
	for i := 0; i+size <= len(data); i += size {
		x := r.NormFloat64() * []float64{0.1, 1, 3}[r.IntN(3)]
		if special && r.IntN(200) == 0 {
			Fill(r, t, data[i:i+size])
			continue
		}
		switch p := unsafe.Pointer(&data[i]); t {
		case dtype.Float16:
			*(*dtype.F16)(p) = dtype.ToF16(float32(x))
		case dtype.BFloat16:
			*(*dtype.BF16)(p) = dtype.ToBF16(float32(x))
		case dtype.Float32:
			*(*float32)(p) = float32(x)
		case dtype.Float64:
			*(*float64)(p) = x
		default:
			Fill(r, t, data[i:i+size])
		}
	}
}

// CheckNorms compares a random program of residual connections with what the passes make
// of it, to the bit. It returns how many normalizations have got a sum.
func CheckNorms(t testing.TB, seed uint64, width int, d Fuser) (fused int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	p := Residual(r, width)
	compare(t, fmt.Sprintf("seed %d, rows of %d", seed, width), r, p, d, FillFinite)
	q := p.Fuse(d).FuseNorms(d.Supports)
	for i := range q.Steps {
		if q.Steps[i].Op == op.AddNormalize || q.Steps[i].Op == op.NormalizeGradAdd {
			fused++
		}
	}
	return fused
}
