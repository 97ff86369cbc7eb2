package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
)

// fmod32 is math.Mod to the bit, sign of zero included, also where the quotient is
// near an integer, or large.
func TestFmod32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 200000
	a, b, got := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range a {
		a[i], b[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
		switch i % 5 {
		case 1: // near a multiple
			a[i] = b[i] * float32(r.IntN(2000)-1000)
		case 2:
			a[i], b[i] = float32(r.IntN(40)-20)/10, float32(r.IntN(40)-20)/10
		case 3:
			a[i] *= float32(math.Exp2(float64(r.IntN(200) - 100)))
		case 4:
			a[i], b[i] = math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
		}
	}
	fmod32(got, a, b)
	for i, g := range got {
		want := float32(math.Mod(float64(a[i]), float64(b[i])))
		if math.Float32bits(g) != math.Float32bits(want) && !(g != g && want != want) {
			t.Fatalf("fmod(%v, %v) = %v, want %v", a[i], b[i], g, want)
		}
	}
}
