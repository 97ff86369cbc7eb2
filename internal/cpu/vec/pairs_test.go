package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestPairs(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for n := range 40 {
			a, b := make([]float32, 2*n), make([]float32, 2*n)
			for i := range a {
				a[i], b[i] = float32(i)*1.25-7, float32(i%5)-float32(i)/3
			}
			if n > 9 { // four of them are more than a float32
				a[18], a[19], b[18], b[19] = math.MaxFloat32, math.MaxFloat32, math.MaxFloat32, math.MaxFloat32
			}
			dst := make([]float32, n+1)
			dst[n] = 99
			AveragePairsF32(dst[:n], a, b)
			for i, got := range dst[:n] {
				want := (float64(a[2*i]) + float64(a[2*i+1]) + float64(b[2*i]) + float64(b[2*i+1])) / 4
				size := (math.Abs(float64(a[2*i])) + math.Abs(float64(a[2*i+1])) + math.Abs(float64(b[2*i])) + math.Abs(float64(b[2*i+1]))) / 4
				if math.Abs(float64(got)-want) > 1.2e-7*size {
					t.Fatalf("average %d of %d is %v, want %v", i, n, got, want)
				}
			}
			if dst[n] != 99 {
				t.Fatalf("%d averages: wrote past the end", n)
			}
			x, y := make([]float32, 2*n+1), make([]float32, 2*n+1)
			x[2*n], y[2*n] = 99, 99
			SpreadPairsF32(x[:2*n], y[:2*n], dst[:n])
			for i := range 2 * n {
				if want := dst[i/2] / 4; x[i] != want || y[i] != want {
					t.Fatalf("shares %d of %d are %v and %v, want %v", i, n, x[i], y[i], want)
				}
			}
			if x[2*n] != 99 || y[2*n] != 99 {
				t.Fatalf("%d shares: wrote past the end", n)
			}
			if n == 8 { // rows of 3 windows, one behind the other
				rows := make([]float32, 22)
				SpreadPairsF32(rows, rows[6:], dst[:n])
				for i, got := range rows[:12] {
					if want := dst[i%6/2] / 4; got != want {
						t.Fatalf("share %d of overlapping rows is %v, want %v", i, got, want)
					}
				}
			}
		}
	})
}

func TestLargestPairsGrad(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	values := []float32{1, 2, 2, -1, nan, 0, float32(math.Copysign(0, -1)), inf, -inf, 3}
	eachLevel(t, func(t *testing.T) {
		r := uint32(1)
		pick := func() float32 {
			r = r*1664525 + 1013904223
			return values[r>>16%uint32(len(values))]
		}
		for n := range 40 {
			a, b, g := make([]float32, 2*n), make([]float32, 2*n), make([]float32, n)
			for i := range a {
				a[i], b[i], g[i/2] = pick(), pick(), float32(i+1)
			}
			x, y := make([]float32, 2*n+1), make([]float32, 2*n+1)
			for i := range x {
				x[i], y[i] = 99, 99
			}
			LargestPairsGradF32(x[:2*n], y[:2*n], a, b, g)
			for i, d := range g {
				window := [4]float32{a[2*i], a[2*i+1], b[2*i], b[2*i+1]}
				at := 0
				for k, e := range window {
					if e > window[at] || e != e && window[at] == window[at] {
						at = k
					}
				}
				var want [4]float32
				want[at] = d
				if got := [4]float32{x[2*i], x[2*i+1], y[2*i], y[2*i+1]}; got != want {
					t.Fatalf("window %d of %d, %v: got %v, want %v", i, n, window, got, want)
				}
			}
			if x[2*n] != 99 || y[2*n] != 99 {
				t.Fatalf("%d windows: wrote past the end", n)
			}
		}
	})
}

// Windows of all kinds: ties, zeros of both signs, infinities, NaN.
func TestLargestPairs(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	values := []float32{0, 0, 1, 1, 2, float32(math.Copysign(0, -1)), -1, inf, -inf, nan, math.SmallestNonzeroFloat32, math.MaxFloat32}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(51, 52))
		for n := range 60 {
			a, b, g := make([]float32, 2*n), make([]float32, 2*n), make([]float32, n)
			for i := range a {
				a[i], b[i] = values[r.IntN(len(values))], values[r.IntN(len(values))]
			}
			for i := range g {
				g[i] = float32(i + 1)
			}
			dst := make([]float32, n+1)
			x, y := make([]float32, 2*n+1), make([]float32, 2*n+1)
			for i := range x {
				x[i], y[i] = 99, 99
			}
			dst[n] = 99
			LargestPairsF32(dst[:n], a, b)
			LargestPairsGradF32(x[:2*n], y[:2*n], a, b, g)
			for i := range n {
				window := [4]float32{a[2*i], a[2*i+1], b[2*i], b[2*i+1]}
				at := 0
				for k, v := range window {
					if v > window[at] || math.IsNaN(float64(v)) && !math.IsNaN(float64(window[at])) {
						at = k
					}
				}
				if math.Float32bits(dst[i]) != math.Float32bits(window[at]) {
					t.Fatalf("%d windows: the largest of %v is %v, want number %d", n, window, dst[i], at)
				}
				var want [4]float32
				want[at] = g[i]
				if got := [4]float32{x[2*i], x[2*i+1], y[2*i], y[2*i+1]}; got != want {
					t.Fatalf("%d windows: %v gets %v, want %v", n, window, got, want)
				}
			}
			if dst[n] != 99 || x[2*n] != 99 || y[2*n] != 99 {
				t.Fatalf("%d windows: wrote past the end", n)
			}
		}
	})
}
