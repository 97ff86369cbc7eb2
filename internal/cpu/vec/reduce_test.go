package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, scale float64) bool { return math.Abs(a-b) <= 1e-12*scale+1e-300 }

func testReductions[T float](t *testing.T, sum, sumsq func([]T) float64, both func([]T) (float64, float64), dev func([]T, float64) float64,
	dot func(a, b []T) float64, mx, mn func([]T) T, amx, amn func([]T) int) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, n := range lengths() {
		a, b := make([]T, n+8)[3:n+3], make([]T, n+8)[5:n+5]
		var s, ss, d, dv, sa, da float64
		lo, hi := math.Inf(1), math.Inf(-1)
		ilo, ihi := 0, 0
		for i := range a {
			a[i], b[i] = T(r.NormFloat64()+0.5), T(r.NormFloat64())
			x, y := float64(a[i]), float64(b[i])
			s += x
			sa += math.Abs(x)
			ss += x * x
			d += x * y
			da += math.Abs(x * y)
			dv += (x - 0.25) * (x - 0.25)
			if x < lo {
				lo, ilo = x, i
			}
			if x > hi {
				hi, ihi = x, i
			}
		}
		if got := sum(a); !near(got, s, sa) {
			t.Fatalf("sum n=%d: %v, want %v", n, got, s)
		}
		if got := sumsq(a); !near(got, ss, ss) {
			t.Fatalf("sumsq n=%d: %v, want %v", n, got, ss)
		}
		if g1, g2 := both(a); !near(g1, s, sa) || !near(g2, ss, ss) {
			t.Fatalf("both n=%d: %v %v, want %v %v", n, g1, g2, s, ss)
		}
		if got := dev(a, 0.25); !near(got, dv, dv) {
			t.Fatalf("dev n=%d: %v, want %v", n, got, dv)
		}
		if got := dot(a, b); !near(got, d, da) {
			t.Fatalf("dot n=%d: %v, want %v", n, got, d)
		}
		if got := mx(a); float64(got) != hi {
			t.Fatalf("max n=%d: %v, want %v", n, got, hi)
		}
		if got := mn(a); float64(got) != lo {
			t.Fatalf("min n=%d: %v, want %v", n, got, lo)
		}
		if n == 0 {
			continue
		}
		if got := amx(a); got != ihi {
			t.Fatalf("argmax n=%d: %v, want %v", n, got, ihi)
		}
		if got := amn(a); got != ilo {
			t.Fatalf("argmin n=%d: %v, want %v", n, got, ilo)
		}
		for range 3 {
			i := r.IntN(n)
			old := a[i]
			a[i] = T(math.NaN())
			if x, y := mx(a), mn(a); x == x || y == y {
				t.Fatalf("n=%d: a NaN at %d is lost", n, i)
			}
			if amx(a) != i || amn(a) != i {
				t.Fatalf("n=%d: arg of NaN at %d: %d, %d", n, i, amx(a), amn(a))
			}
			if x := sum(a); x == x {
				t.Fatalf("n=%d: the sum lost a NaN", n)
			}
			a[i] = T(math.Inf(1))
			if x := mx(a); !math.IsInf(float64(x), 1) {
				t.Fatalf("n=%d: max with Inf is %v", n, x)
			}
			if x := sum(a); !math.IsInf(x, 1) {
				t.Fatalf("n=%d: sum with Inf is %v", n, x)
			}
			a[i] = old
		}
		for i := range a {
			a[i] = T(math.Inf(-1))
		}
		if x := mx(a); !math.IsInf(float64(x), -1) || amx(a) != 0 {
			t.Fatalf("n=%d: max of -Inf is %v", n, x)
		}
	}
}

func TestReductions(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		testReductions(t, SumF32, SumSqF32, SumSumSqF32, SumSqDevF32, DotF32, ReduceMaxF32, ReduceMinF32, ArgMaxF32, ArgMinF32)
		testReductions(t, SumF64, SumSqF64, SumSumSqF64, SumSqDevF64, DotF64, ReduceMaxF64, ReduceMinF64, ArgMaxF64, ArgMinF64)
	})
}

// Four elements are added in float32, but sums that are too large for that come
// out right, and what is infinite or NaN stays so.
func TestSumFours(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(33, 34))
		for _, n := range append(lengths(), 127, 128, 255, 256, 257, 5000) {
			a := make([]float32, n+8)[3 : n+3]
			var s, size float64
			for i := range a {
				a[i] = float32(r.NormFloat64() + 0.5)
				s += float64(a[i])
				size += math.Abs(float64(a[i]))
			}
			if got := SumFoursF32(a); math.Abs(got-s) > 0x1p-23*size {
				t.Fatalf("n=%d: %v, want %v", n, got, s)
			}
			if n == 0 {
				continue
			}
			for i := range a { // in places that are added to each other
				a[i] = math.MaxFloat32
				if i/64%2 == 1 {
					a[i] = -math.MaxFloat32
				}
			}
			if got, want := SumFoursF32(a), SumF32(a); got != want || math.IsInf(got, 0) {
				t.Fatalf("n=%d: the sum of large numbers is %v, want %v", n, got, want)
			}
			clear(a)
			a[r.IntN(n)] = float32(math.Inf(-1))
			if got := SumFoursF32(a); !math.IsInf(got, -1) {
				t.Fatalf("n=%d: the sum with -Inf is %v", n, got)
			}
			a[r.IntN(n)] = float32(math.NaN())
			if got := SumFoursF32(a); got == got {
				t.Fatalf("n=%d: the sum lost a NaN", n)
			}
		}
	})
}

func TestExpSub(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		for _, n := range lengths() {
			a, d := make([]float32, n), make([]float32, n+1)
			for i := range a {
				a[i] = float32(r.NormFloat64() * 5)
			}
			if n > 2 {
				a[1] = float32(math.Inf(-1))
			}
			m := ReduceMaxF32(a)
			s := ExpSubF32(d[:n], a, m)
			var want float64
			for i := range a {
				if ulps(d[i], math.Exp(float64(a[i]-m))) > 1.05 {
					t.Fatalf("n=%d [%d]: %v", n, i, d[i])
				}
				want += float64(d[i])
			}
			if d[n] != 0 || !near(s, want, want) || n > 0 && !near(SumExpSubF32(a, m), want, want*1e5) {
				t.Fatalf("n=%d: sum %v %v, want %v", n, s, SumExpSubF32(a, m), want)
			}
		}
	})
}
