package optim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// The factors after each value are those of PyTorch's ReduceLROnPlateau, whose
// patience is ours less one.
func TestPlateau(t *testing.T) {
	run := func(o optim.PlateauOptions, values ...float64) (factors []float64) {
		p := optim.NewPlateau(o)
		for _, v := range values {
			p.Observe(v)
			factors = append(factors, p.Factor())
		}
		return factors
	}
	nan := math.NaN()
	for i, c := range []struct{ got, want []float64 }{
		{run(optim.PlateauOptions{Patience: 2, Factor: 0.5}, 3, 2, 2, 2, 2, 2), []float64{1, 1, 1, .5, .5, .25}},
		{run(optim.PlateauOptions{Patience: 2, Factor: 0.5}, 3, 2, 2, 1, 1, 1), []float64{1, 1, 1, 1, 1, .5}},
		{run(optim.PlateauOptions{Patience: 1, Factor: 0.5, Highest: true}, 1, 2, 1, 3), []float64{1, 1, .5, .5}},
		{run(optim.PlateauOptions{Patience: 1, Factor: 0.5, Cooldown: 2}, 1, 1, 1, 1, 1), []float64{1, .5, .5, .5, .25}},
		{run(optim.PlateauOptions{Patience: 1, Factor: 0.5, Min: 0.4}, 1, 1, 1, 1), []float64{1, .5, .4, .4}},
		{run(optim.PlateauOptions{Patience: 1, Factor: 0.5, Threshold: 0.1}, 1, 0.95, 0.8), []float64{1, .5, .5}},
		{run(optim.PlateauOptions{Patience: 1, Factor: 0.5}, nan, 1, nan, math.Inf(-1), 0.5), []float64{.5, .5, .25, .125, .125}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%d: %v, want %v", i, c.got, c.want)
		}
	}
	// Through JSON, as in a checkpoint, it goes on as it would have.
	a := optim.NewPlateau(optim.PlateauOptions{Patience: 2})
	a.Observe(1)
	a.Observe(1)
	b, err := json.Marshal(a.State())
	if err != nil {
		t.Fatal(err)
	}
	var s optim.PlateauState
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	c := optim.NewPlateau(optim.PlateauOptions{Patience: 2})
	if err := c.SetState(s); err != nil || !c.Observe(1) || !a.Observe(1) {
		t.Error(err)
	}
	if err := c.SetState(optim.PlateauState{}); err == nil {
		t.Error("a zero value is no state")
	}
	// It never becomes 0.
	p := optim.NewPlateau(optim.PlateauOptions{Patience: 1, Factor: 1e-300})
	for range 5 {
		p.Observe(1)
	}
	if p.Factor() == 0 {
		t.Error("the rate is 0")
	}
	for _, o := range []optim.PlateauOptions{{Factor: 2}, {Factor: -1}, {Patience: -1}, {Cooldown: -1}, {Min: 2}, {Threshold: math.NaN()}, {Factor: math.NaN()}} {
		if err := locus.Try(func() { optim.NewPlateau(o) }); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := locus.Try(func() { new(optim.Plateau).Observe(1) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// A step with groups is, for each, the step of an optimizer of its own.
func TestGroups(t *testing.T) {
	makers := map[string]func(p []nn.Entry, lr, decay float64) *optim.Optimizer{
		"sgd": func(p []nn.Entry, lr, decay float64) *optim.Optimizer {
			return optim.SGD(p, lr, optim.SGDOptions{Momentum: 0.9, WeightDecay: decay})
		},
		"adam": func(p []nn.Entry, lr, decay float64) *optim.Optimizer {
			return optim.Adam(p, lr, optim.AdamOptions{WeightDecay: decay})
		},
		"adamw": func(p []nn.Entry, lr, decay float64) *optim.Optimizer {
			if decay == 0 { // which AdamW takes for its default
				return optim.Adam(p, lr, optim.AdamOptions{})
			}
			return optim.AdamW(p, lr, optim.AdamOptions{WeightDecay: decay})
		},
		"rmsprop": func(p []nn.Entry, lr, decay float64) *optim.Optimizer {
			return optim.RMSProp(p, lr, optim.RMSPropOptions{WeightDecay: decay})
		},
	}
	for name, make := range makers {
		build := func() []nn.Entry {
			k := locus.NewKey(1).Split(2)
			return nn.Parameters(nn.Sequential(nn.Linear(3, 4, nn.WithKey(k[0])), nn.Linear(4, 2, nn.WithKey(k[1]))))
		}
		p, q := build(), build()
		o := make(p, 0.1, 0.5).WithGroups(optim.Group{Match: optim.Named("bias"), WeightDecay: new(0.0)}, optim.Group{Match: optim.Named("0"), LR: 0.5})
		// 0.weight is in the second group, 1.weight in none.
		apart := []*optim.Optimizer{make([]nn.Entry{q[0]}, 0.05, 0.5), make([]nn.Entry{q[1]}, 0.1, 0), make([]nn.Entry{q[2]}, 0.1, 0.5), make([]nn.Entry{q[3]}, 0.1, 0)}
		if o.GroupOf("0.weight") != 2 || o.GroupOf("0.bias") != 1 || o.GroupOf("1.weight") != 0 || o.GroupOf("2.weight") != -1 {
			t.Error(o.GroupOf("0.weight"), o.GroupOf("0.bias"))
		}
		for step := range 4 {
			if step == 2 { // a schedule moves all of them
				o.SetLR(0.01)
				for i, lr := range []float64{0.005, 0.01, 0.01, 0.01} {
					apart[i].SetLR(lr)
				}
			}
			var grads []*locus.Tensor
			for i, e := range p {
				g := locus.CPU().Key(locus.NewKey(uint64(10*step + i))).Randn(e.Value().Shape()...)
				grads = append(grads, g)
				apart[i].StepWith([]*locus.Tensor{g})
			}
			o.StepWith(grads)
		}
		for i := range p {
			if a, b := locus.ToSlice[float32](p[i].Value().Detach()), locus.ToSlice[float32](q[i].Value().Detach()); !slices.Equal(a, b) {
				t.Errorf("%s: %s is %v, want %v", name, p[i].Name, a, b)
			}
		}
		if s := o.String(); !strings.Contains(s, "2 parameters: lr ×1, WeightDecay 0") || !strings.Contains(s, "1 parameters: lr ×0.5") {
			t.Error(s)
		}
	}
}

func TestWrongGroups(t *testing.T) {
	p := nn.Parameters(nn.Linear(2, 3))
	for name, f := range map[string]func(){
		"no match": func() { optim.SGD(p, 0.1, optim.SGDOptions{}).WithGroups(optim.Group{}) },
		"none":     func() { optim.SGD(p, 0.1, optim.SGDOptions{}).WithGroups(optim.Group{Match: optim.Named("biass")}) },
		"rate": func() {
			optim.SGD(p, 0.1, optim.SGDOptions{}).WithGroups(optim.Group{Match: optim.Named("bias"), LR: -1})
		},
		"decay": func() {
			optim.SGD(p, 0.1, optim.SGDOptions{}).WithGroups(optim.Group{Match: optim.Named("bias"), WeightDecay: new(-1.0)})
		},
		"again": func() {
			g := optim.Group{Match: optim.Named("bias")}
			optim.SGD(p, 0.1, optim.SGDOptions{}).WithGroups(g).WithGroups(g)
		},
		"zero value": func() { new(optim.Optimizer).WithGroups() },
	} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAverage(t *testing.T) {
	net := nn.Sequential(nn.Linear(1, 1, nn.WithInit(nn.Constant(0))))
	p := nn.Parameters(net)
	a := optim.NewAverage(p, 0.5)
	if len(a.Tree()) != 0 {
		t.Error("there is something before the first update")
	}
	want := 0.0
	for i := range 12 {
		p[0].Set(locus.Full(float64(i), 1, 1))
		a.Update()
		keep := math.Min(0.5, float64(1+i)/float64(10+i))
		if i > 0 {
			want = keep*want + (1-keep)*float64(i)
		}
		if got := a.Tree()[p[0].Name].Item(); math.Abs(got-want) > 1e-5 {
			t.Fatalf("update %d: %v, want %v", i, got, want)
		}
		if p[0].Value().Detach().Item() != float64(i) {
			t.Fatal("the parameter was changed")
		}
	}
	b := optim.NewAverage(p, 0.5)
	if err := b.SetState(a.Tree(), a.Updates()); err != nil || b.Updates() != 12 {
		t.Fatal(err)
	}
	a.Update()
	b.Update()
	if x, y := fmt.Sprint(a.Tree()), fmt.Sprint(b.Tree()); x != y {
		t.Error(x, y)
	}
	b.Apply()
	b.Update() // what was applied is a copy
	if v := p[0].Value().Detach().Item(); v != a.Tree()[p[0].Name].Item() {
		t.Error(v)
	}
	for name, err := range map[string]error{
		"missing": b.SetState(nn.Tree{p[0].Name: locus.Ones(1, 1)}, 1), "shape": b.SetState(nn.Tree{p[0].Name: locus.Ones(2), p[1].Name: locus.Ones(1)}, 1),
		"unknown": b.SetState(a.Tree().With(nn.Tree{"x": locus.Ones(1)}), 1), "count": b.SetState(a.Tree(), -1),
		"decay": locus.Try(func() { optim.NewAverage(p, 1) }), "zero": locus.Try(func() { new(optim.Average).Update() }),
		"twice": locus.Try(func() { optim.NewAverage(append(p, p...), 0.5) }),
		"lazy":  locus.Try(func() { optim.NewAverage(nn.Parameters(nn.LazyLinear(2)), 0.5).Update() }),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
