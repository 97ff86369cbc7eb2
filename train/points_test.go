package train_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// What broke in ordinary use once, as a user would write it.

// A model with one metric, with all defaults, for longer than LogEvery.
func TestDefaultsWithOneMetric(t *testing.T) {
	for _, devices := range [][]locus.Device{nil, gpus[:1], gpus[:2]} {
		net := nn.Sequential(nn.LazyLinear(1))
		r, err := train.New(train.MaxEpochs(2), train.Devices(devices...)).Fit(train.Regressor(net), train.Data{Train: line(t, 2000), BatchSize: 32})
		if err != nil {
			t.Errorf("on %v: %v", devices, err)
			continue
		}
		if r.Steps != 126 || len(r.Epochs) != 2 || r.Last().Train["loss"] > 0.01 {
			t.Errorf("on %v: %v", devices, r)
		}
	}
}

// The zero value of a trainer trains for one epoch on the CPU.
func TestZeroTrainer(t *testing.T) {
	net := nn.Sequential(nn.LazyLinear(1))
	r, err := new(train.Trainer).Fit(train.Regressor(net), train.Data{Train: line(t, 200), BatchSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Epochs) != 1 || r.Steps != 20 || !slices.Equal(r.Devices, []locus.Device{locus.CPU()}) {
		t.Errorf("%+v", r)
	}
	if w := weights(net); math.Abs(float64(w[0])-2) > 0.5 {
		t.Errorf("the zero value learned nothing: %v", w)
	}
	// As New without options does, to the bit.
	other := nn.Sequential(nn.LazyLinear(1))
	for _, n := range []*nn.SequentialLayer{net, other} {
		n.Layers[0] = nn.LazyLinear(1, nn.WithKey(locus.NewKey(1)))
	}
	if _, err := new(train.Trainer).Fit(train.Regressor(net), train.Data{Train: line(t, 200), BatchSize: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := train.New().Fit(train.Regressor(other), train.Data{Train: line(t, 200), BatchSize: 10}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(weights(net), weights(other)) {
		t.Errorf("the zero value gives %v, New() %v", weights(net), weights(other))
	}
}

// Accumulation on several devices is accumulation.
func TestAccumulationOnSeveralDevices(t *testing.T) {
	set := train.Data{Train: spirals(t, 130), BatchSize: 16}
	one := mlp(3)
	a := must(t)(train.New(train.MaxEpochs(2), train.Accumulate(3), train.Seed(2)).Fit(one, set))
	for n := 2; n <= 3; n++ {
		many := mlp(3)
		b, err := train.New(train.MaxEpochs(2), train.Accumulate(3), train.Seed(2), train.Devices(gpus[:n]...), train.AfterStep(replicasEqual)).Fit(many, set)
		if err != nil {
			t.Errorf("%d devices: %v", n, err)
			continue
		}
		if a.Steps != b.Steps || a.Steps != 6 {
			t.Errorf("%d steps, on one device %d", b.Steps, a.Steps)
		}
		for i, w := range weights(many) {
			if v := weights(one)[i]; math.Abs(float64(v-w)) > 1e-4 {
				t.Fatalf("%d devices: weight %d is %v, on one %v", n, i, w, v)
			}
		}
	}
}

// Two layers whose biases have one gradient (an LSTM's) accumulate it once each.
func TestAccumulationOfSharedGradients(t *testing.T) {
	k := locus.NewKey(3).Split(3)
	build := func() *train.Supervised {
		return train.Regressor(nn.Sequential(nn.LazyLSTM(4, nn.RecurrentOptions{}, nn.WithKey(k[0])), nn.Flatten(), nn.LazyLinear(1, nn.WithKey(k[1]))))
	}
	x := locus.CPU().Key(k[2]).Randn(32, 3, 2)
	set, err := data.NewTensorDataset(x, x.Sum(1, 2).Unsqueeze(1))
	if err != nil {
		t.Fatal(err)
	}
	whole, parts := build(), build()
	must(t)(train.New(train.MaxEpochs(2)).Fit(whole, train.Data{Train: set, BatchSize: 16, InOrder: true}))
	if _, err := train.New(train.MaxEpochs(2), train.Accumulate(2)).Fit(parts, train.Data{Train: set, BatchSize: 8, InOrder: true}); err != nil {
		t.Fatal(err)
	}
	p, q := weights(whole), weights(parts)
	for i := range p {
		if math.Abs(float64(p[i]-q[i])) > 1e-5 {
			t.Fatalf("weight %d: %v and %v", i, p[i], q[i])
		}
	}
}

// Two replicas on the CPU are two replicas, also where one has frozen layers.
func TestTheCPUTwice(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		set := train.Data{Train: spirals(t, 64), BatchSize: 16}
		fit := func(devices ...locus.Device) *train.Supervised {
			m := mlp(3)
			_, err := train.New(train.MaxEpochs(2), train.Devices(devices...), train.AfterStep(replicasEqual), train.AfterStep(func(s *train.Step) error {
				if frozen && s.Steps == 2 {
					nn.Freeze(m.Net.(*nn.SequentialLayer).At(0))
				}
				return nil
			})).Fit(m, set)
			if err != nil {
				t.Fatalf("frozen %v, on %v: %v", frozen, devices, err)
			}
			return m
		}
		one, two := weights(fit(locus.CPU())), weights(fit(locus.CPU(), locus.CPU()))
		for i, w := range two {
			if v := one[i]; math.Abs(float64(v-w)) > 1e-4 {
				t.Fatalf("frozen %v: weight %d is %v, on one device %v", frozen, i, w, v)
			}
		}
	}
}

// A model without parameters is not trained in silence.
type untagged struct{ W *locus.Tensor }

func (m *untagged) Forward(x *locus.Tensor) *locus.Tensor { return x.MatMul(m.W) }

type hidden struct {
	w *locus.Tensor `nn:"param"`
}

func (m *hidden) Forward(x *locus.Tensor) *locus.Tensor { return x.MatMul(m.w) }

func TestModelsWithoutParameters(t *testing.T) {
	leaf := func() *locus.Tensor { return locus.Zeros(2, 1).RequireGrad() }
	for name, net := range map[string]nn.Module{
		"a forgotten tag":              &untagged{leaf()},
		"a tag on an unexported field": &hidden{leaf()},
		"no layers with parameters":    nn.Sequential(nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Narrow(1, 0, 1).Mul(leaf().Index(0)) })),
	} {
		_, err := train.New().Fit(train.Regressor(net), train.Data{Train: line(t, 40), BatchSize: 10})
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(err.Error(), "param") {
			t.Errorf("%s: the error does not speak of parameters: %v", name, err)
		}
	}
}

// Parameter.Set refuses what cannot be the parameter's value, and keeps the old one.
func TestParameterSet(t *testing.T) {
	for name, c := range map[string]struct {
		value *locus.Tensor
		kind  error
	}{
		"nil":    {nil, locus.ErrArgument},
		"shape":  {locus.Ones(3, 2), locus.ErrShape},
		"rank":   {locus.Ones(6), locus.ErrShape},
		"dtype":  {locus.As(locus.Float64).Ones(2, 3), locus.ErrDType},
		"device": {gpus[0].Ones(2, 3), locus.ErrDevice},
	} {
		p := nn.NewParameter(locus.Full(7, 2, 3))
		var err error
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s: a panic that is no *locus.Error: %v", name, r)
					err = c.kind
				}
			}()
			err = locus.Try(func() { p.Set(c.value) })
		}()
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want a kind of %v", name, err, c.kind)
		}
		if p.Value() == nil || p.Value().Sum().Item() != 42 {
			t.Errorf("%s: the old value is gone", name)
		}
	}
}

