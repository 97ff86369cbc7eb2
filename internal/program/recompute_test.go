package program_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/program/programtest"
	"github.com/locusml/locus/internal/virtual"
)

// passes checks that p computes the same with values computed again, alone and with the
// other passes, and returns how many are.
func passes(t *testing.T, what string, r *rand.Rand, p *program.Program, d programtest.Fuser) int {
	t.Helper()
	before := p.String()
	q, done := p.Recompute()
	if p.String() != before {
		t.Fatalf("%s: the program it was given has changed", what)
	}
	if done == nil {
		if q != p {
			t.Errorf("%s: another program that saves nothing", what)
		}
		return 0
	}
	if done.After >= done.Before || done.Values == 0 || done.Moved < done.Bytes {
		t.Errorf("%s: %+v", what, *done)
	}
	args := map[int][]byte{}
	for i, v := range p.Values {
		if v.Kind == program.Arg {
			args[i] = make([]byte, v.Bytes)
			programtest.FillFinite(r, v.Spec.DType, args[i])
		}
	}
	want := programtest.Results(t, p, d, args, false)
	for name, q := range map[string]*program.Program{"alone": q, "fused": q.Fuse(d).FuseNorms(d.Supports)} {
		if err := q.Verify(); err != nil {
			t.Fatalf("%s, %s: %v\n%s", what, name, err, q)
		}
		for _, planned := range []bool{false, true} {
			for i, got := range programtest.Results(t, q, d, args, planned) {
				if !programtest.Equal(p.Results[i].View.DType, want[i], got) {
					t.Fatalf("%s, %s, planned %v: result %d differs\n%s\n%s", what, name, planned, i, p, q)
				}
			}
		}
	}
	return done.Values
}

func TestRecomputedRandomPrograms(t *testing.T) {
	n := 0
	for seed := range uint64(150) {
		var d programtest.Fuser = cpu.Open()
		if seed%16 == 0 {
			d = virtual.New(0, 0)
		}
		r := rand.New(rand.NewPCG(seed, 3))
		n += passes(t, fmt.Sprintf("seed %d", seed), r, programtest.Random(r, 3+int(seed)%50, d), d)
		n += passes(t, fmt.Sprintf("residual, seed %d", seed), r, programtest.Residual(r, 0), d)
	}
	if n < 100 {
		t.Errorf("only %d values were computed again", n)
	}
}

// layers is a network's step in small: products with activations and normalizations
// between, and backward products that read them again.
func layers(n int, batch bool) *program.Program {
	b := &programtest.Builder{}
	const size = 32
	f := dtype.Float32
	arg := func(shape ...int) program.Ref { return b.Value(program.Arg, f, shape...) }
	a := op.Normalize{From: 1, Params: [2]int{1, 2}, Weight: true, Bias: true, Eps: 1e-5}
	id := op.Normalized
	if batch {
		a = op.Normalize{Weight: true, Bias: true, Eps: 1e-5, Running: true, Momentum: 0.1}
		id = op.BatchNorm
	}
	var acts, normed []program.Ref
	x := arg(size, size)
	for range n {
		in := []program.Ref{b.Step(op.MatMul, nil, x, arg(size, size)), arg(size), arg(size)}
		if batch {
			in = append(in, arg(size), arg(size))
		}
		y := b.StepAll(id, a, in...)
		if batch {
			b.Results = append(b.Results, y[3], y[4])
		}
		normed = append(normed, in[0])
		x = b.Step(op.Relu, nil, y[0])
		acts = append(acts, x)
	}
	g := x
	for i := n - 1; i >= 0; i-- {
		g = b.Step(op.ReluGrad, nil, g, acts[i])
		g = b.Step(op.Mul, nil, g, normed[i]) // the gradient of a normalization needs its operand
		b.Results = append(b.Results, b.Step(op.Sum, op.Reduce{Axes: op.AxesOf(0)}, b.Step(op.MatMul, nil, programtest.Turn(acts[max(i-1, 0)]), g)))
		g = b.Step(op.MatMul, nil, g, normed[i])
	}
	b.Results = append(b.Results, g)
	return &b.Program
}

// Activations behind normalizations are computed again of the normalizations' operands,
// two steps for each, and running statistics move once.
func TestRecomputeChains(t *testing.T) {
	for _, batch := range []bool{false, true} {
		p := layers(6, batch)
		r := rand.New(rand.NewPCG(1, 1))
		if n := passes(t, fmt.Sprint("batch: ", batch), r, p, cpu.Open()); n < 3 {
			t.Errorf("batch: %v: %d values are computed again", batch, n)
		}
		q, done := p.Recompute()
		if !strings.Contains(q.String(), "computed again") || !strings.Contains(done.String(), "are computed again") {
			t.Error("nobody is told")
		}
		was, is := p.Fuse(cpu.Open()).Plan(nil, true).Arena, q.Fuse(cpu.Open()).Plan(nil, true).Arena
		t.Logf("batch: %v: %s; planned %d bytes, before %d", batch, done, is, was)
		if is*5 > was*4 {
			t.Errorf("batch: %v: %d bytes of %d are left", batch, is, was)
		}
	}
}

// What cannot be computed again is kept: random numbers, products, what is a result, and
// steps whose parameters change from run to run.
func TestRecomputeKeeps(t *testing.T) {
	const size = 64
	f := dtype.Float32
	for name, make := range map[string]func(b *programtest.Builder, x program.Ref) program.Ref{
		"a product": func(b *programtest.Builder, x program.Ref) program.Ref { return b.Step(op.MatMul, nil, x, x) },
		"random numbers": func(b *programtest.Builder, x program.Ref) program.Ref {
			return b.Step(op.RandNormal, op.Random{DType: f, Shape: op.DimsOf([]int{size, size})})
		},
		"late": func(b *programtest.Builder, x program.Ref) program.Ref {
			y := b.Step(op.Exp, nil, x)
			b.Steps[len(b.Steps)-1].Late = func() op.Attrs { return nil }
			return y
		},
		"a result": func(b *programtest.Builder, x program.Ref) program.Ref {
			y := b.Step(op.Exp, nil, x)
			b.Results = append(b.Results, y)
			return y
		},
	} {
		b := &programtest.Builder{}
		x := b.Value(program.Arg, f, size, size)
		y := make(b, x)
		z := b.Step(op.MatMul, nil, y, y)
		for range 3 {
			z = b.Step(op.MatMul, nil, z, x)
		}
		b.Results = append(b.Results, b.Step(op.MatMul, nil, z, y))
		if q, done := b.Recompute(); done != nil {
			t.Errorf("%s is computed again:\n%s", name, q)
		}
	}
}
