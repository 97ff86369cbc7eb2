package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// fuzzGPUs are used by nothing else, so that what is in use on them can be counted.
var fuzzGPUs = func() []locus.Device {
	_ = gpus // come first
	return locus.AddVirtualGPUs(3, 64<<20)
}()

// monitorOption makes Monitor's option for a random run.
var monitorOption func(metric string) train.Option

// choices turns bytes into decisions; when they are used up, every one is the first.
type choices []byte

func (c *choices) of(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return int(b) % n
}

func (c *choices) yes() bool { return c.of(2) == 1 }

func pick[T any](c *choices, from ...T) T { return from[c.of(len(from))] }

// randomRun is a training run that some bytes have chosen. Its fields are exported for
// the sake of a failure's message.
type randomRun struct {
	Seed           uint64
	Input          string // vector, image or sequence
	Layers         []string
	Loss           string
	Metrics        int
	OwnStep        bool // TrainingStep instead of Loss
	Examples       int
	Batch          int
	Validation     int // examples
	Workers        int
	DropLast       bool
	InOrder        bool
	Epochs         int
	Optimizer      string
	Precision      locus.DType
	Accumulate     int
	Clip           float64
	Schedule       string
	Patience       int
	KeepBest       bool
	Monitor        string // "" for the default
	Checkpoints    bool
	Resume         bool
	Interrupt      int // the second run is interrupted after so many batches and resumed; 0: not
	LogEvery       int
	Callback       string
	StopAt         int64 // a callback asks to stop after so many steps; 0: never
	Devices        []locus.Device
	Eager          bool // the second run is compiled, not the first
	Average        float64
	Prepare        bool // PrepareBatch computes and draws
	numberOfInputs int
}

func newRandomRun(bytes []byte) *randomRun {
	c := choices(bytes)
	r := &randomRun{Seed: uint64(c.of(256))}
	r.Devices = pick(&c, fuzzGPUs[:1], []locus.Device{locus.CPU()}, fuzzGPUs[:2], fuzzGPUs[:3],
		[]locus.Device{locus.CPU(), fuzzGPUs[0]}, []locus.Device{locus.CPU(), locus.CPU()}, []locus.Device{fuzzGPUs[1]})
	r.Input = pick(&c, "vector", "vector", "image", "sequence")
	r.numberOfInputs = pick(&c, 3, 1, 40)
	for range c.of(4) {
		var l string
		switch r.Input {
		case "vector":
			l = pick(&c, "linear", "relu", "tanh", "batchnorm", "dropout", "layernorm", "lazy", "wide")
		case "image":
			l = pick(&c, "conv", "relu", "batchnorm", "pool", "dropchannels", "dropout")
		case "sequence":
			l = pick(&c, "lstm", "gru", "tanh", "dropout", "deep lstm")
		}
		r.Layers = append(r.Layers, l)
	}
	r.Loss = pick(&c, "mse", "crossentropy", "l1", "huber")
	r.Metrics = pick(&c, 0, 1, 2, 5)
	r.OwnStep = c.of(5) == 1
	r.Examples = 1 + c.of(200)
	r.Batch = max(1, r.Examples/(1+c.of(8))-c.of(3))
	if c.of(16) == 1 {
		r.Batch = r.Examples + 1 + c.of(4)
	}
	r.Validation = pick(&c, 0, 1, 7, 30)
	r.Workers = pick(&c, 0, 1, 3)
	r.DropLast, r.InOrder = c.yes(), c.yes()
	r.Epochs = 1 + c.of(3)
	r.Optimizer = pick(&c, "default", "momentum", "adam", "adamw", "rmsprop", "adagrad", "part")
	r.Precision = pick(&c, locus.DType(0), locus.Float32, locus.BFloat16, locus.Float16)
	r.Accumulate = pick(&c, 1, 2, 3, 7)
	r.Clip = pick(&c, 0, 0.5)
	r.Schedule = pick(&c, "", "decay", "cosine", "warmup")
	r.Patience = pick(&c, 0, 1, 2)
	r.KeepBest = c.yes()
	if r.Validation == 0 && c.of(8) != 1 {
		r.Patience, r.KeepBest = 0, false
	}
	r.Checkpoints, r.Resume = c.yes(), c.of(8) == 1
	if r.Checkpoints {
		r.Interrupt = c.of(12)
	}
	r.LogEvery = pick(&c, 50, 1, 3, 0)
	r.Callback = pick(&c, "", "read", "set", "set first", "freeze", "freeze first")
	if c.of(6) == 1 {
		r.StopAt = int64(1 + c.of(6))
	}
	r.Monitor = pick(&c, "", "", "", "loss", "loss", "m0", "m0", "no such metric")
	if monitorOption == nil || r.Validation == 0 || r.Monitor == "m0" && r.Metrics == 0 && c.of(8) != 1 {
		r.Monitor = ""
	}
	r.Eager = c.yes()
	r.Average, r.Prepare = pick(&c, 0, 0, 0.9), c.of(3) == 1
	return r
}

