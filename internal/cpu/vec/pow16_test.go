package vec

import (
	"math"
	"testing"
)

func TestPowBF16(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		const n = 4096
		a, dst, wide := make([]float32, n), make([]uint16, n), make([]float32, n)
		for i := range a {
			a[i] = -300 + 300*float32(i)/(n-1)
		}
		a[5] = float32(math.Inf(-1))
		const s, m = 0.75, 0.5
		sum := PowBF16(dst, a, s, m)
		BF16ToF32(wide, dst)
		total := 0.0
		for i, x := range a {
			want := math.Exp2(float64(x)*s - m)
			total += want
			if d := math.Abs(float64(wide[i]) - want); d > want*(0x1p-8+3e-6)+0x1p-126 {
				t.Fatalf("2^(%v·%v - %v) is %v, want %v", x, s, m, wide[i], want)
			}
		}
		if dst[5] != 0 {
			t.Errorf("2^-Inf is %v", wide[5])
		}
		if d := math.Abs(float64(sum)/total - 1); d > 3e-6 {
			t.Errorf("the sum is %v, want %v", sum, total)
		}
		// NaN and infinity stay in their places, but for the sum.
		a[77], a[99] = float32(math.NaN()), float32(math.Inf(1))
		sum = PowBF16(dst[:128], a[:128], 1, 0)
		BF16ToF32(wide, dst)
		for i, x := range wide[:128] {
			if (x != x) != (i == 77) && i != 99 {
				t.Errorf("element %d is %v", i, x)
			}
		}
		if sum == sum {
			t.Errorf("the sum of NaN and others is %v", sum)
		}
	})
}

func TestPowGradBF16(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		const n = 1024
		a, b, p, d := make([]float32, n), make([]float32, n), make([]uint16, n), make([]uint16, n)
		for i := range a {
			a[i], b[i] = -20+20*float32(i)/(n-1), float32(i%37)-18
		}
		a[7] = float32(math.Inf(-1))
		const s, m, u, w = 0.75, 0.5, 0.25, -3
		PowGradBF16(p, d, a, b, s, m, u, w)
		x, y := make([]float32, n), make([]float32, n)
		BF16ToF32(x, p)
		BF16ToF32(y, d)
		for i := range a {
			want := math.Exp2(float64(a[i])*s - m)
			grad := want * (float64(b[i])*u - w)
			if math.Abs(float64(x[i])-want) > want*(0x1p-8+3e-6) || math.Abs(float64(y[i])-grad) > math.Abs(grad)*(0x1p-8+3e-6) {
				t.Fatalf("of %v and %v: %v and %v, want %v and %v", a[i], b[i], x[i], y[i], want, grad)
			}
		}
	})
}

func TestMulSBF16(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for n := range 70 {
			a, scaled := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i] = float32(i*i)*1.001 - 300
			}
			if n > 40 {
				a[3], a[4], a[39] = float32(math.Inf(-1)), float32(math.NaN()), -0x1p-130
			}
			const s = 0.3
			dst, want := make([]uint16, n), make([]uint16, n)
			MulSBF16(dst, a, s)
			MulSF32(scaled, a, s)
			F32ToBF16(want, scaled)
			for i := range want {
				if dst[i] != want[i] {
					t.Fatalf("%d elements: %v·%v is %#x, want %#x", n, a[i], s, dst[i], want[i])
				}
			}
		}
	})
}
