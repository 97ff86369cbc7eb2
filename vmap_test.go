package locus

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/op"
)

// vmapLoop is what Vmap stands for: one slice after the other.
func vmapLoop(f func(args ...*Tensor) *Tensor) func(args ...*Tensor) *Tensor {
	return func(args ...*Tensor) *Tensor {
		results := make([]*Tensor, args[0].Dim(0))
		for i := range results {
			parts := make([]*Tensor, len(args))
			for j, a := range args {
				parts[j] = a.Index(i)
			}
			results[i] = f(parts...)
		}
		return Stack(0, results...)
	}
}

// sameValues compares two tensors of floats.
func sameValues(t *testing.T, what string, got, want *Tensor, tol float64) {
	t.Helper()
	if !slices.Equal(got.Shape(), want.Shape()) || got.DType() != want.DType() {
		t.Errorf("%s: %s %v, want %s %v", what, got.DType(), got.Shape(), want.DType(), want.Shape())
		return
	}
	a, b := ToSlice[float64](got.Detach().Cast(Float64)), ToSlice[float64](want.Detach().Cast(Float64))
	for i := range a {
		if d := math.Abs(a[i] - b[i]); !(d <= tol*(1+math.Abs(b[i]))) {
			t.Errorf("%s: element %d is %v, want %v", what, i, a[i], b[i])
			return
		}
	}
}

type mapped struct {
	name string
	args []*Tensor
	f    func(a ...*Tensor) *Tensor
}

