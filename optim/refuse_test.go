package optim_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func TestImpossibleOptionsAreRefused(t *testing.T) {
	p := nn.Parameters(newNet(locus.CPU()))
	nan, inf := math.NaN(), math.Inf(1)
	adam := func(o optim.AdamOptions) func() { return func() { optim.Adam(p, 0.1, o) } }
	adamW := func(o optim.AdamOptions) func() { return func() { optim.AdamW(p, 0.1, o) } }
	sgd := func(o optim.SGDOptions) func() { return func() { optim.SGD(p, 0.1, o) } }
	rms := func(o optim.RMSPropOptions) func() { return func() { optim.RMSProp(p, 0.1, o) } }
	ada := func(o optim.AdagradOptions) func() { return func() { optim.Adagrad(p, 0.1, o) } }
	lr := func(v float64) func() { return func() { optim.SGD(p, v, optim.SGDOptions{}) } }
	set := func(v float64) func() { return func() { optim.SGD(p, 1, optim.SGDOptions{}).SetLR(v) } }
	cases := map[string]func(){
		"Beta1 2": adam(optim.AdamOptions{Beta1: 2}), "Beta1 1": adam(optim.AdamOptions{Beta1: 1}), "Beta1 -1": adamW(optim.AdamOptions{Beta1: -1}), "Beta2 NaN": adamW(optim.AdamOptions{Beta2: nan}),
		"Eps -1": adam(optim.AdamOptions{Eps: -1}), "Eps inf": adam(optim.AdamOptions{Eps: inf}), "decay -1": adamW(optim.AdamOptions{WeightDecay: -1}),
		"momentum -1": sgd(optim.SGDOptions{Momentum: -1}), "momentum NaN": sgd(optim.SGDOptions{Momentum: nan}), "dampening": sgd(optim.SGDOptions{Momentum: 1, Dampening: inf}),
		"nesterov alone": sgd(optim.SGDOptions{Nesterov: true}), "nesterov dampened": sgd(optim.SGDOptions{Nesterov: true, Momentum: 0.9, Dampening: 0.1}), "SGD decay": sgd(optim.SGDOptions{WeightDecay: nan}),
		"alpha 1.5": rms(optim.RMSPropOptions{Alpha: 1.5}), "RMSProp eps": rms(optim.RMSPropOptions{Eps: -1}), "RMSProp momentum": rms(optim.RMSPropOptions{Momentum: -1}), "RMSProp decay": rms(optim.RMSPropOptions{WeightDecay: inf}),
		"accumulator": ada(optim.AdagradOptions{InitialAccumulator: -1}), "LR decay": ada(optim.AdagradOptions{LRDecay: -1}), "Adagrad eps": ada(optim.AdagradOptions{Eps: nan}), "Adagrad decay": ada(optim.AdagradOptions{WeightDecay: -1}),
		"lr -1": lr(-1), "lr NaN": lr(nan), "lr inf": lr(inf), "SetLR inf": set(inf), "SetLR NaN": set(nan), "SetLR -1": set(-1),
		"no parameters": func() { optim.SGD(nil, 1, optim.SGDOptions{}) }, "a zero entry": func() { optim.SGD(make([]nn.Entry, 1), 1, optim.SGDOptions{}) },
		"twice":              func() { optim.SGD(append(slices.Clone(p), p[0]), 1, optim.SGDOptions{}) },
		"warm-up to nothing": func() { optim.Warmup(3, nil) }, "step decay": func() { optim.StepDecay(3, nan) }, "milestones": func() { optim.Milestones(-1, 3) },
		"cosine": func() { optim.Cosine(3, inf) }, "one cycle": func() { optim.OneCycle(3, 0.3, 0, 1) }, "rise": func() { optim.OneCycle(3, 1.3, 1, 1) },
		"zero optimizer": func() { new(optim.Optimizer).Step() }, "nil optimizer": func() { (*optim.Optimizer)(nil).State() },
	}
	for name, f := range cases {
		if err := locus.Try(f); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v, want ErrArgument", name, err)
		}
	}
	err := locus.Try(func() { optim.SGD(nil, 1, optim.SGDOptions{}) })
	if !strings.Contains(fmt.Sprint(err), "nn.Check") {
		t.Error("no hint:", err)
	}
	// A raw tensor is the same place twice, too.
	raw := &struct {
		W *locus.Tensor `nn:"param"`
	}{locus.Ones(1).RequireGrad()}
	if err := locus.Try(func() { optim.SGD(append(nn.Parameters(raw), nn.Parameters(raw)...), 1, optim.SGDOptions{}) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// fingerprint is everything that a step may change.
func fingerprint(n *net, o *optim.Optimizer) string {
	s := fmt.Sprint(n.values(), o.Steps())
	state := o.State()
	for _, k := range slices.Sorted(maps.Keys(state)) {
		s += fmt.Sprint(k, locus.ToSlice[float64](state[k]))
	}
	return s
}

func TestRefusedStepChangesNothing(t *testing.T) {
	for name, make := range makers() {
		n := newNet(gpus[0])
		o := make(nn.Parameters(n))
		n.loss().Backward()
		o.Step()
		before := fingerprint(n, o)
		g := locus.Grad([]*locus.Tensor{n.loss()}, nn.Values(o.Params()))
		freed := g[1].Copy()
		freed.Free()
		m := gpus[0].As(locus.Float64)
		for what, c := range map[string]struct {
			kind error
			ok   *locus.Tensor
			last *locus.Tensor
		}{
			"shape":  {locus.ErrShape, nil, m.Ones(3)},
			"dtype":  {locus.ErrDType, nil, g[1].Cast(locus.Float32)},
			"device": {locus.ErrDevice, nil, g[1].To(gpus[1])},
			"freed":  {locus.ErrFreed, nil, freed},
			"zero":   {locus.ErrArgument, nil, new(locus.Tensor)},
			"ok":     {locus.ErrArgument, m.Ones(1), g[1]},
			"oks":    {locus.ErrArgument, gpus[0].As(locus.Bool).Ones(2), g[1]},
		} {
			if err := locus.Try(func() { o.StepIf(c.ok, []*locus.Tensor{g[0], c.last}) }); !errors.Is(err, c.kind) {
				t.Errorf("%s, %s: %v, want %v", name, what, err, c.kind)
			}
		}
		if err := locus.Try(func() { o.StepWith(g[:1]) }); !errors.Is(err, locus.ErrArgument) {
			t.Error(err)
		}
		if after := fingerprint(n, o); after != before {
			t.Errorf("%s: a refused step changed\n%s to\n%s", name, before, after)
		}
		o.StepWith([]*locus.Tensor{nil, g[1]}) // nil is fine
	}
}

func TestRefusedStateChangesNothing(t *testing.T) {
	for name, make := range makers() {
		n := newNet(locus.CPU())
		o := make(nn.Parameters(n))
		n.loss().Backward()
		o.Step()
		before := fingerprint(n, o)
		good := o.State()
		refuse := func(what string, kind error, state map[string]*locus.Tensor, steps int64) {
			t.Helper()
			if err := o.SetState(state, steps); !errors.Is(err, kind) {
				t.Errorf("%s, %s: %v, want %v", name, what, err, kind)
			}
			if after := fingerprint(n, o); after != before {
				t.Errorf("%s, %s: a refused state changed\n%s to\n%s", name, what, before, after)
			}
		}
		with := func(key string, t *locus.Tensor) map[string]*locus.Tensor {
			m := maps.Clone(good)
			m[key] = t
			return m
		}
		refuse("a foreign name", locus.ErrArgument, with("x.p", locus.Ones(1)), 1)
		refuse("steps", locus.ErrArgument, good, -1)
		for key, v := range good {
			refuse("shape", locus.ErrShape, with(key, locus.As(locus.Float64).Ones(7)), 1)
			refuse("dtype", locus.ErrDType, with(key, v.Cast(locus.Float32)), 1)
			refuse("nil", locus.ErrArgument, with(key, nil), 1)
			if part := maps.Clone(good); len(good) > 2 {
				delete(part, key)
				refuse("a part", locus.ErrArgument, part, 1)
			}
		}
	}
}

// The state that was set stays the caller's, on whatever device it is, in whatever
// scope: two optimizers may get the same.
func TestStateIsCopied(t *testing.T) {
	n := newNet(locus.CPU())
	o := optim.Adam(nn.Parameters(n), 0.1, optim.AdamOptions{})
	n.loss().Backward()
	o.Step()
	a, b := nn.CopyTo(n, gpus[0]), nn.CopyTo(n, gpus[1])
	oa, ob := optim.Adam(nn.Parameters(a), 0.1, optim.AdamOptions{}), optim.Adam(nn.Parameters(b), 0.1, optim.AdamOptions{})
	locus.Scoped(func(s *locus.Scope) {
		state := map[string]*locus.Tensor{}
		for k, v := range o.State() {
			state[k] = s.Use(v).Mul(1)
		}
		for _, o := range []*optim.Optimizer{oa, ob} {
			if err := o.SetState(state, 1); err != nil {
				t.Fatal(err)
			}
		}
	})
	for i, o := range []*optim.Optimizer{oa, ob} {
		for k, v := range o.State() {
			if v.Device() != gpus[i] {
				t.Error(k, "is on", v.Device())
			}
		}
	}
	for range 3 {
		n.loss().Backward()
		a.loss().Backward()
		b.loss().Backward()
		o.Step()
		oa.Step()
		ob.Step()
	}
	near(t, "on the first", a.values(), n.values())
	near(t, "on the second", b.values(), n.values())
}

// One optimizer for two networks, whose parameters have the same names.
func TestTwoNetworks(t *testing.T) {
	build := func() ([]*net, *optim.Optimizer) {
		l := []*net{newNet(locus.CPU()), newNet(locus.CPU())}
		l[1].P.Set(l[1].P.Value().Mul(0.5))
		return l, optim.Adam(append(nn.Parameters(l[0]), nn.Parameters(l[1])...), 0.1, optim.AdamOptions{})
	}
	step := func(l []*net, o *optim.Optimizer) {
		l[0].loss().Add(l[1].loss()).Backward()
		o.Step()
	}
	nets, o := build()
	step(nets, o)
	if len(o.State()) != 8 {
		t.Fatal(slices.Sorted(maps.Keys(o.State())))
	}
	again, p := build()
	for i := range again {
		again[i].P.Set(nets[i].P.Value())
		again[i].Q.Set(nets[i].Q.Value())
	}
	if err := p.SetState(o.State(), o.Steps()); err != nil {
		t.Fatal(err)
	}
	step(nets, o)
	step(again, p)
	for i := range nets {
		near(t, fmt.Sprint("network ", i), again[i].values(), nets[i].values())
	}
}

// A step works on whatever value is there: set, moved, converted or frozen for a
// while since the last one; and a handle of an earlier value is whole or freed.
func TestValuesReplacedBetweenSteps(t *testing.T) {
	for name, make := range makers() {
		n, plain := newNet(locus.CPU()), newNet(locus.CPU())
		o, p := make(nn.Parameters(n)), make(nn.Parameters(plain))
		step := func() {
			n.loss().Backward()
			o.Step()
			plain.loss().Backward()
			p.Step()
		}
		step()
		mine := n.P.Value().Copy()
		n.P.Set(mine)
		step()
		if mine.Freed() {
			t.Error(name, "freed a tensor of the program's")
		}
		nn.To(n, gpus[0])
		step()
		n.Q.Freeze()
		n.Q.Unfreeze()
		step()
		nn.Cast(n, locus.Float64)
		step()
		near(t, name, n.values(), plain.values())
		nn.Cast(n, locus.Float32)
		step()
		if n.P.Value().DType() != locus.Float32 {
			t.Error(name, n.P.Value().DType())
		}
	}
}

// Memory of the loop that is written as in PyTorch: gradients are freed by the
// step, with and without a scope.
func TestStepFreesGradients(t *testing.T) {
	d := gpus[1]
	l := nn.To(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), d)
	o := optim.SGD(nn.Parameters(l), 1e-3, optim.SGDOptions{Momentum: 0.9})
	x := d.Rand(4, 64)
	step := func() {
		locus.Scoped(func(s *locus.Scope) {
			l.Forward(s.Use(x)).Square().Mean().Backward()
			o.Step()
		})
	}
	flat(t, d, 200, step)
	for _, e := range o.Params() {
		if e.Value().Grad() != nil {
			t.Error(e.Name, "has a gradient after the step")
		}
	}
	// Two parameters whose gradients are one tensor.
	a, b := nn.NewParameter(d.Ones(3)), nn.NewParameter(d.Ones(3))
	both := optim.SGD(nn.Parameters(&struct{ A, B *nn.Parameter }{a, b}), 1, optim.SGDOptions{})
	a.Value().Add(b.Value()).Sum().Backward()
	both.Step()
	if got := append(locus.ToSlice[float32](a.Value()), locus.ToSlice[float32](b.Value())...); !slices.Equal(got, []float32{0, 0, 0, 0, 0, 0}) {
		t.Error(got)
	}
}

// Parameters on two devices, and a choice that was made on a third.
func TestStepIfAcrossDevices(t *testing.T) {
	n := newNet(gpus[0])
	n.Q = nn.NewParameter(gpus[1].From([]float64{1, -2}))
	o := optim.Adam(nn.Parameters(n), 0.1, optim.AdamOptions{})
	grads := func() []*locus.Tensor { return []*locus.Tensor{n.P.Value().OnesLike(), n.Q.Value().OnesLike()} }
	no, yes := locus.From([]bool{false}), locus.From([]bool{true})
	before := n.values()
	o.StepIf(no, grads())
	near(t, "left out", n.values(), before)
	o.StepIf(yes, grads())
	if slices.Equal(n.values(), before) {
		t.Error("the step was left out")
	}
}
