package locus

import (
	"errors"
	"math"
	"testing"
)

// activations pairs each elementwise activation with its definition and with
// its slope at a few points, kinks among them, where PyTorch chooses one.
var activations = []struct {
	name   string
	f      func(*Tensor) *Tensor
	want   func(float64) float64
	slopes map[float64]float64
}{
	{"LeakyRelu", func(x *Tensor) *Tensor { return x.LeakyRelu(0.1) },
		func(x float64) float64 { return math.Max(x, 0.1*x) }, map[float64]float64{0: 0.1, 2: 1, -2: 0.1}},
	{"Elu", func(x *Tensor) *Tensor { return x.Elu(1.5) },
		func(x float64) float64 { return math.Max(x, 0) + 1.5*math.Expm1(math.Min(x, 0)) }, map[float64]float64{0: 1.5, 1000: 1, -1000: 0}},
	{"Selu", (*Tensor).Selu,
		func(x float64) float64 { return seluScale * (math.Max(x, 0) + seluAlpha*math.Expm1(math.Min(x, 0))) }, map[float64]float64{1000: seluScale}},
	{"Celu", func(x *Tensor) *Tensor { return x.Celu(2) },
		func(x float64) float64 { return math.Max(x, 0) + 2*math.Expm1(math.Min(x, 0)/2) }, map[float64]float64{0: 1, 5000: 1}},
	{"Mish", (*Tensor).Mish, func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }, nil},
	{"Relu6", (*Tensor).Relu6, func(x float64) float64 { return math.Min(math.Max(x, 0), 6) }, map[float64]float64{0: 0, 6: 0, 3: 1, 7: 0}},
	{"HardTanh", func(x *Tensor) *Tensor { return x.HardTanh(-1, 0.5) },
		func(x float64) float64 { return math.Min(math.Max(x, -1), 0.5) }, map[float64]float64{-1: 0, 0.5: 0, 0: 1}},
	{"HardSigmoid", (*Tensor).HardSigmoid, func(x float64) float64 { return math.Min(math.Max(x+3, 0), 6) / 6 },
		map[float64]float64{3: 0, -3: 0, 0: 1. / 6}},
	{"HardSwish", (*Tensor).HardSwish, func(x float64) float64 { return x * math.Min(math.Max(x+3, 0), 6) / 6 },
		map[float64]float64{-3: 0, 3: 1, 1: 1./3 + 0.5}},
	{"Softsign", (*Tensor).Softsign, func(x float64) float64 { return x / (1 + math.Abs(x)) }, map[float64]float64{0: 1}},
	{"LogSigmoid", (*Tensor).LogSigmoid, func(x float64) float64 { return math.Min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) },
		map[float64]float64{-1000: 1, 1000: 0}},
	{"TanhShrink", (*Tensor).TanhShrink, func(x float64) float64 { return x - math.Tanh(x) }, nil},
	{"SoftShrink", func(x *Tensor) *Tensor { return x.SoftShrink(0.5) },
		func(x float64) float64 { return math.Copysign(math.Max(math.Abs(x)-0.5, 0), x) }, map[float64]float64{0.5: 0, -0.5: 0, 1: 1}},
	{"HardShrink", func(x *Tensor) *Tensor { return x.HardShrink(0.5) }, func(x float64) float64 {
		if math.Abs(x) <= 0.5 {
			return 0
		}
		return x
	}, map[float64]float64{0.5: 0, -0.5: 0, 1: 1}},
	{"Threshold", func(x *Tensor) *Tensor { return x.Threshold(0.3, 7) }, func(x float64) float64 {
		if x > 0.3 {
			return x
		}
		return 7
	}, map[float64]float64{0.3: 0, 1: 1}},
	{"Logit", func(x *Tensor) *Tensor { return x.Logit(0.1) }, func(x float64) float64 {
		x = math.Min(math.Max(x, 0.1), 0.9)
		return math.Log(x / (1 - x))
	}, map[float64]float64{0.5: 4, 2: 0, -2: 0}},
}