// mappedFunctions are functions of slices, each of its own kind.
func mappedFunctions() []mapped {
	k := NewKey(7).Split(20)
	r := func(i int, shape ...int) *Tensor { return CPU().Key(k[i]).As(Float64).Randn(shape...) }
	w, b := r(0, 5, 4), r(1, 5)
	index := CPU().Key(k[2]).Randint(0, 4, 3, 2)
	image, kernel := r(3, 3, 2, 2, 6, 5), r(4, 4, 2, 3, 3)
	loss := func(a ...*Tensor) *Tensor { return Linear(a[0], a[1], a[2], TanhActivation).Square().Sum() }
	return []mapped{
		{"identity", []*Tensor{r(5, 3, 4)}, func(a ...*Tensor) *Tensor { return a[0] }},
		{"constant", []*Tensor{r(5, 3, 4)}, func(a ...*Tensor) *Tensor { return w.Mul(2) }},
		{"ranks", []*Tensor{r(5, 3, 4), r(6, 3, 2, 4), r(7, 3)}, func(a ...*Tensor) *Tensor { return a[0].Add(a[1]).Mul(a[2]).Sub(1).Maximum(w.Narrow(0, 0, 2)) }},
		{"views", []*Tensor{r(5, 3, 4, 2)}, func(a ...*Tensor) *Tensor {
			return a[0].T().Reshape(4, 2).Flip(0).Slice(R(1, 4)).Unsqueeze(0).Expand(2, 3, 2).Diagonal(0, 1, 2)
		}},
		{"reductions", []*Tensor{r(5, 3, 4, 2)}, func(a ...*Tensor) *Tensor {
			x := a[0]
			return Concat(0, x.Sum(0), x.Mean(1), x.MaxKeep(0, 1).Flatten(), x.Prod().Reshape(1), x.Std(0), x.Index(0, 1).Sum().Reshape(1), x.Norm().Reshape(1))
		}},
		{"scalars", []*Tensor{r(5, 3)}, func(a ...*Tensor) *Tensor { return a[0].Sum().Exp().Max().Add(a[0].Prod()) }},
		{"product", []*Tensor{r(5, 3, 2, 4), r(6, 3, 4, 5)}, func(a ...*Tensor) *Tensor { return a[0].MatMul(a[1]).MatMul(w) }},
		{"product with a weight", []*Tensor{r(5, 3, 4)}, func(a ...*Tensor) *Tensor { return w.MatMul(a[0]).MatMul(w) }},
		{"linear", []*Tensor{r(5, 3, 2, 4)}, func(a ...*Tensor) *Tensor { return Linear(a[0], w, b, ReluActivation) }},
		{"linear of one weight each", []*Tensor{r(5, 3, 5, 4), r(6, 3, 5)}, func(a ...*Tensor) *Tensor { return Linear(r(7, 2, 4), a[0], a[1], GeluActivation) }},
		{"softmax", []*Tensor{r(5, 3, 4, 2)}, func(a ...*Tensor) *Tensor { return a[0].Softmax(0).Mul(a[0].LogSoftmax(-1)) }},
		{"norm", []*Tensor{r(5, 3, 2, 4)}, func(a ...*Tensor) *Tensor { return LayerNorm(a[0], []int{4}, w.Index(0), w.Index(1), 1e-5) }},
		{"norm with one weight each", []*Tensor{r(5, 3, 2, 4), r(6, 3, 4)}, func(a ...*Tensor) *Tensor { return LayerNorm(a[0], []int{4}, a[1], nil, 1e-5) }},
		{"attention", []*Tensor{r(5, 3, 2, 4, 3), r(6, 3, 2, 5, 3), r(7, 3, 2, 5, 3)}, func(a ...*Tensor) *Tensor { return Attention(a[0], a[1], a[2], AttentionOptions{Causal: true}) }},
		{"attention to one memory", []*Tensor{r(5, 3, 2, 4, 3)}, func(a ...*Tensor) *Tensor { return Attention(a[0], r(6, 2, 5, 3), r(7, 2, 5, 3), AttentionOptions{}) }},
		{"indexing", []*Tensor{r(5, 3, 4, 2)}, func(a ...*Tensor) *Tensor {
			i := index.Index(0)
			return Concat(0, a[0].Take(0, i), a[0].IndexAdd(0, i, a[0].Narrow(0, 0, 2)), a[0].Gather(0, index.Narrow(0, 0, 3)), a[0].CumSum(1))
		}},
		{"conv", []*Tensor{image}, func(a ...*Tensor) *Tensor {
			return MaxPool2D(Conv2D(a[0], kernel, nil, ConvOptions{}), 2, PoolOptions{})
		}},
		{"conv of one weight each", []*Tensor{image, r(8, 3, 4, 2, 3, 3), r(9, 3, 4)}, func(a ...*Tensor) *Tensor { return Conv2D(a[0], a[1], a[2], ConvOptions{Padding: 1}, ReluActivation) }},
		{"gradient", []*Tensor{r(5, 3, 2, 4)}, func(a ...*Tensor) *Tensor {
			_, g := ValueAndGrad(func(p ...*Tensor) *Tensor { return loss(a[0], p[0], p[1]) })(w, b)
			return Concat(0, g[0].Flatten(), g[1])
		}},
		{"gradient of a convolution's weight", []*Tensor{image}, func(a ...*Tensor) *Tensor {
			_, g := ValueAndGrad(func(p ...*Tensor) *Tensor { return Conv2D(a[0], p[0], nil, ConvOptions{Padding: 1}).Square().Sum() })(kernel)
			return g[0]
		}},
		{"gradient of a gradient", []*Tensor{r(5, 3, 4)}, func(a ...*Tensor) *Tensor {
			_, g := ValueAndGrad(func(p ...*Tensor) *Tensor {
				_, g := ValueAndGrad(func(q ...*Tensor) *Tensor { return q[0].Exp().Mul(q[0]).Sum() })(p[0])
				return g[0].Square().Sum()
			})(a[0])
			return g[0]
		}},
		{"jvp", []*Tensor{r(5, 3, 4), r(6, 3, 4)}, func(a ...*Tensor) *Tensor {
			_, d := JVP(func(p ...*Tensor) *Tensor { return p[0].Tanh().Mul(p[0]) }, a[:1], a[1:])
			return d
		}},
		{"checkpoint", []*Tensor{r(5, 3, 4)}, func(a ...*Tensor) *Tensor {
			return Checkpoint(func(p ...*Tensor) *Tensor { return p[0].MatMul(p[1].T()).Tanh() }, a[0], w)
		}},
		{"nested", []*Tensor{r(5, 3, 4, 2), r(6, 3, 2)}, func(a ...*Tensor) *Tensor {
			return Vmap(func(c ...*Tensor) *Tensor { return c[0].Mul(a[1]).Softmax(0).MatMul(r(7, 2, 3)) })(a[0])
		}},
	}
}

