// Command gomlx times GoMLX with its backend in Go for bench/peers.py. What is
// timed are calls of compiled graphs, which is its only way.
package main

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/locusml/locus/bench/peers/timing"
)

var backend compute.Backend

func normal(shape ...int) *tensors.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := tensors.FromFlatDataAndDimensions(timing.Normal(n), shape...)
	timing.Check(t.MaterializeOnDevice(backend, true, 0))
	return t
}

func call(e *graph.Exec, args ...any) []*tensors.Tensor {
	out, err := e.Call(args...)
	timing.Check(err)
	return out
}

func free(t ...*tensors.Tensor) {
	for _, t := range t {
		timing.Check(t.FinalizeAll())
	}
}

func matmul() func() {
	a, b := normal(1024, 1024), normal(1024, 1024)
	e := graph.MustNewExec(backend, func(a, b *graph.Node) *graph.Node { return graph.MatMul(a, b) })
	return func() { free(call(e, a, b)...) }
}

var sink float32

func matmulNorm() func() {
	a, b := normal(100, 100), normal(100, 100)
	e := graph.MustNewExec(backend, func(a, b *graph.Node) *graph.Node {
		c := graph.MatMul(a, b)
		return graph.Sqrt(graph.ReduceAllSum(graph.Square(c)))
	})
	return func() {
		for range 1000 {
			out := call(e, a, b)
			sink = tensors.ToScalar[float32](out[0])
			free(out...)
		}
	}
}

func add() func() {
	x, y := normal(16<<20), normal(16<<20)
	e := graph.MustNewExec(backend, func(x, y *graph.Node) *graph.Node { return graph.Add(x, y) })
	return func() { free(call(e, x, y)...) }
}

// step is a training step of an MLP 784-256-10: forward, cross-entropy,
// backward, SGD, batch 256.
func step() func() {
	x := normal(256, 784)
	y := tensors.FromFlatDataAndDimensions(timing.Labels(256, 10), 256)
	params := []*tensors.Tensor{normal(784, 256), normal(1, 256), normal(256, 10), normal(1, 10)}
	e := graph.MustNewExec(backend, func(in []*graph.Node) []*graph.Node {
		x, y, w := in[0], in[1], in[2:]
		hidden := graph.MaxScalar(graph.Add(graph.MatMul(x, w[0]), w[1]), 0)
		logits := graph.Add(graph.MatMul(hidden, w[2]), w[3])
		chosen := graph.Mul(graph.LogSoftmax(logits), graph.OneHot(y, 10, dtypes.Float32))
		loss := graph.Neg(graph.ReduceAllMean(graph.ReduceSum(chosen, -1)))
		var out []*graph.Node
		for i, g := range graph.Gradient(loss, w...) {
			out = append(out, graph.Sub(w[i], graph.MulScalar(g, 0.01)))
		}
		return out
	})
	return func() {
		next := call(e, x, y, params[0], params[1], params[2], params[3])
		free(params...)
		params = next
	}
}

func main() {
	backend = gobackend.GetBackend()
	timing.Main(map[string]func() func(){"matmul_1024": matmul, "matmul_norm_100": matmulNorm, "add_16m": add, "mlp_step": step},
		"github.com/gomlx/gomlx", "github.com/gomlx/compute")
}