const classes = 3

func (r *randomRun) layer(kind string, key locus.Key) nn.Module {
	k := nn.WithKey(key)
	switch kind {
	case "linear":
		return nn.Sequential(nn.LazyLinear(8, k), nn.ReLU())
	case "wide":
		return nn.LazyLinear(48, k)
	case "lazy":
		return nn.LazyLinear(5, k)
	case "relu":
		return nn.ReLU()
	case "tanh":
		return nn.Tanh()
	case "batchnorm":
		return nn.BatchNorm(0)
	case "dropout":
		return nn.Dropout(0.3, k)
	case "dropchannels":
		return nn.DropoutChannels(0.3, k)
	case "layernorm": // of a size that it can have
		return nn.Sequential(nn.LazyLinear(6, k), nn.LayerNorm(6))
	case "conv":
		return nn.LazyConv2D(4, locus.HW(3, 3), locus.ConvOptions{Padding: locus.HW(1, 1)}, k)
	case "pool":
		return nn.MaxPool2D(locus.HW(2, 2), locus.PoolOptions{Stride: locus.HW(1, 1)})
	case "lstm":
		return nn.LazyLSTM(6, nn.RecurrentOptions{}, k)
	case "deep lstm":
		return nn.LazyLSTM(4, nn.RecurrentOptions{Layers: 2, Dropout: 0.2}, k)
	case "gru":
		return nn.LazyGRU(5, nn.RecurrentOptions{}, k)
	}
	panic("no layer " + kind)
}

// fuzzModel is a supervised model with a training step of its own.
type fuzzModel struct{ *train.Supervised }

func (m *fuzzModel) TrainingStep(fields []*locus.Tensor) *locus.Tensor {
	return m.Loss(m.Forward(fields[0]).Cast(locus.Float32), fields[1])
}

// model makes the model.
func (r *randomRun) model() train.Model {
	keys := locus.NewKey(r.Seed).Split(len(r.Layers) + 1)
	var layers []nn.Module
	for i, l := range r.Layers {
		layers = append(layers, r.layer(l, keys[i]))
	}
	layers = append(layers, nn.Flatten(), nn.LazyLinear(classes, nn.WithKey(keys[len(r.Layers)])))
	loss := map[string]func(y, target *locus.Tensor) *locus.Tensor{
		"mse":   func(y, target *locus.Tensor) *locus.Tensor { return locus.MSELoss(y, target, locus.ReduceMean) },
		"l1":    func(y, target *locus.Tensor) *locus.Tensor { return locus.L1Loss(y, target, locus.ReduceMean) },
		"huber": func(y, target *locus.Tensor) *locus.Tensor { return y.Sub(target).Square().Add(1).Sqrt().Mean() },
		"crossentropy": func(y, target *locus.Tensor) *locus.Tensor {
			return locus.CrossEntropy(y, target, locus.CrossEntropyOptions{})
		},
	}[r.Loss]
	m := &train.Supervised{Net: nn.Sequential(layers...), LossFunc: loss}
	if r.Metrics > 0 {
		m.MetricsFunc = func(y, target *locus.Tensor) map[string]*locus.Tensor {
			out := map[string]*locus.Tensor{}
			for i := range r.Metrics {
				out[fmt.Sprint("m", i)] = y.Abs().Mean().Mul(float64(i + 1))
			}
			return out
		}
	}
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		const lr = 0.01
		switch r.Optimizer {
		case "momentum":
			return optim.SGD(p, lr, optim.SGDOptions{Momentum: 0.9, Nesterov: true, WeightDecay: 0.01})
		case "adam":
			return optim.Adam(p, lr, optim.AdamOptions{})
		case "adamw":
			return optim.AdamW(p, lr, optim.AdamOptions{})
		case "rmsprop":
			return optim.RMSProp(p, lr, optim.RMSPropOptions{})
		case "adagrad":
			return optim.Adagrad(p, lr, optim.AdagradOptions{})
		case "part":
			return optim.SGD(p[len(p)-2:], lr, optim.SGDOptions{})
		}
		return nil
	}
	if r.OwnStep {
		return &fuzzModel{m}
	}
	return m
}

