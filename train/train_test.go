package train_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

var gpus = locus.AddVirtualGPUs(3, 256<<20)

// line is a regression problem with a known answer.
func line(t *testing.T, n int) data.Dataset {
	t.Helper()
	k := locus.NewKey(11).Split(2)
	x := locus.CPU().Key(k[0]).Randn(n, 2)
	y := x.MatMul(locus.From([][]float32{{2}, {-3.4}})).Add(4.2).Add(locus.CPU().Key(k[1]).Randn(n, 1).Mul(0.01))
	d, err := data.NewTensorDataset(x, y)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// spirals is a classification problem that no straight line solves.
func spirals(t *testing.T, n int) data.Dataset {
	t.Helper()
	k := locus.NewKey(12).Split(2)
	label := locus.Arange(float64(n)).Mod(2)
	r := locus.CPU().Key(k[0]).Rand(n).Mul(3)
	angle := r.Mul(1.5).Add(label.Cast(locus.Float32).Mul(math.Pi))
	x := locus.Stack(1, r.Mul(angle.Cos()), r.Mul(angle.Sin()))
	d, err := data.NewTensorDataset(x.Add(locus.CPU().Key(k[1]).Randn(n, 2).Mul(0.05)), label)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mlp(seed uint64) *train.Supervised {
	k := locus.NewKey(seed).Split(2)
	m := train.Classifier(nn.Sequential(nn.LazyLinear(32, nn.WithKey(k[0])), nn.Tanh(), nn.LazyLinear(2, nn.WithKey(k[1]))))
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.02, optim.AdamOptions{}) }
	return m
}

func weights(m any) []float32 {
	var l []float32
	for _, e := range nn.State(m) {
		l = append(l, locus.ToSlice[float32](e.Value().Detach())...)
	}
	return l
}

