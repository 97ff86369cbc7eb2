package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// TestNaNAndInfPropagate puts one NaN or Inf into A or B with zeros opposite.
func TestNaNAndInfPropagate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for _, ks := range levels[float32]() {
		for _, s := range [][3]int{{5, 20, 9}, {1, 40, 64}, {170, 170, 170}} {
			m, n, k := s[0], s[1], s[2]
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
				a, b := RowMajor(make([]float32, m*k), k), RowMajor(make([]float32, k*n), n)
				i, j, p := r.IntN(m), r.IntN(n), r.IntN(k)
				a.Data[i*k+p] = bad
				c := make([]float32, m*n)
				run(ks, m, n, k, nativeSource(a), nativeSource(b), c, n, nil, pool.Threads())
				for q, v := range c {
					if (q/n == i) != (v != v) {
						t.Fatalf("%s %v: bad A: C[%d,%d] = %v", ks.name, s, q/n, q%n, v)
					}
				}
				a.Data[i*k+p] = 0
				b.Data[p*n+j] = bad
				run(ks, m, n, k, nativeSource(a), nativeSource(b), c, n, &Epilogue[float32]{Act: op.Relu}, pool.Threads())
				for q, v := range c {
					if (q%n == j) != (v != v) {
						t.Fatalf("%s %v: bad B: C[%d,%d] = %v", ks.name, s, q/n, q%n, v)
					}
				}
			}
		}
	}
}

func TestEmptyK(t *testing.T) {
	c := []float32{1, 2, 3, float32(math.NaN())}
	F32(2, 2, 0, Mat[float32]{}, Mat[float32]{}, c, 2, nil)
	for _, v := range c {
		if v != 0 {
			t.Fatalf("C = %v", c)
		}
	}
	F32(2, 2, 0, Mat[float32]{}, Mat[float32]{}, c, 2, &Epilogue[float32]{Bias: []float32{1, -2}, Act: op.Relu})
	if c[0] != 1 || c[1] != 0 || c[2] != 1 || c[3] != 0 {
		t.Fatalf("C = %v", c)
	}
}

func TestBadArgumentsPanic(t *testing.T) {
	x := make([]float32, 12)
	for name, f := range map[string]func(){
		"negative":    func() { F32(-1, 2, 2, RowMajor(x, 2), RowMajor(x, 2), x, 2, nil) },
		"short A":     func() { F32(4, 2, 4, RowMajor(x, 4), RowMajor(x, 2), make([]float32, 8), 2, nil) },
		"short B":     func() { F32(2, 4, 4, RowMajor(x, 4), RowMajor(x, 4), make([]float32, 8), 4, nil) },
		"short C":     func() { F32(4, 4, 2, RowMajor(x, 2), RowMajor(x, 4), x, 4, nil) },
		"narrow ldc":  func() { F32(2, 4, 2, RowMajor(x, 2), RowMajor(x, 4), x, 3, nil) },
		"short bias":  func() { F32(2, 4, 2, RowMajor(x, 2), RowMajor(x, 4), x, 4, &Epilogue[float32]{Bias: x[:3]}) },
		"short rbias": func() { F32(2, 4, 2, RowMajor(x, 2), RowMajor(x, 4), x, 4, &Epilogue[float32]{RowBias: x[:1]}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// FuzzF32 compares random shapes, layouts and epilogues with float64 sums.
func FuzzF32(f *testing.F) {
	f.Add(uint16(5), uint16(17), uint16(40), uint8(0), uint8(1), uint8(3), uint64(1))
	f.Add(uint16(100), uint16(100), uint16(100), uint8(0), uint8(0), uint8(0), uint64(2))
	f.Add(uint16(1), uint16(100), uint16(64), uint8(0), uint8(1), uint8(31), uint64(3))
	f.Fuzz(func(t *testing.T, m16, n16, k16 uint16, la, lb, flags uint8, seed uint64) {
		m, n, k := int(m16%200), int(n16%200), int(k16%400)
		r := rand.New(rand.NewPCG(seed, 1))
		ep := Epilogue[float32]{Act: ends()[flags>>4%7]}
		if flags&1 != 0 {
			ep.Beta = -0.5
		}
		if flags&2 != 0 {
			ep.Bias = vector[float32](r, n)
		}
		if flags&4 != 0 {
			ep.RowBias = vector[float32](r, m)
		}
		if flags&8 != 0 {
			ep.Alpha = 1.5
		}
		ks := levels[float32]()
		testOne(t, ks[seed%uint64(len(ks))], r, m, n, k, int(la%5), int(lb%5), ep, int(seed%3))
	})
}
