package locus

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// standardized returns (v - mean)/√(variance + eps).
func standardized(v []float64, eps float64) []float64 {
	mean, variance := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		variance += (x - mean) * (x - mean) / float64(len(v))
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = (x - mean) / math.Sqrt(variance+eps)
	}
	return out
}

func TestLayerNorm(t *testing.T) {
	const eps = 1e-5
	in := randomly([]int{3, 2, 4}, []int{2, 4}, []int{2, 4})
	x, w, b := in[0], in[1], in[2]
	var want []float64
	for i := range 3 {
		want = append(want, standardized(ToSlice[float64](x.Index(i)), eps)...)
	}
	near(t, LayerNorm(x, []int{2, 4}, nil, nil, eps), want, 1e-12)
	near(t, LayerNorm(x, []int{2, 4}, w, b, eps).Sub(b).Div(w), want, 1e-10)
	hasShape(t, LayerNorm(Zeros(0, 4), []int{4}, nil, nil, eps), 0, 4)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return LayerNorm(in[0], []int{2, 4}, in[1], in[2], eps) }, in...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return LayerNorm(in[0], []int{4}, nil, nil, eps) }, x)

	near(t, RMSNorm(From([]float64{3, 4}), []int{2}, From([]float64{1, 2}), 0), []float64{3 / math.Sqrt(12.5), 8 / math.Sqrt(12.5)}, 1e-14)
	// In float16 the squares would overflow.
	near(t, RMSNorm(As(Float16).From([]float64{300, -300}), []int{2}, nil, 0), []float64{1, -1}, 1e-3)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return RMSNorm(in[0], []int{2, 4}, in[1], eps) }, in[:2]...)
}

func TestChannelNorms(t *testing.T) {
	const eps = 1e-5
	in := randomly([]int{2, 4, 3}, []int{4}, []int{4})
	x, w, b := in[0], in[1], in[2]
	var groups, instances []float64
	for i := range 2 {
		for g := range 2 {
			groups = append(groups, standardized(ToSlice[float64](x.Index(i).Narrow(0, 2*g, 2*g+2)), eps)...)
		}
		for c := range 4 {
			instances = append(instances, standardized(ToSlice[float64](x.Index(i, c)), eps)...)
		}
	}
	near(t, GroupNorm(x, 2, nil, nil, eps), groups, 1e-12)
	near(t, GroupNorm(x, 4, nil, nil, eps), instances, 1e-12)
	near(t, InstanceNorm(x, nil, nil, eps), instances, 1e-12)
	near(t, InstanceNorm(x, w, b, eps), ToSlice[float64](GroupNorm(x, 4, w, b, eps)), 1e-12)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return GroupNorm(in[0], 2, in[1], in[2], eps) }, in...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return InstanceNorm(in[0], in[1], in[2], eps) }, in...)

	y, mean, variance := BatchNorm(x, nil, nil, eps)
	for c := range 4 {
		channel := x.Narrow(1, c, c+1).Contiguous()
		near(t, y.Narrow(1, c, c+1), standardized(ToSlice[float64](channel), eps), 1e-12)
		near(t, mean.Index(c), []float64{channel.Mean().Item()}, 1e-14)
		near(t, variance.Index(c), []float64{channel.Var().Item()}, 1e-13)
	}
	y, _, _ = BatchNorm(x, w, b, eps)
	biased := variance.Mul(5. / 6)
	near(t, BatchNormWith(x, mean, biased, w, b, eps), ToSlice[float64](y), 1e-12)
	near(t, BatchNormWith(x, mean, biased, nil, nil, eps), ToSlice[float64](y.Sub(b.Unsqueeze(1)).Div(w.Unsqueeze(1))), 1e-10)
	if _, mean, variance := BatchNorm(x.RequireGrad(), w, b, eps); mean.RequiresGrad() || variance.RequiresGrad() {
		t.Error("the statistics have a history")
	}
	gradGradCheck(t, func(in ...*Tensor) *Tensor { y, _, _ := BatchNorm(in[0], in[1], in[2], eps); return y }, in...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor {
		return BatchNormWith(in[0], in[1], in[2].Square(), in[1], in[2], eps)
	}, in...)
	matrix, _, _ := BatchNorm(x.Index(0), nil, nil, eps)
	hasShape(t, matrix, 4, 3)

	near(t, LocalResponseNorm(From([]float64{1, 2, 3}, 1, 3), 2, 2, 1, 1), []float64{1. / 2, 2. / 6, 3. / 14}, 1e-14)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return LocalResponseNorm(in[0], 3, 0.1, 0.75, 1) }, x)
}