// examples makes a dataset of the run's kind.
func (r *randomRun) examples(n int) data.Dataset {
	shape := []int{n, r.numberOfInputs}
	switch r.Input {
	case "image":
		shape = []int{n, min(r.numberOfInputs, 3), 6, 6}
	case "sequence":
		shape = []int{n, 4, min(r.numberOfInputs, 5)}
	}
	k := locus.NewKey(r.Seed + 1).Split(2)
	x := locus.CPU().Key(k[0]).Randn(shape...)
	y := locus.CPU().Key(k[1]).Randn(n, classes)
	if r.Loss == "crossentropy" {
		y = y.ArgMax(1)
	}
	d, err := data.NewTensorDataset(x, y)
	if err != nil {
		panic(err)
	}
	return d
}

func (r *randomRun) options(more ...train.Option) []train.Option {
	opts := []train.Option{train.MaxEpochs(r.Epochs), train.Seed(r.Seed), train.Devices(r.Devices...), train.Accumulate(r.Accumulate), train.LogEvery(r.LogEvery), train.LearningRate(0.01)}
	if r.Precision != 0 {
		opts = append(opts, train.Precision(r.Precision))
	}
	if r.Clip > 0 {
		opts = append(opts, train.ClipGradients(r.Clip))
	}
	switch r.Schedule {
	case "decay":
		opts = append(opts, train.Schedule(optim.StepDecay(2, 0.5)))
	case "cosine":
		opts = append(opts, train.Schedule(optim.Cosine(20, 0.1)))
	case "warmup":
		opts = append(opts, train.Schedule(optim.Warmup(3, optim.Fixed())))
	}
	if r.Patience > 0 {
		opts = append(opts, train.EarlyStopping(r.Patience))
	}
	if r.KeepBest {
		opts = append(opts, train.KeepBest())
	}
	if r.Monitor != "" {
		opts = append(opts, monitorOption(r.Monitor))
	}
	if r.Resume && !r.Checkpoints {
		opts = append(opts, train.Resume())
	}
	if r.Average > 0 {
		opts = append(opts, train.AverageWeights(r.Average))
	}
	if r.Prepare {
		opts = append(opts, train.PrepareBatch(func(b *train.Batch) error {
			x := b.Fields[0]
			b.Fields[0] = x.Mul(0.5).Add(x.Device().Key(b.Key).Randn(x.Shape()...).Mul(0.01))
			return nil
		}))
	}
	return append(opts, more...)
}

// mutate is what the run's callback does after its second step.
func (r *randomRun) mutate(s *train.Step) error {
	if s.Steps == r.StopAt {
		return train.ErrStop
	}
	models := s.Models
	switch r.Callback {
	case "":
		return nil
	case "read":
		for _, m := range models {
			valuesOf(m)
		}
		return nil
	case "set first", "freeze first":
		models = models[:1]
	}
	if s.Steps != 2 {
		return nil
	}
	for _, m := range models {
		switch r.Callback {
		case "set", "set first":
			e := nn.Parameters(m)[0]
			e.Set(e.Value().Detach().Mul(0.9))
		default:
			freezeBody(m)
		}
	}
	return nil
}

