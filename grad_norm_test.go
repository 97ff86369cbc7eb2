package locus

import (
	"math"
	"testing"

	"github.com/locusml/locus/internal/op"
)

// norms are the normalizations of x (4, 6, 3, 5), by the shape of their parameters.
var norms = map[string]struct {
	params []int
	bias   bool
	f      func(x, w, b *Tensor) *Tensor
}{
	"BatchNorm":    {[]int{6}, true, func(x, w, b *Tensor) *Tensor { y, _, _ := BatchNorm(x, w, b, 1e-3); return y }},
	"LayerNorm":    {[]int{3, 5}, true, func(x, w, b *Tensor) *Tensor { return LayerNorm(x, []int{3, 5}, w, b, 1e-3) }},
	"RMSNorm":      {[]int{5}, false, func(x, w, b *Tensor) *Tensor { return RMSNorm(x, []int{5}, w, 1e-3) }},
	"GroupNorm":    {[]int{6}, true, func(x, w, b *Tensor) *Tensor { return GroupNorm(x, 2, w, b, 1e-3) }},
	"InstanceNorm": {[]int{6}, true, func(x, w, b *Tensor) *Tensor { return InstanceNorm(x, w, b, 1e-3) }},
}

// Gradients are the same numbers whichever are asked for, and whether their
// computation is recorded or not.
func TestNormGradientsAsAsked(t *testing.T) {
	for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
		for _, dt := range []DType{Float32, Float64, BFloat16} {
			m := d.As(dt)
			for name, n := range norms {
				g := m.Key(NewKey(4)).Randn(4, 6, 3, 5)
				values := []*Tensor{m.Key(NewKey(1)).Randn(4, 6, 3, 5), m.Key(NewKey(2)).Randn(n.params...), m.Key(NewKey(3)).Randn(n.params...)}
				if !n.bias {
					values = values[:2]
				}
				run := func(which int, opts ...GradOption) []*Tensor {
					in, leaves := make([]*Tensor, 3), []*Tensor{}
					for i, v := range values {
						in[i] = v
						if which>>i&1 == 1 {
							in[i] = v.RequireGrad()
							leaves = append(leaves, in[i])
						}
					}
					return gradFrom([]*Tensor{n.f(in[0], in[1], in[2])}, []*Tensor{g}, leaves, nil, opts)
				}
				all := 1<<len(values) - 1
				want := run(all)
				for which := 1; which <= all; which++ {
					for _, opts := range [][]GradOption{nil, {FreeGraph}, {CreateGraph}} {
						got := run(which, opts...)
						for i := range values {
							if which>>i&1 == 0 {
								continue
							}
							if got[0].Ne(want[i]).Any().Item() != 0 {
								t.Errorf("%s of %s on %s: gradient %d differs if those of %03b are asked for with %v", name, dt, d, i, which, opts)
							}
							got = got[1:]
						}
					}
				}
			}
		}
	}
}

// The kernels compute what the compositions say.
func TestNormsAreTheirCompositions(t *testing.T) {
	for dt, tolerance := range map[DType]float64{Float64: 1e-12, Float32: 1e-5, BFloat16: 1e-2} {
		m := CPU().As(dt)
		x, g := m.Key(NewKey(1)).Randn(4, 6, 3, 5), m.Key(NewKey(2)).Randn(4, 6, 3, 5)
		for _, c := range []struct {
			id, grad op.ID
			a        op.Normalize
		}{
			{op.BatchNorm, op.BatchNormGrad, op.Normalize{}},
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 2, Params: [2]int{2, 4}}},
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 3, Params: [2]int{3, 4}, RMS: true}},
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 1, Params: [2]int{1, 2}}},
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 2, Params: [2]int{1, 2}}},
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 0, Params: [2]int{0, 4}}},
		} {
			a := c.a
			a.Eps, a.Weight, a.Bias = 1e-3, true, true
			w, b := m.Key(NewKey(3)).Randn(a.ParamShape(c.id, x.shape)...), m.Key(NewKey(4)).Randn(a.ParamShape(c.id, x.shape)...)
			same := func(what string, got, want []*Tensor) {
				t.Helper()
				if len(got) != len(want) {
					t.Fatalf("%s: %d results, the composition has %d", what, len(got), len(want))
				}
				for i := range got {
					if got[i].dtype != want[i].dtype || !sameShape(got[i].shape, want[i].shape) {
						t.Errorf("%s: result %d is %s %v, the composition's %s %v", what, i, got[i].dtype, got[i].shape, want[i].dtype, want[i].shape)
					}
					near(t, got[i], ToSlice[float64](want[i].Cast(Float64)), tolerance)
				}
			}
			got := applyAll(c.id, a, x, w, b)
			if c.id == op.BatchNorm {
				same("batch_norm", got, compositionsAll[c.id](a, []*Tensor{x, w, b}))
			} else {
				same("normalize", got, []*Tensor{compositions[c.id](a, []*Tensor{x, w, b})})
			}
			stats := op.Get(c.id).More(a, []op.Spec{{DType: dt, Shape: x.shape}})
			in := []*Tensor{g, x, w}
			y := applyOf(t, c.id, a, x, w, b) // with a history, so that there are statistics
			in = append(in, y.node.saved[:len(stats)]...)
			if c.id == op.BatchNorm {
				in = in[:5]
			}
			a.GradWeight, a.GradBias = true, true
			same(op.Get(c.grad).Name, applyAll(c.grad, a, in...), compositionsAll[c.grad](a, in))
		}
	}
}