func TestNormalize(t *testing.T) {
	x := From([]float64{3, 4, 0, 0}, 2, 2)
	near(t, Normalize(x, 2, 1, 1e-12), []float64{0.6, 0.8, 0, 0}, 1e-14)
	near(t, Normalize(x, 1, 1, 1e-12), []float64{3. / 7, 4. / 7, 0, 0}, 1e-14)
	near(t, Normalize(x, math.Inf(1), -1, 1e-12), []float64{0.75, 1, 0, 0}, 1e-14)
	near(t, Normalize(x, math.Inf(-1), 1, 1e-12).Narrow(0, 0, 1), []float64{1, 4. / 3}, 1e-14)
	// A norm of 0 has no NaN as gradient.
	leaf := x.RequireGrad()
	for _, p := range []float64{0.5, 1, 2, 3} {
		if g := Grad([]*Tensor{Normalize(leaf, p, 1, 0.1).Sum()}, []*Tensor{leaf})[0]; !ToSlice[bool](g.IsFinite().All().Flatten())[0] {
			t.Errorf("p = %v: the gradient at zeros is %v", p, g)
		}
		if g := Grad([]*Tensor{leaf.NormP(p, 1).Sum()}, []*Tensor{leaf})[0]; !ToSlice[bool](g.IsFinite().All().Flatten())[0] {
			t.Errorf("p = %v: the gradient of the norm at zeros is %v", p, g)
		}
	}
	near(t, As(Float16).From([]float64{300, 400}).Norm(), []float64{500}, 1e-3)
	in := randomly([]int{3, 4}, []int{3, 4})
	for _, p := range []float64{0.5, 1, 2, 2.5, 3} {
		gradCheck(t, func(in ...*Tensor) *Tensor { return Normalize(in[0], p, 1, 1e-12) }, in[0])
		gradCheck(t, func(in ...*Tensor) *Tensor { return PairwiseDistance(in[0], in[1], p, 1e-6) }, in...)
	}
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return CosineSimilarity(in[0], in[1], 1, 1e-8) }, in...)

	a, b := From([]float64{1, 0, 1, 1}, 2, 2), From([]float64{0, 2})
	near(t, CosineSimilarity(a, b, -1, 1e-8), []float64{0, math.Sqrt2 / 2}, 1e-14)
	near(t, PairwiseDistance(a, b, 2, 0), []float64{math.Sqrt(5), math.Sqrt2}, 1e-14)
	near(t, PairwiseDistance(a, b, 1, 0), []float64{3, 2}, 1e-14)
}

