package vec

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// samples covers both signs of every float32 exponent, the specials, and the
// places where functions change over.
var samples = sync.OnceValue(func() []float32 {
	r := rand.New(rand.NewPCG(11, 12))
	var out []float32
	add := func(b uint32) {
		out = append(out, math.Float32frombits(b), math.Float32frombits(b|0x80000000))
	}
	for e := range uint32(256) {
		for _, m := range []uint32{0, 1, 2, 0x7fffff, 0x7ffffe, 0x400000, 0x2aaaab, 0x3504f3} {
			add(e<<23 | m)
		}
		n := 40
		if e > 100 && e < 140 && !raceEnabled {
			n = 2000
			if e > 118 && e < 133 { // where most functions bend
				n = 10000
			}
		}
		for range n {
			add(e<<23 | r.Uint32()&0x7fffff)
		}
	}
	for i := range 200000 {
		if raceEnabled && i%50 != 0 {
			continue
		}
		x := float32(i-100000) / 1000
		out = append(out, x)
	}
	return out
})

// ulps is how far got is from want in units of want's last float32 place.
func ulps(got float32, want float64) float64 {
	if math.IsNaN(want) || math.IsNaN(float64(got)) {
		if math.IsNaN(want) && math.IsNaN(float64(got)) {
			return 0
		}
		return math.Inf(1)
	}
	w := float32(want)
	if math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0) {
		if w == got {
			return 0
		}
		// Just short of the overflow threshold either is within an ulp.
		if math.Abs(want) > math.MaxFloat32*(1-1e-7) && math.Abs(float64(got)) > math.MaxFloat32*(1-1e-7) {
			return 1
		}
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
}

func TestElementaryFunctions(t *testing.T) {
	x := samples()
	for _, f := range []struct {
		name  string
		fast  func(dst, a []float32)
		exact func(float64) float64
		bound float64
		floor float64 // absolute errors below this do not count
	}{
		{"Exp", ExpF32, math.Exp, 1.05, 0},
		{"Expm1", Expm1F32, math.Expm1, 1.5, 0},
		{"Log", LogF32, math.Log, 1, 0},
		{"Log1p", Log1pF32, math.Log1p, 1.5, 0},
		{"Tanh", TanhF32, math.Tanh, 1.5, 0},
		{"Sigmoid", SigmoidF32, sigmoid1, 1.6, 0},
		{"Erf", ErfF32, math.Erf, 1.5, 0},
		{"Gelu", GeluF32, gelu1, 2, 0},
		{"GeluTanh", GeluTanhF32, geluTanh1, 1.6, 0},
		{"Silu", SiluF32, silu1, 1.6, 0},
		{"Sin", SinF32, math.Sin, 2, 0},
		{"Cos", CosF32, math.Cos, 2, 0},
	} {
		eachLevel(t, func(t *testing.T) {
			y := make([]float32, len(x))
			f.fast(y, x)
			var worst float64
			var at int
			for i := range x {
				want := f.exact(float64(x[i]))
				if u := ulps(y[i], want); u > worst && math.Abs(want-float64(y[i])) >= f.floor {
					worst, at = u, i
				}
			}
			t.Logf("%s: at most %.3f ulp, at %g", f.name, worst, x[at])
			if worst > f.bound {
				t.Errorf("%s(%g) = %g, want %g: %.2f ulp", f.name, x[at], y[at], f.exact(float64(x[at])), worst)
			}
			// In place, and every tail.
			for n := range 40 {
				z := append([]float32(nil), x[1000:1000+n+1]...)
				last := z[n]
				f.fast(z[:n], z[:n])
				for i := range n {
					if ulps(z[i], f.exact(float64(x[1000+i]))) > f.bound {
						t.Fatalf("%s in place n=%d: [%d] = %g", f.name, n, i, z[i])
					}
				}
				if z[n] != last && last == last {
					t.Fatalf("%s n=%d: wrote past the end", f.name, n)
				}
			}
		})
	}
}

func TestSignedZeros(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		neg := float32(math.Copysign(0, -1))
		for name, f := range map[string]func(dst, a []float32){
			"Expm1": Expm1F32, "Log1p": Log1pF32, "Tanh": TanhF32, "Erf": ErfF32, "Sin": SinF32, "Sqrt": SqrtF32,
		} {
			x := []float32{0, neg}
			f(x, x)
			if x[0] != 0 || math.Signbit(float64(x[0])) || x[1] != 0 || !math.Signbit(float64(x[1])) {
				t.Errorf("%s(0, -0) = %v", name, x)
			}
		}
	})
}

func TestPow(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	var a, b []float32
	all := append([]float64{4, 5, 7, 1.5, -1.5, 1e30, -1e30, 16777216, 16777217, 8388609, 0x1p-30}, special...)
	for _, x := range all {
		for _, y := range all {
			a, b = append(a, float32(x)), append(b, float32(y))
		}
	}
	xs := samples()
	for i := range 200000 {
		if raceEnabled && i == 2000 {
			break
		}
		a = append(a, xs[r.IntN(len(xs))])
		switch r.IntN(3) {
		case 0:
			b = append(b, float32(r.IntN(40)-20))
		case 1:
			b = append(b, float32(r.NormFloat64()*4))
		default:
			b = append(b, xs[r.IntN(len(xs))])
		}
	}
	eachLevel(t, func(t *testing.T) {
		y := make([]float32, len(a))
		PowF32(y, a, b)
		var worst float64
		var at int
		for i := range a {
			if u := ulps(y[i], math.Pow(float64(a[i]), float64(b[i]))); u > worst {
				worst, at = u, i
			}
		}
		t.Logf("at most %.3f ulp", worst)
		if worst > 1 {
			t.Errorf("Pow(%g, %g) = %g, want %g: %.2f ulp", a[at], b[at], y[at], math.Pow(float64(a[at]), float64(b[at])), worst)
		}
		for _, s := range []float32{2, 3, 0.5, -1, 0, 1, -2.5, float32(math.NaN())} {
			PowSF32(y, a, s)
			for i := range a {
				if ulps(y[i], math.Pow(float64(a[i]), float64(s))) > 1 {
					t.Fatalf("PowS(%g, %g) = %g", a[i], s, y[i])
				}
			}
		}
	})
}

// NaNs of every kind stay NaN, whatever bits they carry.
func TestNaNPayloads(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		var x []float32
		for _, b := range []uint32{0x7fc00000, 0x7fc00001, 0x7fc001ff, 0x7f800001, 0x7fffffff, 0xffc00000, 0xffc00001, 0xffffffff, 0xff800123} {
			x = append(x, math.Float32frombits(b))
		}
		for len(x) < 40 {
			x = append(x, x...)
		}
		for name, f := range map[string]func(dst, a []float32){
			"Exp": ExpF32, "Expm1": Expm1F32, "Log": LogF32, "Log1p": Log1pF32, "Tanh": TanhF32, "Sigmoid": SigmoidF32, "Silu": SiluF32,
			"Erf": ErfF32, "Gelu": GeluF32, "GeluTanh": GeluTanhF32, "Sin": SinF32, "Cos": CosF32,
			"ExpSub": func(dst, a []float32) { ExpSubF32(dst, a, 1) },
		} {
			y := make([]float32, len(x))
			f(y, x)
			for i, v := range y {
				if v == v {
					t.Errorf("%s of NaN %#x is %v", name, math.Float32bits(x[i]), v)
				}
			}
		}
	})
}
