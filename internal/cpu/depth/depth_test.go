package depth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

func TestLayout(t *testing.T) {
	var p plane
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"x", unsafe.Offsetof(p.x), 0}, {"offset", unsafe.Offsetof(p.offset), 8}, {"y", unsafe.Offsetof(p.y), 16}, {"w", unsafe.Offsetof(p.w), 24},
		{"rowX", unsafe.Offsetof(p.rowX), 32}, {"rowY", unsafe.Offsetof(p.rowY), 40}, {"rows", unsafe.Offsetof(p.rows), 48},
		{"first", unsafe.Offsetof(p.first), 56}, {"last", unsafe.Offsetof(p.last), 64}, {"odd", unsafe.Offsetof(p.odd), 72},
		{"vectors", unsafe.Offsetof(p.vectors), 80}, {"masks", unsafe.Offsetof(p.masks), 88}, {"tail", unsafe.Offsetof(p.tail), 96},
		{"spread", unsafe.Offsetof(p.spread), 104}, {"masks", unsafe.Sizeof(masks{}), 256},
	} {
		if f.got != f.want {
			t.Errorf("%s is at %d, the assembly expects %d", f.name, f.got, f.want)
		}
	}
}

// All small sizes, between elements that must be neither read nor written, with all elements
// finite and with one that is not: only the results it is part of may change.
func TestConvolve(t *testing.T) {
	if vec.Best() == vec.Generic {
		t.Skip("this CPU has no vector kernels")
	}
	old := level
	defer func() { level = old }()
	r := rand.New(rand.NewPCG(1, 2))
	nan := float32(math.NaN())
	random := func(n int) (all, part []float32) {
		all = slices.Repeat([]float32{nan}, n+128)
		part = all[64 : 64+n]
		for i := range part {
			part[i] = float32(r.NormFloat64())
		}
		return all, part
	}
	for _, level = range vec.Levels() {
		if level == vec.Generic || level > vec.AVX512 && level < vec.NEON {
			continue // plain Go is elsewhere, and beyond are levels of products
		}
		sizes := []int{1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 18, 24, 33, 70}
		for i := range 14 * 14 * 3 * 3 * 2 {
			s := Shape{H: sizes[i%14], W: sizes[i/14%14], Pad: [2]int{i / 196 % 3, i / 588 % 3}, Stride: 1 + i/1764}
			s.OH, s.OW = (s.H+2*s.Pad[0]-3)/s.Stride+1, (s.W+2*s.Pad[1]-3)/s.Stride+1
			if s.H+2*s.Pad[0] < 3 || s.W+2*s.Pad[1] < 3 || s.H > 24 && s.W > 24 {
				continue
			}
			f := New(s)
			if f == nil {
				t.Fatalf("%v: no kernel for %+v", level, s)
			}
			const n = 3
			_, x := random(n * s.H * s.W)
			_, w := random(2 * 9)
			all, y := random(n * s.OH * s.OW)
			for _, odd := range []float32{1, float32(math.Inf(1))} {
				x[r.IntN(len(x))] = odd
				f.Convolve(y, x, w, 0, n)
				what := fmt.Sprintf("%v %+v with %v", level, s, odd)
				check(t, what, s, n, y, x, w)
				for i, e := range all {
					if outside := i < 64 || i >= 64+len(y); outside && e == e {
						t.Fatalf("%s: wrote %d elements from the result's beginning", what, i-64)
					}
				}
			}
		}
	}
}

func check(t *testing.T, what string, s Shape, n int, y, x, w []float32) {
	t.Helper()
	for i, got := range y {
		p, oy, ox := i/(s.OH*s.OW), i/s.OW%s.OH, i%s.OW
		var want float64
		for tap := range 9 {
			iy, ix := oy*s.Stride-s.Pad[0]+tap/3, ox*s.Stride-s.Pad[1]+tap%3
			if iy >= 0 && iy < s.H && ix >= 0 && ix < s.W {
				want += float64(x[(p*s.H+iy)*s.W+ix]) * float64(w[p%2*9+tap])
			}
		}
		if math.IsNaN(want) != (got != got) || math.IsInf(want, 0) && float64(got) != want || math.Abs(float64(got)-want) > 1e-4 {
			t.Fatalf("%s: plane %d, row %d, column %d is %v, want %v", what, p, oy, ox, got, want)
		}
	}
}

func TestWithoutKernel(t *testing.T) {
	for _, s := range []Shape{
		{H: 9, W: 9, OH: 3, OW: 3, Stride: 3},
		{H: 4, W: 4, OH: 8, OW: 8, Stride: 1, Pad: [2]int{3, 3}},
		{H: 4, W: 4, OH: 4, OW: 0, Stride: 1, Pad: [2]int{1, 1}},
	} {
		if New(s) != nil {
			t.Errorf("there is a kernel for %+v", s)
		}
	}
}

func TestShortOperandsPanic(t *testing.T) {
	f := New(Shape{H: 4, W: 4, OH: 4, OW: 4, Stride: 1, Pad: [2]int{1, 1}})
	if f == nil {
		t.Skip("this CPU has no vector kernels")
	}
	a, w := make([]float32, 32), make([]float32, 18)
	for name, call := range map[string]func(){
		"x": func() { f.Convolve(a, a[:31], w, 0, 2) }, "y": func() { f.Convolve(a[:31], a, w, 0, 2) },
		"filters": func() { f.Convolve(a, a, w[:17], 0, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			call()
		})
	}
}