// TestVmap compares what Vmap computes, and gradients through it, with the loop.
func TestVmap(t *testing.T) {
	for _, m := range mappedFunctions() {
		t.Run(m.name, func(t *testing.T) {
			got, want := Vmap(m.f)(m.args...), vmapLoop(m.f)(m.args...)
			sameValues(t, "value", got, want, 1e-12)
			if got.IsView() {
				t.Errorf("the result is a view")
			}
			var grads [2][]*Tensor
			for i, v := range []func(func(a ...*Tensor) *Tensor) func(a ...*Tensor) *Tensor{Vmap, vmapLoop} {
				leaves := make([]*Tensor, len(m.args))
				for j, a := range m.args {
					leaves[j] = a.RequireGrad()
				}
				y := v(m.f)(leaves...)
				if y.RequiresGrad() {
					grads[i] = Grad([]*Tensor{y.Mul(y.Detach().Sin()).Sum()}, leaves)
				}
			}
			if len(grads[0]) != len(grads[1]) {
				t.Fatalf("gradients for %d and %d arguments", len(grads[0]), len(grads[1]))
			}
			for j := range grads[0] {
				sameValues(t, fmt.Sprintf("gradient %d", j), grads[0][j], grads[1][j], 1e-11)
			}
		})
	}
}

// TestVmapCaptured makes sure that the gradient of what is the same for all slices is
// their sum, outside of the Vmap, and one for each inside.
func TestVmapCaptured(t *testing.T) {
	k := NewKey(3).Split(3)
	w := CPU().Key(k[0]).As(Float64).Randn(4, 4).RequireGrad()
	b := CPU().Key(k[1]).As(Float64).Randn(4).RequireGrad()
	x := CPU().Key(k[2]).As(Float64).Randn(5, 4)
	f := func(a ...*Tensor) *Tensor { return a[0].MatMul(w).Add(b).Tanh().Add(b).Mul(w.Index(0)) }
	got := Grad([]*Tensor{Vmap(f)(x).Square().Sum()}, []*Tensor{w, b})
	want := Grad([]*Tensor{vmapLoop(f)(x).Square().Sum()}, []*Tensor{w, b})
	for i := range got {
		sameValues(t, "outside", got[i], want[i], 1e-12)
	}
	Vmap(f)(x).Sum().Backward()
	collected := b.Grad()
	b.ZeroGrad()
	vmapLoop(f)(x).Sum().Backward()
	sameValues(t, "collected", collected, b.Grad(), 1e-12)

	inside := func(a ...*Tensor) *Tensor { return Grad([]*Tensor{f(a[0]).Square().Sum()}, []*Tensor{b})[0] }
	sameValues(t, "inside", Vmap(inside)(x), vmapLoop(inside)(x), 1e-12)

	b.ZeroGrad()
	backward := func(a ...*Tensor) *Tensor { f(a[0]).Sum().Add(b.Sum()).Backward(); return a[0] }
	Vmap(backward)(x)
	collected = b.Grad()
	b.ZeroGrad()
	vmapLoop(backward)(x)
	sameValues(t, "collected inside", collected, b.Grad(), 1e-12)

	var constant func(a ...*Tensor) *Tensor
	custom := func(a ...*Tensor) *Tensor {
		return Checkpoint(func(a ...*Tensor) *Tensor { return constant(a[0], a[1]) }, a[0], b).Add(constant(a[0], b))
	}
	constant = func(a ...*Tensor) *Tensor {
		return Custom("ones", func(a ...*Tensor) *Tensor { return a[0].Add(a[1]) }, func(a []*Tensor, _, _ *Tensor) []*Tensor {
			return []*Tensor{a[0].OnesLike(), a[1].OnesLike()}
		}, a[0], a[1])
	}
	sameValues(t, "custom", Grad([]*Tensor{Vmap(custom)(x).Sum()}, []*Tensor{b})[0], Grad([]*Tensor{vmapLoop(custom)(x).Sum()}, []*Tensor{b})[0], 1e-12)
}

