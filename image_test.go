package locus

import (
	"errors"
	"testing"
)

func TestPixelShuffle(t *testing.T) {
	x := As(Float64).Arange(8).Reshape(1, 4, 1, 2)
	near(t, PixelShuffle(x, 2), []float64{0, 2, 1, 3, 4, 6, 5, 7}, 0)
	hasShape(t, PixelShuffle(Zeros(2, 3, 18, 4, 5), 3), 2, 3, 2, 12, 15)
	in := randomly([]int{2, 8, 3, 2})
	near(t, PixelUnshuffle(PixelShuffle(in[0], 2), 2), ToSlice[float64](in[0]), 0)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return PixelShuffle(in[0], 2) }, in...)
	for name, f := range map[string]func(){
		"channels": func() { PixelShuffle(x, 3) },
		"rank":     func() { PixelShuffle(Zeros(4, 4), 2) },
		"width":    func() { PixelUnshuffle(Zeros(1, 4, 3), 2) },
		"r":        func() { PixelUnshuffle(Zeros(1, 4, 4), 0) },
	} {
		if err := Try(f); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v; want ErrShape", name, err)
		}
	}
}

func TestUnfold(t *testing.T) {
	x := As(Float64).Arange(9).Reshape(1, 1, 3, 3)
	near(t, Unfold(x, 2, WindowOptions{}), []float64{0, 1, 3, 4, 1, 2, 4, 5, 3, 4, 6, 7, 4, 5, 7, 8}, 0)
	ones := As(Float64).Ones(1, 4, 4)
	near(t, Fold(ones, 3, 2, WindowOptions{}), []float64{1, 2, 1, 2, 4, 2, 1, 2, 1}, 0)
	// A convolution is a product with the windows, and Fold is Unfold's transpose.
	in := randomly([]int{2, 3, 5, 6}, []int{4, 3, 2, 3})
	for _, o := range []WindowOptions{{}, {Stride: 2}, {Padding: HW(1, 2), Dilation: HW(2, 1)}, {Stride: HW(1, 3), Padding: 1}} {
		columns := Unfold(in[0], HW(2, 3), o)
		product := in[1].Reshape(4, 18).MatMul(columns)
		want := Conv2D(in[0], in[1], nil, ConvOptions{Stride: o.Stride, Padding: o.Padding, Dilation: o.Dilation})
		near(t, product, ToSlice[float64](want.FlattenFrom(2)), 1e-12)
		other := randomly(nil, nil, columns.Shape())[2]
		folded := Fold(other, HW(5, 6), HW(2, 3), o)
		near(t, folded.Mul(in[0]).Sum(), []float64{columns.Mul(other).Sum().Item()}, 1e-12)
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return Unfold(in[0], HW(2, 3), o) }, in[0])
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return Fold(in[0], HW(5, 6), HW(2, 3), o) }, other)
	}
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"rank":             {ErrShape, func() { Unfold(x.Squeeze(0), 2, WindowOptions{}) }},
		"window too large": {ErrShape, func() { Unfold(x, 4, WindowOptions{}) }},
		"no window":        {ErrArgument, func() { Unfold(x, 0, WindowOptions{}) }},
		"negative stride":  {ErrArgument, func() { Unfold(x, 2, WindowOptions{Stride: -1}) }},
		"columns":          {ErrShape, func() { Fold(ones, 4, 2, WindowOptions{}) }},
		"rows":             {ErrShape, func() { Fold(As(Float64).Ones(1, 3, 4), 3, 2, WindowOptions{}) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}

func TestInterpolate(t *testing.T) {
	x := From([]float64{0, 10, 20, 30}, 1, 1, 2, 2)
	near(t, Interpolate(x, 4, InterpolateNearest), []float64{0, 0, 10, 10, 0, 0, 10, 10, 20, 20, 30, 30, 20, 20, 30, 30}, 0)
	near(t, Interpolate(x, HW(2, 4), InterpolateBilinear), []float64{0, 2.5, 7.5, 10, 20, 22.5, 27.5, 30}, 1e-14)
	near(t, Interpolate(x, 3, InterpolateCorners), []float64{0, 5, 10, 10, 15, 20, 20, 25, 30}, 1e-14)
	near(t, Interpolate(x, 1, InterpolateBilinear), []float64{15}, 1e-14)
	near(t, Interpolate(x, 1, InterpolateCorners), []float64{0}, 1e-14)
	near(t, Interpolate(Arange(4).Reshape(1, 1, 2, 2), HW(1, 2), InterpolateNearest), []float64{0, 1}, 0)
	if !Interpolate(x, 2, InterpolateBilinear).SharesMemory(x) {
		t.Error("the same size does not give the image itself")
	}
	in := randomly([]int{1, 2, 3, 4})
	for mode := InterpolateNearest; mode <= InterpolateCorners; mode++ {
		for _, size := range []Pair{HW(5, 7), HW(2, 3), HW(6, 2)} {
			gradGradCheck(t, func(in ...*Tensor) *Tensor { return Interpolate(in[0], size, mode) }, in...)
		}
	}
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"rank":         {ErrShape, func() { Interpolate(x.Squeeze(0), 2, InterpolateNearest) }},
		"to nothing":   {ErrShape, func() { Interpolate(x, 0, InterpolateNearest) }},
		"from nothing": {ErrShape, func() { Interpolate(Zeros(1, 1, 0, 2), 2, InterpolateNearest) }},
		"no such mode": {ErrArgument, func() { Interpolate(x, 2, 9) }},
		"integers":     {ErrDType, func() { Interpolate(x.Cast(Int64), 3, InterpolateBilinear) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}