// freezeBody freezes the first layer that has parameters, unless it is the last.
func freezeBody(m train.Model) {
	if f, ok := m.(*fuzzModel); ok {
		m = f.Supervised
	}
	layers := m.(*train.Supervised).Net.(*nn.SequentialLayer).Layers
	for _, l := range layers[:len(layers)-1] {
		if len(nn.Parameters(l)) > 0 {
			nn.Freeze(l)
			return
		}
	}
}

// refused lists the kinds of error of which the run must end with one; none if it must
// not fail.
func (r *randomRun) refused() (kinds []error) {
	if r.Batch > r.Examples || // of the loader
		(r.Patience > 0 || r.KeepBest) && r.Validation == 0 ||
		r.Resume && !r.Checkpoints ||
		r.Monitor == "no such metric" || r.Monitor == "m0" && r.Metrics == 0 {
		kinds = append(kinds, locus.ErrArgument)
	}
	if r.lonely() {
		kinds = append(kinds, locus.ErrShape) // a variance needs two elements
	}
	return kinds
}

// lonely reports whether a device gets one row for a layer that needs two.
func (r *randomRun) lonely() bool {
	if r.Input != "vector" || !slices.Contains(r.Layers, "batchnorm") {
		return false
	}
	for at := 0; at < r.Examples; at += r.Batch {
		size := min(r.Batch, r.Examples-at)
		if size < r.Batch && r.DropLast {
			break
		}
		if slices.Contains(parts(size, len(r.Devices)), 1) {
			return true
		}
	}
	return false
}

func (r *randomRun) batches() int {
	if r.DropLast {
		return r.Examples / r.Batch
	}
	return (r.Examples + r.Batch - 1) / r.Batch
}

// outcome is what a run has made.
type outcome struct {
	values  map[string][]float32
	report  *train.Report
	err     error
	stopped bool // by the context
	ledger  locus.Transfers
}

// fit trains once. Nothing of it is held afterwards.
func (r *randomRun) fit(t testing.TB, dir string, interrupt int, more ...train.Option) (o outcome) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var seen atomic.Int64
	m := r.model()
	if interrupt > 0 {
		more = append(more, tellBatches(r.Devices[0], func() {
			if seen.Add(1) == int64(interrupt) {
				cancel()
			}
		}))
	}
	if r.Checkpoints {
		more = append(more, train.Checkpoints(dir, 2))
		if r.Resume {
			more = append(more, train.Resume())
		}
	}
	more = append(more, train.AfterStep(r.mutate))
	d := train.Data{Train: r.examples(r.Examples), BatchSize: r.Batch, Workers: r.Workers, DropLast: r.DropLast, InOrder: r.InOrder}
	if r.Validation > 0 {
		d.Validation = r.examples(r.Validation)
	}
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 8<<10)
			t.Fatalf("%+v\nFit panicked: %v\n%s", r, p, buf[:runtime.Stack(buf, false)])
		}
	}()
	locus.ResetLedger()
	o.report, o.err = train.New(r.options(more...)...).FitContext(ctx, m, d)
	o.ledger = locus.Ledger()
	o.stopped = errors.Is(o.err, context.Canceled)
	if o.err == nil || errors.Is(o.err, train.ErrNotFinite) {
		if err := locus.Try(func() { o.values = valuesOf(m) }); err != nil {
			t.Fatalf("%+v\nthe trained model cannot be read: %v", r, err)
		}
	}
	return o
}

// inUse returns what is held on the devices of random runs, and on the CPU, by tensors
// that can be reached.
func inUse(t testing.TB) (gpu, cpu int64) {
	devices := append(slices.Clone(fuzzGPUs), locus.CPU())
	for _, d := range devices {
		if err := d.Synchronize(); err != nil {
			t.Fatal(err)
		}
	}
	locus.CPU().Collect() // what it finds is freed on all devices
	for _, d := range devices {
		d.FreeCache() // small blocks there keep their neighbors
	}
	locus.CPU().Collect()
	for _, d := range devices {
		if n := d.MemoryStats().InUse; d.IsGPU() {
			gpu += n
		} else {
			cpu = n
		}
	}
	return gpu, cpu
}