// TestVmapWeights takes gradients of weights that all slices share, and gradients of
// those, through products.
func TestVmapWeights(t *testing.T) {
	k := NewKey(3).Split(4)
	r := func(i int, shape ...int) *Tensor { return CPU().Key(k[i]).As(Float64).Randn(shape...) }
	leaves := []*Tensor{r(0, 6, 4).RequireGrad(), r(1, 6).RequireGrad(), r(2, 6, 3).RequireGrad()}
	x := r(3, 5, 2, 4)
	f := func(a ...*Tensor) *Tensor {
		return Linear(a[0], leaves[0], leaves[1], TanhActivation).MatMul(leaves[2]).Square().Sum()
	}
	second := func(y *Tensor) []*Tensor {
		g := Grad([]*Tensor{y.Sum()}, leaves, CreateGraph)
		return append(g, Grad([]*Tensor{g[0].Square().Sum().Add(g[2].Square().Sum())}, leaves)...)
	}
	got, want := second(Vmap(f)(x)), second(vmapLoop(f)(x))
	for i := range got {
		sameValues(t, fmt.Sprint("gradient ", i), got[i], want[i], 1e-11)
	}
	nested := func(a ...*Tensor) *Tensor { return Vmap(f)(a[0]) }
	got, want = second(Vmap(nested)(x.Unsqueeze(2))), second(vmapLoop(f)(x.Reshape(10, 1, 4)))
	for i := range got {
		sameValues(t, fmt.Sprint("nested gradient ", i), got[i], want[i], 1e-11)
	}
}

// TestVmapLoops makes sure that the functions of TestVmap compute no op one slice after
// the other.
func TestVmapLoops(t *testing.T) {
	looped = func(def *op.Def) { t.Errorf("%s was computed one slice after the other", def) }
	defer func() { looped = nil }()
	for _, m := range mappedFunctions() {
		Vmap(m.f)(m.args...)
	}
}

// TestVmapJacobian makes a Jacobian of one VJP for all rows.
func TestVmapJacobian(t *testing.T) {
	k := NewKey(3).Split(2)
	w, x := CPU().Key(k[0]).As(Float64).Randn(3, 4), CPU().Key(k[1]).As(Float64).Randn(4)
	y, vjp := VJP(func(a ...*Tensor) *Tensor { return w.MatMul(a[0]).Tanh() }, x)
	jacobian := Vmap(func(v ...*Tensor) *Tensor { return vjp(v[0])[0] })(As(Float64).Eye(3))
	sameValues(t, "jacobian", jacobian, y.Square().Neg().Add(1).Reshape(3, 1).Mul(w), 1e-12)
}

// TestVmapNested maps over two axes, with what belongs to the outer one alone.
func TestVmapNested(t *testing.T) {
	k := NewKey(3).Split(3)
	x, z, c := CPU().Key(k[0]).As(Float64).Randn(3, 5, 4), CPU().Key(k[1]).As(Float64).Randn(3, 4), CPU().Key(k[2]).As(Float64).Randn(4, 4)
	f := func(v func(func(a ...*Tensor) *Tensor) func(a ...*Tensor) *Tensor, x, z, c *Tensor) *Tensor {
		return v(func(a ...*Tensor) *Tensor {
			return v(func(b ...*Tensor) *Tensor { return b[0].Mul(a[1]).MatMul(c).Softmax(0).Add(a[1]) })(a[0])
		})(x, z)
	}
	sameValues(t, "value", f(Vmap, x, z, c), f(vmapLoop, x, z, c), 1e-12)
	leaves := []*Tensor{x.RequireGrad(), z.RequireGrad(), c.RequireGrad()}
	got := Grad([]*Tensor{f(Vmap, leaves[0], leaves[1], leaves[2]).Square().Sum()}, leaves)
	want := Grad([]*Tensor{f(vmapLoop, leaves[0], leaves[1], leaves[2]).Square().Sum()}, leaves)
	for i := range got {
		sameValues(t, fmt.Sprint("gradient ", i), got[i], want[i], 1e-12)
	}
}

