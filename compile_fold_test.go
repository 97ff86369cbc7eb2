package locus_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// Scores that are converted to float32 for the loss are read as they are in a program,
// with the same loss and gradients to the bit; where somebody else wants the converted
// ones, they are made.
func TestScoresInHalfPrecision(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 0)[0]
	for _, d := range []locus.Device{locus.CPU(), gpu} {
		for name, f := range map[string]func(w, x, y *locus.Tensor) []*locus.Tensor{
			"folded": func(w, x, y *locus.Tensor) []*locus.Tensor {
				out := x.MatMul(w).Cast(locus.Float32)
				loss := locus.CrossEntropy(out.Reshape(-1, 7), y, locus.CrossEntropyOptions{})
				return []*locus.Tensor{loss, locus.Grad([]*locus.Tensor{loss}, []*locus.Tensor{w})[0]}
			},
			"both": func(w, x, y *locus.Tensor) []*locus.Tensor {
				out := x.MatMul(w).Cast(locus.Float32)
				loss := locus.CrossEntropy(out.Reshape(-1, 7), y, locus.CrossEntropyOptions{}).Add(out.Square().Sum())
				return []*locus.Tensor{loss, locus.Grad([]*locus.Tensor{loss}, []*locus.Tensor{w})[0]}
			},
			"transposed": func(w, x, y *locus.Tensor) []*locus.Tensor {
				out := x.MatMul(w).Cast(locus.Float32).Transpose(0, 1).Reshape(-1, 7)
				loss := locus.CrossEntropy(out, y, locus.CrossEntropyOptions{})
				return []*locus.Tensor{loss, locus.Grad([]*locus.Tensor{loss}, []*locus.Tensor{w})[0]}
			},
		} {
			k := locus.NewKey(3).Split(2)
			w, x := d.As(locus.BFloat16).Key(k[0]).Randn(5, 7), d.As(locus.BFloat16).Key(k[1]).Randn(4, 6, 5)
			y := d.From([]int64{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2})
			g := func(a ...*locus.Tensor) []*locus.Tensor {
				r := f(a[0].RequireGrad(), a[1], a[2])
				return []*locus.Tensor{r[0].Detach(), r[1]}
			}
			want := g(w, x, y)
			c := locus.Compile(g)
			for range 4 {
				for i, r := range c.Call(w, x, y) {
					if !slices.Equal(locus.ToSlice[float64](r.Cast(locus.Float64)), locus.ToSlice[float64](want[i].Cast(locus.Float64))) {
						t.Fatalf("%s on %s: result %d is %v, want %v", name, d, i, r, want[i])
					}
				}
			}
			if c.Fallback() != "" {
				t.Fatal(c.Fallback())
			}
			if folded := !strings.Contains(c.Explain(), "cast"); folded != (name == "folded") {
				t.Errorf("%s on %s:\n%s", name, d, c.Explain())
			}
		}
	}
}

// A gradient per example of scores in half precision, compiled, is what it is eagerly,
// also while a profile is taken.
func TestCompiledVmapOfScores(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 0)[0]
	k := locus.NewKey(8).Split(2)
	w, xs := d.Key(k[0]).Randn(3, 4), d.Key(k[1]).Randn(6, 5, 4)
	ys := d.Zeros(6, 5).Cast(locus.Int64)
	f := func(a ...*locus.Tensor) []*locus.Tensor {
		p := a[0].RequireGrad()
		return []*locus.Tensor{locus.Vmap(func(b ...*locus.Tensor) *locus.Tensor {
			out := locus.Linear(b[0].Cast(locus.BFloat16), p.Cast(locus.BFloat16), nil).Cast(locus.Float32)
			return locus.GradOf(locus.CrossEntropy(out, b[1], locus.CrossEntropyOptions{}), p)[0]
		})(a[1], a[2])}
	}
	want := f(w, xs, ys)[0]
	c := locus.Compile(f)
	for i := range 4 {
		var got *locus.Tensor
		call := func() { got = c.Call(w, xs, ys)[0] }
		if i == 3 {
			locus.Profile(call)
		} else {
			call()
		}
		if !got.AllClose(want, 0, 0) || c.Fallback() != "" {
			t.Fatalf("call %d: %v, want %v; %s", i, got, want, c.Fallback())
		}
	}
}
