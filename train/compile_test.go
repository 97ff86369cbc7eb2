package train_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

// odd is a model as somebody might write it, with what a program cannot know in it.
type odd struct {
	*train.Supervised
	Beta  float64       // weight of a penalty; callbacks change it
	Last  *locus.Tensor `nn:"-"`
	Calls int           `nn:"-"`
	step  func(m *odd, y, target, loss *locus.Tensor) *locus.Tensor
}

func (m *odd) TrainingStep(f []*locus.Tensor) *locus.Tensor {
	y := m.Forward(f[0])
	loss := m.Loss(y, f[1])
	if m.step != nil {
		loss = m.step(m, y, f[1], loss)
	}
	return loss
}

func newOdd(step func(m *odd, y, target, loss *locus.Tensor) *locus.Tensor) *odd {
	return &odd{Supervised: mlp(3), Beta: 0.5, step: step}
}

// Models that do what programs cannot are trained as they are written, to the bit, and
// the report says why; those whose Go values are noticed to change become other programs.
func TestCompiledOrNot(t *testing.T) {
	penalty := func(m *odd, y, _, loss *locus.Tensor) *locus.Tensor { return loss.Add(y.Square().Mean().Mul(m.Beta)) }
	shared := 0.5 // by closures
	for name, c := range map[string]struct {
		step func(m *odd, y, target, loss *locus.Tensor) *locus.Tensor
		opts func(m *odd) []train.Option
		why  string // a part of the reason; "" if it is compiled
	}{
		"plain":           {nil, nil, ""},
		"a field":         {penalty, nil, ""},
		"reading a value": {func(_ *odd, y, _, loss *locus.Tensor) *locus.Tensor { return loss.Mul(1 + loss.Item()) }, nil, "compile_test.go:"},
		"a branch on data": {func(_ *odd, y, _, loss *locus.Tensor) *locus.Tensor {
			if y.Mean().Item() > 0 {
				return loss.Mul(2)
			}
			return loss
		}, nil, "reads or waits for a value"},
		"a counter in a field": {func(m *odd, y, _, loss *locus.Tensor) *locus.Tensor {
			if m.Calls++; m.Calls > 12 { // not noticed by comparing two traces
				return loss.Mul(0.1)
			}
			return loss
		}, nil, "the field Calls of the model changes"},
		"a tensor in a field": {func(m *odd, y, _, loss *locus.Tensor) *locus.Tensor {
			mean := y.Mean().Detach()
			if m.Last != nil {
				loss = loss.Add(y.Mean().Sub(m.Last).Square())
			}
			if m.Last = mean; mean.Scope() != nil {
				mean.Scope().Keep(mean)
			}
			return loss
		}, nil, "the field Last of the model changes"},
		"a counter in a closure": {func() func(m *odd, y, _, loss *locus.Tensor) *locus.Tensor {
			n := map[*odd]float64{}
			return func(m *odd, y, _, loss *locus.Tensor) *locus.Tensor {
				n[m]++
				return loss.Mul(1 / n[m])
			}
		}(), nil, "two calls do not do the same"},
		"a key that stays": {func(_ *odd, y, _, loss *locus.Tensor) *locus.Tensor {
			return loss.Add(y.Mul(y.Device().Key(locus.NewKey(4)).Randn(y.Shape()...)).Mean())
		}, nil, "a key that does not advance"},
		"goroutines": {func(_ *odd, y, _, loss *locus.Tensor) *locus.Tensor {
			parts := make([]*locus.Tensor, 3)
			var group sync.WaitGroup
			for i := range parts {
				group.Go(func() { parts[i] = y.Mul(float64(i)).Abs().Mean() })
			}
			group.Wait()
			return loss.Add(parts[0]).Add(parts[1]).Add(parts[2])
		}, nil, "on another goroutine"},
		"a field that an epoch's callback sets": {penalty, func(m *odd) []train.Option {
			return []train.Option{train.AfterEpoch(func(e *train.Epoch) error {
				m.Beta /= float64(e.Number + 2)
				return nil
			})}
		}, ""},
		"a field that a step's callback sets, once": {penalty, func(m *odd) []train.Option {
			return []train.Option{train.AfterStep(func(s *train.Step) error {
				if s.Steps == 7 {
					m.Beta = 0.1
				}
				return nil
			})}
		}, ""},
		"a field that each step's callback sets": {penalty, func(m *odd) []train.Option {
			return []train.Option{train.AfterStep(func(s *train.Step) error {
				m.Beta *= 0.9
				return nil
			})}
		}, "more than 8 signatures"},
		"a variable that an epoch's callback sets": {func(_ *odd, y, _, loss *locus.Tensor) *locus.Tensor {
			return loss.Add(y.Square().Mean().Mul(shared))
		}, func(m *odd) []train.Option {
			shared = 0.5
			return []train.Option{train.AfterEpoch(func(e *train.Epoch) error {
				shared /= float64(e.Number + 2)
				return nil
			})}
		}, ""},
		"a network that a callback replaces": {nil, func(m *odd) []train.Option {
			return []train.Option{train.AfterEpoch(func(e *train.Epoch) error {
				if e.Number == 1 { // another activation, the same parameters
					m.Net.(*nn.SequentialLayer).Layers[1] = nn.Sigmoid()
				}
				return nil
			})}
		}, ""},
		"a loss that a callback replaces": {nil, func(m *odd) []train.Option {
			return []train.Option{train.BeforeEpoch(func(e *train.Epoch) error {
				if e.Number == 2 {
					m.LossFunc = func(y, target *locus.Tensor) *locus.Tensor {
						return locus.CrossEntropy(y, target, locus.CrossEntropyOptions{LabelSmoothing: 0.1})
					}
				}
				return nil
			})}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fit := func(compile bool) ([]float32, *train.Report, string) {
				m := newOdd(c.step)
				var out bytes.Buffer
				opts := []train.Option{train.MaxEpochs(4), train.Seed(3), train.Compile(compile), train.Progress(&out)}
				if c.opts != nil {
					opts = append(opts, c.opts(m)...)
				}
				r := must(t)(train.New(opts...).Fit(m, train.Data{Train: spirals(t, 70), Validation: spirals(t, 20), BatchSize: 8}))
				return weights(m.Net), r, out.String()
			}
			want, plain, _ := fit(false)
			got, r, out := fit(true)
			if !slices.Equal(bitsOf(want), bitsOf(got)) {
				t.Errorf("compiled, the weights are others (%q)", r.Uncompiled)
			}
			if plain.Uncompiled != "" {
				t.Errorf("not to be compiled, and yet a reason: %q", plain.Uncompiled)
			}
			for i, e := range r.Epochs {
				if fmt.Sprint(e.Train, e.Validation) != fmt.Sprint(plain.Epochs[i].Train, plain.Epochs[i].Validation) {
					t.Errorf("epoch %d: %v %v, compiled %v %v", i, plain.Epochs[i].Train, plain.Epochs[i].Validation, e.Train, e.Validation)
				}
			}
			if c.why == "" && r.Uncompiled != "" || !strings.Contains(r.Uncompiled, c.why) {
				t.Errorf("not compiled: %q; want %q", r.Uncompiled, c.why)
			}
			if strings.Contains(out, "not compiled: ") != (c.why != "") || strings.Count(out, "not compiled") > 1 || strings.Contains(r.String(), "not compiled: ") != (c.why != "") {
				t.Errorf("what is said:\n%s\n%s", out, r)
			}
		})
	}
}

