package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
)

func TestWinogradLayout(t *testing.T) {
	var in tilesIn
	var run tileRun
	var out tilesOut
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"in.x", unsafe.Offsetof(in.x), 0}, {"in.step", unsafe.Offsetof(in.step), 8}, {"in.dst", unsafe.Offsetof(in.dst), 16},
		{"in.plane", unsafe.Offsetof(in.plane), 24}, {"in.pitch", unsafe.Offsetof(in.pitch), 32}, {"in.n", unsafe.Offsetof(in.n), 40},
		{"in.runs", unsafe.Offsetof(in.runs), 48}, {"in.count", unsafe.Offsetof(in.count), 56},
		{"run.rows", unsafe.Offsetof(run.rows), 0}, {"run.dst", unsafe.Offsetof(run.dst), 32}, {"run.mask", unsafe.Offsetof(run.mask), 40}, {"run", unsafe.Sizeof(run), 176},
		{"out.src", unsafe.Offsetof(out.src), 0}, {"out.plane", unsafe.Offsetof(out.plane), 8}, {"out.pitch", unsafe.Offsetof(out.pitch), 16},
		{"out.n", unsafe.Offsetof(out.n), 24}, {"out.rows", unsafe.Offsetof(out.rows), 32}, {"out.steps", unsafe.Offsetof(out.steps), 48},
		{"out.px", unsafe.Offsetof(out.px), 64}, {"out.bad", unsafe.Offsetof(out.bad), 80}, {"out.mask", unsafe.Offsetof(out.mask), 88},
	} {
		if f.got != f.want {
			t.Errorf("%s is at %d, the assembly expects %d", f.name, f.got, f.want)
		}
	}
}

// images makes images and room for results between elements that must be neither read nor written.
func images(r *rand.Rand, n, k, m, h, w, oh, ow int, pad [2]int) (x *Images, all []float32) {
	x = &Images{N: n, H: h, W: w, OH: oh, OW: ow, Pad: pad, NextX: k*h*w + 40, NextY: m*oh*ow + 40}
	nan := float32(math.NaN())
	guarded := func(next int) []float32 { return slices.Repeat([]float32{nan}, 64+n*next+64) }
	in, out := guarded(x.NextX), guarded(x.NextY)
	x.X, x.Y = in[64:64+n*x.NextX], out[64:64+n*x.NextY]
	for i := range n {
		for j := range k * h * w {
			x.X[i*x.NextX+j] = float32(r.NormFloat64())
		}
	}
	return x, out
}

// Odd sizes, paddings, several images in a task, filters as they are and flipped, at every level.
func TestWinograd(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, ks := range levels[float32]() {
		for _, s := range [][7]int{ // images, channels in and out, height, width, padding
			{1, 1, 1, 3, 3, 0, 0}, {2, 3, 5, 4, 4, 1, 1}, {3, 16, 16, 7, 9, 1, 1}, {2, 5, 13, 1, 1, 1, 1}, {2, 7, 30, 6, 5, 2, 0},
			{1, 20, 75, 5, 33, 0, 2}, {1, 4, 6, 40, 3, 3, 1}, {2, 300, 9, 5, 6, 1, 1}, {1, 8, 12, 35, 70, 1, 1},
		} {
			for _, flipped := range []bool{false, true} {
				for _, threads := range []int{1, 3} {
					n, k, m, h, w, pad := s[0], s[1], s[2], s[3], s[4], [2]int{s[5], s[6]}
					what := fmt.Sprintf("%s %v flipped %t", ks.name, s, flipped)
					old := pool.SetThreads(threads)
					x, all := images(r, n, k, m, h, w, h+2*pad[0]-2, w+2*pad[1]-2, pad)
					o, c := m, k
					if flipped {
						o, c = k, m
					}
					weight := vector[float32](r, o*c*9)
					f := newFilters(ks, o, c, weight, flipped)
					if bad := f.Convolve(x); bad != nil {
						t.Errorf("%s: images %v are not finite", what, bad)
					}
					f.Free()
					pool.SetThreads(old)
					checkWinograd(t, what, x, k, m, func(i, j, tap int) float32 {
						if flipped {
							return weight[(j*c+i)*9+8-tap]
						}
						return weight[(i*c+j)*9+tap]
					})
					for i, y := range all {
						if p := i - 64; (y != y) != (p < 0 || p >= n*x.NextY || p%x.NextY >= m*x.OH*x.OW) {
							t.Fatalf("%s: element %d around the results is %v", what, p, y)
						}
					}
				}
			}
		}
	}
}

