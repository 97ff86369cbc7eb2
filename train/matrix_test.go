package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// The matrix: every combination of what a run can be made of, against a loop that
// is written out by hand on one device and knows nothing of package train.
//
// Parameters are equal to the bit, in every precision: the loop cuts a batch as the
// trainer does and adds in the same order. Running statistics agree to
// bufferTolerance: how an average is moved is a matter of the layer. Metrics are sums
// of float32, which the loop adds up in float64: they agree to metricTolerance. A
// resumed run equals one that was not interrupted, and replicas equal the first
// device's model, to the bit in everything.

const (
	matrixEpochs    = 2
	matrixSeed      = 77
	matrixLR        = 0.05
	matrixClip      = 0.5
	lossFactor      = 2 // makes first float16 steps overflow, so that they are left out
	metricTolerance = 1e-5
	bufferTolerance = 1e-6
)

// matrixSchedule changes the rate within an epoch: a resumed run must find it again.
func matrixSchedule() optim.Schedule { return optim.StepDecay(2, 0.7) }

// length is how much data there is and how often metrics are read.
type length struct {
	name            string
	examples, batch int
	logEvery        int
}

var lengths = []length{
	{"fewer than LogEvery", 36, 12, 50},
	{"more than LogEvery", 60, 12, 2},
	{"uneven", 43, 12, 3}, // the last batch has 7: 3, 2, 2
}

// tiny leaves devices without a part; a batch of one is nothing for BatchNorm.
var tiny = length{"tiny last batch", 26, 12, 1}

type cell struct {
	devices    int
	accumulate int
	precision  locus.DType
	layer      string
	several    bool
	length     length
	unasked    bool // the option Precision is not given
	eager      bool // not compiled
}

func (c cell) name() string {
	metrics := "one metric"
	if c.several {
		metrics = "several metrics"
	}
	precision := "Precision(" + c.precision.String() + ")"
	if c.unasked {
		precision = "no Precision"
	}
	way := "compiled"
	if c.eager {
		way = "eager"
	}
	return fmt.Sprintf("%d devices/accumulate %d/%s/%s/%s/%s/%s", c.devices, c.accumulate, precision, c.layer, metrics, c.length.name, way)
}