// leakLimit is what may stay in use after a run: the slab that small tensors are cut
// from goes back as a whole, on each of the devices.
const leakLimit = 4 * 64 << 10

// leaks fails if much more is in use after f than before.
func leaks(t testing.TB, what any, f func()) {
	t.Helper()
	gpuBefore, cpuBefore := inUse(t)
	f()
	if gpuAfter, cpuAfter := inUse(t); gpuAfter > gpuBefore+leakLimit || cpuAfter > cpuBefore+leakLimit {
		t.Fatalf("%+v\nin use before %d bytes on GPUs and %d on the CPU, afterwards %d and %d", what, gpuBefore, cpuBefore, gpuAfter, cpuAfter)
	}
}

// check runs the run, twice, and checks what must hold of any: one of both is compiled,
// and of a run that is resumed one of the parts.
func (r *randomRun) check(t testing.TB) (result string) {
	dir := memoryDir(t)
	var first, second outcome
	inTime(t, 2*time.Minute, func() {
		first = r.fit(t, filepath.Join(dir, "a"), 0, train.AfterStep(replicasEqual), train.Compile(!r.Eager))
	}, r)
	if kinds := r.refused(); kinds != nil {
		is := func(kind error) bool { return errors.Is(first.err, kind) }
		if !slices.ContainsFunc(kinds, is) && !(r.StopAt > 0 && first.err == nil) {
			t.Fatalf("%+v\nthe error is %v; want one of %v", r, first.err, kinds)
		}
		return "refused"
	}
	notFinite := errors.Is(first.err, train.ErrNotFinite)
	if first.err != nil && !notFinite {
		t.Fatalf("%+v\n%v", r, first.err)
	}
	if !notFinite {
		r.checkReport(t, first.report)
		for name, v := range first.values {
			for _, x := range v {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					t.Fatalf("%+v\n%s has %v and there was no error", r, name, x)
				}
			}
		}
	}
	interrupt := r.Interrupt
	if r.Callback != "" && r.Callback != "read" || r.StopAt > 0 {
		interrupt = 0 // the state of callbacks is not the trainer's
	}
	inTime(t, 2*time.Minute, func() { second = r.fit(t, filepath.Join(dir, "b"), interrupt, train.Compile(r.Eager)) }, r)
	if interrupt == 0 {
		r.checkLedger(t, second)
	}
	if second.stopped {
		again := *r
		again.Resume = true
		inTime(t, 2*time.Minute, func() { second = again.fit(t, filepath.Join(dir, "b"), 0, train.Compile(!r.Eager)) }, r)
	}
	if fmt.Sprint(first.err) != fmt.Sprint(second.err) {
		t.Fatalf("%+v\nfirst %v, then %v", r, first.err, second.err)
	}
	for name, v := range first.values {
		if !slices.Equal(bitsOf(v), bitsOf(second.values[name])) {
			t.Fatalf("%+v\n%s differs between two runs:\n%v\n%v", r, name, v, second.values[name])
		}
	}
	if notFinite {
		return "not finite"
	}
	return "trained"
}

func (r *randomRun) checkReport(t testing.TB, rep *train.Report) {
	t.Helper()
	bad := func(format string, args ...any) { t.Fatalf("%+v\n%s\n%v", r, fmt.Sprintf(format, args...), rep) }
	stopped := rep.Stopped != ""
	if (len(rep.Epochs) != r.Epochs || rep.Steps != int64(r.Epochs)*int64((r.batches()+r.Accumulate-1)/r.Accumulate)) && !stopped {
		bad("%d epochs with %d steps", len(rep.Epochs), rep.Steps)
	}
	if stopped && r.StopAt == 0 && r.Patience == 0 {
		bad("stopped: %s", rep.Stopped)
	}
	metrics := 1 + r.Metrics
	for _, e := range rep.Epochs {
		want := r.Examples
		if r.DropLast {
			want = r.batches() * r.Batch
		}
		if e.Examples != want {
			bad("%d examples in an epoch; want %d", e.Examples, want)
		}
		if n := len(e.Train); n != metrics && !(r.OwnStep && n == 1) {
			bad("the metrics of training are %v; want %d", e.Train, metrics)
		}
		if n := len(e.Validation); n != 0 && n != metrics || (n == 0) != (r.Validation == 0) {
			bad("the metrics of validation are %v; want %d", e.Validation, metrics)
		}
		for _, m := range []map[string]float64{e.Train, e.Validation} {
			for name, v := range m {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					bad("%s is %v", name, v)
				}
			}
		}
	}
}

