package train_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	wfile "github.com/locusml/locus/weights"
	"github.com/locusml/locus/weights/checkpoint"
)

// beforeRun is a run of which an earlier version left a checkpoint and, of the
// whole of it, the tensors at the end: testdata/before has both.
type beforeRun struct {
	name      string
	devices   func() []locus.Device
	build     func() *train.Supervised
	options   []train.Option
	steps     int64 // of the whole run
	from      int64 // the step after which the checkpoint was taken
	tolerance float64
	// parameters are compared at the end, buffers not: which replica's statistics
	// count has changed since.
	parametersOnly bool
}

func beforeRuns() []beforeRun {
	key := func(i int) nn.Option { return nn.WithKey(locus.NewKey(40).Split(8)[i]) }
	normed := func() *nn.SequentialLayer {
		return nn.Sequential(nn.Linear(3, 6, key(0)), nn.BatchNorm(6), nn.ReLU(), nn.Dropout(0.25, key(1)), nn.Linear(6, 2, key(2)))
	}
	return []beforeRun{
		{
			name: "sgd", devices: func() []locus.Device { return []locus.Device{locus.CPU()} }, steps: 20, from: 10, tolerance: 1e-4,
			build: func() *train.Supervised {
				m := train.Classifier(normed())
				m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
					return optim.SGD(p, 0.05, optim.SGDOptions{Momentum: 0.9, WeightDecay: 1e-3})
				}
				return m
			},
			options: []train.Option{train.KeepBest(), train.Schedule(optim.Cosine(20, 0))},
		},
		{
			name: "adam16", devices: func() []locus.Device { return []locus.Device{locus.CPU()} }, steps: 20, from: 7, tolerance: 5e-3,
			build: func() *train.Supervised {
				m := train.Classifier(nn.Sequential(nn.Linear(3, 6, key(3)), nn.Tanh(), nn.Linear(6, 2, key(4))))
				m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.02, optim.AdamOptions{}) }
				return m
			},
			options: []train.Option{train.Precision(locus.Float16), train.ClipGradients(1)},
		},
		{
			name: "mirrored", devices: func() []locus.Device { return gpus[:2] }, steps: 20, from: 8, tolerance: 1e-4, parametersOnly: true,
			build: func() *train.Supervised {
				m := train.Classifier(normed())
				m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.05, optim.SGDOptions{Momentum: 0.9}) }
				return m
			},
		},
	}
}

// all returns the options of a run, with more.
func (r beforeRun) all(more ...train.Option) []train.Option {
	return slices.Concat([]train.Option{train.MaxEpochs(4), train.Seed(6), train.Devices(r.devices()...)}, r.options, more)
}

// beforeData is made without random numbers, so that it stays what it is.
func beforeData(t *testing.T) train.Data {
	t.Helper()
	set := func(from, n int) data.Dataset {
		x, y := make([]float32, 3*n), make([]int64, n)
		for i := range n {
			for j := range 3 {
				x[3*i+j] = float32(math.Sin(float64((from + i) * (7*j + 5))))
			}
			if x[3*i]*x[3*i+1]+x[3*i+2] > 0 {
				y[i] = 1
			}
		}
		d, err := data.NewTensorDataset(locus.CPU().From(x, n, 3), locus.CPU().From(y))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return train.Data{Train: set(0, 36), Validation: set(1000, 12), BatchSize: 8} // five steps per epoch, the last of four examples
}

// Checkpoints of earlier versions load, and a run that goes on from one ends
// where it would have ended then.
func TestCheckpointsFromBefore(t *testing.T) {
	for _, r := range beforeRuns() {
		t.Run(r.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "run")
			if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "before", r.name, "checkpoints"))); err != nil {
				t.Fatal(err)
			}
			first := int64(-1)
			m := r.build()
			report := must(t)(train.New(r.all(train.Checkpoints(folder, 3), train.Resume(), train.AfterStep(func(s *train.Step) error {
				if first < 0 {
					first = s.Steps
				}
				return nil
			}))...).Fit(m, beforeData(t)))
			if first != r.from+1 || report.Steps != r.steps || len(report.Epochs) != 4 {
				t.Errorf("went on with step %d, to step %d of %d epochs", first, report.Steps, len(report.Epochs))
			}
			r.compare(t, m)
		})
	}
}

// compare compares a model with the recorded end of the run.
func (r beforeRun) compare(t *testing.T, m *train.Supervised) {
	t.Helper()
	f, err := wfile.Open(filepath.Join("testdata", "before", r.name, "end.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buffers := 0
	for _, e := range nn.State(m) {
		buffer := strings.Contains(e.Name, "running_")
		if buffer {
			buffers++
		}
		want, err := f.Load(e.Name, locus.CPU())
		if err != nil {
			t.Error(err)
			continue
		}
		if buffer && r.parametersOnly {
			continue
		}
		a, b := locus.ToSlice[float32](e.Value().Detach()), locus.ToSlice[float32](want)
		if len(a) != len(b) {
			t.Errorf("%s has %d elements, not %d", e.Name, len(a), len(b))
			continue
		}
		for i := range a {
			if d := math.Abs(float64(a[i] - b[i])); !(d <= r.tolerance*(1+math.Abs(float64(b[i])))) {
				t.Errorf("%s[%d] is %v, was %v", e.Name, i, a[i], b[i])
				break
			}
		}
	}
	if len(nn.State(m)) != f.Len() || r.name != "adam16" && buffers != 2 {
		t.Errorf("%d tensors, %d of them buffers; the file has %d", len(nn.State(m)), buffers, f.Len())
	}
}

// What is in these checkpoints keeps its names: others read them too.
func TestNamesInCheckpointsFromBefore(t *testing.T) {
	for run, names := range map[string][]string{
		"sgd":      {"model.net.0.weight", "model.net.1.running_mean", "model.net.1.running_var", "optim.momentum.net.0.weight", "best.net.1.running_var"},
		"adam16":   {"model.net.0.weight", "scaler.scale", "scaler.good", "optim.mean.net.0.weight", "optim.square.net.0.weight"},
		"mirrored": {"model.net.0.weight", "model.net.1.running_mean", "optim.momentum.net.0.weight"},
	} {
		d, err := checkpoint.Open(filepath.Join("testdata", "before", run, "checkpoints"), 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.Latest()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, ok := c.Tensors.Info(name); !ok {
				t.Errorf("%s: no %s but %v", run, name, c.Tensors.Names())
			}
		}
		var state struct {
			Epoch, Batch int
			Steps        int64
			Counters     []map[string]uint64
		}
		if err := c.State(&state); err != nil || int64(5*state.Epoch+state.Batch) != state.Steps || len(state.Counters) == 0 {
			t.Errorf("%s: %+v %v", run, state, err)
		}
		c.Close()
	}
}