// TestVmapSlow takes the way of ops whose rule does not hold: one slice after the other.
func TestVmapSlow(t *testing.T) {
	k := NewKey(3).Split(2)
	x, w := CPU().Key(k[0]).As(Float64).Randn(3, 5, 2, 4).RequireGrad(), CPU().Key(k[1]).As(Float64).Randn(3, 4).RequireGrad()
	names := map[string]bool{}
	looped = func(def *op.Def) { names[def.Name] = true }
	defer func() { looped = nil }()
	f := func(v func(func(a ...*Tensor) *Tensor) func(a ...*Tensor) *Tensor) *Tensor {
		return v(func(a ...*Tensor) *Tensor {
			return v(func(b ...*Tensor) *Tensor { return LayerNorm(b[0], []int{4}, a[1], nil, 1e-5) })(a[0])
		})(x, w)
	}
	got, want := f(Vmap), f(vmapLoop)
	sameValues(t, "value", got, want, 1e-12)
	if !names["normalize"] {
		t.Errorf("only %v were computed one slice after the other", names)
	}
	a, b := Grad([]*Tensor{got.Exp().Sum()}, []*Tensor{x, w}), Grad([]*Tensor{want.Exp().Sum()}, []*Tensor{x, w})
	for i := range a {
		sameValues(t, fmt.Sprint("gradient ", i), a[i], b[i], 1e-11)
	}
}

// TestVmapRandom compares draws with the loop, bit by bit.
func TestVmapRandom(t *testing.T) {
	x := Arange(6).Cast(Float32).Reshape(3, 2)
	key := NewKey(5)
	for name, f := range map[string]func(a ...*Tensor) *Tensor{
		"without a key": func(a ...*Tensor) *Tensor { return a[0].Add(Randn(2)) },
		"with a key":    func(a ...*Tensor) *Tensor { return Dropout(a[0], 0.5, key).Add(CPU().Key(key).Rand(2)) },
		"nested": func(a ...*Tensor) *Tensor {
			return Vmap(func(b ...*Tensor) *Tensor { return b[0].Add(Rand(3)) })(a[0])
		},
	} {
		Seed(1)
		got := Vmap(f)(x)
		Seed(1)
		want := vmapLoop(f)(x)
		sameValues(t, name, got, want, 0)
	}
	Seed(1)
	y := Vmap(func(a ...*Tensor) *Tensor { return a[0].Mul(0).Add(Randn(2)) })(x)
	if v := ToSlice[float32](y); v[0] == v[2] {
		t.Errorf("two slices drew the same: %v", v)
	}
}

