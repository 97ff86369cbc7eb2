package nn_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func recurrents(o nn.RecurrentOptions, opts ...nn.Option) map[string]*nn.RecurrentLayer {
	relu := o
	relu.ReLU = true
	return map[string]*nn.RecurrentLayer{"RNN": nn.RNN(3, 4, o, opts...), "RNN ReLU": nn.RNN(3, 4, relu, opts...), "LSTM": nn.LSTM(3, 4, o, opts...), "GRU": nn.GRU(3, 4, o, opts...)}
}

func TestRecurrentInPieces(t *testing.T) {
	for name, l := range recurrents(nn.RecurrentOptions{Layers: 2}, f64) {
		x := locus.As(locus.Float64).Randn(2, 9, 3)
		whole, end := l.Run(x, nn.RecurrentState{})
		a, s := l.Run(x.Narrow(1, 0, 4), nn.RecurrentState{})
		b, s := l.Run(x.Narrow(1, 4, 9), s.Detach())
		near(t, name, locus.Concat(1, a, b), whole, 1e-12)
		near(t, name+" state", s.H, end.H, 1e-12)
		if s.C != nil {
			near(t, name+" cell", s.C, end.C, 1e-12)
		}
		if s.Detach().H.RequiresGrad() || !s.H.RequiresGrad() {
			t.Error("Detach")
		}
		if l.String() != name && name != "RNN ReLU" {
			t.Error(l)
		}
	}
}