// A parameter that is set in a callback to what it cannot be makes Fit return an error.
func TestSettingInACallback(t *testing.T) {
	for _, devices := range [][]locus.Device{nil, gpus[:2]} {
		_, err := train.New(train.Devices(devices...), train.AfterStep(func(s *train.Step) error {
			nn.Parameters(s.Models[0])[0].Set(locus.Ones(1))
			return nil
		})).Fit(mlp(1), train.Data{Train: spirals(t, 64), BatchSize: 16})
		if err == nil {
			t.Error("a parameter of another shape was trained on")
		}
	}
}

// nn.Initialize leaves the gains of normalization layers at 1 and their shifts at 0.
func TestInitializeOfNormalization(t *testing.T) {
	for name, l := range map[string]nn.Module{
		"BatchNorm":     nn.BatchNorm(6),
		"LayerNorm":     nn.LayerNorm(6),
		"RMSNorm":       nn.RMSNorm(6),
		"GroupNorm":     nn.GroupNorm(2, 6),
		"in a sequence": nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6)),
	} {
		nn.Initialize(l, locus.NewKey(1), nn.Normal(0, 0.02))
		y := l.Forward(locus.CPU().Key(locus.NewKey(2)).Randn(4, 6))
		if y.Abs().Max().Item() == 0 {
			t.Errorf("%s computes zeros", name)
		}
		check := l
		if s, ok := l.(*nn.SequentialLayer); ok {
			check = s.At(1)
		}
		for _, e := range nn.Parameters(check) {
			want := 0.0
			if strings.HasSuffix(e.Name, "weight") {
				want = 1
			}
			if v := e.Value().Detach(); v.Min().Item() != want || v.Max().Item() != want {
				t.Errorf("%s: %s is %v after Initialize; want %v", name, e.Name, v, want)
			}
		}
	}
}