// task is a small classification problem: 4 numbers, 3 classes.
func task(t testing.TB, n int) *data.TensorDataset {
	t.Helper()
	k := locus.NewKey(31).Split(3)
	x := locus.CPU().Key(k[0]).Randn(n, 4)
	labels := x.MatMul(locus.CPU().Key(k[1]).Randn(4, 3)).Add(locus.CPU().Key(k[2]).Randn(n, 3).Mul(0.3)).ArgMax(1)
	d, err := data.NewTensorDataset(x, labels)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// network makes the layers of a kind; two calls give equal networks.
func network(kind string) *nn.SequentialLayer {
	k := locus.NewKey(32).Split(3)
	first, last := nn.Linear(4, 6, nn.WithKey(k[0])), nn.Linear(6, 3, nn.WithKey(k[1]))
	switch kind {
	case "BatchNorm":
		return nn.Sequential(first, nn.BatchNorm(6), nn.ReLU(), last)
	case "Dropout":
		return nn.Sequential(first, nn.ReLU(), nn.Dropout(0.25, nn.WithKey(k[2])), last)
	}
	return nn.Sequential(first, nn.ReLU(), last)
}

func matrixLoss(y, target *locus.Tensor) *locus.Tensor {
	return locus.CrossEntropy(y, target, locus.CrossEntropyOptions{}).Mul(lossFactor)
}

func matrixOptimizer(p []nn.Entry) *optim.Optimizer {
	return optim.SGD(p, matrixLR, optim.SGDOptions{Momentum: 0.9, WeightDecay: 0.01})
}

// byHand is the loop that the trainer is checked against.
type byHand struct {
	c cell

	// The parameters, in the order of the network's.
	P struct {
		W1, B1      *nn.Parameter
		Gain, Shift *nn.Parameter
		W2, B2      *nn.Parameter
	}
	mean, variance *locus.Tensor    // of BatchNorm
	drop           *nn.DropoutLayer // nil without
	kept           *locus.Tensor    // what it keeps of a part: rows of what it keeps of the batch

	scale          float64 // of float16
	taken, skipped int
	train          []map[string]float64 // by epoch
	validation     []map[string]float64
}

// tensors returns all tensors under the names that the network has for them.
func (h *byHand) tensors() map[string]*locus.Tensor {
	last := "net.2."
	if h.c.layer != "plain" {
		last = "net.3."
	}
	m := map[string]*locus.Tensor{"net.0.weight": h.P.W1.Value(), "net.0.bias": h.P.B1.Value(), last + "weight": h.P.W2.Value(), last + "bias": h.P.B2.Value()}
	if h.c.layer == "BatchNorm" {
		m["net.1.weight"], m["net.1.bias"] = h.P.Gain.Value(), h.P.Shift.Value()
		m["net.1.running_mean"], m["net.1.running_var"] = h.mean, h.variance
	}
	return m
}

func newByHand(t testing.TB, c cell) *byHand {
	h := &byHand{c: c, scale: 1}
	if c.precision == locus.Float16 {
		h.scale = 1 << 16
	}
	net := network(c.layer)
	value := func(layer int, weight bool) *nn.Parameter {
		switch l := net.At(layer).(type) {
		case *nn.LinearLayer:
			if weight {
				return l.Weight
			}
			return l.Bias
		case *nn.BatchNormLayer:
			if weight {
				return l.Weight
			}
			return l.Bias
		}
		t.Fatalf("layer %d of %s has no parameters", layer, c.layer)
		return nil
	}
	h.P.W1, h.P.B1 = value(0, true), value(0, false)
	h.P.W2, h.P.B2 = value(-1, true), value(-1, false)
	switch c.layer {
	case "BatchNorm":
		h.P.Gain, h.P.Shift = value(1, true), value(1, false)
		h.mean, h.variance = locus.Zeros(6), locus.Ones(6)
	case "Dropout":
		// Masks belong to the examples, whatever the device and the precision.
		h.drop = net.At(2).(*nn.DropoutLayer)
	}
	return h
}

// forward computes the network of one device's part, with the given parameters.
func (h *byHand) forward(device int, x *locus.Tensor, p []*locus.Tensor) *locus.Tensor {
	w2, b2 := p[len(p)-2], p[len(p)-1]
	switch h.c.layer {
	case "BatchNorm":
		y, mean, variance := locus.BatchNorm(locus.Linear(x, p[0], p[1]), p[2], p[3], 1e-5)
		if device == 0 { // the statistics that count are those of the first device's part
			h.mean = h.mean.Mul(0.9).Add(mean.Cast(locus.Float32).Mul(0.1))
			h.variance = h.variance.Mul(0.9).Add(variance.Cast(locus.Float32).Mul(0.1))
		}
		return locus.Linear(y.Relu(), w2, b2)
	case "Dropout":
		y := locus.Linear(x, p[0], p[1], locus.ReluActivation)
		return locus.Linear(h.kept.Where(y.Mul(1/(1-h.drop.P)), 0), w2, b2)
	}
	return locus.Linear(locus.Linear(x, p[0], p[1], locus.ReluActivation), w2, b2)
}

// gradients returns those of one device's part, of the parameters themselves, and its
// loss and outputs.
func (h *byHand) gradients(device int, x, target *locus.Tensor) (grads []*locus.Tensor, loss, y *locus.Tensor) {
	values := nn.Values(nn.Parameters(&h.P))
	leaves, used := make([]*locus.Tensor, len(values)), make([]*locus.Tensor, len(values))
	for i, v := range values {
		leaves[i] = v.Detach().RequireGrad()
		used[i] = leaves[i].Cast(h.c.precision)
	}
	y = h.forward(device, x.Cast(h.c.precision), used).Cast(locus.Float32)
	loss = matrixLoss(y, target)
	return locus.Grad([]*locus.Tensor{loss.Mul(h.scale)}, leaves), loss, y
}

// parts cuts n rows into one part per device, whose sizes differ by at most one.
func parts(n, devices int) (sizes []int) {
	for i := range devices {
		size := n / devices
		if i < n%devices {
			size++
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// run trains.
func (h *byHand) run(t testing.TB, set data.Dataset) {
	loader, err := data.NewLoader(set, data.Options{BatchSize: h.c.length.batch, Shuffle: true, Key: locus.NewKey(matrixSeed)})
	if err != nil {
		t.Fatal(err)
	}
	opt := matrixOptimizer(nn.Parameters(&h.P))
	schedule := matrixSchedule()
	var sum []*locus.Tensor
	pending := 0
	step := func() {
		for i, g := range sum {
			if pending > 1 {
				g = g.Mul(1 / float64(pending))
			}
			if h.c.precision == locus.Float16 {
				g = g.Mul(1 / h.scale)
			}
			sum[i] = g
		}
		counts := true
		if h.c.precision == locus.Float16 {
			counts = !math.IsInf(locus.GlobalNorm(sum).Item(), 0) && !math.IsNaN(locus.GlobalNorm(sum).Item())
		}
		if counts {
			clipped, _ := locus.ClipGlobalNorm(sum, matrixClip)
			opt.SetLR(matrixLR * schedule(int64(h.taken+h.skipped)))
			opt.StepWith(clipped)
			h.taken++
		} else {
			h.skipped++
			h.scale = max(1, h.scale/2)
		}
		sum, pending = nil, 0
	}
	for epoch := range matrixEpochs {
		total := map[string]float64{}
		for batch, err := range loader.Epoch(epoch) {
			if err != nil {
				t.Fatal(err)
			}
			var whole, kept []*locus.Tensor
			if h.drop != nil {
				kept = h.drop.Forward(locus.Ones(batch.Size, 6)).Gt(0).SplitSizes(parts(batch.Size, h.c.devices), 0)
			}
			at := 0
			for device, size := range parts(batch.Size, h.c.devices) {
				if size == 0 {
					continue
				}
				x, target := batch.X().Narrow(0, at, at+size).Copy(), batch.Y().Narrow(0, at, at+size).Copy()
				at += size
				if h.drop != nil {
					h.kept = kept[device]
				}
				grads, loss, y := h.gradients(device, x, target)
				total["loss"] += loss.Item() * float64(size)
				for name, v := range severalMetrics(y, target) {
					total[name] += v.Item() * float64(size)
				}
				for i, g := range grads {
					if size != batch.Size {
						g = g.Mul(float64(size) / float64(batch.Size))
					}
					if device == 0 {
						whole = append(whole, g)
					} else {
						whole[i] = whole[i].Add(g)
					}
				}
			}
			if pending++; pending == 1 {
				sum = whole
			} else {
				for i, g := range whole {
					sum[i] = sum[i].Add(g)
				}
			}
			if pending == h.c.accumulate {
				step()
			}
		}
		if pending > 0 {
			step()
		}
		for name := range total {
			total[name] /= float64(set.Len())
		}
		h.train = append(h.train, total)
		h.validation = append(h.validation, h.validate(set))
	}
}

// validate measures the network as it is used: running statistics, no dropout, the
// precision of the parameters.
func (h *byHand) validate(set data.Dataset) map[string]float64 {
	x, target := set.(*data.TensorDataset).Tensors()[0], set.(*data.TensorDataset).Tensors()[1]
	p := nn.Values(nn.Parameters(&h.P))
	y := locus.Linear(x, p[0], p[1])
	if h.c.layer == "BatchNorm" {
		y = locus.BatchNormWith(y, h.mean, h.variance, p[2], p[3], 1e-5)
	}
	y = locus.Linear(y.Relu(), p[len(p)-2], p[len(p)-1])
	out := map[string]float64{"loss": matrixLoss(y, target).Item()}
	for name, v := range severalMetrics(y, target) {
		out[name] = v.Item()
	}
	return out
}

// severalMetrics are what a model with more than its loss measures.
func severalMetrics(y, target *locus.Tensor) map[string]*locus.Tensor {
	return map[string]*locus.Tensor{"accuracy": train.Accuracy(y, target), "size": y.Detach().Abs().Mean()}
}

// train trains the cell's network with more options; onBatch is told when the first
// device gets its part of a batch.
func (c cell) train(ctx context.Context, set data.Dataset, onBatch func(), more ...train.Option) (*train.Supervised, *train.Report, error) {
	m := &train.Supervised{Net: network(c.layer), Optimizer: matrixOptimizer, LossFunc: matrixLoss}
	if c.several {
		m.MetricsFunc = severalMetrics
	}
	opts := []train.Option{train.MaxEpochs(matrixEpochs), train.Seed(matrixSeed), train.Devices(gpus[:c.devices]...), train.LogEvery(c.length.logEvery),
		train.Accumulate(c.accumulate), train.ClipGradients(matrixClip), train.Schedule(matrixSchedule()), train.Compile(!c.eager)}
	if !c.unasked {
		opts = append(opts, train.Precision(c.precision))
	}
	if onBatch != nil {
		opts = append(opts, tellBatches(gpus[0], onBatch))
	}
	r, err := train.New(append(opts, more...)...).FitContext(ctx, m, train.Data{Train: set, Validation: set, BatchSize: c.length.batch})
	return m, r, err
}

// tellBatches calls f when a device gets its part of a batch to train on. The loss
// would not do: a compiled step does not call it.
func tellBatches(d locus.Device, f func()) train.Option {
	return train.PrepareBatch(func(b *train.Batch) error {
		if b.Stage == train.Training && b.Fields[0].Device() == d {
			f()
		}
		return nil
	})
}

// sameTensors reports the first tensor of a model that is not what is wanted:
// parameters to the bit, buffers within a tolerance.
func sameTensors(model any, want map[string][]float32, tolerance float64) error {
	entries := nn.State(model)
	if len(entries) != len(want) {
		return fmt.Errorf("%d tensors; want %d", len(entries), len(want))
	}
	for _, e := range entries {
		w, ok := want[e.Name]
		if !ok {
			return fmt.Errorf("%s is unexpected", e.Name)
		}
		got := locus.ToSlice[float32](e.Value().Detach())
		if slices.Equal(bitsOf(got), bitsOf(w)) {
			continue
		}
		worst := math.Inf(1)
		if len(got) == len(w) {
			worst = 0
			for i, v := range got {
				worst = max(worst, math.Abs(float64(v)-float64(w[i])))
			}
		}
		if e.Kind == nn.Trained || !(worst <= tolerance) {
			return fmt.Errorf("%s is\n%v, want\n%v (they differ by up to %.3g)", e.Name, got, w, worst)
		}
	}
	return nil
}

func bitsOf(v []float32) []uint32 {
	b := make([]uint32, len(v))
	for i, x := range v {
		b[i] = math.Float32bits(x)
	}
	return b
}

// valuesOf reads all tensors of a model.
func valuesOf(model any) map[string][]float32 {
	m := map[string][]float32{}
	for _, e := range nn.State(model) {
		m[e.Name] = locus.ToSlice[float32](e.Value().Detach())
	}
	return m
}

// replicasEqual fails when a device's parameters or buffers are not the first's, to
// the bit.
func replicasEqual(s *train.Step) error {
	first := valuesOf(s.Models[0])
	for i, m := range s.Models[1:] {
		if err := sameTensors(m, first, 0); err != nil {
			return fmt.Errorf("after step %d, replica %d: %w", s.Steps, i+1, err)
		}
	}
	return nil
}

func closeMetrics(t testing.TB, what string, got, want map[string]float64, several bool) {
	t.Helper()
	names := []string{"loss"}
	if several {
		names = []string{"loss", "accuracy", "size"}
	}
	if len(got) != len(names) {
		t.Errorf("%s: metrics %v; want %v", what, got, names)
	}
	for _, n := range names {
		if !(math.Abs(got[n]-want[n]) <= metricTolerance*max(1, math.Abs(want[n]))) {
			t.Errorf("%s: the %s is %v; want %v", what, n, got[n], want[n])
		}
	}
}

// memoryDir is a folder for checkpoints, in main memory where the system offers that:
// most of the time would go into waiting for the disk.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "locus")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestMatrix(t *testing.T) {
	halves, overflowed := 0, 0 // cells in float16, and those where a step is left out
	at, every := 0, 1
	// Each cell runs compiled and not compiled, one of them with several metrics; with
	// LOCUS_TRAIN_MATRIX=full (.ci/run) both with one metric and with several.
	full := os.Getenv("LOCUS_TRAIN_MATRIX") == "full"
	if testing.Short() {
		every = 5
		t.Log("-short: every fifth cell")
	}
	for _, devices := range []int{1, 2, 3} {
		for _, accumulate := range []int{1, 3} {
			for _, precision := range []locus.DType{0, locus.Float32, locus.BFloat16, locus.Float16} {
				for _, layer := range []string{"plain", "BatchNorm", "Dropout"} {
					sizes := lengths
					if layer != "BatchNorm" {
						sizes = append(slices.Clip(sizes), tiny)
					}
					for _, l := range sizes {
						if at++; at%every != 0 {
							continue
						}
						c := cell{devices: devices, accumulate: accumulate, precision: precision, layer: layer, length: l}
						if precision == 0 {
							c.precision, c.unasked = locus.Float32, true
						}
						set := task(t, l.examples)
						h := newByHand(t, c)
						h.run(t, set)
						if h.taken == 0 {
							t.Errorf("%s: every step overflows; nothing is tested", c.name())
						}
						if precision == locus.Float16 {
							halves++
							if h.skipped > 0 {
								overflowed++
							}
						}
						want := map[string][]float32{}
						for name, v := range h.tensors() {
							want[name] = locus.ToSlice[float32](v.Detach())
						}
						for _, c.several = range []bool{false, true} {
							for _, c.eager = range []bool{false, true} {
								// Of both ways with one metric and both with several, one each.
								if !full && c.eager != (c.several == (at%2 == 0)) {
									continue
								}
								var straight map[string][]float32 // nil where the run failed
								t.Run(c.name()+"/straight", func(t *testing.T) { straight = c.straight(t, set, h, want) })
								t.Run(c.name()+"/resumed", func(t *testing.T) { c.resumed(t, set, h, want, straight) })
							}
						}
					}
				}
			}
		}
	}
	if overflowed < halves/2 {
		t.Errorf("%d of %d loops in float16 overflow; most are to", overflowed, halves)
	}
}

func (c cell) straight(t *testing.T, set data.Dataset, h *byHand, want map[string][]float32) map[string][]float32 {
	m, r, err := c.train(context.Background(), set, nil, train.AfterStep(replicasEqual))
	if err != nil {
		t.Fatal(err)
	}
	if err := sameTensors(m, want, bufferTolerance); err != nil {
		t.Error(err)
	}
	if r.Uncompiled != "" {
		t.Errorf("not compiled: %s", r.Uncompiled)
	}
	if r.Steps != int64(h.taken+h.skipped) || len(r.Epochs) != matrixEpochs {
		t.Errorf("%d steps in %d epochs; want %d in %d", r.Steps, len(r.Epochs), h.taken+h.skipped, matrixEpochs)
	}
	for i, e := range r.Epochs {
		closeMetrics(t, fmt.Sprintf("epoch %d", i), e.Train, h.train[i], c.several)
		closeMetrics(t, fmt.Sprintf("validation after epoch %d", i), e.Validation, h.validation[i], c.several)
		if e.Examples != set.Len() {
			t.Errorf("epoch %d saw %d examples of %d", i, e.Examples, set.Len())
		}
	}
	return valuesOf(m)
}

// resumed interrupts the run twice, where with Accumulate(3) gradients wait for a
// step: after the second batch, and after the first of the next epoch. The second of the
// three runs is compiled if the others are not: checkpoints know nothing of it.
func (c cell) resumed(t *testing.T, set data.Dataset, h *byHand, want, straight map[string][]float32) {
	checkpoints := train.Checkpoints(filepath.Join(memoryDir(t), "run"), 2)
	for epoch, after := range []int64{2, 1} {
		ctx, cancel := context.WithCancel(context.Background())
		var at, seen atomic.Int64 // the epoch, and the batches seen in the one to interrupt
		way := c
		way.eager = c.eager == (epoch == 0)
		_, _, err := way.train(ctx, set, func() {
			if at.Load() == int64(epoch) && seen.Add(1) == after {
				cancel()
			}
		}, checkpoints, train.Resume(), train.AfterEpoch(func(e *train.Epoch) error {
			at.Store(int64(e.Number) + 1)
			return nil
		}))
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted after %d batches of epoch %d: %v", after, epoch, err)
		}
	}
	m, r, err := c.train(context.Background(), set, nil, checkpoints, train.Resume(), train.AfterStep(replicasEqual))
	if err != nil {
		t.Fatal(err)
	}
	if err := sameTensors(m, want, bufferTolerance); err != nil {
		t.Error(err)
	}
	if straight != nil {
		if err := sameTensors(m, straight, 0); err != nil {
			t.Errorf("not what the run gives that was not interrupted: %v", err)
		}
	}
	if r.Steps != int64(h.taken+h.skipped) || len(r.Epochs) != matrixEpochs {
		t.Errorf("%d steps in %d epochs; want %d in %d", r.Steps, len(r.Epochs), h.taken+h.skipped, matrixEpochs)
	}
	closeMetrics(t, "validation at the end", r.Last().Validation, h.validation[matrixEpochs-1], c.several)
}

// The loop by hand is right to cut batches: where rows do not meet (no BatchNorm, no
// Dropout), the parts of a batch together give the gradient of the whole.
func TestMatrixPartsAreTheWhole(t *testing.T) {
	for _, l := range append(slices.Clip(lengths), tiny) {
		set := task(t, l.examples)
		one := newByHand(t, cell{devices: 1, accumulate: 1, precision: locus.Float32, layer: "plain", length: l})
		one.run(t, set)
		want := one.tensors()
		for devices := 2; devices <= 3; devices++ {
			many := newByHand(t, cell{devices: devices, accumulate: 1, precision: locus.Float32, layer: "plain", length: l})
			many.run(t, set)
			for name, v := range many.tensors() {
				if d := v.Detach().Sub(want[name].Detach()).Abs().Max().Item(); !(d < 1e-6) {
					t.Errorf("%s, %d parts: %s differs by %v", l.name, devices, name, d)
				}
			}
		}
	}
}

// A model that is validated on the data it was trained on does as well there as it
// did in training: its running statistics are those of the data.
func TestValidationOnTheTrainingData(t *testing.T) {
	for _, precision := range []locus.DType{0, locus.Float32, locus.BFloat16, locus.Float16} {
		for devices := 1; devices <= 3; devices++ {
			for _, accumulate := range []int{1, 3} {
				name := fmt.Sprintf("%d devices, %s, accumulate %d", devices, precision, accumulate)
				if precision == 0 {
					name = fmt.Sprintf("%d devices, no Precision, accumulate %d", devices, accumulate)
				}
				t.Run(name, func(t *testing.T) {
					k := locus.NewKey(5).Split(2)
					m := train.Classifier(nn.Sequential(nn.LazyLinear(32, nn.WithKey(k[0])), nn.BatchNorm(0), nn.Tanh(), nn.LazyLinear(2, nn.WithKey(k[1]))))
					m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.03, optim.AdamOptions{}) }
					// Far from mean 0 and variance 1: without statistics it cannot be right.
					x := spirals(t, 384).(*data.TensorDataset).Tensors()
					set, err := data.NewTensorDataset(x[0].Mul(5).Add(20), x[1])
					if err != nil {
						t.Fatal(err)
					}
					opts := []train.Option{train.MaxEpochs(30), train.Devices(gpus[:devices]...), train.Accumulate(accumulate)}
					if precision != 0 {
						opts = append(opts, train.Precision(precision))
					}
					r, err := train.New(opts...).Fit(m, train.Data{Train: set, Validation: set, BatchSize: 48})
					if err != nil {
						t.Fatal(err)
					}
					// What a step does to the accuracy can be large: a few epochs' mean.
					learned, used := 0.0, 0.0
					last := r.Epochs[len(r.Epochs)-5:]
					for _, e := range last {
						learned += e.Train["accuracy"] / float64(len(last))
						used += e.Validation["accuracy"] / float64(len(last))
					}
					if learned < 0.85 || math.Abs(learned-used) > 0.06 {
						t.Errorf("accuracy %.3f in training, %.3f in validation on the same data", learned, used)
					}
				})
			}
		}
	}
}