// The gradient of the steps is written by hand; its own gradient must be right
// too. The gradient of |∇|² along a direction is compared with differences.
func TestRecurrentGradientsOfGradients(t *testing.T) {
	for name, l := range recurrents(nn.RecurrentOptions{Bidirectional: true}, f64, nn.WithKey(locus.NewKey(3))) {
		if name == "RNN ReLU" {
			continue // not smooth
		}
		m := locus.CPU().As(locus.Float64)
		x0, dir := m.Key(locus.NewKey(1)).Randn(2, 3, 3), m.Key(locus.NewKey(2)).Randn(2, 3, 3)
		f := func(x *locus.Tensor) *locus.Tensor {
			g := locus.Grad([]*locus.Tensor{l.Forward(x).Square().Sum()}, []*locus.Tensor{x, l.Cells[0].WeightHH.Value()}, locus.CreateGraph)
			return g[0].Square().Sum().Add(g[1].Square().Sum())
		}
		x := x0.RequireGrad()
		g := locus.Grad([]*locus.Tensor{f(x)}, []*locus.Tensor{x})[0]
		const eps = 1e-5
		want := (f(x0.Add(dir.Mul(eps)).RequireGrad()).Item() - f(x0.Sub(dir.Mul(eps)).RequireGrad()).Item()) / (2 * eps)
		if got := g.Mul(dir).Sum().Item(); math.Abs(got-want) > 1e-5*math.Abs(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestRecurrentMisuse(t *testing.T) {
	l := nn.LSTM(3, 4, nn.RecurrentOptions{})
	for what, c := range map[string]struct {
		kind error
		f    func()
	}{
		"no steps":        {locus.ErrShape, func() { l.Forward(locus.Ones(2, 0, 3)) }},
		"a matrix":        {locus.ErrShape, func() { l.Forward(locus.Ones(2, 3)) }},
		"other features":  {locus.ErrShape, func() { l.Forward(locus.Ones(2, 5, 4)) }},
		"state's shape":   {locus.ErrShape, func() { l.Run(locus.Ones(2, 5, 3), nn.RecurrentState{H: locus.Ones(1, 3, 4)}) }},
		"input elsewhere": {locus.ErrDevice, func() { l.Forward(gpus[0].Ones(2, 5, 3)) }},
		"state elsewhere": {locus.ErrDevice, func() { l.Run(locus.Ones(2, 5, 3), nn.RecurrentState{H: gpus[0].Ones(1, 2, 4)}) }},
		"a GRU's cell": {locus.ErrArgument, func() {
			nn.GRU(3, 4, nn.RecurrentOptions{}).Run(locus.Ones(2, 5, 3), nn.RecurrentState{C: locus.Ones(1, 2, 4)})
		}},
		"no state":         {locus.ErrArgument, func() { nn.RNN(3, 0, nn.RecurrentOptions{}) }},
		"heads":            {locus.ErrArgument, func() { nn.MultiHeadAttention(6, 4, nn.MultiHeadOptions{}) }},
		"attention's rank": {locus.ErrShape, func() { nn.MultiHeadAttention(6, 3, nn.MultiHeadOptions{}).Forward(locus.Ones(6)) }},
		"keys elsewhere": {locus.ErrDevice, func() {
			x, y := locus.Ones(1, 2, 6), gpus[0].Ones(1, 2, 6)
			nn.MultiHeadAttention(6, 3, nn.MultiHeadOptions{}).Attend(x, y, y, nil)
		}},
		"too many positions": {locus.ErrShape, func() { nn.LearnedPositions(3, 2).Forward(locus.Ones(4, 2)) }},
		"odd rotation":       {locus.ErrArgument, func() { nn.Rotary(3, 0) }},
		"padding row":        {locus.ErrIndex, func() { nn.Embedding(3, 2, nn.PaddingIndex(3)) }},
		"probability":        {locus.ErrArgument, func() { nn.DropoutChannels(math.NaN()) }},
	} {
		if err := locus.Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", what, err, c.kind)
		}
	}
}

// A step holds a flat amount of memory, and the time of a step's gradient does
// not grow with the square of the sequence.
func TestRecurrentMemory(t *testing.T) {
	l := nn.To(nn.LSTM(3, 8, nn.RecurrentOptions{Layers: 2, Dropout: 0.5}), gpus[1])
	x := gpus[1].Rand(4, 50, 3)
	used := func() int64 { return gpus[1].MemoryStats().InUse }
	step := func() {
		locus.Scoped(func(s *locus.Scope) { l.Forward(s.Use(x)).Square().Sum().Backward() })
		for _, e := range nn.Parameters(l) {
			e.Value().Grad().Free()
			e.Value().ZeroGrad()
		}
	}
	step()
	before := used()
	for range 3 {
		step()
	}
	if after := used(); after > before {
		t.Errorf("%d bytes in use after steps, %d before", after, before)
	}
	gpus[1].ResetPeak()
	step()
	if peak := gpus[1].MemoryStats().Peak - before; peak > 4<<20 {
		t.Errorf("a step of %d bytes of states needs %d", 2*2*50*4*8*4, peak)
	}
}

func TestDropoutBetweenLayers(t *testing.T) {
	x := locus.Rand(2, 5, 3)
	for name, l := range recurrents(nn.RecurrentOptions{Layers: 2, Dropout: 0.5}) {
		a, b := values(l.Forward(x)), values(l.Forward(x))
		if slices.Equal(a, b) {
			t.Error(name, "drops nothing")
		}
		nn.Eval(l)
		if a, b := values(l.Forward(x)), values(l.Forward(x)); !slices.Equal(a, b) {
			t.Error(name, "drops in use")
		}
	}
	e := nn.TransformerEncoder(1, 6, 2, nn.TransformerOptions{Hidden: 5, Dropout: 0.3})
	y := locus.Rand(2, 5, 6)
	if slices.Equal(values(e.Forward(y)), values(e.Forward(y))) {
		t.Error("the encoder drops nothing")
	}
	nn.Eval(e)
	if !slices.Equal(values(e.Forward(y)), values(e.Forward(y))) {
		t.Error("the encoder drops in use")
	}
}

func TestPositions(t *testing.T) {
	// A layer that has seen longer sequences, another type or another device gives
	// the same as a fresh one.
	for name, l := range map[string]nn.Module{"sinusoidal": nn.Sinusoidal(6, 0), "rotary": nn.Rotary(6, 0)} {
		x := locus.Rand(1, 9, 6)
		long := l.Forward(x)
		near(t, name, l.Forward(x.Narrow(1, 0, 4)), long.Narrow(1, 0, 4), 0)
		near(t, name+" on a GPU", l.Forward(x.To(gpus[0])), long, 1e-6)
		if y := l.Forward(x.Cast(locus.Float64)); y.DType() != locus.Float64 {
			t.Error(name, y.DType())
		}
		near(t, name+" again", l.Forward(x), long, 0)
	}
	// Turned queries and keys have products that depend on the distance alone.
	r := nn.Rotary(8, 100)
	q := r.Forward(locus.Rand(1, 8).Expand(6, 8))
	k := r.Forward(locus.Rand(1, 8).Expand(6, 8))
	p := values(q.MatMul(k.T()))
	if math.Abs(p[0*6+2]-p[3*6+5]) > 1e-5 || math.Abs(p[0*6+2]-p[0*6+3]) < 1e-6 {
		t.Error(p)
	}
	lp := nn.LearnedPositions(7, 4)
	x := locus.Zeros(2, 5, 4)
	near(t, "learned", lp.Forward(x).Index(1), lp.Weight.Value().Narrow(0, 0, 5), 0)
	// With a rotation, attention is no longer blind to the order.
	for _, rotary := range []bool{false, true} {
		a := nn.MultiHeadAttention(8, 2, nn.MultiHeadOptions{Rotary: rotary})
		x := locus.Rand(1, 5, 8)
		there, back := values(a.Forward(x)), values(a.Forward(x.Flip(1)).Flip(1))
		worst := 0.0
		for i := range there {
			worst = max(worst, math.Abs(there[i]-back[i]))
		}
		if rotary != (worst > 1e-5) {
			t.Errorf("rotary %v: a turned sequence differs by %v", rotary, worst)
		}
	}
}

func TestMasks(t *testing.T) {
	m := nn.PaddingMask(locus.From([]int{0, 2}), 3)
	if fmt.Sprint(m.Shape(), locus.ToSlice[bool](m)) != "[2 1 3] [false false false true true false]" {
		t.Error(m)
	}
	// Masks of one, of all examples and of all heads say the same.
	a := nn.MultiHeadAttention(4, 2, nn.MultiHeadOptions{})
	x := locus.Rand(2, 3, 4)
	tri := locus.TriangularMask(3, 3, 0)
	want := a.Attend(x, x, x, tri)
	near(t, "examples", a.Attend(x, x, x, tri.Expand(2, 3, 3)), want, 0)
	near(t, "heads", a.Attend(x, x, x, tri.Expand(2, 2, 3, 3)), want, 0)
	near(t, "causal", nn.MultiHeadAttention(4, 2, nn.MultiHeadOptions{Causal: true}, nn.WithInit(nn.Constant(0.1))).Forward(x),
		nn.MultiHeadAttention(4, 2, nn.MultiHeadOptions{}, nn.WithInit(nn.Constant(0.1))).Attend(x, x, x, tri), 1e-6)
}
