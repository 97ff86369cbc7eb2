package locus_test

import (
	"errors"
	"math"
	"testing"

	"github.com/locusml/locus"
)

// The gradient with respect to some of the inputs, and of that with respect to
// all, is the same whether the op is computed again for it or not.
func TestSecondGradientsOfSomeInputs(t *testing.T) {
	key := locus.NewKey(3)
	for _, d := range places() {
		random := func(i uint64, shape ...int) *locus.Tensor {
			return d.As(locus.Float64).Key(locus.NewKey(1).Fold(i)).Rand(shape...).Add(0.5)
		}
		for name, c := range map[string]struct {
			in            []*locus.Tensor
			plain, hidden func(in ...*locus.Tensor) *locus.Tensor
		}{
			"attention with dropout": {
				[]*locus.Tensor{random(0, 2, 3, 4), random(1, 2, 5, 4), random(2, 2, 5, 4), random(3, 3, 5)},
				func(in ...*locus.Tensor) *locus.Tensor {
					scores := in[0].MatMul(in[1].T()).Mul(0.5).Add(in[3])
					return locus.Dropout(scores.Softmax(-1), 0.25, key).MatMul(in[2])
				},
				func(in ...*locus.Tensor) *locus.Tensor {
					return locus.Attention(in[0], in[1], in[2], locus.AttentionOptions{Mask: in[3], Dropout: 0.25, Key: key})
				},
			},
			"checkpoint": {
				[]*locus.Tensor{random(4, 3, 4), random(5, 4, 2), random(6, 2)},
				func(in ...*locus.Tensor) *locus.Tensor { return in[0].MatMul(in[1]).Mul(in[2]).Tanh() },
				func(in ...*locus.Tensor) *locus.Tensor {
					return locus.Checkpoint(func(in ...*locus.Tensor) *locus.Tensor { return in[0].MatMul(in[1]).Mul(in[2]).Tanh() }, in...)
				},
			},
			"adam step": {
				[]*locus.Tensor{random(7, 3), random(8, 3), random(9, 3)},
				func(in ...*locus.Tensor) *locus.Tensor {
					return in[0].Mul(0.9).Sub(in[1].Div(in[2].Sqrt().Mul(2).Add(0.1)).Mul(0.5))
				},
				func(in ...*locus.Tensor) *locus.Tensor { return in[0].AdamStep(in[1], in[2], 0.9, 0.5, 2, 0.1) },
			},
		} {
			for set := 1; set < 1<<len(c.in); set++ {
				second := func(f func(in ...*locus.Tensor) *locus.Tensor) []*locus.Tensor {
					leaves := make([]*locus.Tensor, len(c.in))
					var some []*locus.Tensor
					for i, x := range c.in {
						leaves[i] = x.RequireGrad()
						if set>>i&1 == 1 {
							some = append(some, leaves[i])
						}
					}
					grads := locus.Grad([]*locus.Tensor{f(leaves...).Square().Sum()}, some, locus.CreateGraph)
					sum := grads[0].Square().Sum()
					for _, g := range grads[1:] {
						sum = sum.Add(g.Square().Sum())
					}
					return locus.Grad([]*locus.Tensor{sum}, leaves)
				}
				want := second(c.plain)
				for i, g := range second(c.hidden) {
					if diff := g.Sub(want[i]).Abs().Max().Item(); diff > 1e-9*(1+want[i].Abs().Max().Item()) {
						t.Errorf("%s on %s: gradient %d of the gradients of set %b is off by %v", name, d, i, set, diff)
					}
				}
			}
		}
	}
}

// What lies behind the arguments of a function that is computed again does not
// matter: neither that it was let go of, nor that the function takes it from
// elsewhere too, which stays an error.
func TestCheckpointEndsAtItsArguments(t *testing.T) {
	w := locus.From([]float64{1, 2}).RequireGrad()
	a, b := w.Mul(2), locus.From([]float64{3, 6}).RequireGrad()
	a.Sum().Backward()
	product := func(in ...*locus.Tensor) *locus.Tensor { return in[0].Mul(in[1]).Square() }
	y := locus.Checkpoint(product, a, b)
	g := locus.Grad([]*locus.Tensor{y}, []*locus.Tensor{a}, locus.CreateGraph)[0] // 2·a·b²
	expect(t, "first", g, []int{2}, 2*2*9, 2*4*36)
	expect(t, "second", locus.Grad([]*locus.Tensor{g}, []*locus.Tensor{a})[0], []int{2}, 2*9, 2*36)

	h := w.Mul(2)
	y = locus.Checkpoint(func(in ...*locus.Tensor) *locus.Tensor { return in[0].Mul(w) }, h)
	for _, opts := range [][]locus.GradOption{{locus.RetainGraph}, {locus.CreateGraph}} {
		if err := locus.Try(func() { locus.Grad([]*locus.Tensor{y}, []*locus.Tensor{h}, opts...) }); !errors.Is(err, locus.ErrGrad) {
			t.Errorf("a captured tensor that an argument was computed from, with %v: %v", opts, err)
		}
	}
}

