package locus_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/locusml/locus"
)

// A place that is no number gives zero and passes nothing on to x; one that is infinite
// is the border where there is one.
func TestGridSampleOfNoPlace(t *testing.T) {
	for _, d := range places() {
		x := d.From([]float32{1, 2, 3, 4}, 1, 1, 2, 2).RequireGrad()
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		grid := d.From([]float32{nan, 0, 0, nan, inf, 1, -inf, -1}, 1, 1, 4, 2)
		for padding, want := range map[locus.GridPadding][]float32{
			locus.GridZeros: {0, 0, 0, 0}, locus.GridBorder: {0, 0, 4, 1}, locus.GridReflect: {0, 0, 0, 0},
		} {
			for _, nearest := range []bool{false, true} {
				y := locus.GridSample(x, grid, locus.GridSampleOptions{Padding: padding, Nearest: nearest, Corners: true})
				if got := locus.ToSlice[float32](y); !slices.Equal(got, want) {
					t.Errorf("%v %s, nearest %v: %v, want %v", d, padding, nearest, got, want)
				}
				g := locus.ToSlice[float32](locus.GradOf(y.Sum(), x)[0])
				var sum float32
				for _, v := range g {
					sum += v
				}
				seen := float32(0)
				if padding == locus.GridBorder {
					seen = 2
				}
				if sum != seen {
					t.Errorf("%v %s, nearest %v: the gradient is %v", d, padding, nearest, g)
				}
			}
		}
	}
}

// An image is turned by a quarter, and a transformer that has to undo a shift learns
// it: gradients pass to the places.
func ExampleGridSample() {
	x := locus.From([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
	turn := locus.From([]float32{0, 1, 0, -1, 0, 0}, 1, 2, 3)
	y := locus.GridSample(x, locus.AffineGrid(turn, true, 2, 2), locus.GridSampleOptions{Corners: true})
	fmt.Println(locus.ToSlice[float32](y))

	// A bump, and the same a little further to the right.
	at := locus.Linspace(-1, 1, 17)
	bump := func(center float64) *locus.Tensor {
		across, down := at.Sub(center).Square(), at.Square().Unsqueeze(1)
		return across.Add(down).Mul(-4).Exp().Reshape(1, 1, 17, 17)
	}
	image, target := bump(0), bump(0.3)
	theta := locus.From([]float32{1, 0, 0, 0, 1, 0}, 1, 2, 3)
	for range 200 {
		w := theta.RequireGrad()
		warped := locus.GridSample(image, locus.AffineGrid(w, true, 17, 17), locus.GridSampleOptions{Corners: true, Padding: locus.GridBorder})
		g := locus.GradOf(locus.MSELoss(warped, target, locus.ReduceMean), w)[0]
		theta = theta.Sub(g.Mul(0.5))
	}
	fmt.Printf("shift %.1f\n", theta.Index(0, 0, 2).Item())
	// Output:
	// [3 1 4 2]
	// shift -0.3
}
