package train_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

func classMetrics() train.Option {
	return train.Measure(metric.TopK(2), metric.PrecisionRecallF1(3, metric.Macro), metric.ConfusionMatrix(3), metric.Perplexity(nil), metric.As("exact_", metric.Accuracy()))
}

// Metrics are those of all examples, whatever the devices and the size of the last
// batch, in Fit's validation, in Validate, and of the predictions by hand.
func TestMeasure(t *testing.T) {
	learn, set := task(t, 61), task(t, 50)
	var first *train.Report
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:1], gpus[:2], gpus} {
		m := normedModel(nil)
		m.Net.(*nn.SequentialLayer).Layers[1] = nn.Tanh() // batch statistics would be those of the parts
		m.Net.(*nn.SequentialLayer).Layers[3] = nn.Tanh() // and masks
		trainer := train.New(train.MaxEpochs(2), train.Devices(devices...), classMetrics(), train.LogEvery(1))
		d := train.Data{Train: learn, Validation: set, Predict: set, BatchSize: 16}
		r := must(t)(trainer.Fit(m, d))
		if first == nil {
			first = r
		}
		for i, e := range r.Epochs {
			for k, v := range first.Epochs[i].Train {
				if math.Abs(e.Train[k]-v) > 1e-5 {
					t.Errorf("%v, epoch %d: %s is %v in training, on the CPU %v", devices, i, k, e.Train[k], v)
				}
			}
		}
		// By hand, from the predictions.
		hand := metric.NewMeter(metric.TopK(2), metric.PrecisionRecallF1(3, metric.Macro), metric.ConfusionMatrix(3), metric.Perplexity(nil), metric.As("exact_", metric.Accuracy()))
		at := 0
		for y, err := range trainer.Predict(m, d) {
			if err != nil {
				t.Fatal(err)
			}
			hand.Add(y, set.Tensors()[1].Narrow(0, at, at+y.Dim(0)).To(y.Device()))
			at += y.Dim(0)
		}
		scores, err := trainer.Validate(m, d)
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range hand.Values() {
			if a, b := r.Last().Validation[k], scores.Values[k]; math.Abs(a-want) > 1e-5 || math.Abs(b-want) > 1e-5 {
				t.Errorf("%v: %s is %v in Fit, %v in Validate, %v by hand", devices, k, a, b, want)
			}
		}
		if a, b := r.Last().Validation["accuracy"], r.Last().Validation["exact_accuracy"]; math.Abs(a-b) > 1e-6 {
			t.Error(a, b)
		}
		if a, b, want := fmt.Sprint(r.Last().Tables), fmt.Sprint(scores.Tables), fmt.Sprint(hand.Tables()); a != want || b != want {
			t.Errorf("%s in Fit, %s in Validate, %s by hand", a, b, want)
		}
	}
}

// An interrupted epoch's metrics are those of the whole epoch.
func TestMeasureResumes(t *testing.T) {
	set := task(t, 100)
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:2]} {
		fit := func(ctx context.Context, more ...train.Option) (*train.Report, error) {
			return train.New(append(more, train.MaxEpochs(2), train.Devices(devices...), classMetrics())...).FitContext(ctx, normedModel(nil), train.Data{Train: set, Validation: set, BatchSize: 16})
		}
		want := must(t)(fit(context.Background()))
		for _, stop := range []int64{3, 7, 10} {
			dir := train.Checkpoints(filepath.Join(t.TempDir(), "run"), 2)
			ctx, cancel := context.WithCancel(context.Background())
			_, err := fit(ctx, dir, train.AfterStep(func(s *train.Step) error {
				if s.Steps == stop {
					cancel()
				}
				return nil
			}))
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			got := must(t)(fit(context.Background(), dir, train.Resume()))
			for i, e := range got.Epochs {
				if a, b := fmt.Sprint(e.Train, e.Validation, e.Tables), fmt.Sprint(want.Epochs[i].Train, want.Epochs[i].Validation, want.Epochs[i].Tables); a != b {
					t.Errorf("%v, stopped after step %d, epoch %d:\n%s\nwant\n%s", devices, stop, i, a, b)
				}
			}
		}
	}
}

