package layout

import (
	"slices"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// A part of an image is found where it lies channels last.
func TestBox(t *testing.T) {
	shape := []int{2, 6, 5, 4}
	view := func(offset int, n, strides []int) backend.View {
		return backend.View{Offset: offset, Shape: n, Strides: strides}
	}
	plain := op.Strides(shape)
	for _, c := range []struct {
		v      backend.View
		ok     bool
		offset int
	}{
		{view(0, shape, plain), true, 0},
		{view(3*20, []int{2, 3, 5, 4}, plain), true, 3},
		{view(120+20+4+1, []int{1, 5, 4, 3}, plain), true, 120 + 1 + 24 + 6},
		{view(3*20, []int{2, 4, 5, 4}, plain), false, 0},             // beyond the channels
		{view(0, []int{2, 3, 5, 4}, []int{120, 40, 4, 1}), false, 0}, // every other channel
		{view(0, []int{2, 6, 20}, []int{120, 20, 1}), false, 0},
		{view(0, shape, []int{120, 20, 0, 1}), false, 0},
		{view(240, []int{1, 1, 1, 1}, plain), false, 0},
	} {
		got, ok := Box(c.v, shape)
		if ok != c.ok || ok && (got.Offset != c.offset || !slices.Equal(got.Strides, []int{120, 1, 24, 6})) {
			t.Errorf("%v at %d: %v %t", c.v.Shape, c.v.Offset, got, ok)
		}
	}
}

// What lies channels last, whole or in part, and what does not.
func TestIsLast(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int
		want           bool
	}{
		{[]int{2, 6, 5, 4}, Strides([]int{2, 6, 5, 4}), true},
		{[]int{2, 6, 5, 4}, []int{120, 20, 4, 1}, false},
		{[]int{2, 3, 5, 4}, []int{120, 1, 24, 6}, true},  // some channels
		{[]int{2, 6, 2, 4}, []int{120, 1, 24, 6}, true},  // some rows
		{[]int{2, 6, 5, 4}, []int{120, 1, 6, 30}, false}, // (N, W, H, C)
		{[]int{2, 6, 5, 4}, []int{0, 1, 24, 6}, false},   // repeated
		{[]int{2, 6, 5, 4}, []int{120, 1, 24, -6}, false},
		{[]int{1, 6, 1, 4}, []int{7, 1, 7, 6}, true}, // axes of one element have any strides
		{[]int{2, 1, 5, 4}, []int{20, 1, 4, 1}, false},
		{[]int{2, 6, 1, 1}, []int{6, 1, 1, 1}, false},
		{[]int{0, 6, 5, 4}, []int{120, 1, 24, 6}, false},
		{[]int{2, 6, 20}, []int{120, 1, 6}, false},
	} {
		if got := IsLast(c.shape, c.strides); got != c.want {
			t.Errorf("%v with strides %v: %t", c.shape, c.strides, got)
		}
	}
}