// A compiled step does not call the model. Callbacks and PrepareBatch are called as
// ever; a last batch that is smaller is a program of its own, made once.
func TestProgramsInPlaceOfCalls(t *testing.T) {
	for _, devices := range [][]locus.Device{gpus[:1], gpus[:2]} {
		for _, accumulate := range []int{1, 2} {
			var mu sync.Mutex
			calls, batches, steps := 0, 0, 0
			m := mlp(3)
			loss := m.LossFunc
			m.LossFunc = func(y, target *locus.Tensor) *locus.Tensor {
				mu.Lock()
				calls++
				mu.Unlock()
				return loss(y, target)
			}
			set := spirals(t, 100) // 6 batches of 16, and one of 4
			r := must(t)(train.New(train.MaxEpochs(30), train.Devices(devices...), train.Accumulate(accumulate),
				train.PrepareBatch(func(b *train.Batch) error {
					mu.Lock()
					batches++
					mu.Unlock()
					return nil
				}), train.AfterStep(func(*train.Step) error { steps++; return nil }),
			).Fit(m, train.Data{Train: set, Validation: set, BatchSize: 16}))
			if r.Uncompiled != "" {
				t.Error("not compiled:", r.Uncompiled)
			}
			if want := 2*30*7*len(devices) + 1; batches != want { // once for lazy layers
				t.Errorf("PrepareBatch was called %d times; want %d", batches, want)
			}
			if int64(steps) != r.Steps {
				t.Errorf("AfterStep was called %d times for %d steps", steps, r.Steps)
			}
			// Each epoch compares once for every size of batch, in training and validation; the
			// rest is a few traces at the beginning.
			if all, limit := 2*30*7*len(devices), (2*30*2*(1+accumulate)/2+30)*len(devices); calls > limit {
				t.Errorf("%d devices, accumulate %d: the loss was called %d times for %d batches; want at most %d", len(devices), accumulate, calls, all, limit)
			}
		}
	}
}

