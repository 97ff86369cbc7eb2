package vec

import (
	"math"
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
		}
	})
}
