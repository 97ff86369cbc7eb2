package gemm

import (
	"math/rand/v2"
	"testing"
)

func TestBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range []struct{ count, m, n, k int }{{0, 2, 2, 2}, {1, 3, 4, 5}, {7, 5, 6, 7}, {40, 9, 17, 4}, {3, 130, 60, 90}, {2, 4, 4, 0}} {
		for _, shared := range []bool{false, true} {
			bt := Batch{Count: s.count, A: s.m * s.k, B: s.k*s.n + 3, C: s.m * s.n}
			if shared {
				bt.B = 0
			}
			a, b := vector[float32](r, s.count*bt.A+8), vector[float32](r, s.count*bt.B+s.k*s.n+8)
			c := make([]float32, s.count*bt.C)
			bias := vector[float32](r, s.n)
			ep := Epilogue[float32]{Bias: bias}
			BatchF32(bt, s.m, s.n, s.k, RowMajor(a, s.k), RowMajor(b, s.n), c, s.n, &ep)
			for i := range s.count {
				x, y := RowMajor(a[i*bt.A:], s.k), RowMajor(b[i*bt.B:], s.n)
				one := c[i*bt.C:][:bt.C]
				want, scale := reference(s.m, s.n, s.k, x, y, one, s.n, ep)
				compare(t, "batch", s.m, s.n, s.k, want, scale, one, s.n, one)
			}
		}
	}
}

func TestBatchF64(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 8))
	bt := Batch{Count: 5, A: 20, B: 30, C: 24}
	a, b, c := vector[float64](r, 100), vector[float64](r, 150), make([]float64, 120)
	BatchF64(bt, 4, 6, 5, RowMajor(a, 5), RowMajor(b, 6), c, 6, nil)
	for i := range 5 {
		want, scale := reference(4, 6, 5, RowMajor(a[i*20:], 5), RowMajor(b[i*30:], 6), c[i*24:], 6, Epilogue[float64]{})
		compare(t, "batch", 4, 6, 5, want, scale, c[i*24:][:24], 6, c[i*24:])
	}
}

func TestOverlappingBatchPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	BatchF32(Batch{Count: 2, C: 3}, 2, 2, 1, RowMajor(make([]float32, 4), 1), RowMajor(make([]float32, 4), 2), make([]float32, 16), 2, nil)
}