// Without callbacks, nothing is compared at epochs.
func TestFewTraces(t *testing.T) {
	calls := 0
	m := mlp(3)
	loss := m.LossFunc
	m.LossFunc = func(y, target *locus.Tensor) *locus.Tensor {
		calls++
		return loss(y, target)
	}
	r := must(t)(train.New(train.MaxEpochs(100), train.Progress(nil)).Fit(m, train.Data{Train: spirals(t, 100), BatchSize: 16}))
	if r.Steps != 700 || r.Uncompiled != "" || calls > 20 {
		t.Errorf("the loss was called %d times in %d steps (%q)", calls, r.Steps, r.Uncompiled)
	}
}

// rawModel has its parameters and a buffer in plain fields.
type rawModel struct {
	W     *locus.Tensor `nn:"param"`
	Scale *locus.Tensor `nn:"buffer"`
	Mask  *locus.Tensor `nn:"-"`
}

func (m *rawModel) Forward(x *locus.Tensor) *locus.Tensor {
	return x.MatMul(m.W).Mul(m.Scale).Mul(m.Mask)
}

func (m *rawModel) Loss(y, target *locus.Tensor) *locus.Tensor {
	return locus.CrossEntropy(y, target, locus.CrossEntropyOptions{})
}

// Tensors in plain fields are variables, or constants that are noticed when they are
// replaced.
func TestCompiledFields(t *testing.T) {
	fit := func(compile bool) ([]float32, *train.Report) {
		k := locus.NewKey(8)
		m := &rawModel{W: locus.CPU().Key(k).Randn(2, 2).RequireGrad(), Scale: locus.Ones(2), Mask: locus.Ones(2)}
		r := must(t)(train.New(train.MaxEpochs(4), train.Compile(compile), train.AfterStep(func(s *train.Step) error {
			switch s.Steps {
			case 11:
				m.Mask = locus.From([]float32{1, 0.5})
			case 15:
				nn.State(m)[1].Set(locus.From([]float32{2, 3}))
			}
			return nil
		})).Fit(m, train.Data{Train: spirals(t, 70), BatchSize: 8}))
		return locus.ToSlice[float32](m.W.Detach()), r
	}
	want, _ := fit(false)
	got, r := fit(true)
	if !slices.Equal(bitsOf(want), bitsOf(got)) || r.Uncompiled != "" {
		t.Errorf("%v, compiled %v (%q)", want, got, r.Uncompiled)
	}
}