func TestActivations(t *testing.T) {
	points := []float64{-40, -3.5, -2, -1.1, -0.7, -0.2, 0, 0.05, 0.31, 0.77, 1.3, 2.9, 5.5, 6.5, 40}
	for _, c := range activations {
		t.Run(c.name, func(t *testing.T) {
			want := make([]float64, len(points))
			for i, x := range points {
				want[i] = c.want(x)
			}
			near(t, c.f(From(points)), want, 1e-13)
			half := c.f(As(Float32).From(points))
			if half.DType() != Float32 {
				t.Errorf("of float32 it is %s", half.DType())
			}
			near(t, half, want, 1e-5)
			near(t, c.f(From(points, 3, 5).T()).T().Flatten(), want, 1e-13)
			hasShape(t, c.f(Zeros(2, 0)), 2, 0)
			if v := c.f(From([]float64{math.NaN()})).Item(); !math.IsNaN(v) {
				t.Errorf("of NaN it is %v", v)
			}
			gradGradCheck(t, func(in ...*Tensor) *Tensor { return c.f(in[0]) }, From([]float64{-2.7, -1.3, -0.4, 0.2, 0.45, 0.83, 1.6, 4.2}))
			for x, slope := range c.slopes {
				leaf := From([]float64{x}).RequireGrad()
				near(t, Grad([]*Tensor{c.f(leaf)}, []*Tensor{leaf})[0], []float64{slope}, 1e-12)
			}
			if err := Try(func() { c.f(Arange(3)) }); c.name != "Threshold" && !errors.Is(err, ErrDType) {
				t.Errorf("of integers: %v; want ErrDType", err)
			}
		})
	}
}

func TestSoftmaxFamily(t *testing.T) {
	x := From([][]float64{{1, 2, 3}, {1000, 1000, math.Inf(-1)}})
	e := []float64{math.Exp(-2), math.Exp(-1), 1}
	sum := e[0] + e[1] + e[2]
	want := []float64{e[0] / sum, e[1] / sum, e[2] / sum, 0.5, 0.5, 0}
	near(t, x.Softmax(1), want, 1e-14)
	near(t, x.Softmax(-1), want, 1e-14)
	near(t, x.T().Softmax(0).T(), want, 1e-14)
	near(t, x.Neg().Softmin(1), want, 1e-14)
	near(t, x.LogSoftmax(1).Exp(), want, 1e-14)
	hasShape(t, Zeros(0, 3).Softmax(1), 0, 3)
	in := randomly([]int{2, 3, 4})[0]
	for axis := range 3 {
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Softmax(axis) }, in)
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].LogSoftmax(axis) }, in)
	}
	for kind, f := range map[error]func(){
		ErrAxis:  func() { x.Softmax(2) },
		ErrDType: func() { Arange(3).LogSoftmax(0) },
	} {
		if err := Try(f); !errors.Is(err, kind) {
			t.Errorf("%v; want %v", err, kind)
		}
	}
}

func TestPReluAndGlu(t *testing.T) {
	x := From([]float64{-1, 2, -3, 4, -5, 6}, 1, 2, 3)
	near(t, x.PRelu(From([]float64{0.5})), []float64{-0.5, 2, -1.5, 4, -2.5, 6}, 1e-15)
	near(t, x.PRelu(From([]float64{0.5, 0.1})), []float64{-0.5, 2, -1.5, 4, -0.5, 6}, 1e-15)
	near(t, x.Index(0, 0).PRelu(From([]float64{2})), []float64{-2, 2, -6}, 1e-15)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].PRelu(in[1]) }, randomly([]int{3, 2, 2}, []int{2})...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].PRelu(in[1]) }, randomly([]int{5}, []int{1})...)

	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	near(t, x.Glu(1), []float64{-1 * sigmoid(4), 2 * sigmoid(-5), -3 * sigmoid(6)}, 1e-14)
	hasShape(t, Zeros(3, 4, 2).Glu(-2), 3, 2, 2)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return in[0].Glu(-1) }, randomly([]int{3, 4})...)

	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"weights for other channels": {ErrShape, func() { x.PRelu(From([]float64{1, 2, 3})) }},
		"a vector with channels":     {ErrShape, func() { x.Flatten().PRelu(Zeros(6).Cast(Float64)) }},
		"an odd axis":                {ErrShape, func() { x.Glu(2) }},
		"no such axis":               {ErrAxis, func() { x.Glu(3) }},
		"no width":                   {ErrArgument, func() { x.HardTanh(1, 1) }},
		"shrinking backwards":        {ErrArgument, func() { x.SoftShrink(-1) }},
		"alpha of 0":                 {ErrArgument, func() { x.Celu(0) }},
		"eps of a half":              {ErrArgument, func() { x.Logit(0.5) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}
