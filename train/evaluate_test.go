package train_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

// normedModel has everything that behaves otherwise in training.
func normedModel(x *locus.Tensor) *train.Supervised {
	k := locus.NewKey(5).Split(3)
	m := train.Classifier(nn.Sequential(nn.LazyLinear(8, nn.WithKey(k[0])), nn.BatchNorm(0), nn.Tanh(), nn.Dropout(0.5, nn.WithKey(k[1])), nn.LazyLinear(3, nn.WithKey(k[2]))))
	if x != nil {
		locus.NoGrad(func() { m.Forward(x) })
	}
	return m
}

// Validate and Test return what Fit's validation does, on any number of devices,
// whatever the batch size.
func TestValidateIsFitsValidation(t *testing.T) {
	learn, set := task(t, 64), task(t, 50)
	m := normedModel(nil)
	d := train.Data{Train: learn, Validation: set, Test: set, BatchSize: 16}
	r := must(t)(train.New(train.MaxEpochs(2)).Fit(m, d))
	want := r.Last().Validation
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:1], gpus[:2], gpus} {
		for _, size := range []int{1, 7, 16, 50, 1000} {
			d.BatchSize = size
			trainer := train.New(train.Devices(devices...))
			for name, f := range map[string]func(train.Model, train.Data) (metric.Result, error){"Validate": trainer.Validate, "Test": trainer.Test} {
				scores, err := f(m, d)
				if err != nil {
					t.Fatal(err)
				}
				got := scores.Values
				if len(got) != 2 || len(want) != 2 {
					t.Errorf("%v and %v", got, want)
				}
				for k, v := range want {
					if math.Abs(got[k]-v) > 1e-5 {
						t.Errorf("%s on %v in batches of %d: %s is %v, in Fit %v", name, devices, size, k, got[k], v)
					}
				}
			}
		}
	}
}

// Nothing of the model changes: values, statistics, what dropout draws, place, mode,
// gradients.
func TestEvaluationChangesNothing(t *testing.T) {
	set := task(t, 20)
	m := normedModel(set.Tensors()[0])
	nn.Train(m)
	x := set.Tensors()[0]
	m.Forward(x).Sum().Backward()
	state, counters := valuesOf(m), nn.Counters(m)
	grad := locus.ToSlice[float32](nn.Parameters(m)[0].Value().Grad())
	d := train.Data{Validation: set, Test: set, Predict: set, BatchSize: 6}
	trainer := train.New(train.Devices(gpus[:2]...))
	leaks(t, "evaluation", func() {
		if _, err := trainer.Validate(m, d); err != nil {
			t.Fatal(err)
		}
		if _, err := trainer.Test(m, d); err != nil {
			t.Fatal(err)
		}
		for y, err := range trainer.Predict(m, d) {
			if err != nil {
				t.Fatal(err)
			}
			y.Free()
		}
	})
	if err := sameTensors(m, state, 0); err != nil {
		t.Error(err)
	}
	for k, v := range nn.Counters(m) {
		if counters[k] != v {
			t.Errorf("counter %s was %d, is %d", k, counters[k], v)
		}
	}
	if at, err := nn.Device(m); err != nil || at != locus.CPU() {
		t.Error(at, err)
	}
	if g := locus.ToSlice[float32](nn.Parameters(m)[0].Value().Grad()); len(g) != len(grad) || g[0] != grad[0] {
		t.Error("the gradient is another")
	}
	// Still in training mode: dropout draws.
	if a, b := locus.ToSlice[float32](m.Forward(x).Detach()), locus.ToSlice[float32](m.Forward(x).Detach()); a[0] == b[0] && a[1] == b[1] && a[2] == b[2] {
		t.Error("the model is not in training mode any more")
	}
}