// What is not a plain step, compiled and not: groups, a plateau, averages, metrics on the
// device, float16 with clipping and accumulation, recomputation, a custom gradient.
func TestCompiledWithEverything(t *testing.T) {
	set := spirals(t, 100)
	for _, devices := range [][]locus.Device{gpus[:1], gpus[:2]} {
		for _, precision := range []locus.DType{locus.Float32, locus.BFloat16, locus.Float16} {
			for _, accumulate := range []int{1, 3} {
				fit := func(compile bool) ([]float32, *train.Report) {
					k := locus.NewKey(5).Split(2)
					first, last := nn.Linear(2, 16, nn.WithKey(k[0])), nn.Linear(16, 2, nn.WithKey(k[1]))
					net := nn.Sequential(first, nn.Func(func(x *locus.Tensor) *locus.Tensor {
						x = locus.Checkpoint(func(a ...*locus.Tensor) *locus.Tensor { return a[0].Tanh().Square() }, x)
						return locus.Custom("twice", func(a ...*locus.Tensor) *locus.Tensor { return a[0].Mul(2) },
							func(_ []*locus.Tensor, _, g *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{g.Mul(2)} }, x)
					}), nn.BatchNorm(16), last)
					m := train.Classifier(net)
					m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
						none := 0.0
						return optim.AdamW(p, 0.02, optim.AdamOptions{}).WithGroups(optim.Group{Match: optim.Named("bias"), WeightDecay: &none}, optim.Group{Match: optim.Named("net.3"), LR: 0.5})
					}
					r := must(t)(train.New(train.MaxEpochs(6), train.Devices(devices...), train.Precision(precision), train.Accumulate(accumulate), train.ClipGradients(0.5),
						train.AverageWeights(0.9), train.Plateau(optim.PlateauOptions{Patience: 1, Factor: 0.5}), train.Schedule(optim.Warmup(5, optim.Fixed())),
						twoClasses(), train.KeepBest(), train.Compile(compile), train.AfterStep(func(s *train.Step) error {
							if s.Steps == 9 {
								nn.Freeze(first)
							}
							return nil
						})).Fit(m, train.Data{Train: set, Validation: set, BatchSize: 16}))
					return weights(net), r
				}
				name := fmt.Sprint(len(devices), " devices, ", precision, ", accumulate ", accumulate)
				want, plain := fit(false)
				got, r := fit(true)
				if !slices.Equal(bitsOf(want), bitsOf(got)) {
					t.Errorf("%s: the weights are others (%q)", name, r.Uncompiled)
				}
				if r.Uncompiled != "" {
					t.Errorf("%s: not compiled: %s", name, r.Uncompiled)
				}
				for i, e := range r.Epochs {
					if fmt.Sprint(e.Train, e.Validation) != fmt.Sprint(plain.Epochs[i].Train, plain.Epochs[i].Validation) {
						t.Errorf("%s, epoch %d: %v %v, compiled %v %v", name, i, plain.Epochs[i].Train, plain.Epochs[i].Validation, e.Train, e.Validation)
						break
					}
				}
			}
		}
	}
}

// Validate, Test and Predict are compiled too, with the same results.
func TestCompiledEvaluation(t *testing.T) {
	set := spirals(t, 70)
	m := mlp(3)
	must(t)(train.New().Fit(m, train.Data{Train: set, BatchSize: 8}))
	d := train.Data{Validation: set, Test: set, Predict: set, BatchSize: 8}
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:2]} {
		var all [2][]float32
		var scores [2]string
		for i, on := range []bool{false, true} {
			trainer := train.New(train.Compile(on), train.Devices(devices...), twoClasses())
			v, err := trainer.Validate(m, d)
			if err != nil {
				t.Fatal(err)
			}
			w, err := trainer.Test(m, d)
			if err != nil {
				t.Fatal(err)
			}
			scores[i] = fmt.Sprint(v.Values, w.Values)
			for y, err := range trainer.Predict(m, d) {
				if err != nil {
					t.Fatal(err)
				}
				all[i] = append(all[i], locus.ToSlice[float32](y)...)
				y.Free()
			}
		}
		if scores[0] != scores[1] || !slices.Equal(bitsOf(all[0]), bitsOf(all[1])) || len(all[0]) != 140 {
			t.Errorf("on %v: %s, compiled %s; %d and %d predictions", devices, scores[0], scores[1], len(all[0]), len(all[1]))
		}
	}
}

func twoClasses() train.Option {
	return train.Measure(metric.F1(2, metric.Macro), metric.ConfusionMatrix(2), metric.As("exact_", metric.Accuracy()))
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		opts []train.Option
		want []string
	}{
		{nil, []string{"a step:\ntracing", ": compiled\n", "update_all", "a batch of validation:\n"}},
		{[]train.Option{train.Accumulate(2)}, []string{"the gradients of a batch:\n", "the gradients of one more batch:\n", "the update:\n", "update_all"}},
		{[]train.Option{train.Compile(false)}, []string{"a step: not compiled"}},
	} {
		var out strings.Builder
		must(t)(train.New(append(c.opts, train.MaxEpochs(4), train.Explain(&out))...).Fit(mlp(3), train.Data{Train: spirals(t, 64), Validation: spirals(t, 20), BatchSize: 8}))
		for _, w := range c.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%q is missing:\n%s", w, out.String())
			}
		}
	}
}