// Mixed precision by hand: a tree of the parameters' casts is enough for Bind, the
// buffers are the network's own; gradients reach the parameters.
func TestMixedPrecisionByHand(t *testing.T) {
	net := network("BatchNorm")
	x, target := task(t, 24).Tensors()[0], task(t, 24).Tensors()[1]
	var grads []*locus.Tensor
	err := locus.Try(func() {
		tree := nn.Tree{}
		for _, e := range nn.Parameters(net) {
			tree[e.Name] = e.Value().Cast(locus.BFloat16)
		}
		y := nn.Bind(net, tree).Forward(x.Cast(locus.BFloat16)).Cast(locus.Float32)
		grads = locus.Grad([]*locus.Tensor{matrixLoss(y, target)}, nn.Values(nn.Parameters(net)))
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range nn.Parameters(net) {
		if grads[i].DType() != locus.Float32 || grads[i].Abs().Max().Item() == 0 && !strings.HasSuffix(e.Name, "0.bias") {
			t.Errorf("%s has the gradient %v", e.Name, grads[i])
		}
	}
}

// Frozen layers and a model that is used again: no state is left behind by a run.
func TestTrainingTwice(t *testing.T) {
	for _, devices := range [][]locus.Device{nil, gpus[:2]} {
		trainer := train.New(train.MaxEpochs(2), train.Devices(devices...), train.Seed(4), train.Accumulate(2), train.Precision(locus.BFloat16))
		set := train.Data{Train: spirals(t, 64), BatchSize: 16}
		a, b := mlp(1), mlp(1)
		for i, m := range []*train.Supervised{a, b} {
			for range 2 {
				if _, err := trainer.Fit(m, set); err != nil {
					t.Fatalf("on %v, model %d: %v", devices, i, err)
				}
			}
		}
		if !slices.Equal(weights(a), weights(b)) {
			t.Errorf("on %v: two equal runs of one trainer differ", devices)
		}
	}
}

// A panic in a callback is Fit's error, with the panic's words.
func TestPanicInACallback(t *testing.T) {
	for name, o := range map[string]train.Option{
		"AfterStep":  train.AfterStep(func(*train.Step) error { panic(fmt.Errorf("words of %d", 7)) }),
		"AfterEpoch": train.AfterEpoch(func(*train.Epoch) error { panic("words of 7") }),
	} {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: Fit panicked: %v", name, p)
				}
			}()
			_, err := train.New(o).Fit(mlp(1), train.Data{Train: spirals(t, 64), BatchSize: 16})
			if err == nil || !strings.Contains(err.Error(), "words of 7") {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
}

// An optimizer for the part of a model that a user chose still gets Fit's precision,
// accumulation and several devices.
func TestAPartWithEverything(t *testing.T) {
	m := mlp(1)
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p[2:], 0.1, optim.SGDOptions{Momentum: 0.9}) }
	before := weights(mlpMade(t, 1))
	_, err := train.New(train.MaxEpochs(2), train.Devices(gpus[:2]...), train.Accumulate(2), train.Precision(locus.Float16), train.AfterStep(replicasEqual)).
		Fit(m, train.Data{Train: spirals(t, 64), BatchSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	after := weights(m)
	if !slices.Equal(before[:96], after[:96]) || slices.Equal(before[96:], after[96:]) {
		t.Error("other parameters changed, or these did not")
	}
}

// mlpMade is mlp after it has seen an input.
func mlpMade(t *testing.T, seed uint64) *train.Supervised {
	t.Helper()
	m := mlp(seed)
	m.Forward(locus.Ones(1, 2))
	return m
}