// Predictions come in order, one for each example, on the first device.
func TestPredictionsInOrder(t *testing.T) {
	set := task(t, 50)
	x := set.Tensors()[0]
	m := normedModel(x)
	inputs, err := data.NewTensorDataset(x) // no targets
	if err != nil {
		t.Fatal(err)
	}
	want := locus.ToSlice[float32](nn.Apply(m, nn.TreeOf(m), x).Detach())
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:1], gpus[:2], gpus} {
		for _, size := range []int{1, 7, 49, 50, 1000} {
			var got []float32
			for y, err := range train.New(train.Devices(devices...)).Predict(m, train.Data{Predict: inputs, BatchSize: size, Workers: 3}) {
				if err != nil {
					t.Fatal(err)
				}
				if y.Device() != devices[0] || y.RequiresGrad() || y.Scope() != nil || y.Dim(0) > size {
					t.Fatalf("%s %v", y.Device(), y.Shape())
				}
				got = append(got, locus.ToSlice[float32](y)...)
				y.Free()
			}
			if len(got) != len(want) {
				t.Fatalf("%d numbers, want %d", len(got), len(want))
			}
			for i := range got {
				if math.Abs(float64(got[i]-want[i])) > 1e-5 {
					t.Fatalf("on %v in batches of %d: number %d is %v, want %v", devices, size, i, got[i], want[i])
				}
			}
		}
	}
}

// A prediction outlives its batch, also where the network returns its input; a
// caller that frees it frees nothing of the network.
func TestPredictionsAreTheCallersOwn(t *testing.T) {
	set := task(t, 10)
	var kept []*locus.Tensor
	for y, err := range train.New().Predict(nn.Func(func(x *locus.Tensor) *locus.Tensor { return x }), train.Data{Predict: set, BatchSize: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, y)
	}
	all := locus.ToSlice[float32](locus.Concat(0, kept...))
	for i, v := range locus.ToSlice[float32](set.Tensors()[0]) {
		if all[i] != v {
			t.Fatalf("number %d is %v, want %v", i, all[i], v)
		}
	}
}

// pair is a model with two inputs.
type pair struct{ *train.Supervised }

func (p *pair) PredictionStep(f []*locus.Tensor) *locus.Tensor { return p.Forward(f[0]).Add(f[1]) }