func TestNormErrors(t *testing.T) {
	x := Zeros(2, 4, 3)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"another shape":          {ErrShape, func() { LayerNorm(x, []int{4}, nil, nil, 0) }},
		"no shape":               {ErrShape, func() { RMSNorm(x, nil, nil, 0) }},
		"weight of LayerNorm":    {ErrShape, func() { LayerNorm(x, []int{3}, Zeros(4), nil, 0) }},
		"integers":               {ErrDType, func() { LayerNorm(Arange(3), []int{3}, nil, nil, 0) }},
		"groups":                 {ErrArgument, func() { GroupNorm(x, 3, nil, nil, 0) }},
		"weight of GroupNorm":    {ErrShape, func() { GroupNorm(x, 2, Zeros(3), nil, 0) }},
		"instances of a matrix":  {ErrShape, func() { InstanceNorm(Zeros(2, 4), nil, nil, 0) }},
		"one element a channel":  {ErrShape, func() { BatchNorm(Zeros(1, 4), nil, nil, 0) }},
		"a vector":               {ErrShape, func() { BatchNorm(Zeros(4), nil, nil, 0) }},
		"no statistics":          {ErrArgument, func() { BatchNormWith(x, nil, nil, nil, nil, 0) }},
		"p below 0":              {ErrArgument, func() { Normalize(x, -1, 0, 0) }},
		"no such axis":           {ErrAxis, func() { Normalize(x, 2, 3, 0) }},
		"size 0":                 {ErrArgument, func() { LocalResponseNorm(x, 0, 1, 1, 1) }},
		"shapes that don't fit":  {ErrShape, func() { CosineSimilarity(x, Zeros(2), 0, 0) }},
		"distance of two scales": {ErrDType, func() { PairwiseDistance(x, x.Cast(Float64), 2, 0) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}

// Running statistics are BatchNorm's, blended, to the bit: as one op, as two where the
// types differ, and in a program.
func TestBatchNormRunning(t *testing.T) {
	const momentum, eps = 0.3, 1e-3
	devices := []Device{CPU(), AddVirtualGPUs(1, 1<<26)[0]}
	for _, info := range Devices() { // cards, where there are some
		if strings.Contains(info.Backing, "CUDA") {
			devices = append(devices, info.Device)
		}
	}
	for _, d := range devices {
		for _, c := range []struct{ x, stat DType }{{Float32, Float32}, {Float64, Float64}, {BFloat16, Float32}, {Float16, Float32}, {Float32, Float64}, {BFloat16, BFloat16}} {
			for _, shape := range [][]int{{5, 3}, {2, 3, 7}, {3, 3, 5, 4}, {2, 3, 70, 65}} {
				key := NewKey(uint64(len(shape)))
				m, s := d.As(c.x), d.As(c.stat)
				x := m.Key(key).Randn(shape...).Add(1).RequireGrad()
				w, b := m.Key(NewKey(7)).Randn(3).RequireGrad(), m.Key(NewKey(8)).Randn(3).RequireGrad()
				mean, variance := s.Key(NewKey(9)).Randn(3), s.Key(NewKey(10)).Rand(3)
				for _, bare := range []bool{false, true} {
					w, b := w, b
					if bare {
						w, b = nil, nil
					}
					wantY, bm, bv := BatchNorm(x, w, b, eps)
					want := []*Tensor{wantY, mean.Blend(1-momentum, bm.Cast(c.stat), momentum), variance.Blend(1-momentum, bv.Cast(c.stat), momentum)}
					y, newMean, newVariance := BatchNormRunning(x, mean, variance, w, b, momentum, eps)
					for i, got := range []*Tensor{y, newMean, newVariance} {
						if got.DType() != want[i].DType() || !sameElements(got, want[i]) {
							t.Errorf("%s, %s with %s, %v: result %d is %v, want %v", d, c.x, c.stat, shape, i, got, want[i])
						}
					}
					if newMean.RequiresGrad() || newVariance.RequiresGrad() || newMean.SharesMemory(mean) {
						t.Errorf("%s: the new statistics have a history, or the old ones' memory", d)
					}
					in := given(1, x, w, b)
					wantGrads := Grad([]*Tensor{wantY.Square().Sum()}, in)
					for i, g := range Grad([]*Tensor{y.Square().Sum()}, in) {
						if !sameElements(g, wantGrads[i]) {
							t.Errorf("%s, %s with %s, %v: gradient %d differs", d, c.x, c.stat, shape, i)
						}
					}
				}
				// In a program.
				f := Compile(func(in ...*Tensor) []*Tensor {
					y, newMean, newVariance := BatchNormRunning(in[0], mean, variance, w.Detach(), b.Detach(), momentum, eps)
					return []*Tensor{y, newMean, newVariance}
				})
				y, newMean, newVariance := BatchNormRunning(x.Detach(), mean, variance, w.Detach(), b.Detach(), momentum, eps)
				for range 4 {
					for i, got := range f.Call(x.Detach()) {
						if !sameElements(got, []*Tensor{y, newMean, newVariance}[i]) {
							t.Fatalf("%s, %s with %s, %v: result %d of the program differs", d, c.x, c.stat, shape, i)
						}
					}
				}
			}
		}
	}
}

// A graph does not need the running statistics that its layer had: a layer frees them.
func TestBatchNormRunningFreesTheOld(t *testing.T) {
	x := CPU().As(Float64).Key(NewKey(1)).Randn(6, 3).RequireGrad()
	mean, variance := As(Float64).Zeros(3), As(Float64).Ones(3)
	y, _, _ := BatchNormRunning(x, mean, variance, nil, nil, 0.1, 1e-5)
	mean.Free()
	variance.Free()
	grads := Grad([]*Tensor{y.Square().Mul(x).Sum()}, []*Tensor{x}, CreateGraph)
	grads[0].Square().Sum().Backward() // of the composition
	if x.Grad() == nil || x.Grad().IsFinite().Not().Any().Item() != 0 {
		t.Error("no second gradient")
	}
	if err := Try(func() { BatchNormRunning(x, mean, variance, nil, nil, 0.1, 1e-5) }); !errors.Is(err, ErrFreed) {
		t.Errorf("of freed statistics: %v", err)
	}
}

// sameElements compares the values of two tensors, which must be numbers.
func sameElements(a, b *Tensor) bool {
	return sameShape(a.shape, b.shape) && slices.Equal(ToSlice[float64](a.Detach().Cast(Float64)), ToSlice[float64](b.Detach().Cast(Float64)))
}