// checkLedger: nothing is read from a device but metrics, now and then, and what is
// saved; and every batch has come to the devices.
func (r *randomRun) checkLedger(t testing.TB, o outcome) {
	t.Helper()
	if r.Callback == "read" || o.err != nil || slices.Contains(r.Devices, locus.CPU()) {
		return
	}
	perEpoch := 2 // its end, validation
	if r.LogEvery > 0 {
		perEpoch += r.batches() / r.LogEvery
	}
	readings := perEpoch * r.Epochs * len(r.Devices)
	const tensors = 40 // at least as many as the largest model has
	if r.KeepBest {
		readings += tensors * (r.Epochs + 1)
	}
	if r.Checkpoints {
		readings += 4 * tensors * (r.Epochs + 1)
	}
	// A reading is a copy and a wait.
	if n := o.ledger.Count(locus.DeviceToHost, locus.Wait); n > int64(2*readings) {
		t.Fatalf("%+v\n%d copies from devices and waits; %d would do\n%s", r, n, 2*readings, o.ledger)
	}
	seen := int64(0)
	for _, e := range o.report.Epochs {
		seen += int64(e.Examples) * 4 // at least one number each
	}
	if b := o.ledger.Bytes(locus.HostToDevice); b < seen {
		t.Fatalf("%+v\n%d bytes went to devices for batches of %d", r, b, seen)
	}
}

// inTime runs f and fails if it hangs.
func inTime(t testing.TB, limit time.Duration, f func(), what any) {
	t.Helper()
	done := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		select {
		case <-done:
		default:
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "%+v\nhangs for %v:\n%s\n", what, limit, buf[:runtime.Stack(buf, true)])
			os.Exit(2) // t.Fatal cannot end another goroutine
		}
	})
	defer timer.Stop()
	defer close(done)
	f()
}

// FuzzTrainer trains what its input describes: models, losses, metrics, data, options,
// callbacks and devices.
func FuzzTrainer(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRandomRun(b)
		leaks(t, r, func() { r.check(t) })
	})
}

func randomBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 17))
	b := make([]byte, 48)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestRandomRuns is a short run of the fuzzer with seeds that are always the same.
// LOCUS_FUZZ_TRAINER sets how long it takes: 1m, for instance.
func TestRandomRuns(t *testing.T) {
	limit := 5 * time.Second
	if s := os.Getenv("LOCUS_FUZZ_TRAINER"); s != "" {
		var err error
		if limit, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	counts := map[string]int{}
	runs, failed := 0, 0
	leaks(t, "all runs", func() { // little by little
		for time.Since(start) < limit && failed < 20 {
			from := runs
			leaks(t, fmt.Sprintf("one of the runs from %d on", from), func() { // to collect garbage takes longer than to train
				for ; runs < from+20 && time.Since(start) < limit; runs++ {
					if !t.Run(fmt.Sprint(runs), func(t *testing.T) { counts[newRandomRun(randomBytes(uint64(runs))).check(t)]++ }) {
						failed++
					}
				}
			})
		}
	})
	t.Logf("%d runs in %v, %d failed: %v", runs, time.Since(start).Round(time.Second), failed, counts)
	if failed == 0 && (counts["trained"] < runs/2 || counts["not finite"] > runs/10) {
		t.Errorf("of %d runs too few say anything: %v", runs, counts)
	}
}