func TestPredictionStep(t *testing.T) {
	x := locus.Ones(5, 2)
	set, err := data.NewTensorDataset(x, locus.Arange(5).Cast(locus.Float32).Reshape(5, 1))
	if err != nil {
		t.Fatal(err)
	}
	m := &pair{train.Regressor(nn.Sequential(nn.Linear(2, 1)))}
	first, i := float32(m.Forward(locus.Ones(1, 2)).Detach().Item()), float32(0)
	for y, err := range train.New().Predict(m, train.Data{Predict: set, BatchSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range locus.ToSlice[float32](y) {
			if math.Abs(float64(v-first-i)) > 1e-5 {
				t.Errorf("%v, want %v", v, first+i)
			}
			i++
		}
	}
	if i != 5 {
		t.Error(i)
	}
}

func TestEvaluationErrors(t *testing.T) {
	set := task(t, 8)
	m := normedModel(set.Tensors()[0])
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	broken := train.Classifier(nn.Sequential(nn.Func(func(x *locus.Tensor) *locus.Tensor {
		if x.Dim(0) == 2 { // the last batch
			panic("help")
		}
		return x
	})))
	exits := train.Classifier(nn.Sequential(nn.Func(func(x *locus.Tensor) *locus.Tensor { runtime.Goexit(); return nil })))
	scalar := nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Sum() })
	none := nn.Func(func(x *locus.Tensor) *locus.Tensor { return nil })
	var missing *train.Supervised
	d := train.Data{Validation: set, Test: set, Predict: set, BatchSize: 3}
	for name, c := range map[string]struct {
		ctx   context.Context
		model any
		data  train.Data
		opts  []train.Option
		kind  error
		text  string
	}{
		"no data":      {model: m, data: train.Data{BatchSize: 3}, kind: locus.ErrArgument, text: "is nil"},
		"no batch":     {model: m, data: train.Data{Validation: set, Test: set, Predict: set}, kind: locus.ErrArgument, text: "batch size"},
		"no model":     {model: missing, data: d, kind: locus.ErrArgument, text: "the model is nil"},
		"lazy":         {model: normedModel(nil), data: d, kind: locus.ErrArgument, text: "net.0.weight"},
		"ended":        {ctx: ended, model: m, data: d, kind: context.Canceled, text: "interrupted"},
		"panic":        {model: broken, data: d, text: "help"},
		"goexit":       {model: exits, data: d, opts: []train.Option{train.Devices(gpus[:2]...)}, text: "Goexit"},
		"option":       {model: m, data: d, opts: []train.Option{{}}, kind: locus.ErrArgument, text: "zero value"},
		"device":       {model: m, data: d, opts: []train.Option{train.Devices(locus.GPU(99))}, kind: locus.ErrDevice, text: "gpu:99"},
		"scalar":       {model: scalar, data: d, kind: locus.ErrShape, text: "examples along axis 0"},
		"nil":          {model: none, data: d, kind: locus.ErrArgument, text: "nil"},
		"broken data":  {model: m, data: train.Data{Validation: sabotagedData{set, func() { panic("own") }}, Test: sabotagedData{set, func() { panic("own") }}, Predict: sabotagedData{set, func() { panic("own") }}, BatchSize: 3}, text: "own"},
		"wrong labels": {model: train.Classifier(nn.Sequential(nn.Linear(4, 2))), data: train.Data{Validation: set, Test: set, BatchSize: 3}, kind: locus.ErrIndex},
	} {
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		trainer := train.New(c.opts...)
		check := func(method string, err error) {
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s, %s: %v", name, method, err)
			}
		}
		if model, ok := c.model.(train.Model); ok {
			_, err := trainer.ValidateContext(c.ctx, model, c.data)
			check("Validate", err)
			_, err = trainer.TestContext(c.ctx, model, c.data)
			check("Test", err)
		}
		if c.data.Predict == nil && name == "wrong labels" {
			continue
		}
		var last error
		for _, err := range trainer.PredictContext(c.ctx, c.model.(nn.Module), c.data) {
			if last != nil {
				t.Errorf("%s: Predict goes on after an error", name)
			}
			last = err
		}
		check("Predict", last)
	}
	var none2 context.Context
	if _, err := train.New().ValidateContext(none2, m, d); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// A loop over predictions may end early, panic, and compute gradients.
func TestLoopsOverPredictions(t *testing.T) {
	set := task(t, 20)
	m := normedModel(set.Tensors()[0])
	d := train.Data{Predict: set, BatchSize: 3, Workers: 2}
	goroutines := runtime.NumGoroutine()
	for range train.New().Predict(m, d) {
		break
	}
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v", p)
			}
		}()
		for range train.New().Predict(m, d) {
			panic("mine")
		}
	}()
	for _, err := range train.New().Predict(m, d) {
		if err != nil {
			t.Fatal(err)
		}
		w := locus.Ones(2).RequireGrad()
		w.Sum().Backward()
		if w.Grad() == nil {
			t.Error("gradients are off in the loop")
		}
		break
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines before, %d after", goroutines, runtime.NumGoroutine())
		}
	}
}

// One model may be used by several goroutines.
func TestEvaluationTogether(t *testing.T) {
	set := task(t, 30)
	m := normedModel(set.Tensors()[0])
	d := train.Data{Validation: set, Predict: set, BatchSize: 4}
	want, err := train.New().Validate(m, d)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := train.New().Validate(m, d)
			if err != nil || got.Values["loss"] != want.Values["loss"] {
				t.Error(got, want, err)
			}
		})
	}
	wg.Wait()
}
