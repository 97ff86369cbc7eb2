package locus_test

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/locusml/locus"
)

func TestGradientsLiveWithTheirTensors(t *testing.T) {
	g0, g1 := virtualGPUs[0], virtualGPUs[1]
	x := locus.From([]float64{1, 2, 3}).RequireGrad()
	w := g1.From([]float64{4, 5, 6}).RequireGrad()
	y := x.To(g0).Square().To(g1).Mul(w).Sum()
	y.Backward()
	expect(t, "dx", x.Grad(), []int{3}, 8, 20, 36)
	expect(t, "dw", w.Grad(), []int{3}, 1, 4, 9)
	if x.Grad().Device() != locus.CPU() || w.Grad().Device() != g1 {
		t.Error(x.Grad().Device(), w.Grad().Device())
	}
}

func TestGradientsAccumulate(t *testing.T) {
	x := locus.From([]float64{3}).RequireGrad()
	x.Square().Sum().Backward()
	x.Square().Sum().Backward()
	expect(t, "twice", x.Grad(), []int{1}, 12)
	x.ZeroGrad()
	if x.Grad() != nil {
		t.Error("ZeroGrad did not forget")
	}
	x.Mul(x).Add(x).Add(x).Sum().Backward() // several uses of one tensor
	expect(t, "uses", x.Grad(), []int{1}, 8)
}

// A gradient collected in a scope outlives it.
func TestCollectedGradientsOutliveTheStep(t *testing.T) {
	for _, d := range places() {
		w := d.Ones(2, 2).RequireGrad()
		for range 3 {
			locus.Scoped(func(s *locus.Scope) {
				s.Adopt(d.Ones(1, 2)).MatMul(w).Sum().Backward()
			})
		}
		expect(t, "accumulated", w.Grad(), []int{2, 2}, 3, 3, 3, 3)
	}
}

func TestStoppingGradients(t *testing.T) {
	x := locus.Ones(2).RequireGrad()
	if x.Detach().Mul(2).RequiresGrad() {
		t.Error("Detach")
	}
	if !x.Detach().SharesMemory(x) {
		t.Error("Detach copied")
	}
	locus.NoGrad(func() {
		if x.Mul(2).RequiresGrad() {
			t.Error("NoGrad")
		}
		locus.NoGrad(func() {})
		if x.Mul(2).RequiresGrad() {
			t.Error("leaving an inner NoGrad ended the outer one")
		}
		var wg sync.WaitGroup
		wg.Go(func() { // other goroutines are not affected
			if !x.Mul(2).RequiresGrad() {
				t.Error("NoGrad reached another goroutine")
			}
		})
		wg.Wait()
	})
	if err := locus.Try(func() { locus.NoGrad(func() { x.Add(locus.Ones(3)) }) }); err == nil || !x.Mul(2).RequiresGrad() {
		t.Error("a panic left NoGrad on")
	}
	y := x.Mul(2).Detach().Mul(x).Sum()
	y.Backward()
	expect(t, "through Detach", x.Grad(), []int{2}, 2, 2)
}

func TestBackwardTwice(t *testing.T) {
	x := locus.Ones(2).RequireGrad()
	y := x.Square().Sum()
	y.Backward(locus.RetainGraph)
	y.Backward()
	expect(t, "retained", x.Grad(), []int{2}, 4, 4)
	if err := locus.Try(func() { y.Backward() }); !errors.Is(err, locus.ErrGrad) {
		t.Error(err)
	}
	// A gradient that does not pass through what was let go of still works.
	h := x.Exp()
	h.Sum().Backward()
	g := locus.Grad([]*locus.Tensor{h.Square().Sum()}, []*locus.Tensor{h})[0]
	expect(t, "past", g, []int{2}, 2*math.E, 2*math.E)
}