func must(t *testing.T) func(*train.Report, error) *train.Report {
	return func(r *train.Report, err error) *train.Report {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func TestRegression(t *testing.T) {
	for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
		net := nn.Sequential(nn.LazyLinear(1, nn.WithInit(nn.Constant(0))))
		r := must(t)(train.New(train.MaxEpochs(5), train.Devices(d), train.LearningRate(0.1)).Fit(train.Regressor(net), train.Data{Train: line(t, 1000), Validation: line(t, 100), BatchSize: 32}))
		w := weights(net)
		for i, want := range []float32{2, -3.4, 4.2} {
			if math.Abs(float64(w[i]-want)) > 0.02 {
				t.Errorf("%s: weights %v", d, w)
			}
		}
		if dev, err := nn.Device(net); err != nil || dev != d {
			t.Error("the model is on", dev, err)
		}
		if len(r.Epochs) != 5 || r.Steps != 5*32 || r.Parameters != 3 || r.Last().Examples != 1000 || r.Throughput() <= 0 || r.PeakMemory[d.String()] <= 0 {
			t.Errorf("%+v", r)
		}
		if l := r.Last(); l.Validation["loss"] > 1e-3 || l.Train["loss"] > 1e-3 || r.Epochs[0].Train["loss"] < l.Train["loss"] {
			t.Error(r)
		}
		if s := r.String(); !strings.Contains(s, "epoch   5") || !strings.Contains(s, "examples/s") {
			t.Error(s)
		}
	}
}

func TestClassification(t *testing.T) {
	r := must(t)(train.New(train.MaxEpochs(30), train.NumGPUs(1), train.ClipGradients(5)).Fit(mlp(1), train.Data{Train: spirals(t, 512), Validation: spirals(t, 256), BatchSize: 64, Workers: 2}))
	if a := r.Last().Validation["accuracy"]; a < 0.95 {
		t.Error(r)
	}
}

// Mirrored training takes the same steps as one device on the whole batch, also
// when the last batch does not divide, and keeps all replicas equal to the bit.
func TestMirroredTraining(t *testing.T) {
	set := train.Data{Train: spirals(t, 250), BatchSize: 64} // the last batch has 58 examples: 20, 19, 19
	one := mlp(3)
	a := must(t)(train.New(train.MaxEpochs(3), train.Seed(5)).Fit(one, set))
	for n := 2; n <= 3; n++ {
		steps := 0
		many := mlp(3)
		b := must(t)(train.New(train.MaxEpochs(3), train.Seed(5), train.Devices(gpus[:n]...), train.AfterStep(func(s *train.Step) error {
			steps++
			if len(s.Models) != n {
				t.Fatalf("%d replicas", len(s.Models))
			}
			first := weights(s.Models[0])
			for i, m := range s.Models {
				if d, err := nn.Device(m); err != nil || d != gpus[i] {
					t.Error(d, err)
				}
				if !slices.Equal(weights(m), first) {
					t.Fatalf("step %d: replica %d differs", s.Steps, i)
				}
			}
			return nil
		})).Fit(many, set))
		if steps != int(b.Steps) || a.Steps != b.Steps {
			t.Error(steps, a.Steps, b.Steps)
		}
		for i := range a.Epochs {
			x, y := a.Epochs[i].Train["loss"], b.Epochs[i].Train["loss"]
			if math.Abs(x-y) > 1e-5*math.Abs(x) {
				t.Errorf("%d devices, epoch %d: loss %v, on one device %v", n, i, y, x)
			}
		}
		p, q := weights(one), weights(many)
		for i := range p {
			if math.Abs(float64(p[i]-q[i])) > 1e-4 {
				t.Fatalf("%d devices: weight %d is %v, on one device %v", n, i, q[i], p[i])
			}
		}
	}
	// A batch smaller than the number of devices.
	must(t)(train.New(train.Devices(gpus...)).Fit(mlp(3), train.Data{Train: spirals(t, 5), BatchSize: 2}))
	// Whatever GPUs there are: real ones, then virtual ones. They round differently
	// and still stay equal.
	must(t)(train.New(train.NumGPUs(2), train.AfterStep(func(s *train.Step) error {
		if !slices.Equal(weights(s.Models[0]), weights(s.Models[1])) {
			t.Fatal("replicas differ")
		}
		return nil
	})).Fit(mlp(3), set))
}

// The ledger proves that no step waits for the device, and that metrics are read
// in batches.
func TestMetricsStayOnTheDevice(t *testing.T) {
	set := train.Data{Train: spirals(t, 640), BatchSize: 32} // 20 steps per epoch
	locus.ResetLedger()
	r := must(t)(train.New(train.MaxEpochs(3), train.Devices(gpus[1]), train.LogEvery(10)).Fit(mlp(1), set))
	l := locus.Ledger()
	if r.Steps != 60 {
		t.Fatal(r.Steps)
	}
	// Two readings an epoch by LogEvery and one at its end.
	if n := l.Count(locus.DeviceToHost, locus.Wait); n > 9 {
		t.Errorf("%d readings in 60 steps\n%s", n, l)
	}
	if b := l.Bytes(locus.DeviceToHost); b > 9*8 {
		t.Errorf("%d bytes read", b)
	}
	locus.ResetLedger()
	must(t)(train.New(train.MaxEpochs(3), train.Devices(gpus[1]), train.LogEvery(0)).Fit(mlp(1), set))
	if n := locus.Ledger().Count(locus.DeviceToHost, locus.Wait); n > 3 {
		t.Errorf("%d readings in 3 epochs", n)
	}
}

func TestTooManyGPUs(t *testing.T) {
	_, err := train.New(train.NumGPUs(99)).Fit(mlp(1), train.Data{Train: spirals(t, 10), BatchSize: 5})
	if !errors.Is(err, locus.ErrDevice) || !strings.Contains(err.Error(), "gpu:0") || !strings.Contains(err.Error(), "TryGPU") {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	good := train.Data{Train: spirals(t, 10), BatchSize: 5}
	empty, _ := data.NewTensorDataset(locus.Zeros(0, 2), locus.As(locus.Int64).Zeros(0))
	wrongLabels, _ := data.NewTensorDataset(locus.Zeros(4, 2), locus.From([]int{0, 1, 2, 3}))
	for name, c := range map[string]struct {
		opts []train.Option
		data train.Data
		kind error
	}{
		"no data":         {nil, train.Data{}, locus.ErrArgument},
		"empty data":      {nil, train.Data{Train: empty, BatchSize: 1}, locus.ErrArgument},
		"no batch size":   {nil, train.Data{Train: good.Train}, locus.ErrArgument},
		"batch too large": {nil, train.Data{Train: good.Train, BatchSize: 11}, locus.ErrArgument},
		"no epochs":       {[]train.Option{train.MaxEpochs(0)}, good, locus.ErrArgument},
		"clip":            {[]train.Option{train.ClipGradients(-1)}, good, locus.ErrArgument},
		"both":            {[]train.Option{train.NumGPUs(1), train.Devices(locus.CPU())}, good, locus.ErrArgument},
		"twice":           {[]train.Option{train.Devices(gpus[0], gpus[0])}, good, locus.ErrDevice},
		"missing device":  {[]train.Option{train.Devices(locus.GPU(99))}, good, locus.ErrDevice},
		"stopping":        {[]train.Option{train.EarlyStopping(1)}, good, locus.ErrArgument},
		"resume":          {[]train.Option{train.Resume()}, good, locus.ErrArgument},
		"integer":         {[]train.Option{train.Precision(locus.Int64)}, good, locus.ErrArgument},
		"labels":          {nil, train.Data{Train: wrongLabels, BatchSize: 4}, locus.ErrIndex},
		"labels on a GPU": {[]train.Option{train.Devices(gpus[0])}, train.Data{Train: wrongLabels, BatchSize: 4}, locus.ErrIndex},
	} {
		if _, err := train.New(c.opts...).Fit(mlp(1), c.data); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLossThatIsNotFinite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	model := train.Regressor(nn.Sequential(nn.LazyLinear(1)))
	trainer := train.New(train.MaxEpochs(50), train.LearningRate(30), train.Checkpoints(dir, 2))
	r, err := trainer.Fit(model, train.Data{Train: line(t, 64), BatchSize: 32})
	if !errors.Is(err, train.ErrNotFinite) || !strings.Contains(err.Error(), "loss") || !strings.Contains(err.Error(), "learning rate") {
		t.Fatal(err)
	}
	for _, e := range r.Epochs {
		if l := e.Train["loss"]; math.IsNaN(l) || math.IsInf(l, 0) {
			t.Error("a bad epoch was recorded", e)
		}
	}
}

func TestEarlyStoppingAndKeepingTheBest(t *testing.T) {
	// The metric is made up: best in the third epoch.
	epoch := 0
	made := []float64{3, 2, 1, 4, 5, 6, 7}
	m := &scripted{Supervised: mlp(1), value: func() float64 { return made[min(epoch, 6)] }}
	var kept []float32
	r := must(t)(train.New(train.MaxEpochs(10), train.EarlyStopping(2), train.KeepBest(), train.AfterEpoch(func(e *train.Epoch) error {
		epoch++
		if e.Number == 2 {
			kept = weights(m)
		}
		return nil
	})).Fit(m, train.Data{Train: spirals(t, 64), Validation: spirals(t, 8), BatchSize: 8}))
	if len(r.Epochs) != 5 || r.BestEpoch != 2 || !strings.Contains(r.Stopped, "no better loss") || !r.Epochs[2].Best || r.Epochs[3].Best {
		t.Errorf("%+v", r)
	}
	if !slices.Equal(weights(m), kept) {
		t.Error("the model does not have its best weights")
	}
}

type scripted struct {
	*train.Supervised
	value func() float64
}

func (s *scripted) ValidationStep([]*locus.Tensor) map[string]*locus.Tensor {
	return map[string]*locus.Tensor{"loss": locus.Full(s.value())}
}

func TestCallbackStops(t *testing.T) {
	r := must(t)(train.New(train.MaxEpochs(10), train.AfterStep(func(s *train.Step) error {
		if s.Steps == 3 {
			return train.ErrStop
		}
		return nil
	})).Fit(mlp(1), train.Data{Train: spirals(t, 64), BatchSize: 8}))
	if r.Steps != 3 || r.Stopped == "" {
		t.Errorf("%+v", r)
	}
	own := errors.New("own")
	if _, err := train.New(train.AfterEpoch(func(*train.Epoch) error { return own })).Fit(mlp(1), train.Data{Train: spirals(t, 64), BatchSize: 8}); !errors.Is(err, own) {
		t.Error(err)
	}
}

// Two batches with accumulation are one batch of twice the size.
func TestAccumulation(t *testing.T) {
	set := spirals(t, 128)
	a, b := mlp(2), mlp(2)
	must(t)(train.New(train.MaxEpochs(2), train.ClipGradients(0.5)).Fit(a, train.Data{Train: set, BatchSize: 64, InOrder: true}))
	r := must(t)(train.New(train.MaxEpochs(2), train.ClipGradients(0.5), train.Accumulate(2)).Fit(b, train.Data{Train: set, BatchSize: 32, InOrder: true}))
	if r.Steps != 4 {
		t.Error(r.Steps)
	}
	p, q := weights(a), weights(b)
	for i := range p {
		if math.Abs(float64(p[i]-q[i])) > 1e-5 {
			t.Fatalf("weight %d: %v and %v", i, p[i], q[i])
		}
	}
	// What is left at the end of an epoch is a step of its own.
	if r := must(t)(train.New(train.Accumulate(3)).Fit(mlp(1), train.Data{Train: set, BatchSize: 32})); r.Steps != 2 {
		t.Error(r.Steps)
	}
}

func TestLowerPrecision(t *testing.T) {
	for _, c := range []struct {
		precision locus.DType
		devices   []locus.Device
	}{{locus.BFloat16, nil}, {locus.Float16, nil}, {locus.BFloat16, gpus[:2]}, {locus.Float16, gpus[:2]}} {
		m := mlp(1)
		r := must(t)(train.New(train.MaxEpochs(30), train.Precision(c.precision), train.Devices(c.devices...)).Fit(m, train.Data{Train: spirals(t, 512), Validation: spirals(t, 256), BatchSize: 64}))
		if a := r.Last().Validation["accuracy"]; a < 0.9 {
			t.Error(c.precision, r)
		}
		for _, e := range nn.State(m) {
			if e.Value().DType() != locus.Float32 {
				t.Error(e.Name, e.Value().DType())
			}
		}
	}
}

// Gradients that overflow float16 leave the step out, and the scale comes down until
// they do not; nothing waits for that.
func TestScaledLosses(t *testing.T) {
	k := locus.NewKey(4)
	net := nn.Sequential(nn.LazyLinear(8, nn.WithKey(k)), nn.LazyLinear(1, nn.WithKey(k)))
	m := train.Regressor(net)
	m.LossFunc = func(y, target *locus.Tensor) *locus.Tensor { // gradients of about 100
		return locus.MSELoss(y, target, locus.ReduceMean).Mul(100)
	}
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.01, optim.AdamOptions{}) }
	var history [][]float32
	locus.ResetLedger()
	r := must(t)(train.New(train.MaxEpochs(10), train.Precision(locus.Float16), train.LogEvery(0), train.AfterStep(func(*train.Step) error {
		history = append(history, weights(net))
		return nil
	})).Fit(m, train.Data{Train: line(t, 256), BatchSize: 32}))
	if !slices.Equal(history[0], history[1]) {
		t.Error("a step that overflows was taken")
	}
	if slices.Equal(history[len(history)-1], history[len(history)-2]) || r.Last().Train["loss"] > r.Epochs[0].Train["loss"]/2 {
		t.Error("nothing was learned after that:", r)
	}
}

func TestSchedule(t *testing.T) {
	var rates []float64
	must(t)(train.New(train.LearningRate(0.5), train.Schedule(optim.StepDecay(2, 0.1)), train.AfterStep(func(s *train.Step) error {
		rates = append(rates, s.LR)
		return nil
	})).Fit(train.Regressor(nn.Sequential(nn.LazyLinear(1))), train.Data{Train: line(t, 40), BatchSize: 8}))
	if want := []float64{0.5, 0.5, 0.05, 0.05, 0.005}; len(rates) != 5 || math.Abs(rates[4]-want[4]) > 1e-12 || rates[1] != 0.5 {
		t.Error(rates)
	}
}

// A run that is interrupted anywhere and goes on gives the same weights, to the
// bit, as one that was not; with dropout, momentum and a schedule.
func TestResuming(t *testing.T) {
	build := func() *train.Supervised {
		k := locus.NewKey(8).Split(3)
		m := train.Classifier(nn.Sequential(nn.LazyLinear(16, nn.WithKey(k[0])), nn.ReLU(), nn.Dropout(0.2, nn.WithKey(k[1])), nn.LazyLinear(2, nn.WithKey(k[2]))))
		m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.1, optim.SGDOptions{Momentum: 0.9}) }
		return m
	}
	set := train.Data{Train: spirals(t, 100), Validation: spirals(t, 20), BatchSize: 16} // 7 steps per epoch
	options := func(more ...train.Option) []train.Option {
		return append([]train.Option{train.MaxEpochs(4), train.Seed(9), train.Schedule(optim.Cosine(28, 0)), train.KeepBest()}, more...)
	}
	t.Run("one device", func(t *testing.T) { resume(t, build, set, options, nil) })
	t.Run("two devices", func(t *testing.T) { resume(t, build, set, options, gpus[:2]) })
	t.Run("float16", func(t *testing.T) {
		half := func(more ...train.Option) []train.Option {
			return options(append(more, train.Precision(locus.Float16))...)
		}
		resume(t, build, set, half, nil)
	})
}

