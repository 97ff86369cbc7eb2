package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Columns are reduced eight rows at a time, narrow matrices as wide ones, large
// ones in parts; and sums that are too large for float32 on the way come out right.
func TestColumns(t *testing.T) {
	for _, size := range [][2]int{{1, 5}, {7, 3}, {8, 4}, {9, 1000}, {129, 84}, {5003, 3}, {70001, 17}, {600, 5000}} {
		rows, n := size[0], size[1]
		t.Run(fmt.Sprintf("%dx%d", rows, n), func(t *testing.T) {
			x := view32(t, []int{rows, n}, func(i int) float32 { return float32(i*7919%10007)/2500 - 1.7 })
			e := elements[float32](&x, rows*n)
			for r := 0; r+3 < min(rows, 8); r += 4 { // pairs and fours that overflow, in two columns
				for i, v := range []float32{3e38, 2e38, -3e38, -2e38} {
					e[(r+i)*n] = v
					e[(r+i)*n+n-1] = v
				}
			}
			for id, start := range map[op.ID]float64{op.Sum: 0, op.Max: math.Inf(-1), op.Min: math.Inf(1)} {
				out := view32(t, []int{n}, func(int) float32 { return 0 })
				if err := Open().Run(&backend.Call{Op: id, Attrs: op.Reduce{Axes: op.AxesOf(0)}, In: []backend.View{x}, Out: out}); err != nil {
					t.Fatal(err)
				}
				for c, got := range elements[float32](&out, n) {
					want, size := start, 0.0
					for r := range rows {
						v := float64(e[r*n+c])
						switch id {
						case op.Max:
							want = max(want, v)
						case op.Min:
							want = min(want, v)
						default:
							want += v
							size += math.Abs(v)
						}
					}
					if size > 1e30 {
						size *= 0x1p-30 // added as float64, however large
					}
					if !(math.Abs(float64(got)-want) <= 0x1p-22*size) {
						t.Fatalf("%s of column %d is %v, want %v", id, c, got, want)
					}
				}
			}
		})
	}
}
