// Command gorgonia times Gorgonia for bench/peers.py: its tensors where there is
// no gradient, its graphs and tape machine for a training step.
//
// With Go 1.26 it ends at once unless the environment variable
// ASSUME_NO_MOVING_GC_UNSAFE_RISK_IT_WITH=go1.26 is set.
package main

import (
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/locusml/locus/bench/peers/timing"
)

func normal(shape ...int) *tensor.Dense {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(timing.Normal(n)))
}

func must[T any](x T, err error) T {
	timing.Check(err)
	return x
}

func matmul() func() {
	a, b := normal(1024, 1024), normal(1024, 1024)
	return func() { must(a.MatMul(b)) }
}

var sink any

func matmulNorm() func() {
	a, b := normal(100, 100), normal(100, 100)
	return func() {
		for range 1000 {
			c := must(a.MatMul(b))
			sink = must(c.Norm(tensor.FrobeniusNorm())).ScalarValue()
		}
	}
}

func add() func() {
	x, y := normal(16<<20), normal(16<<20)
	return func() { must(x.Add(y)) }
}

// step is a training step of an MLP 784-256-10: forward, cross-entropy,
// backward, SGD, batch 256.
func step() func() {
	g := gorgonia.NewGraph()
	input := func(name string, value *tensor.Dense) *gorgonia.Node {
		return gorgonia.NodeFromAny(g, value, gorgonia.WithName(name))
	}
	classes := make([]float32, 256*10)
	for i, c := range timing.Labels(256, 10) {
		classes[i*10+int(c)] = 1
	}
	x, y := input("x", normal(256, 784)), input("y", tensor.New(tensor.WithShape(256, 10), tensor.WithBacking(classes)))
	w := gorgonia.Nodes{input("w1", normal(784, 256)), input("b1", normal(1, 256)), input("w2", normal(256, 10)), input("b2", normal(1, 10))}
	hidden := must(gorgonia.Rectify(must(gorgonia.BroadcastAdd(must(gorgonia.Mul(x, w[0])), w[1], nil, []byte{0}))))
	logits := must(gorgonia.BroadcastAdd(must(gorgonia.Mul(hidden, w[2])), w[3], nil, []byte{0}))
	chosen := must(gorgonia.HadamardProd(must(gorgonia.Log(must(gorgonia.SoftMax(logits)))), y))
	loss := must(gorgonia.Neg(must(gorgonia.Mean(must(gorgonia.Sum(chosen, 1))))))
	must(gorgonia.Grad(loss, w...))
	machine := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(w...))
	solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.01))
	return func() {
		timing.Check(machine.RunAll())
		timing.Check(solver.Step(gorgonia.NodesToValueGrads(w)))
		machine.Reset()
	}
}

func main() {
	timing.Main(map[string]func() func(){"matmul_1024": matmul, "matmul_norm_100": matmulNorm, "add_16m": add, "mlp_step": step},
		"gorgonia.org/gorgonia", "gorgonia.org/tensor")
}
