package locus

import (
	"slices"
	"testing"
)

// The gradients of a bias and of the activation behind it have the same bits as one op and
// as two, as with CreateGraph.
func TestGradientsOfBiases(t *testing.T) {
	_, all := devicesOf()
	key := NewKey(11).Split(6)
	for _, d := range all {
		for _, dt := range []DType{Float32, BFloat16} {
			make := func(k int, shape ...int) *Tensor { return d.Key(key[k]).Randn(shape...).Cast(dt).RequireGrad() }
			w, b, cw, cb := make(0, 5, 8), make(1, 5), make(2, 4, 8, 1, 1), make(3, 4)
			for name, f := range map[string]func(x *Tensor) *Tensor{
				"fused":            func(x *Tensor) *Tensor { return Linear(x, w, b, ReluActivation) },
				"fused sigmoid":    func(x *Tensor) *Tensor { return Linear(x, w, b, SigmoidActivation) },
				"apart":            func(x *Tensor) *Tensor { return Linear(x, w, b).Tanh() },
				"gelu":             func(x *Tensor) *Tensor { return Linear(x, w, b, GeluActivation) },
				"silu":             func(x *Tensor) *Tensor { return Linear(x, w, b).Silu() },
				"relu6":            func(x *Tensor) *Tensor { return Linear(x, w, b).Relu6() },
				"others":           func(x *Tensor) *Tensor { return Linear(x, w, b, MishActivation) },
				"without a bias":   func(x *Tensor) *Tensor { return Linear(x, w, nil).Gelu() },
				"a frozen bias":    func(x *Tensor) *Tensor { return Linear(x, w, b.Detach()).Gelu() },
				"used twice":       func(x *Tensor) *Tensor { y := Linear(x, w, b); return y.Gelu().Add(y) },
				"used twice later": func(x *Tensor) *Tensor { y := Linear(x, w, b); return y.Add(y.Gelu()) },
				"two activations":  func(x *Tensor) *Tensor { y := Linear(x, w, b); return y.Gelu().Add(y.Relu()) },
				"in parts": func(x *Tensor) *Tensor {
					y := Linear(x, w, b)
					return y.Narrow(1, 0, 2).Gelu().Mul(y.Narrow(1, 2, 4).Gelu())
				},
				"one row":           func(x *Tensor) *Tensor { return Linear(x.Narrow(0, 0, 1).Flatten(), w, b).Gelu() },
				"more axes":         func(x *Tensor) *Tensor { return Linear(x.Reshape(3, 2, 8), w, b).Gelu() },
				"the same bias":     func(x *Tensor) *Tensor { return Linear(x, w, b).Gelu().Add(Linear(x.Sin(), w, b).Relu()) },
				"none":              func(x *Tensor) *Tensor { return Linear(x.Narrow(0, 0, 0), w, b).Gelu().Sum().Add(x) },
				"a transposed seed": func(x *Tensor) *Tensor { return Linear(x, w, b).Gelu().T() },
				"a convolution": func(x *Tensor) *Tensor {
					return Conv2D(x.Reshape(3, 8, 2, 1), cw, cb, ConvOptions{}, SigmoidActivation)
				},
				"a convolution's gelu": func(x *Tensor) *Tensor {
					return Conv2D(x.Reshape(3, 8, 1, 2), cw, cb, ConvOptions{}, GeluActivation)
				},
			} {
				run := func(opts ...GradOption) (values []float64) {
					x := d.Key(key[4]).Randn(6, 8).Cast(dt).RequireGrad()
					h := x.Mul(1.5)
					y := f(h)
					for _, g := range vjpOf(y, d.Key(key[5]).Randn(y.Shape()...).Cast(dt), []*Tensor{x, w, b, cw, cb}, opts...) {
						values = append(values, bitsOf(g.Detach().Add(0))...)
					}
					return values
				}
				want := run(CreateGraph)
				for _, opts := range [][]GradOption{nil, {RetainGraph}, {FreeGraph}} {
					if got := run(opts...); !slices.Equal(got, want) {
						t.Errorf("%s of %s on %s, %v: other gradients than with CreateGraph", name, dt, d, opts)
					}
				}
			}
		}
	}
}