func resume(t *testing.T, build func() *train.Supervised, set train.Data, base func(...train.Option) []train.Option, devices []locus.Device) {
	options := func(more ...train.Option) []train.Option { return base(append(more, train.Devices(devices...))...) }
	whole := build()
	want := must(t)(train.New(options()...).Fit(whole, set))
	for _, at := range []int64{3, 7, 10, 27} {
		dir := filepath.Join(t.TempDir(), "run")
		ctx, cancel := context.WithCancel(context.Background())
		_, err := train.New(options(train.Checkpoints(dir, 2), train.AfterStep(func(s *train.Step) error {
			if s.Steps == at {
				cancel()
			}
			return nil
		}))...).FitContext(ctx, build(), set)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("step %d: %v", at, err)
		}
		again := build() // another process
		got := must(t)(train.New(options(train.Checkpoints(dir, 2), train.Resume())...).Fit(again, set))
		if !slices.Equal(weights(again), weights(whole)) {
			t.Errorf("interrupted after step %d: other weights", at)
		}
		if got.Steps != want.Steps || got.Last().Validation["loss"] != want.Last().Validation["loss"] || got.BestEpoch != want.BestEpoch {
			t.Errorf("interrupted after step %d:\n%v\nwant\n%v", at, got, want)
		}
	}
	// Another model, another seed.
	dir := filepath.Join(t.TempDir(), "run")
	must(t)(train.New(options(train.Checkpoints(dir, 1))...).Fit(build(), set))
	if _, err := train.New(options(train.Checkpoints(dir, 1), train.Resume())...).Fit(mlp(1), set); err == nil {
		t.Error("a checkpoint of another model was taken")
	}
	if _, err := train.New(options(train.Checkpoints(dir, 1), train.Resume(), train.Seed(1))...).Fit(build(), set); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if _, err := train.New(base(train.Checkpoints(dir, 1), train.Resume(), train.Devices(gpus...))...).Fit(build(), set); !errors.Is(err, locus.ErrArgument) {
		t.Error("another number of devices:", err)
	}
	// Nothing to resume from is a fresh start.
	must(t)(train.New(options(train.Checkpoints(filepath.Join(t.TempDir(), "new"), 1), train.Resume())...).Fit(build(), set))
}

