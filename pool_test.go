package locus

import (
	"errors"
	"math"
	"testing"
)

func TestPool2D(t *testing.T) {
	x := As(Float64).Arange(12).Reshape(1, 1, 3, 4) // rows 0-3, 4-7, 8-11
	near(t, MaxPool2D(x, 2, PoolOptions{}), []float64{5, 7}, 0)
	near(t, AvgPool2D(x, 2, PoolOptions{}), []float64{2.5, 4.5}, 0)
	near(t, MaxPool2D(x, HW(3, 1), PoolOptions{Stride: 1}), []float64{8, 9, 10, 11}, 0)
	near(t, MaxPool2D(x.Neg(), 3, PoolOptions{Stride: 2, Padding: 1}), []float64{0, -1, -4, -5}, 0)
	near(t, MaxPool2D(x, 2, PoolOptions{Ceil: true}), []float64{5, 7, 9, 11}, 0)
	near(t, MaxPool2D(x, 2, PoolOptions{Stride: 1, Dilation: 2}), []float64{10, 11}, 0)
	// Padding counts as zeros in an average, or does not count; what lies beyond
	// it never does.
	near(t, AvgPool2D(x, 2, PoolOptions{Padding: 1}), []float64{0, 0.75, 0.75, 3, 7.5, 4.5}, 1e-15)
	near(t, AvgPool2D(x, 2, PoolOptions{Padding: 1, ExcludePadding: true}), []float64{0, 1.5, 3, 6, 7.5, 9}, 1e-15)
	near(t, AvgPool2D(x, 2, PoolOptions{Ceil: true}), []float64{2.5, 4.5, 8.5, 10.5}, 1e-15)
	near(t, AvgPool2D(x, HW(2, 3), PoolOptions{Ceil: true}), []float64{3, 5, 9, 11}, 1e-15)
	hasShape(t, MaxPool2D(x.Squeeze(0), 2, PoolOptions{}), 1, 1, 2)
	hasShape(t, AvgPool2D(Zeros(0, 2, 4, 4), 2, PoolOptions{}), 0, 2, 2, 2)
	near(t, MaxPool2D(Arange(4).Reshape(1, 1, 2, 2), 2, PoolOptions{}), []float64{3}, 0) // integers too

	in := randomly([]int{2, 2, 5, 6})[0]
	for _, o := range []PoolOptions{{}, {Stride: 1}, {Stride: HW(2, 3), Padding: 1}, {Ceil: true, Stride: 2}, {Padding: 1, ExcludePadding: true}} {
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return MaxPool2D(in[0], HW(2, 3), o) }, in)
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return AvgPool2D(in[0], HW(2, 3), o) }, in)
	}
}

func TestPool1D(t *testing.T) {
	x := As(Float64).From([]int{3, 1, 4, 1, 5, 9, 2}, 1, 1, 7)
	near(t, MaxPool1D(x, 2, PoolOptions{}), []float64{3, 4, 9}, 0)
	near(t, MaxPool1D(x.Squeeze(0), 3, PoolOptions{Stride: 2, Padding: 1}), []float64{3, 4, 9, 9}, 0)
	near(t, AvgPool1D(x, 3, PoolOptions{Stride: 2}), []float64{8. / 3, 10. / 3, 16. / 3}, 1e-15)
	near(t, AvgPool1D(x, 2, PoolOptions{Ceil: true}), []float64{2, 2.5, 7, 2}, 1e-15)
}

func TestAdaptivePool(t *testing.T) {
	in := randomly([]int{2, 3, 5, 7})[0]
	values := ToSlice[float64](in)
	for _, size := range [][2]int{{1, 1}, {5, 7}, {2, 3}, {3, 7}, {4, 2}, {6, 9}} {
		var avg, most []float64
		for plane := range 6 {
			for i := range size[0] {
				for j := range size[1] {
					sum, n, top := 0.0, 0, math.Inf(-1)
					for y := i * 5 / size[0]; y < ((i+1)*5+size[0]-1)/size[0]; y++ {
						for x := j * 7 / size[1]; x < ((j+1)*7+size[1]-1)/size[1]; x++ {
							v := values[plane*35+y*7+x]
							sum, n, top = sum+v, n+1, math.Max(top, v)
						}
					}
					avg, most = append(avg, sum/float64(n)), append(most, top)
				}
			}
		}
		hw := HW(size[0], size[1])
		near(t, AdaptiveAvgPool2D(in, hw), avg, 1e-14)
		near(t, AdaptiveMaxPool2D(in, hw), most, 0)
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return AdaptiveAvgPool2D(in[0], hw) }, in)
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return AdaptiveMaxPool2D(in[0], hw) }, in)
	}
	line := As(Float64).Arange(5).Reshape(1, 5)
	near(t, AdaptiveAvgPool1D(line, 2), []float64{1, 3}, 1e-15)
	near(t, AdaptiveMaxPool1D(line.Unsqueeze(0), 2), []float64{2, 4}, 0)
	hasShape(t, GlobalAvgPool(in), 2, 3)
	near(t, GlobalAvgPool(in).Flatten(), ToSlice[float64](AdaptiveAvgPool2D(in, 1).Flatten()), 1e-14)
	near(t, GlobalMaxPool(in).Flatten(), ToSlice[float64](AdaptiveMaxPool2D(in, 1).Flatten()), 0)
}

func TestPoolErrors(t *testing.T) {
	x := Zeros(1, 1, 4, 4)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"no window":          {ErrArgument, func() { MaxPool2D(x, 0, PoolOptions{}) }},
		"too much padding":   {ErrArgument, func() { MaxPool2D(x, 2, PoolOptions{Padding: 2}) }},
		"window too large":   {ErrShape, func() { AvgPool2D(x, 5, PoolOptions{}) }},
		"rank":               {ErrShape, func() { MaxPool2D(Zeros(4, 4), 2, PoolOptions{}) }},
		"rank, 1-D":          {ErrShape, func() { AvgPool1D(x, 2, PoolOptions{}) }},
		"dilated average":    {ErrArgument, func() { AvgPool2D(x, 2, PoolOptions{Dilation: 2}) }},
		"negative stride":    {ErrArgument, func() { MaxPool2D(x, 2, PoolOptions{Stride: -1}) }},
		"size 0":             {ErrShape, func() { AdaptiveAvgPool2D(x, 0) }},
		"an empty image":     {ErrShape, func() { AdaptiveMaxPool2D(Zeros(1, 1, 0, 4), 1) }},
		"average of numbers": {ErrDType, func() { AvgPool2D(Arange(4).Reshape(1, 2, 2), 2, PoolOptions{}) }},
		"global, no image":   {ErrShape, func() { GlobalAvgPool(Zeros(2, 3)) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}