func applyOf(t *testing.T, id op.ID, a op.Attrs, in ...*Tensor) *Tensor {
	t.Helper()
	in[0] = in[0].RequireGrad()
	return apply(id, a, in...)
}

// Of no rows parameters have a gradient of zeros.
func TestNormGradientsOfNothing(t *testing.T) {
	x := Zeros(0, 4, 3).RequireGrad()
	w, b := Ones(4).RequireGrad(), Ones(4).RequireGrad()
	v, vb := Ones(3).RequireGrad(), Ones(3).RequireGrad()
	for name, y := range map[string]*Tensor{"LayerNorm": LayerNorm(x, []int{3}, v, vb, 1e-5), "GroupNorm": GroupNorm(x, 2, w, b, 1e-5), "InstanceNorm": InstanceNorm(x, w, b, 1e-5)} {
		for i, g := range Grad([]*Tensor{y.Sum()}, []*Tensor{x, w, b, v, vb}) {
			if g.Ne(0).Any().Item() != 0 {
				t.Errorf("%s: gradient %d is %v", name, i, g)
			}
		}
	}
}

// The statistics of a batch are float32 in half precision, and exact where the
// variance is small beside eps or beside the mean.
func TestBatchNormStatistics(t *testing.T) {
	for _, dt := range []DType{Float16, BFloat16, Float32} {
		_, mean, variance := BatchNorm(CPU().As(dt).Ones(3, 2, 4), nil, nil, 1e-5)
		if mean.DType() != Float32 || variance.DType() != Float32 {
			t.Errorf("of %s: mean %s, variance %s; want float32", dt, mean.DType(), variance.DType())
		}
		near(t, mean, []float64{1, 1}, 0)
		near(t, variance, []float64{0, 0}, 0)
	}
	const n = 1000
	for _, c := range []struct{ mean, step float64 }{{0, 1e-6}, {1000, 0.25}, {-65536, 0.5}} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(c.mean + c.step*float64(i%5-2))
		}
		for _, d := range []Device{CPU(), AddVirtualGPUs(1, 0)[0]} {
			for _, shape := range [][]int{{n, 1}, {10, 1, 100}} {
				_, mean, variance := BatchNorm(d.From(x, shape...), nil, nil, 1e-5)
				want := c.step * c.step * 2 * n / (n - 1)
				if got := variance.To(CPU()).Item(); math.Abs(got-want) > 1e-6*want {
					t.Errorf("the variance of steps of %v at %v is %v; want %v", c.step, c.mean, got, want)
				}
				if got := mean.To(CPU()).Item(); math.Abs(got-c.mean) > 1e-7*math.Abs(c.mean)+1e-12 {
					t.Errorf("the mean is %v; want %v", got, c.mean)
				}
			}
		}
	}
}

// NaN stays in its row or channel, and in the gradient of the parameters that meet it.
func TestNormsOfNaN(t *testing.T) {
	x := From([]float32{1, 2, 3, 4, 5, float32(math.NaN()), 7, 8, 9, 10, 11, 12}, 2, 2, 3).RequireGrad()
	w := Ones(2).RequireGrad()
	nans := func(t *Tensor) []bool { return ToSlice[bool](t.IsNaN()) }
	same := func(what string, got []bool, want ...int) {
		t.Helper()
		at := map[int]bool{}
		for _, i := range want {
			at[i] = true
		}
		for i, v := range got {
			if v != at[i] {
				t.Errorf("%s: NaN at %d: %v", what, i, v)
			}
		}
	}
	y, mean, variance := BatchNorm(x, w, nil, 1e-5)
	same("batch", nans(y), 3, 4, 5, 9, 10, 11)
	same("mean", nans(mean), 1)
	same("variance", nans(variance), 1)
	g := Grad([]*Tensor{y.Square().Sum()}, []*Tensor{x, w})
	same("batch's gradient", nans(g[0]), 3, 4, 5, 9, 10, 11)
	same("its weight's", nans(g[1]), 1)
	y = InstanceNorm(x, w, nil, 1e-5)
	same("instance", nans(y), 3, 4, 5)
	g = Grad([]*Tensor{y.Square().Sum()}, []*Tensor{x, w})
	same("instance's gradient", nans(g[0]), 3, 4, 5)
	same("its weight's", nans(g[1]), 1)
}