// An optimizer may be given a part of the parameters.
func TestTrainingAPart(t *testing.T) {
	m := mlp(1)
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p[2:], 0.1, optim.SGDOptions{}) }
	var first []float32
	r := must(t)(train.New(train.MaxEpochs(2), train.Devices(gpus[:2]...), train.AfterStep(func(s *train.Step) error {
		if first == nil {
			first = weights(m)
		}
		return nil
	})).Fit(m, train.Data{Train: spirals(t, 64), BatchSize: 16}))
	last := weights(m)
	if r.Parameters != 66 || !slices.Equal(first[:96], last[:96]) || slices.Equal(first[96:], last[96:]) {
		t.Error(r.Parameters, "parameters; others changed, or these did not")
	}
}

// Training holds flat memory.
func TestFlatMemory(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 64<<20)[0]
	var early, late locus.MemoryStats
	must(t)(train.New(train.MaxEpochs(6), train.Devices(d), train.AfterEpoch(func(e *train.Epoch) error {
		if e.Number == 1 {
			early = d.MemoryStats()
		}
		late = d.MemoryStats()
		return nil
	})).Fit(mlp(1), train.Data{Train: spirals(t, 2048), BatchSize: 16}))
	if late.InUse > early.InUse+64<<10 || late.Peak > early.Peak+64<<10 {
		t.Errorf("early %v\nlate %v", early, late)
	}
}