// A gradient lets go of the ops that it passed, not of others beside them.
func TestGradLetsGoOfWhatItPassed(t *testing.T) {
	w, x := locus.Full(2, 1).RequireGrad(), locus.Full(3, 1).RequireGrad()
	h := w.Square()
	locus.Grad([]*locus.Tensor{h.Mul(x)}, []*locus.Tensor{x})
	locus.Grad([]*locus.Tensor{h.Mul(x)}, []*locus.Tensor{h})
	h.Sum().Backward()
	expect(t, "w", w.Grad(), []int{1}, 4)
	if err := locus.Try(func() { h.Sum().Backward() }); !errors.Is(err, locus.ErrGrad) {
		t.Error("a gradient through what was let go of:", err)
	}
}

// Functional gradients are what was asked for, inside NoGrad as well, and have a
// history where their arguments do.
func TestFunctionalGradientsAndHistory(t *testing.T) {
	cube := func(a ...*locus.Tensor) *locus.Tensor { return a[0].Pow(3) }
	sum := func(a ...*locus.Tensor) *locus.Tensor { return a[0].Pow(3).Sum() }
	ones := locus.From([]float64{1, 1})
	for name, f := range map[string]func(x *locus.Tensor) (value, grad *locus.Tensor){
		"ValueAndGrad": func(x *locus.Tensor) (*locus.Tensor, *locus.Tensor) {
			v, g := locus.ValueAndGrad(sum)(x)
			return v, g[0]
		},
		"VJP": func(x *locus.Tensor) (*locus.Tensor, *locus.Tensor) {
			v, vjp := locus.VJP(cube, x)
			return v, vjp(ones)[0]
		},
		"JVP": func(x *locus.Tensor) (*locus.Tensor, *locus.Tensor) {
			return locus.JVP(cube, []*locus.Tensor{x}, []*locus.Tensor{ones})
		},
	} {
		x := locus.From([]float64{2, -1})
		check := func(where string, x *locus.Tensor, history bool) {
			v, g := f(x)
			expect(t, name+where, g, []int{2}, 12, 3)
			if v.RequiresGrad() != history || g.RequiresGrad() != history {
				t.Errorf("%s%s: value and gradient have a history: %v, %v; want %v", name, where, v.RequiresGrad(), g.RequiresGrad(), history)
			}
		}
		check("", x, false)
		leaf := x.RequireGrad()
		check(" of a leaf", leaf, true)
		locus.NoGrad(func() {
			check(" inside NoGrad", x, false)
			check(" of a leaf inside NoGrad", leaf, false)
		})
		_, g := f(leaf)
		expect(t, name+" twice", locus.Grad([]*locus.Tensor{g}, []*locus.Tensor{leaf})[0], []int{2}, 12, -6)
	}
	// Along tangents that have a history.
	u := ones.RequireGrad()
	_, change := locus.JVP(cube, []*locus.Tensor{locus.From([]float64{2, -1})}, []*locus.Tensor{u})
	expect(t, "tangents", locus.Grad([]*locus.Tensor{change}, []*locus.Tensor{u})[0], []int{2}, 12, 3)
}

// A custom gradient may return tensors that it was given or that the program
// holds: they stay.
func TestCustomGradientsReturnWhatIsNotTheirs(t *testing.T) {
	for _, d := range places() {
		scale, held := d.From([]float64{2, 3}), d.From([]float64{4, 5})
		var seen *locus.Tensor
		for range 2 {
			w := d.From([]float64{1, 1}).RequireGrad()
			y := locus.Custom("scaled",
				func(a ...*locus.Tensor) *locus.Tensor { return a[0].Mul(a[1]).Add(a[2]) },
				func(a []*locus.Tensor, _, g *locus.Tensor) []*locus.Tensor {
					seen = g
					return []*locus.Tensor{a[1], nil, held}
				}, w.Mul(1), scale, w.Mul(3))
			y.Mul(2).Sum().Backward()
			expect(t, "gradient", w.Grad(), []int{2}, 2+3*4, 3+3*5)
			w.ZeroGrad()
		}
		expect(t, "an argument", scale, []int{2}, 2, 3)
		expect(t, "the program's tensor", held, []int{2}, 4, 5)
		expect(t, "the gradient that was passed", seen, []int{2}, 2, 2)
	}
}

func TestStepsPassNoGradient(t *testing.T) {
	x := locus.From([]float64{0, -2, math.NaN()}).RequireGrad()
	n := x.NormP(0)
	expect(t, "NormP(0)", n, nil, 2)
	n.Backward()
	expect(t, "gradient of NormP(0)", x.Grad(), []int{3}, 0, 0, 0)
	y := locus.From([]float64{0.5}).RequireGrad()
	g := locus.Grad([]*locus.Tensor{y.Floor().Sqrt()}, []*locus.Tensor{y}, locus.CreateGraph)[0] // an infinite slope behind a flat one
	expect(t, "gradient of Floor", g, []int{1}, 0)
}

