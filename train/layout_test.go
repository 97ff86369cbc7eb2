package train

import (
	"fmt"
	"testing"

	"github.com/locusml/locus"
)

func TestLayout(t *testing.T) {
	f, h := locus.Float32, locus.BFloat16
	sizes := func(d locus.DType, kib ...int) []item {
		var l []item
		for _, n := range kib {
			l = append(l, item{d, n << 10})
		}
		return l
	}
	forward := func(n int) (l []int) {
		for i := range n {
			l = append(l, i)
		}
		return l
	}
	for name, c := range map[string]struct {
		items []item
		order []int
		want  string
	}{
		"none":                        {nil, nil, "[]"},
		"a small network":             {sizes(f, 1, 2, 3), []int{2, 1, 0}, "[[2 1 0]]"},
		"several, the last small":     {sizes(f, 400, 400, 400, 400, 400, 100), forward(6), "[[0] [1] [2] [3] [4] [5]]"},
		"those that fit together":     {sizes(f, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100), []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, "[[9] [8] [7] [6] [5] [4] [3] [2] [1] [0]]"},
		"many small ones":             {sizes(f, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30), forward(10), "[[0 1] [2 3 4 5] [6 7 8 9]]"},
		"one larger than all buckets": {sizes(f, 10, 90000, 10), forward(3), "[[0] [1] [2]]"},
		"two types":                   {append(sizes(f, 10, 10), sizes(h, 10, 10)...), []int{0, 2, 1, 3}, "[[0 1] [2 3]]"},
		"without elements":            {sizes(f, 0, 0), []int{1, 0}, "[[1 0]]"},
	} {
		if got := fmt.Sprint(newLayout(c.items, c.order)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