func TestGrad(t *testing.T) {
	x, y, z := locus.Full(2, 1).RequireGrad(), locus.Full(3, 1).RequireGrad(), locus.Ones(4).RequireGrad()
	g := locus.Grad([]*locus.Tensor{x.Mul(y), x.Square()}, []*locus.Tensor{x, y, z})
	expect(t, "x", g[0], []int{1}, 7)
	expect(t, "y", g[1], []int{1}, 2)
	expect(t, "unused", g[2], []int{4}, 0, 0, 0, 0)
	if x.Grad() != nil {
		t.Error("Grad collected")
	}
	for name, f := range map[string]func(){
		"no history": func() { locus.Grad([]*locus.Tensor{locus.Ones(1)}, []*locus.Tensor{x}) },
		"no input":   func() { locus.Grad([]*locus.Tensor{x.Sum()}, []*locus.Tensor{locus.Ones(1)}) },
		"matrix":     func() { locus.Ones(2).RequireGrad().Mul(2).Backward() },
		"integer":    func() { locus.Arange(3).RequireGrad() },
	} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrGrad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHigherGradients(t *testing.T) {
	x := locus.From([]float64{0.5, 2}).RequireGrad()
	y := x.Pow(4).Sum()
	want := [][]float64{{0.5, 32}, {3, 48}, {12, 48}, {24, 24}}
	for order, w := range want {
		y = locus.Grad([]*locus.Tensor{y}, []*locus.Tensor{x}, locus.CreateGraph)[0]
		expect(t, "derivative "+string(rune('1'+order)), y, []int{2}, w...)
		y = y.Sum()
	}
}

func TestFunctionalForms(t *testing.T) {
	square := func(a ...*locus.Tensor) *locus.Tensor { return a[0].Square().Mul(a[1]) }
	x, w := locus.From([]float64{1, 2}), locus.From([]float64{3, 4})
	v, grads := locus.ValueAndGrad(func(a ...*locus.Tensor) *locus.Tensor { return square(a...).Sum() })(x, w)
	expect(t, "value", v, nil, 19)
	expect(t, "dx", grads[0], []int{2}, 6, 16)
	expect(t, "dw", grads[1], []int{2}, 1, 4)
	if v.RequiresGrad() {
		t.Error("the value kept its history")
	}
	y, vjp := locus.VJP(square, x, w)
	expect(t, "y", y, []int{2}, 3, 16)
	expect(t, "vjp", vjp(locus.From([]float64{1, 10}))[0], []int{2}, 6, 160)
	expect(t, "vjp again", vjp(locus.From([]float64{1, 0}))[1], []int{2}, 1, 0)
	y, change := locus.JVP(square, []*locus.Tensor{x, w}, []*locus.Tensor{locus.From([]float64{1, 0}), locus.From([]float64{0, 1})})
	expect(t, "y", y, []int{2}, 3, 16)
	expect(t, "jvp", change, []int{2}, 6, 4)
	m := locus.Vmap(func(a ...*locus.Tensor) *locus.Tensor { return a[0].Dot(a[1]) })(locus.Arange(6).Reshape(3, 2), locus.As(locus.Int64).Ones(3, 2))
	expect(t, "vmap", m, []int{3}, 1, 5, 9)
}

func TestCheckpoint(t *testing.T) {
	calls := 0
	block := func(a ...*locus.Tensor) *locus.Tensor {
		calls++
		return a[0].MatMul(a[1]).Tanh()
	}
	x := locus.As(locus.Float64).Key(locus.NewKey(1)).Randn(3, 3)
	w := locus.As(locus.Float64).Key(locus.NewKey(2)).Randn(3, 3)
	a, b := x.RequireGrad(), w.RequireGrad()
	block(a, b).Square().Sum().Backward()
	p, q := x.RequireGrad(), w.RequireGrad()
	y := locus.Checkpoint(block, p, q)
	y.Square().Sum().Backward()
	if calls != 3 {
		t.Errorf("computed %d times, want once plainly, twice with a checkpoint", calls)
	}
	expect(t, "x", p.Grad(), []int{3, 3}, values(a.Grad())...)
	expect(t, "w", q.Grad(), []int{3, 3}, values(b.Grad())...)
	// Gradients of gradients pass through as well.
	f := func(through func(...*locus.Tensor) *locus.Tensor) []float64 {
		u := x.RequireGrad()
		g := locus.Grad([]*locus.Tensor{through(u, w).Square().Sum()}, []*locus.Tensor{u}, locus.CreateGraph)[0]
		return values(locus.Grad([]*locus.Tensor{g.Square().Sum()}, []*locus.Tensor{u})[0])
	}
	plain := f(block)
	for i, v := range f(func(a ...*locus.Tensor) *locus.Tensor { return locus.Checkpoint(block, a...) }) {
		if !same(v, plain[i]) {
			t.Fatalf("second order %d: %v, want %v", i, v, plain[i])
		}
	}
}

// What a gradient computes again is recorded although Backward is called where
// nothing else is.
func TestBackwardInsideNoGrad(t *testing.T) {
	x := locus.As(locus.Float64).Key(locus.NewKey(1)).Randn(1, 4, 3)
	grad := func(inside bool, f func(*locus.Tensor) *locus.Tensor) []float64 {
		leaf := x.RequireGrad()
		loss := f(leaf).Square().Sum()
		if inside {
			locus.NoGrad(func() {
				loss.Backward()
				if leaf.Mul(2).RequiresGrad() {
					t.Error("recording stayed on")
				}
			})
		} else {
			loss.Backward()
		}
		return values(leaf.Grad())
	}
	for name, f := range map[string]func(*locus.Tensor) *locus.Tensor{
		"attention": func(q *locus.Tensor) *locus.Tensor { return locus.Attention(q, q, q, locus.AttentionOptions{}) },
		"checkpoint": func(q *locus.Tensor) *locus.Tensor {
			return locus.Checkpoint(func(a ...*locus.Tensor) *locus.Tensor { return a[0].Exp() }, q)
		},
	} {
		want := grad(false, f)
		if got := grad(true, f); !slices.Equal(got, want) || slices.Max(want) == 0 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A gradient of something that a checkpointed function takes from elsewhere is not
// lost in silence.
func TestCheckpointRefusesWhatItCannotSee(t *testing.T) {
	x, w := locus.Ones(2).RequireGrad(), locus.Ones(2).RequireGrad()
	y := locus.Checkpoint(func(a ...*locus.Tensor) *locus.Tensor { return a[0].Mul(w) }, x)
	if err := locus.Try(func() { y.Sum().Backward() }); !errors.Is(err, locus.ErrGrad) {
		t.Error(err)
	}
	y = locus.Checkpoint(func(a ...*locus.Tensor) *locus.Tensor { return a[0].Mul(w.Detach()) }, x)
	y.Sum().Backward()
	expect(t, "x", x.Grad(), []int{2}, 1, 1)
}

func TestCustomGradient(t *testing.T) {
	// Straight-through rounding.
	round := func(x *locus.Tensor) *locus.Tensor {
		return locus.Custom("straight_round",
			func(a ...*locus.Tensor) *locus.Tensor { return a[0].Round() },
			func(_ []*locus.Tensor, _, g *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{g} }, x)
	}
	x := locus.From([]float64{0.4, 1.6}).RequireGrad()
	y := round(x)
	expect(t, "forward", y, []int{2}, 0, 2)
	y.Mul(y).Sum().Backward()
	expect(t, "backward", x.Grad(), []int{2}, 0, 4)
	bad := locus.Custom("bad", func(a ...*locus.Tensor) *locus.Tensor { return a[0].Mul(2) },
		func(_ []*locus.Tensor, _, g *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{g.Sum()} }, x)
	if err := locus.Try(func() { bad.Sum().Backward() }); !errors.Is(err, locus.ErrGrad) {
		t.Error(err)
	}
}

// Backward lets go of what was saved: the memory of a chain is reclaimed although
// its result is still held.
func TestBackwardLetsGo(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 16<<20)[0]
	x := d.Ones(1 << 18).RequireGrad() // 1 MiB
	y := x
	for range 6 {
		y = y.Sin()
	}
	loss := y.Sum()
	y = nil
	loss.Backward()
	d.Collect()
	if s := d.MemoryStats(); s.InUse > 4<<20 {
		t.Errorf("%v after backward", s)
	}
	if loss.Item() == 0 {
		t.Error("the loss is gone")
	}
}

func TestBackwardInManyGoroutines(t *testing.T) {
	w := virtualGPUs[0].As(locus.Float64).Ones(8).RequireGrad()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				w.Mul(2).Sum().Backward()
			}
		})
	}
	wg.Wait()
	if got := w.Grad().Index(0).Item(); got != 160 {
		t.Error(got)
	}
}

// A number times a scalar, where a pass begins behind the product, is released like any
// other op.
func TestScaledLossesAreReleased(t *testing.T) {
	x := locus.Full(3.0).RequireGrad()
	loss := x.Mul(2)
	loss.Backward(locus.RetainGraph)
	loss.Backward()
	if err := locus.Try(func() { loss.Backward() }); !errors.Is(err, locus.ErrGrad) {
		t.Errorf("a third pass: %v", err)
	}
	if g := x.Grad().Item(); g != 4 {
		t.Errorf("the gradient of two passes is %v", g)
	}
}
