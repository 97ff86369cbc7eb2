package train_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

// Hooks are called in order, with what they are for.
func TestHooks(t *testing.T) {
	var calls []string
	note := func(format string, args ...any) { calls = append(calls, fmt.Sprintf(format, args...)) }
	set := task(t, 10)
	m := normedModel(nil)
	must(t)(train.New(train.MaxEpochs(2), train.Accumulate(2), train.LearningRate(0.5),
		train.PrepareModel(func(m train.Model) error {
			note("model %v", nn.Parameters(m)[0].Value() != nil)
			return nil
		}),
		train.BeforeEpoch(func(e *train.Epoch) error { note("epoch %d", e.Number); return nil }),
		train.BeforeStep(func(s *train.Step) error { note("step %d %d %g", s.Index, s.Steps, s.LR); return nil }),
		train.AfterStep(func(s *train.Step) error { note("stepped %d", s.Steps); return nil }),
		train.AfterEpoch(func(e *train.Epoch) error { note("epoch %d done", e.Number); return nil }),
		train.PrepareBatch(func(b *train.Batch) error {
			if b.Stage == train.Validating || calls != nil { // not for lazy layers
				note("%s %d %d", b.Stage, b.Index, b.Fields[0].Dim(0))
			}
			return nil
		})).Fit(m, train.Data{Train: set, Validation: task(t, 3), BatchSize: 4}))
	want := "model true"
	for e := range 2 {
		s := 2 * e
		want += fmt.Sprintf("|epoch %d|step 0 %d 0.5|Training 0 4|Training 1 4|stepped %d|step 2 %d 0.5|Training 2 2|stepped %d|Validating 0 3|epoch %d done", e, s, s+1, s+1, s+2, e)
	}
	if got := strings.Join(calls, "|"); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

// Bytes become numbers on the device, in every stage.
func TestPrepareBatch(t *testing.T) {
	x := locus.CPU().As(locus.Uint8).Key(locus.NewKey(1)).Randint(0, 255, 60, 4)
	y := x.Cast(locus.Float32).Sum(1).Gt(510).Cast(locus.Int64)
	set, err := data.NewTensorDataset(x, y)
	if err != nil {
		t.Fatal(err)
	}
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:2]} {
		var mu sync.Mutex
		seen := map[train.Stage]int{}
		keys := map[locus.Key]bool{}
		trainer := train.New(train.MaxEpochs(2), train.Devices(devices...), train.KeepBest(), train.PrepareBatch(func(b *train.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			seen[b.Stage] += b.Fields[0].Dim(0)
			if b.Stage == train.Training && b.Fields[0].Dim(0) > 1 {
				if keys[b.Key] {
					t.Error("a key came twice")
				}
				keys[b.Key] = true
			}
			b.Fields[0] = b.Fields[0].Cast(locus.Float32).Div(255)
			return nil
		}))
		m := train.Classifier(nn.Sequential(nn.LazyLinear(2)))
		d := train.Data{Train: set, Validation: set, Test: set, Predict: set, BatchSize: 16}
		must(t)(trainer.Fit(m, d))
		if _, err := trainer.Test(m, d); err != nil {
			t.Fatal(err)
		}
		for _, err := range trainer.Predict(m, d) {
			if err != nil {
				t.Fatal(err)
			}
		}
		// One example for the lazy layer, one to find the metric to monitor.
		if seen[train.Training] != 121 || seen[train.Validating] != 121 || seen[train.Testing] != 60 || seen[train.Predicting] != 60 {
			t.Error(seen)
		}
	}
}

// What a batch is augmented with is the same in a run that goes on.
func TestPrepareBatchResumes(t *testing.T) {
	set := task(t, 64)
	noise := train.PrepareBatch(func(b *train.Batch) error {
		x := b.Fields[0]
		b.Fields[0] = x.Add(x.Device().Key(b.Key).Randn(x.Shape()...))
		return nil
	})
	fit := func(ctx context.Context, more ...train.Option) (train.Model, error) {
		m := normedModel(nil)
		_, err := train.New(append(more, train.MaxEpochs(2), noise)...).FitContext(ctx, m, train.Data{Train: set, BatchSize: 8})
		return m, err
	}
	want, err := fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	dir := train.Checkpoints(filepath.Join(t.TempDir(), "run"), 1)
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := fit(ctx, dir, train.AfterStep(func(s *train.Step) error {
		if s.Steps == 11 {
			cancel()
		}
		return nil
	})); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got, err := fit(context.Background(), dir, train.Resume())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(weights(got), weights(want)) {
		t.Error("the run that goes on gives other weights")
	}
}

// A hook may freeze layers before the optimizer is made, and put layers in.
func TestPrepareModel(t *testing.T) {
	set := task(t, 16)
	m := normedModel(nil)
	layers := m.Net.(*nn.SequentialLayer)
	var before []float32
	must(t)(train.New(train.Devices(gpus[0]), train.PrepareModel(func(train.Model) error {
		nn.Freeze(layers.Layers[0])
		layers.Layers[4] = nn.LazyLinear(3)
		before = weights(layers.Layers[0])
		return nil
	})).Fit(m, train.Data{Train: set, BatchSize: 4}))
	if !slices.Equal(weights(layers.Layers[0]), before) {
		t.Error("a frozen layer was trained")
	}
}

// Errors of hooks are Fit's, and ErrStop ends it well.
func TestHookErrors(t *testing.T) {
	set := task(t, 16)
	d := train.Data{Train: set, Validation: set, BatchSize: 4}
	own := errors.New("own")
	for name, option := range map[string]func(error) train.Option{
		"model": func(e error) train.Option { return train.PrepareModel(func(train.Model) error { return e }) },
		"epoch": func(e error) train.Option { return train.BeforeEpoch(func(*train.Epoch) error { return e }) },
		"step":  func(e error) train.Option { return train.BeforeStep(func(*train.Step) error { return e }) },
		"batch": func(e error) train.Option { return train.PrepareBatch(func(*train.Batch) error { return e }) },
		"validation": func(e error) train.Option {
			return train.PrepareBatch(func(b *train.Batch) error {
				if b.Stage == train.Validating {
					return e
				}
				return nil
			})
		},
	} {
		for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:2]} {
			if _, err := train.New(option(own), train.Devices(devices...)).Fit(normedModel(nil), d); !errors.Is(err, own) {
				t.Errorf("%s: %v", name, err)
			}
			r, err := train.New(option(train.ErrStop), train.Devices(devices...)).Fit(normedModel(nil), d)
			if err != nil || r.Stopped == "" {
				t.Errorf("%s: %v, %v", name, r, err)
			}
		}
	}
	for name, o := range map[string]train.Option{"model": train.PrepareModel(nil), "batch": train.PrepareBatch(nil), "epoch": train.BeforeEpoch(nil), "step": train.BeforeStep(nil),
		"no fields": train.PrepareBatch(func(b *train.Batch) error { b.Fields = nil; return nil }),
		"nil field": train.PrepareBatch(func(b *train.Batch) error { b.Fields[0] = nil; return nil })} {
		if _, err := train.New(o).Fit(normedModel(nil), d); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
