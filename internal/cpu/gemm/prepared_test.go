package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func testPrepared[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, ks := range levels[T]() {
		var p Prepared[T]
		for _, s := range [][3]int{{1, 1, 1}, {5, 3, 2}, {6, 16, 25}, {64, 256, 64}, {13, 33, 700}, {25, 50, 1300}, {96, 64, 256}, {7, 9, 0}} {
			m, n, k := s[0], s[1], s[2]
			a, b := matrix[T](r, m, k, r.IntN(5)), matrix[T](r, k, n, r.IntN(5))
			p.set(ks, k, n, b)
			for _, part := range [][2]int{{n, k}, {(n + 1) / 2, (k + 1) / 2}} {
				n, k := part[0], part[1]
				for _, add := range []bool{false, true} {
					what := fmt.Sprintf("%s %d×%d×%d add %v", ks.name, m, n, k, add)
					ldc := n + 3
					c := make([]T, (m-1)*ldc+n+1)
					for i := range c {
						c[i] = T(math.NaN())
						if add && i%ldc < n {
							c[i] = T(r.NormFloat64())
						}
					}
					before := append([]T(nil), c...)
					const alpha = 0.3
					p.Times(m, n, k, a, c, ldc, alpha, add)
					for i, got := range c {
						row, col := i/ldc, i%ldc
						if row >= m || col >= n {
							if got == got {
								t.Fatalf("%s: wrote between or behind the rows", what)
							}
							continue
						}
						var sum, size float64
						for q := range k {
							x := alpha * float64(a.Data[row*a.RowStride+q*a.ColStride]) * float64(b.Data[q*b.RowStride+col*b.ColStride])
							sum, size = sum+x, size+math.Abs(x)
						}
						if add {
							sum, size = sum+float64(before[i]), size+math.Abs(float64(before[i]))
						}
						near(t, what, got, sum, size, k+1)
					}
				}
			}
		}
		p.Free()
	}
}

func TestPrepared(t *testing.T) {
	t.Run("float32", testPrepared[float32])
	t.Run("float64", testPrepared[float64])
}

func TestPreparedMisusePanics(t *testing.T) {
	var p Prepared[float32]
	p.Set(2, 3, RowMajor(make([]float32, 6), 3))
	defer p.Free()
	for name, f := range map[string]func(){
		"more columns": func() { p.Times(1, 4, 2, RowMajor(make([]float32, 2), 2), make([]float32, 4), 4, 1, false) },
		"more rows":    func() { p.Times(1, 3, 3, RowMajor(make([]float32, 3), 3), make([]float32, 3), 3, 1, false) },
		"short A":      func() { p.Times(2, 3, 2, RowMajor(make([]float32, 3), 2), make([]float32, 6), 3, 1, false) },
		"short C":      func() { p.Times(2, 3, 2, RowMajor(make([]float32, 4), 2), make([]float32, 5), 3, 1, false) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