// A metric that is not defined, such as AUC of one class, is no reason to stop, and
// a checkpoint can hold it.
func TestMetricsThatAreNotDefined(t *testing.T) {
	x := locus.CPU().Key(locus.NewKey(1)).Randn(20, 2)
	ones, err := data.NewTensorDataset(x, locus.As(locus.Int64).Ones(20))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	options := func(epochs int) []train.Option {
		return []train.Option{train.MaxEpochs(epochs), train.LogEvery(1), train.Measure(metric.AUC(64)), train.Monitor("auc", train.Highest), train.Checkpoints(dir, 1), train.Resume()}
	}
	d := train.Data{Train: ones, Validation: ones, BatchSize: 5}
	build := func() train.Model { return train.Classifier(nn.Sequential(nn.Linear(2, 2))) }
	r := must(t)(train.New(options(1)...).Fit(build(), d))
	if v, ok := r.Last().Validation["auc"]; !ok || !math.IsNaN(v) || r.BestEpoch != -1 {
		t.Error(r.Last())
	}
	r = must(t)(train.New(options(2)...).Fit(build(), d))
	if len(r.Epochs) != 2 || !math.IsNaN(r.Epochs[0].Validation["auc"]) || !math.IsNaN(r.Epochs[0].Train["auc"]) {
		t.Error(r)
	}
}

func TestEpochAsJSON(t *testing.T) {
	e := train.Epoch{Number: 3, Train: map[string]float64{"loss": 0.25}, Validation: map[string]float64{"a": math.NaN(), "b": math.Inf(-1)}, LR: 2, Best: true,
		Tables: map[string][][]float64{"t": {{1, 2}}}}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got train.Epoch
	if err := json.Unmarshal(b, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(e) {
		t.Errorf("%s: %v, %v", b, got, err)
	}
	var old train.Epoch // as earlier versions wrote it
	if err := json.Unmarshal([]byte(`{"Number":1,"Train":{"loss":0.5},"Validation":null,"LR":0.1,"Examples":3,"Time":5,"Best":false}`), &old); err != nil || old.Train["loss"] != 0.5 || old.Validation != nil || old.Number != 1 || old.Examples != 3 {
		t.Error(old, err)
	}
	if err := json.Unmarshal([]byte(`{"Train":{"loss":[]}}`), &old); err == nil {
		t.Error("a list is no number")
	}
}

func TestMeasureErrors(t *testing.T) {
	set := task(t, 20)
	d := train.Data{Train: set, Validation: set, BatchSize: 5}
	for name, c := range map[string]struct {
		model  train.Model
		option train.Option
		kind   error
		text   string
	}{
		"same name as the model's": {normedModel(nil), train.Measure(metric.Accuracy()), locus.ErrArgument, "metric.As"},
		"twice":                    {normedModel(nil), train.Measure(metric.MAE(), metric.MAE()), locus.ErrArgument, "mae"},
		"nil":                      {normedModel(nil), train.Measure(nil), locus.ErrArgument, "nil"},
		"classes":                  {normedModel(nil), train.Measure(metric.F1(4, metric.Macro)), locus.ErrShape, "3 classes"},
		"own validation step":      {&scripted{Supervised: normedModel(nil), value: func() float64 { return 1 }}, classMetrics(), locus.ErrArgument, "ValidationStep"},
		"broken metric":            {normedModel(nil), train.Measure(brokenMetric{}), nil, "own panic"},
	} {
		_, err := train.New(c.option).Fit(c.model, d)
		if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := train.New(train.Monitor("f2", train.Highest), classMetrics()).Fit(normedModel(nil), d); err == nil || !strings.Contains(err.Error(), `"f1"`) {
		t.Errorf("the error does not list what there is to monitor: %v", err)
	}
	r := must(t)(train.New(train.MaxEpochs(3), train.KeepBest(), train.Monitor("f1", train.Highest), classMetrics()).Fit(normedModel(nil), d))
	if r.BestEpoch < 0 {
		t.Error(r)
	}
}

type brokenMetric struct{}

func (brokenMetric) Names() []string                           { return []string{"broken"} }
func (brokenMetric) Update(_, _ *locus.Tensor) []*locus.Tensor { panic("own panic") }
func (brokenMetric) Values(sums [][]float64) []float64         { return []float64{0} }

// Measuring leaves nothing behind and waits for nothing.
func TestMeasureMemoryAndWaits(t *testing.T) {
	set := task(t, 64)
	leaks(t, "measure", func() {
		m := normedModel(nil)
		locus.ResetLedger()
		must(t)(train.New(train.MaxEpochs(3), train.Devices(fuzzGPUs[0]), classMetrics(), train.LogEvery(0)).Fit(m, train.Data{Train: set, BatchSize: 4}))
		// The means and the sums, once per epoch.
		if n := locus.Ledger().Count(locus.DeviceToHost, locus.Wait); n > 6 {
			t.Errorf("%d readings in 3 epochs\n%s", n, locus.Ledger())
		}
	})
}
