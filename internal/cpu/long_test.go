package cpu

import (
	"math"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Long lines are divided, short ones are not: one line of n elements and the
// same elements in float64 must agree.
func TestLongLines(t *testing.T) {
	const n = longLine + part/2 + 3
	x := view32(t, []int{n}, func(i int) float32 { return float32(i*7919%1000)/250 - 1.7 })
	g := view32(t, []int{n}, func(i int) float32 { return float32(i*104729%1000)/999 - 0.4 })
	in, grad := make([]float64, n), make([]float64, n)
	for i := range n {
		in[i], grad[i] = float64(elements[float32](&x, n)[i]), float64(elements[float32](&g, n)[i])
	}
	sum := func(f func(i int) float64) (s float64) {
		for i := range n {
			s += f(i)
		}
		return s
	}
	total := sum(func(i int) float64 { return math.Exp(in[i]) })
	meanG := sum(func(i int) float64 { return grad[i] }) / n
	dot := sum(func(i int) float64 { return grad[i] * in[i] })
	running := make([]float64, n+1) // of all but the first i
	for i := n - 1; i >= 0; i-- {
		running[i] = running[i+1] + in[i]
	}
	for id, want := range map[op.ID]func(i int) float64{
		op.Softmax:        func(i int) float64 { return math.Exp(in[i]) / total },
		op.LogSoftmax:     func(i int) float64 { return in[i] - math.Log(total) },
		op.SoftmaxGrad:    func(i int) float64 { return in[i] * (grad[i] - dot) },
		op.LogSoftmaxGrad: func(i int) float64 { return grad[i] - math.Exp(in[i])*meanG*n },
		op.CumSum:         func(i int) float64 { return running[i] },
	} {
		operands := []backend.View{x}
		if op.Get(id).Arity == 2 {
			operands = []backend.View{g, x}
		}
		out := view32(t, []int{n}, func(int) float32 { return 0 })
		if err := Open().Run(&backend.Call{Op: id, Attrs: longOps[id], In: operands, Out: out}); err != nil {
			t.Fatal(err)
		}
		for i, got := range elements[float32](&out, n) {
			w := want(i)
			size := math.Abs(w)
			if id != op.Softmax { // the others are differences of numbers of about 1, or more
				size++
			}
			if math.Abs(float64(got)-w) > 3e-6*size {
				t.Fatalf("%s of a long line: element %d is %v, want %v", id, i, got, w)
			}
		}
	}
	// And forwards.
	out := view32(t, []int{n}, func(int) float32 { return 0 })
	if err := Open().Run(&backend.Call{Op: op.CumSum, Attrs: op.Axis{}, In: []backend.View{x}, Out: out}); err != nil {
		t.Fatal(err)
	}
	for i, got := range elements[float32](&out, n) {
		if w := running[0] - running[i+1]; math.Abs(float64(got)-w) > 1e-6*max(math.Abs(w), 1) {
			t.Fatalf("running sum %d is %v, want %v", i, got, w)
		}
	}
}