// The gradients of a bias and its activation are one call on a device that has it, whether
// the activation is part of the op or apart.
func TestBiasesAreJoined(t *testing.T) {
	d := AddVirtualGPUs(1, 0)[0]
	w, b := d.Ones(5, 8).RequireGrad(), d.Zeros(5).RequireGrad()
	x := d.Key(NewKey(2)).Randn(6, 8)
	for name, c := range map[string]struct {
		f    func() *Tensor
		sums int // what is left
	}{
		"fused":      {func() *Tensor { return Linear(x, w, b, TanhActivation) }, 0},
		"gelu":       {func() *Tensor { return Linear(x, w, b, GeluActivation) }, 0},
		"apart":      {func() *Tensor { return Linear(x, w, b).Relu() }, 0},
		"used twice": {func() *Tensor { y := Linear(x, w, b); return y.Relu().Mul(y) }, 1},
	} {
		calls := map[string]int{}
		y := c.f()
		seed := y.Detach().Copy()
		for _, s := range Profile(func() { vjpOf(y, seed, []*Tensor{w, b}) }).Spans {
			calls[s.Name]++
		}
		if calls["sum"] != c.sums || calls["activation_grad_sum"] != 1-c.sums {
			t.Errorf("%s: %v", name, calls)
		}
	}
}

// A pass from a mean begins behind the division: with the same bits, and one call less.
func TestBackwardBeginsBehindNumbers(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		for _, dt := range []DType{Float32, Float64, Float16, BFloat16} {
			x := d.Key(NewKey(3)).Randn(7, 3).Cast(dt).RequireGrad()
			for name, f := range map[string]func() *Tensor{
				"mean":         func() *Tensor { return x.Exp().Mean() },
				"scaled twice": func() *Tensor { return x.Exp().Mean().Mul(1024) },
				"of a leaf":    func() *Tensor { return x.Narrow(0, 0, 1).Narrow(1, 0, 1).Mul(0.3) },
				"not a scalar": func() *Tensor { return x.Exp().Mul(0.3) },
				"by a tensor":  func() *Tensor { return x.Exp().Sum().Mul(x.Sum()) },
			} {
				want := bitsOf(Grad([]*Tensor{f()}, []*Tensor{x}, CreateGraph)[0].Detach())
				if got := bitsOf(Grad([]*Tensor{f()}, []*Tensor{x})[0]); !slices.Equal(got, want) {
					t.Errorf("%s of %s on %s: other gradients than with CreateGraph", name, dt, d)
				}
			}
			y := x.Exp().Mean()
			if g := Grad([]*Tensor{y}, []*Tensor{x, y}, RetainGraph); g[1].Item() != 1 {
				t.Errorf("%s on %s: the gradient of a mean with respect to itself is %v", dt, d, g[1].Item())
			}
			y.Backward()
			if err := Try(func() { y.Backward() }); err == nil {
				t.Errorf("%s on %s: a second pass through what was released", dt, d)
			}
		}
	}
	d := AddVirtualGPUs(1, 0)[0]
	x := d.Ones(8).RequireGrad()
	y := x.Mean()
	calls := map[string]int{}
	for _, s := range Profile(func() { y.Backward() }).Spans {
		calls[s.Name]++
	}
	if calls["mul"] != 0 || calls["full"] != 1 {
		t.Errorf("calls: %v", calls)
	}
}

// The result of a convolution belongs to the youngest scope of its operands, which may be
// the bias's alone.
func TestScopeOfBiases(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		x, w := d.Randn(2, 3, 4, 4), d.Randn(5, 3, 1, 1)
		s := NewScope()
		y := Conv2D(x, w, s.Use(d.Randn(5)), ConvOptions{}, ReluActivation)
		if y.Scope() != s {
			t.Errorf("%s: the result is outside of the scope", d)
		}
		s.Close()
		if !y.Freed() {
			t.Errorf("%s: the result outlives its scope", d)
		}
	}
}
