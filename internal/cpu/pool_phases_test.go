package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// view64 is the same elements as float64, whose pooling has plain loops only.
func view64(t *testing.T, v backend.View) backend.View {
	n := v.Elements()
	w := backend.View{Block: block(t, 8*n), Shape: v.Shape, Strides: v.Strides, DType: dtype.Float64}
	for i, x := range elements[float32](&v, n) {
		elements[float64](&w, n)[i] = float64(x)
	}
	return w
}

func TestPoolingInPhases(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		h, w                int
		kernel, stride, pad [2]int
		oh, ow              int
	}{
		{16, 16, [2]int{3, 3}, [2]int{2, 2}, [2]int{1, 1}, 8, 8},
		{15, 17, [2]int{3, 3}, [2]int{2, 2}, [2]int{1, 1}, 8, 9},
		{15, 18, [2]int{3, 3}, [2]int{2, 2}, [2]int{0, 0}, 7, 9}, // the last column sticks out
		{20, 33, [2]int{3, 3}, [2]int{1, 1}, [2]int{1, 1}, 20, 33},
		{21, 40, [2]int{5, 4}, [2]int{3, 3}, [2]int{2, 1}, 7, 13},
		{9, 50, [2]int{2, 2}, [2]int{2, 2}, [2]int{1, 1}, 5, 26},
		{30, 31, [2]int{2, 3}, [2]int{1, 2}, [2]int{0, 1}, 29, 16},
		{12, 25, [2]int{3, 2}, [2]int{2, 1}, [2]int{1, 0}, 6, 24},
	} {
		t.Run(fmt.Sprintf("%dx%d/%v/%v/%v", c.h, c.w, c.kernel, c.stride, c.pad), func(t *testing.T) {
			for _, countPad := range []bool{true, false} {
				a := op.Pool{Kernel: c.kernel, Stride: c.stride, Pad: c.pad, Dilation: [2]int{1, 1}, CountPad: countPad}
				if _, ok := newPhases(&a, c.h, c.w, c.oh, c.ow); !ok {
					t.Fatal("not in phases")
				}
				// Few values, so that windows have several largest elements, and some that are none.
				x := view32(t, []int{2, 3, c.h, c.w}, func(i int) float32 {
					switch k := i * 7919 % 1009; {
					case k < 6:
						return nan
					case k < 30:
						return inf
					case k < 300:
						return -inf
					default:
						return float32(k % 4)
					}
				})
				g := view32(t, []int{2, 3, c.oh, c.ow}, func(i int) float32 { return float32(i*104729%31 - 15) })
				finite := view32(t, x.Shape, func(i int) float32 { return float32(i*7919%2003)/100 - 9 })
				for _, f := range []struct {
					op    op.ID
					in    []backend.View
					shape []int
					near  float64
				}{
					{op.MaxPool, []backend.View{x}, g.Shape, 0},
					{op.MaxPoolGrad, []backend.View{g, x}, x.Shape, 0},
					{op.AvgPool, []backend.View{finite}, g.Shape, 2e-6},
					{op.AvgPoolGrad, []backend.View{g}, x.Shape, 2e-6},
				} {
					got := view32(t, f.shape, func(int) float32 { return nan })
					attrs := a
					if f.op == op.AvgPoolGrad || f.op == op.MaxPoolGrad {
						attrs.Size = [2]int{c.h, c.w}
					}
					run := func(in []backend.View, out backend.View) {
						if err := Open().Run(&backend.Call{Op: f.op, Attrs: attrs, In: in, Out: out}); err != nil {
							t.Fatal(err)
						}
					}
					run(f.in, got)
					want := view64(t, got)
					var in []backend.View
					for _, v := range f.in {
						in = append(in, view64(t, v))
					}
					run(in, want)
					n := got.Elements()
					for i, w := range elements[float64](&want, n) {
						v := float64(elements[float32](&got, n)[i])
						if v != w && !(v != v && w != w) && !(math.Abs(v-w) <= f.near*(1+math.Abs(w)) && f.near > 0) {
							t.Fatalf("%s with padding counted %v: element %d is %v, want %v", f.op, countPad, i, v, w)
						}
					}
				}
			}
		})
	}
}
