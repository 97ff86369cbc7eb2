package locus

import (
	"errors"
	"math"
	"testing"
)

func TestDropout(t *testing.T) {
	x := As(Float64).Ones(100, 100)
	key := NewKey(3)
	y := ToSlice[float64](Dropout(x, 0.25, key))
	zeros := 0
	for _, v := range y {
		switch {
		case v == 0:
			zeros++
		case math.Abs(v-1/0.75) > 1e-15:
			t.Fatalf("an element is %v; want 0 or 4/3", v)
		}
	}
	if zeros < 2300 || zeros > 2700 { // 2500 ± 4.6σ
		t.Errorf("%d of 10000 were dropped; want about 2500", zeros)
	}
	near(t, Dropout(x, 0.25, key), y, 0)
	if !Dropout(x, 0, key).SharesMemory(x) {
		t.Error("p = 0 does not give x")
	}
	near(t, Dropout(x, 1, key).Sum(), []float64{0}, 0)
	// What is dropped does not matter, not even if it is infinite.
	near(t, Dropout(From([]float64{math.Inf(1), math.NaN()}), 1, key), []float64{0, 0}, 0)

	channels := DropoutChannels(As(Float64).Ones(20, 30, 2, 2), 0.5, key)
	near(t, channels.Max(2, 3).Sub(channels.Min(2, 3)).Abs().Max(), []float64{0}, 0)
	if m := channels.Mean().Item(); m < 0.8 || m > 1.2 {
		t.Errorf("the mean of what was 1 is %v", m)
	}

	normal := CPU().As(Float64).Key(NewKey(4)).Randn(200, 200)
	alpha := AlphaDropout(normal, 0.3, key)
	if m, v := alpha.Mean().Item(), alpha.Var().Item(); math.Abs(m) > 0.03 || math.Abs(v-1) > 0.03 {
		t.Errorf("mean %v and variance %v; want 0 and 1", m, v)
	}

	in := randomly([]int{3, 4, 2})[0]
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return Dropout(in[0], 0.4, key) }, in)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return DropoutChannels(in[0], 0.4, key) }, in)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return AlphaDropout(in[0], 0.4, key) }, in)

	Scoped(func(s *Scope) { // what dropout makes belongs to x's scope
		before := CPU().MemoryStats().InUse
		y := Dropout(s.Use(x), 0.5, key)
		s.Close()
		if !y.Freed() || CPU().MemoryStats().InUse > before {
			t.Error("something outlives the scope")
		}
	})
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"p above 1":   {ErrArgument, func() { Dropout(x, 1.5, key) }},
		"p is NaN":    {ErrArgument, func() { AlphaDropout(x, math.NaN(), key) }},
		"integers":    {ErrDType, func() { Dropout(Arange(3), 0.5, key) }},
		"no channels": {ErrShape, func() { DropoutChannels(x, 0.5, key) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
}

func TestEmbedding(t *testing.T) {
	w := From([]float64{0, 1, 10, 11, 20, 21}, 3, 2)
	ids := From([][]int{{2, 0}, {1, 2}})
	near(t, Embedding(w, ids), []float64{20, 21, 0, 1, 10, 11, 20, 21}, 0)
	hasShape(t, Embedding(w, ids.Cast(Int32).Narrow(0, 0, 0)), 0, 2, 2)
	gradCheck(t, func(in ...*Tensor) *Tensor { return Embedding(in[0], in[1]) }, w, ids)
	leaf := w.RequireGrad()
	near(t, Embedding(leaf, ids, 2), []float64{20, 21, 0, 1, 10, 11, 20, 21}, 0)
	near(t, Grad([]*Tensor{Embedding(leaf, ids, 2)}, []*Tensor{leaf})[0], []float64{1, 1, 1, 1, 0, 0}, 0)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"too large": {ErrIndex, func() { Embedding(w, From([]int{3})) }},
		"negative":  {ErrIndex, func() { Embedding(w, From([]int{-1})) }},
		"floats":    {ErrDType, func() { Embedding(w, From([]float64{1})) }},
		"a vector":  {ErrShape, func() { Embedding(w.Flatten(), ids) }},
		"padding":   {ErrArgument, func() { Embedding(w, ids, 3) }},
	} {
		err := Try(c.f)
		var e *Error
		if !errors.Is(err, c.kind) || !errors.As(err, &e) || e.Op != "Embedding" {
			t.Errorf("%s: %v; want %v of Embedding", name, err, c.kind)
		}
	}
}
