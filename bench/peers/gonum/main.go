// Command gonum times gonum's float32 BLAS for bench/peers.py. It has no
// networks, so there is no training step.
package main

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/locusml/locus/bench/peers/timing"
)

func square(n int) blas32.General {
	return blas32.General{Rows: n, Cols: n, Stride: n, Data: timing.Normal(n * n)}
}

func matmul(n int) func() func() {
	return func() func() {
		a, b := square(n), square(n)
		return func() { product(a, b) }
	}
}

func product(a, b blas32.General) blas32.General {
	c := blas32.General{Rows: a.Rows, Cols: b.Cols, Stride: b.Cols, Data: make([]float32, a.Rows*b.Cols)}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, c)
	return c
}

var sink float32

func main() {
	timing.Main(map[string]func() func(){
		"matmul_1024": matmul(1024),
		"matmul_norm_100": func() func() {
			a, b := square(100), square(100)
			return func() {
				for range 1000 {
					c := product(a, b)
					sink = blas32.Nrm2(blas32.Vector{N: len(c.Data), Inc: 1, Data: c.Data})
				}
			}
		},
		// There is no sum of two float32 vectors into a third: y += x moves as many bytes.
		"add_16m": func() func() {
			x, y := blas32.Vector{N: 16 << 20, Inc: 1, Data: timing.Normal(16 << 20)}, blas32.Vector{N: 16 << 20, Inc: 1, Data: make([]float32, 16<<20)}
			return func() { blas32.Axpy(1, x, y) }
		},
	}, "gonum.org/v1/gonum")
}
