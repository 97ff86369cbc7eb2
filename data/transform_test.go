package data

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/locusml/locus"
)

func apply(t *testing.T, f Transform, x *locus.Tensor, seed uint64) *locus.Tensor {
	t.Helper()
	labels := x.Device().As(locus.Int64).Zeros(x.Dim(0))
	out := f([]*locus.Tensor{x, labels}, locus.NewKey(seed))
	if len(out) != 2 || out[1] != labels {
		t.Fatal("the labels did not pass")
	}
	return out[0]
}

// The values are those of torch 2.15.0:
// interpolate(x, size, mode="bilinear", antialias=True, align_corners=False).
func TestResize(t *testing.T) {
	x := make([]float32, 35)
	for i := range x {
		x[i] = float32(i * i % 17)
	}
	for size, want := range map[[2]int][]float32{
		{3, 4}: {6.37415, 8.55429, 10.04, 8.09524, 9.36508, 5.26667, 5.26667, 9.36508, 8.09524, 10.04, 8.55429, 6.37415},
		{8, 9}: {0.0, 0.66667, 2.33333, 5.11111, 9.0, 14.44444, 11.55555, 6.0, 2.0, 6.5625, 6.35417, 7.0, 8.75694, 11.625, 10.26389, 8.83333, 8.04167, 8.125},
		{5, 3}: {1.28571, 8.94118, 7.57143, 13.71428, 10.94118, 9.57143, 5.14286, 0.94118, 5.14286, 9.57143, 10.94118, 13.71429, 7.57143, 8.94118, 1.28571},
		{5, 7}: x,
	} {
		for _, d := range []locus.Device{locus.CPU(), virtualGPU()} {
			y := apply(t, Resize(size[0], size[1]), d.From(x, 1, 1, 5, 7), 0)
			if fmt.Sprint(y.Shape()) != fmt.Sprint([]int{1, 1, size[0], size[1]}) {
				t.Fatal(y.Shape())
			}
			for i, v := range locus.ToSlice[float32](y)[:len(want)] {
				if math.Abs(float64(v-want[i])) > 2e-5 {
					t.Errorf("%v: pixel %d is %v, want %v", size, i, v, want[i])
				}
			}
		}
	}
	if err := locus.Try(func() { Resize(0, 3) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if err := locus.Try(func() { apply(t, Resize(2, 2), locus.Ones(3, 4), 0) }); !errors.Is(err, locus.ErrShape) {
		t.Error(err)
	}
}

func TestNormalize(t *testing.T) {
	x := locus.From([]float32{1, 2, 10, 20}, 1, 2, 1, 2)
	y := apply(t, Normalize([]float32{1, 10}, []float32{0.5, 5}), x, 0)
	if got := locus.ToSlice[float32](y); !slices.Equal(got, []float32{0, 2, 0, 2}) {
		t.Error(got)
	}
}

func TestRandomFlip(t *testing.T) {
	const n = 400
	x := locus.Arange(n*6).Cast(locus.Float32).Reshape(n, 1, 2, 3)
	y := locus.ToSlice[float32](apply(t, RandomFlip(0.25), x, 1))
	flipped := 0
	for i := range n {
		b := float32(6 * i)
		switch got := y[6*i : 6*i+6]; {
		case slices.Equal(got, []float32{b + 2, b + 1, b, b + 5, b + 4, b + 3}):
			flipped++
		case !slices.Equal(got, []float32{b, b + 1, b + 2, b + 3, b + 4, b + 5}):
			t.Fatalf("image %d is neither as it was nor mirrored: %v", i, got)
		}
	}
	if flipped < 70 || flipped > 130 {
		t.Errorf("%d of %d mirrored", flipped, n)
	}
	if again := locus.ToSlice[float32](apply(t, RandomFlip(0.25), x, 1)); !slices.Equal(again, y) {
		t.Error("the same key gives other images")
	}
}

func TestRandomCrop(t *testing.T) {
	const n, border = 300, 1
	x := locus.Ones(n, 2, 3, 3)
	y := apply(t, RandomCrop(border), x, 1)
	if fmt.Sprint(y.Shape()) != "[300 2 3 3]" {
		t.Fatal(y.Shape())
	}
	if err := locus.Try(func() { RandomCrop(-1) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	// A whole image has 18 ones, one that was moved one way 12, both ways 8.
	count := map[float32]int{}
	for _, s := range locus.ToSlice[float32](y.Sum(1, 2, 3)) {
		count[s]++
	}
	if len(count) != 3 || count[18] < 10 || count[12] < 80 || count[8] < 80 {
		t.Errorf("%v", count)
	}
}
