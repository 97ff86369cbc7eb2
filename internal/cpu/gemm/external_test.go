package gemm

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/locusml/locus/internal/cpu/blas/blastest"
	"github.com/locusml/locus/internal/cpu/pool"
)

// use lets x compute everything during a test.
func use(t *testing.T, x External) {
	x.Side, x.Work = 1, 1
	Use(&x)
	t.Cleanup(func() { Use(nil) })
}

// counted is an External in plain loops that counts its calls.
func counted(calls *atomic.Int64, divisible bool) External {
	return External{F32: countedLoops[float32](calls), F64: countedLoops[float64](calls), Divisible: divisible}
}

func countedLoops[T Float](calls *atomic.Int64) func(ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	return func(ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
		calls.Add(1)
		x, y := RowMajor(a, lda), RowMajor(b, ldb)
		if ta {
			x = x.T()
		}
		if tb {
			y = y.T()
		}
		for i := range m {
			for j := range n {
				var s float64
				for p := range k {
					s += float64(x.Data[i*x.RowStride+p*x.ColStride]) * float64(y.Data[p*y.RowStride+j*y.ColStride])
				}
				if v := T(float64(alpha) * s); beta == 0 {
					c[i*ldc+j] = v
				} else {
					c[i*ldc+j] = v + beta*c[i*ldc+j]
				}
			}
		}
	}
}

// testAnyProduct tries products of any shape, layout and epilogue.
func testAnyProduct[T Float](t *testing.T, ks *kernels[T]) {
	r := rand.New(rand.NewPCG(1, 2))
	rounds := 40
	if raceEnabled {
		rounds = 4
	}
	for range rounds {
		m, n, k := 1+r.IntN(100), 1+r.IntN(100), 1+r.IntN(60)
		ep := Epilogue[T]{Alpha: T(r.IntN(3)), Beta: T(r.IntN(3)), Act: anyActivation(r)}
		if r.IntN(2) == 0 {
			ep.Bias = vector[T](r, n)
		}
		if r.IntN(2) == 0 {
			ep.RowBias = vector[T](r, m)
		}
		testOne(t, ks, r, m, n, k, r.IntN(5), r.IntN(5), ep, r.IntN(3))
	}
}

func TestExternal(t *testing.T) {
	for _, divisible := range []bool{false, true} {
		for _, threads := range []int{1, 2, 6} {
			var calls atomic.Int64
			use(t, counted(&calls, divisible))
			old := pool.SetThreads(threads)
			testAnyProduct(t, kernelsF32)
			testAnyProduct(t, kernelsF64)
			pool.SetThreads(old)
			if calls.Load() == 0 {
				t.Error("it was never called")
			}
		}
	}
}

// TestExternalBLAS is the same with a real library, from many goroutines.
func TestExternalBLAS(t *testing.T) {
	l := blastest.Open(t)
	use(t, External{F32: l.F32, F64: l.F64, Divisible: l.Divisible})
	defer pool.SetThreads(pool.SetThreads(4))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			testAnyProduct(t, kernelsF32)
			testAnyProduct(t, kernelsF64)
		})
	}
	wg.Wait()
}

// What is too small, or does not lie as BLAS needs it, stays here.
func TestExternalTakes(t *testing.T) {
	var calls atomic.Int64
	x := counted(&calls, true)
	Use(&x)
	defer Use(nil)
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		m, n, k, la, lb int
		want            bool
	}{
		{200, 200, 200, 0, 0, true}, {200, 200, 200, 1, 0, true}, {200, 200, 200, 2, 3, true}, {16, 4000, 120, 0, 1, true},
		{150, 150, 150, 0, 0, false}, {8, 700, 700, 0, 0, false}, {700, 700, 8, 0, 0, false}, {200, 200, 200, 4, 0, false}, {200, 200, 200, 0, 4, false},
	} {
		calls.Store(0)
		c0 := make([]float32, c.m*c.n)
		F32(c.m, c.n, c.k, matrix[float32](r, c.m, c.k, c.la), matrix[float32](r, c.k, c.n, c.lb), c0, c.n, nil)
		if got := calls.Load() > 0; got != c.want {
			t.Errorf("%+v: external %t", c, got)
		}
	}
	// A broadcast row, and rows that overlap, are not matrices for BLAS.
	data := vector[float32](r, 1000)
	for _, a := range []Mat[float32]{{Data: data, RowStride: 0, ColStride: 1}, {Data: data, RowStride: 1, ColStride: 1}} {
		calls.Store(0)
		F32(200, 200, 200, a, matrix[float32](r, 200, 200, 0), make([]float32, 200*200), 200, nil)
		if calls.Load() > 0 {
			t.Errorf("strides %d, %d: external", a.RowStride, a.ColStride)
		}
	}
}

func TestExternalGrid(t *testing.T) {
	for threads := 1; threads <= 64; threads++ {
		for _, s := range [][2]int{{1024, 1024}, {2048, 100}, {100, 2048}, {33, 50000}, {300, 301}} {
			p := problem[float32]{m: s[0], n: s[1], k: 500, threads: threads}
			g := p.externalGrid(externalWork)
			blocks := ((p.m + g.rows - 1) / g.rows) * ((p.n + g.cols - 1) / g.cols)
			if g.rows < 1 || g.cols < 1 || g.rows > p.m || g.cols > p.n || blocks > threads {
				t.Errorf("%d threads, %v: %+v, %d blocks", threads, s, g, blocks)
			}
		}
	}
}