// FloorDiv goes with Mod; both are what PyTorch gives, signs of zeros included.
func TestFloorDivAndMod(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	cases := []struct{ a, b, quotient, rest float64 }{
		{7, 2, 3, 1}, {-7, 2, -4, 1}, {7, -2, -4, -1}, {-7, -2, 3, -1},
		{1, 1, 1, 0}, {-1, 1, -1, zero}, {1, -1, -1, 0}, {-1, -1, 1, zero},
		{0, 3, 0, 0}, {zero, 3, zero, zero}, {0, -3, zero, 0}, {zero, -3, 0, zero},
		{1, 0, inf, nan}, {-1, 0, -inf, nan}, {1, zero, -inf, nan}, {0, 0, nan, nan},
		{inf, 2, nan, nan}, {-inf, 2, nan, nan}, {inf, inf, nan, nan}, {inf, 0, inf, nan},
		{1, inf, 0, 1}, {-1, inf, -1, inf}, {1, -inf, -1, -inf}, {-1, -inf, 0, -1},
		{nan, 1, nan, nan}, {1, nan, nan, nan},
	}
	for _, d := range places() {
		for _, dt := range []locus.DType{locus.Float64, locus.Float32, locus.Float16, locus.BFloat16} {
			for _, c := range cases {
				a, b := d.As(dt).Full(c.a, 3), d.As(dt).Full(c.b, 3)
				for _, r := range []struct {
					name      string
					got, with *locus.Tensor
					want      float64
				}{{"//", a.FloorDiv(b), a.FloorDiv(c.b), c.quotient}, {"mod", a.Mod(b), a.Mod(c.b), c.rest}} {
					for _, v := range append(values(r.got.Cast(locus.Float64)), values(r.with.Cast(locus.Float64))...) {
						if !(v == r.want && math.Signbit(v) == math.Signbit(r.want) || math.IsNaN(v) && math.IsNaN(r.want)) {
							t.Errorf("%s %s: %v %s %v is %v, want %v", d, dt, c.a, r.name, c.b, v, r.want)
						}
					}
				}
			}
			// The quotient and the remainder of tenths belong to each other.
			x := d.Arange(-40, 41).Cast(dt).Div(10)
			y := x.Slice(locus.R(41, 60, 1)).Unsqueeze(1)
			back := y.Mul(x.FloorDiv(y)).Add(x.Mod(y))
			if off := back.Sub(x).Abs().Max().Cast(locus.Float64).Item(); off > 0.02 {
				t.Errorf("%s %s: b·⌊a/b⌋ + mod is off by %v", d, dt, off)
			}
		}
	}
	expect(t, "1 // 0.1", locus.From([]float64{1}).FloorDiv(0.1), []int{1}, 9)
	expect(t, "float32", locus.From([]float32{1}).FloorDiv(0.1), []int{1}, 9)
	big := locus.From([]float64{1e300}) // beyond all integers of a float64
	expect(t, "large", big.FloorDiv(3), []int{1}, 3.3333333333333334e299)
}

// A gradient that nobody else has belongs to whoever asked for it; one that two
// inputs share stays when one of them frees it.
func TestWhoOwnsGradients(t *testing.T) {
	a, b := locus.Ones(3).RequireGrad(), locus.Ones(3).RequireGrad()
	g := locus.Grad([]*locus.Tensor{a.Mul(2).Sum()}, []*locus.Tensor{a})[0]
	if g.Free(); !g.Freed() {
		t.Error("a gradient of one input was not freed")
	}
	gs := locus.Grad([]*locus.Tensor{a.Add(b).Mul(3).Sum()}, []*locus.Tensor{a, b})
	gs[0].Free()
	if gs[1].Freed() || gs[1].Sum().Item() != 9 {
		t.Error("freeing a gradient freed another one")
	}
	// The same collected by Backward.
	a.Mul(2).Sum().Backward()
	one := a.TakeGrad()
	if one.Free(); !one.Freed() || a.Grad() != nil {
		t.Error("a collected gradient was not handed over")
	}
	a.Add(b).Sum().Backward()
	a.ZeroGrad()
	if b.Grad().Sum().Item() != 3 {
		t.Error("ZeroGrad freed another tensor's gradient")
	}
	// What the program has asked for stays.
	b.ZeroGrad()
	a.Mul(2).Sum().Backward()
	kept := a.Grad()
	a.Mul(2).Sum().Backward()
	a.ZeroGrad()
	if kept.Sum().Item() != 6 {
		t.Error(kept)
	}
	mine := locus.Full(7, 3)
	a.SetGrad(mine)
	a.Sum().Backward()
	if a.Grad().Index(0).Item() != 8 || mine.Index(0).Item() != 7 {
		t.Error(a.Grad(), mine)
	}
}