// The gradient of the filters, likewise.
func TestFilterGrad(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 8))
	for _, ks := range levels[float32]() {
		for _, s := range [][7]int{ // images, channels in and out, height, width, padding
			{1, 1, 1, 3, 3, 0, 0}, {2, 3, 5, 4, 4, 1, 1}, {3, 16, 16, 7, 9, 1, 1}, {2, 5, 13, 1, 1, 1, 1}, {2, 7, 30, 6, 5, 2, 0},
			{1, 20, 33, 5, 33, 0, 2}, {70, 400, 600, 1, 1, 1, 1},
		} {
			for _, threads := range []int{1, 3} {
				n, k, m, h, w, pad := s[0], s[1], s[2], s[3], s[4], [2]int{s[5], s[6]}
				x, _ := images(r, n, k, m, h, w, h+2*pad[0]-2, w+2*pad[1]-2, pad)
				for i := range n {
					copy(x.Y[i*x.NextY:], vector[float32](r, m*x.OH*x.OW))
				}
				got := make([]float32, m*k*9)
				old := pool.SetThreads(threads)
				if !filterGrad(ks, m, k, x, got) {
					t.Errorf("%s %v: not finite", ks.name, s)
				}
				pool.SetThreads(old)
				for i := 0; i < len(got); i += 1 + len(got)/5000 {
					var sum, abs float64
					for p := range n * x.OH * x.OW {
						img, y, c := p/(x.OH*x.OW), p/x.OW%x.OH, p%x.OW
						iy, ix := y+i%9/3-pad[0], c+i%3-pad[1]
						if iy >= 0 && iy < h && ix >= 0 && ix < w {
							v := float64(x.X[img*x.NextX+(i/9%k*h+iy)*w+ix]) * float64(x.Y[img*x.NextY+i/9/k*x.OH*x.OW+p%(x.OH*x.OW)])
							sum, abs = sum+v, abs+math.Abs(v)
						}
					}
					if math.Abs(float64(got[i])-sum) > 1e-6*(abs+float64(n*x.OH*x.OW)) {
						t.Fatalf("%s %v: weight %d is %v, want %v", ks.name, s, i, got[i], sum)
					}
				}
				x.X[len(x.X)-41] = float32(math.Inf(1))
				if filterGrad(ks, m, k, x, got) {
					t.Errorf("%s %v: an infinity was not reported", ks.name, s)
				}
			}
		}
	}
}

func checkWinograd(t *testing.T, what string, x *Images, k, m int, weight func(o, c, tap int) float32) {
	t.Helper()
	for i := range x.N * m * x.OH * x.OW {
		n, o, y, c := i/(m*x.OH*x.OW), i/(x.OH*x.OW)%m, i/x.OW%x.OH, i%x.OW
		var sum, abs float64
		for j := range k * 9 {
			iy, ix := y+j%9/3-x.Pad[0], c+j%3-x.Pad[1]
			if iy >= 0 && iy < x.H && ix >= 0 && ix < x.W {
				p := float64(weight(o, j/9, j%9)) * float64(x.X[n*x.NextX+(j/9*x.H+iy)*x.W+ix])
				sum, abs = sum+p, abs+math.Abs(p)
			}
		}
		got := x.Y[n*x.NextY+i%(m*x.OH*x.OW)]
		// The transforms multiply an element by up to 4 and a tap by up to 1, all of a tile.
		if math.Abs(float64(got)-sum) > 1e-6*(abs+float64(k)) {
			t.Fatalf("%s: result %d is %v, want %v", what, i, got, sum)
		}
	}
}

// What is not finite, or becomes so on the way, is reported for its image, at every place.
func TestWinogradReportsNotFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const k, m, h, w = 4, 5, 6, 37
	for _, ks := range levels[float32]() {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1)), 3e38} {
			for _, place := range []int{0, w - 1, 2*w + 17, h*w - 1, 3*h*w + 5*w} {
				x, _ := images(r, 3, k, m, h, w, h, w, [2]int{1, 1})
				x.X[x.NextX+place] = bad
				if bad == 3e38 { // a neighbor, so that their sum overflows
					x.X[x.NextX+place/2*2+1], x.X[x.NextX+place/2*2] = bad, -bad
				}
				f := newFilters(ks, m, k, slices.Repeat([]float32{1}, m*k*9), false)
				if got := f.Convolve(x); !slices.Equal(got, []int{1}) {
					t.Errorf("%s: images %v are not finite with %v at %d", ks.name, got, bad, place)
				}
				f.Free()
			}
		}
	}
}

func TestWinogradShortOperandsPanic(t *testing.T) {
	f := NewFilters(2, 3, make([]float32, 54), false)
	defer f.Free()
	whole := Images{X: make([]float32, 75), Y: make([]float32, 18), N: 1, H: 5, W: 5, OH: 3, OW: 3}
	for name, change := range map[string]func(x *Images){
		"x": func(x *Images) { x.X = x.X[:74] }, "y": func(x *Images) { x.Y = x.Y[:17] },
		"size": func(x *Images) { x.OH, x.Y = 4, make([]float32, 24) }, "padding": func(x *Images) { x.Pad[0] = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			x := whole
			change(&x)
			f.Convolve(&x)
		})
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic with too few weights")
		}
	}()
	NewFilters(2, 3, make([]float32, 53), false)
}
