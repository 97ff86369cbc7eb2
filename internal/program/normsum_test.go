package program_test

import (
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/program/programtest"
	"github.com/locusml/locus/internal/virtual"
)

func TestResidualPrograms(t *testing.T) {
	n := 0
	gpu := virtual.New(0, 0)
	for seed := range uint64(300) {
		n += programtest.CheckNorms(t, seed, 0, cpu.Open())
		if seed%8 == 0 {
			programtest.CheckNorms(t, seed, 0, gpu)
		}
	}
	if n < 300 {
		t.Errorf("only %d sums became part of a normalization", n)
	}
	programtest.CheckNorms(t, 1000, 70000, cpu.Open()) // rows that several threads share
}

func everything(op.ID, dtype.DType) bool { return true }

// What is fused, and what is not: a sum that somebody reads before, that is broadcast, or
// whose other operand is made later.
func TestFuseNorms(t *testing.T) {
	a := op.Normalize{From: 1, Params: [2]int{1, 2}, Eps: 1e-5}
	f := dtype.Float32
	for name, c := range map[string]struct {
		make func(b *programtest.Builder)
		want string // ops
	}{
		"forward": {func(b *programtest.Builder) {
			s := b.Step(op.Add, nil, b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4, 8))
			b.Results = []program.Ref{b.Step(op.Normalized, a, s), s}
		}, "add_normalize"},
		"read before": {func(b *programtest.Builder) {
			s := b.Step(op.Add, nil, b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4, 8))
			c := b.Step(op.CumSum, op.Axis{}, s)
			b.Results = []program.Ref{b.Step(op.Normalized, a, s), c}
		}, "add cumsum normalize"},
		"broadcast": {func(b *programtest.Builder) {
			s := b.Step(op.Add, nil, b.Value(program.Arg, f, 4, 8), programtest.Expand(b.Value(program.Arg, f, 8), 4, 8))
			b.Results = []program.Ref{b.Step(op.Normalized, a, s)}
		}, "add normalize"},
		"a number": {func(b *programtest.Builder) {
			s := b.Step(op.Add, nil, b.Value(program.Arg, f, 4, 8), programtest.Number(f, 0x3f800000, []int{4, 8}))
			b.Results = []program.Ref{b.Step(op.Normalized, a, s)}
		}, "add normalize"},
		"transposed": {func(b *programtest.Builder) {
			s := b.Step(op.Add, nil, b.Value(program.Arg, f, 8, 8), b.Value(program.Arg, f, 8, 8))
			b.Results = []program.Ref{b.Step(op.Normalized, a, programtest.Turn(s))}
		}, "add normalize"},
		"gradient": {func(b *programtest.Builder) {
			g := b.Step(op.NormalizeGrad, a, b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4), b.Value(program.Arg, f, 4))
			b.Results = []program.Ref{b.Step(op.Add, nil, b.Value(program.Arg, f, 4, 8), g)}
		}, "normalize_grad_add"},
		"gradient that is kept": {func(b *programtest.Builder) {
			g := b.Step(op.NormalizeGrad, a, b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4), b.Value(program.Arg, f, 4))
			b.Results = []program.Ref{b.Step(op.Add, nil, b.Value(program.Arg, f, 4, 8), g), g}
		}, "normalize_grad add"},
		"gradient twice": {func(b *programtest.Builder) {
			g := b.Step(op.NormalizeGrad, a, b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4), b.Value(program.Arg, f, 4))
			b.Results = []program.Ref{b.Step(op.Add, nil, g, g)}
		}, "normalize_grad add"},
		"added later": {func(b *programtest.Builder) {
			g := b.Step(op.NormalizeGrad, a, b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4, 8), b.Value(program.Arg, f, 4), b.Value(program.Arg, f, 4))
			b.Results = []program.Ref{b.Step(op.Add, nil, b.Step(op.CumSum, op.Axis{}, b.Value(program.Arg, f, 4, 8)), g)}
		}, "normalize_grad cumsum add"},
	} {
		b := &programtest.Builder{}
		c.make(b)
		before := b.String()
		q := b.FuseNorms(everything)
		if err := q.Verify(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var ops []string
		for i := range q.Steps {
			ops = append(ops, q.Steps[i].Op.String())
		}
		if got := strings.Join(ops, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if b.String() != before {
			t.Errorf("%s: the program it was given has changed", name)
		}
		if none := b.FuseNorms(func(op.ID, dtype.DType) bool { return false }); none != &b.Program {
			t.Errorf("%s: fused for a device that does not support it", name)
		}
	}
}
