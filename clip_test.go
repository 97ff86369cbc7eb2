package locus

import (
	"errors"
	"math"
	"testing"
)

func TestClip(t *testing.T) {
	x := From([]float64{3, -4})
	near(t, ClipByValue(x, 3.5), []float64{3, -3.5}, 0)
	near(t, ClipByNorm(x, 1), []float64{0.6, -0.8}, 1e-6)
	near(t, ClipByNorm(x, 10), []float64{3, -4}, 0)
	near(t, ClipByNorm(x.Mul(0), 1), []float64{0, 0}, 0)
	clipped, norm := ClipGlobalNorm([]*Tensor{x, nil, From([]float64{12})}, 6.5)
	near(t, norm, []float64{13}, 1e-15)
	near(t, clipped[0], []float64{1.5, -2}, 1e-6)
	near(t, clipped[2], []float64{6}, 1e-6)
	if clipped[1] != nil {
		t.Error("nil became a tensor")
	}
	near(t, GlobalNorm([]*Tensor{nil, x}), []float64{5}, 1e-15)
	// Types may differ, each keeps its own; what overflows float16 is summed in float32.
	mixed, norm := ClipGlobalNorm([]*Tensor{As(Float16).From([]float64{3000, 0}), As(Float32).From([]float64{4000})}, 50)
	near(t, norm, []float64{5000}, 1e-6)
	near(t, mixed[0], []float64{30, 0}, 1e-3)
	if mixed[0].DType() != Float16 || mixed[1].DType() != Float32 || norm.DType() != Float32 {
		t.Error(mixed[0].DType(), mixed[1].DType(), norm.DType())
	}
	nan, _ := ClipGlobalNorm([]*Tensor{From([]float64{math.NaN(), 1})}, 1)
	near(t, nan[0], []float64{math.NaN(), math.NaN()}, 0) // it shows, everywhere
	gradCheck(t, func(in ...*Tensor) *Tensor {
		c, norm := ClipGlobalNorm(in, 1)
		return Concat(0, c[0], c[1], norm.Unsqueeze(0))
	}, randomly([]int{3}, []int{4})...)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"nothing":               {ErrArgument, func() { ClipGlobalNorm(nil, 1) }},
		"a norm of nothing":     {ErrArgument, func() { GlobalNorm([]*Tensor{nil}) }},
		"a limit of 0":          {ErrArgument, func() { ClipByNorm(x, 0) }},
		"a limit below 0":       {ErrArgument, func() { ClipByValue(x, -1) }},
		"integers":              {ErrDType, func() { ClipByNorm(Arange(3), 1) }},
		"tensors on two places": {ErrDevice, func() { ClipGlobalNorm([]*Tensor{x, AddVirtualGPUs(1, 1<<20)[0].Ones(2)}, 1) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}
