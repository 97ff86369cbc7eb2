package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The sine of an element is the same whatever stands beside it.
func TestBoundedIgnoresNeighbors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, f := range map[string]func(dst, a []float32){"sin": SinF32, "cos": CosF32} {
		x := make([]float32, 3000)
		for i := range x {
			x[i] = float32(r.NormFloat64() * 20)
			if r.IntN(100) == 0 {
				x[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), 1e6, -48001, 48000}[r.IntN(5)]
			}
		}
		got := make([]float32, len(x))
		f(got, x)
		same := append([]float32(nil), x...)
		f(same, same) // in place
		for i := range x {
			var one [1]float32
			f(one[:], x[i:i+1])
			if want := math.Float32bits(one[0]); math.Float32bits(got[i]) != want || math.Float32bits(same[i]) != want {
				t.Fatalf("%s(%v) is %v alone, %v among others, %v in place", name, x[i], one[0], got[i], same[i])
			}
		}
	}
}