// TestVmapErrors makes sure that errors name what was called, show slices and leave the
// hidden axis out.
func TestVmapErrors(t *testing.T) {
	x := Arange(6).Cast(Float32).Reshape(3, 2)
	var leaked *Tensor
	for _, c := range []struct {
		name, op, msg string
		kind          error
		f             func(a ...*Tensor) *Tensor
	}{
		{"a shape", "Add", "(2,)", ErrShape, func(a ...*Tensor) *Tensor { return a[0].Add(Zeros(5)) }},
		{"an axis", "Softmax", "", ErrAxis, func(a ...*Tensor) *Tensor { return a[0].Softmax(1) }},
		{"Item", "Item", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { a[0].Sum().Item(); return a[0] }},
		{"Int", "Int", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { a[0].ArgMax(0).Int(); return a[0] }},
		{"ToSlice", "ToSlice", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { ToSlice[float32](a[0]); return a[0] }},
		{"WithSlice", "WithSlice", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { WithSlice(a[0], func([]float32) {}); return a[0] }},
		{"Pin", "Pin", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { return a[0].Pin() }},
		{"NonZero", "NonZero", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { return a[0].NonZero() }},
		{"Unique", "Unique", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { u, _, _ := a[0].Unique(); return u }},
		{"MaskedSelect", "MaskedSelect", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor { return a[0].MaskedSelect(a[0].Gt(0)) }},
		{"UpdateAll", "UpdateAll", "inside Vmap", ErrArgument, func(a ...*Tensor) *Tensor {
			return UpdateAll(Update{Rule: UpdateSGD, Rate: 1}, []Updating{{Value: Zeros(2), Grad: a[0]}}, nil, nil)[0].Value
		}},
		{"a leaked tensor", "Vmap", "has ended", ErrArgument, func(a ...*Tensor) *Tensor {
			Vmap(func(b ...*Tensor) *Tensor { leaked = b[0]; return b[0] })(a[0])
			return leaked
		}},
	} {
		var e *Error
		if err := Try(func() { Vmap(c.f)(x) }); !errors.As(err, &e) || !errors.Is(err, c.kind) || !strings.EqualFold(e.Op, c.op) || !strings.Contains(err.Error(), c.msg) || strings.Contains(err.Error(), "(3, 2)") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestVmapCompiled makes Vmap part of a compiled function, and the other way round.
func TestVmapCompiled(t *testing.T) {
	w, x := CPU().Key(NewKey(1)).Randn(4, 4), CPU().Key(NewKey(2)).Randn(5, 4)
	row := func(a ...*Tensor) *Tensor {
		_, g := ValueAndGrad(func(p ...*Tensor) *Tensor { return a[0].MatMul(p[0]).Tanh().Sum() })(w)
		return g[0]
	}
	c := Compile(func(a ...*Tensor) []*Tensor { return []*Tensor{Vmap(row)(a[0])} })
	for range 3 {
		sameValues(t, "compiled", c.Call(x)[0], vmapLoop(row)(x), 1e-6)
	}
	if why := c.Fallback(); why != "" {
		t.Error(why)
	}
	inner := Compile(func(a ...*Tensor) []*Tensor { return []*Tensor{a[0].Exp().Sum()} })
	got := Vmap(func(a ...*Tensor) *Tensor { return inner.Call(a[0])[0] })(x)
	sameValues(t, "inside", got, x.Exp().Sum(1), 1e-6)
}

// TestVmapMemory makes sure that scopes hold what is computed, and that results are
// their own.
func TestVmapMemory(t *testing.T) {
	x := CPU().Key(NewKey(2)).Randn(5, 4)
	var y, kept *Tensor
	Scoped(func(s *Scope) {
		y = Vmap(func(a ...*Tensor) *Tensor { return a[0].Exp().Sum(0) })(s.Use(x))
		kept = s.Keep(Vmap(func(a ...*Tensor) *Tensor { return a[0].Exp() })(s.Use(x)))
	})
	if !y.Freed() || kept.Freed() {
		t.Errorf("freed: %v, %v; want true, false", y.Freed(), kept.Freed())
	}
	sameValues(t, "kept", kept, x.Exp(), 0)
	same := Vmap(func(a ...*Tensor) *Tensor { return a[0] })(x)
	same.Free()
	if x.Freed() {
		t.Error("freeing the result freed the argument")
	}
	var history bool
	NoGrad(func() {
		history = Vmap(func(a ...*Tensor) *Tensor { return a[0].Exp() })(x.RequireGrad()).RequiresGrad()
	})
	if history {
		t.Error("a history inside NoGrad")
	}
	leaf := x.RequireGrad()
	z := Vmap(func(a ...*Tensor) *Tensor { return a[0].Exp().Tanh() })(leaf)
	g := Grad([]*Tensor{z.Sum()}, []*Tensor{leaf}, FreeGraph)[0]
	sameValues(t, "with FreeGraph", g, Vmap(func(a ...*Tensor) *Tensor { e := a[0].Exp(); return e.Tanh().Square().Neg().Add(1).Mul(e) })(x), 1e-5)
}

// smallNetwork is a function of small ops and the arguments of 64 slices.
func smallNetwork() (func(a ...*Tensor) *Tensor, *Tensor) {
	k := NewKey(1).Split(4)
	r := func(i int, shape ...int) *Tensor { return CPU().Key(k[i]).Randn(shape...) }
	w1, b1, w2 := r(0, 16, 16), r(1, 16), r(2, 10, 16)
	return func(a ...*Tensor) *Tensor {
		h := a[0].MatMul(w1).Add(b1).Tanh()
		return w2.MatMul(h).Softmax(0).Sub(0.1).Square().Sum()
	}, r(3, 64, 16)
}

func BenchmarkVmap(b *testing.B) {
	f, x := smallNetwork()
	gradient := func(a ...*Tensor) *Tensor { _, g := ValueAndGrad(f)(a[0]); return g[0] }
	for _, c := range []struct {
		name string
		f    func(a ...*Tensor) *Tensor
	}{{"Forward", f}, {"Gradient", gradient}} {
		b.Run(c.name+"/vmap", func(b *testing.B) {
			for b.Loop() {
				Vmap(c.f)(x).Free()
			}
		})
		b.Run(c.name+"/loop", func(b *testing.B) {
			for b.Loop() {
				vmapLoop(c.f)(x).Free()
			}
		})
	}
}
