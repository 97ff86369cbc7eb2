package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// The rate goes down when the monitored metric stays, in the trainer as by hand.
func TestPlateau(t *testing.T) {
	values := []float64{5, 4, 4, 4, 3, 3, 3, 3}
	for _, highest := range []bool{false, true} {
		epoch := 0
		m := &scripted{Supervised: mlp(1), value: func() float64 {
			v := values[epoch]
			if highest {
				v = -v
			}
			return v
		}}
		m.Optimizer = nil
		better := train.Lowest
		if highest {
			better = train.Highest
		}
		var rates []float64
		must(t)(train.New(train.MaxEpochs(8), train.LearningRate(1), train.Schedule(optim.StepDecay(1, 0.5)), train.Monitor("loss", better),
			train.Plateau(optim.PlateauOptions{Patience: 2, Factor: 0.1}), train.AfterEpoch(func(e *train.Epoch) error {
				rates = append(rates, e.LR)
				epoch++
				return nil
			})).Fit(m, train.Data{Train: spirals(t, 8), Validation: spirals(t, 8), BatchSize: 8}))
		for i, want := range []float64{1, .5, .25, .125, .00625 * 1, .003125, .0015625, .000078125} {
			if i < 4 && math.Abs(rates[i]-want) > 1e-12 || i >= 4 && math.Abs(rates[i]-want) > 1e-9 {
				t.Errorf("epoch %d: %v, want %v", i, rates[i], want)
			}
		}
	}
}

// Runs with a plateau, averages and groups that are interrupted anywhere end as
// those that are not, to the bit.
func TestResumingPlateauAveragesAndGroups(t *testing.T) {
	set := train.Data{Train: spirals(t, 96), Validation: spirals(t, 20), BatchSize: 16}
	fit := func(ctx context.Context, devices []locus.Device, more ...train.Option) (*train.Supervised, *train.Report, error) {
		m := mlp(3)
		m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
			return optim.AdamW(p, 0.5, optim.AdamOptions{}).WithGroups(optim.Group{Match: optim.Named("bias"), WeightDecay: new(0.0), LR: 0.1})
		}
		r, err := train.New(append(more, train.MaxEpochs(6), train.Devices(devices...), train.AverageWeights(0.9), train.KeepBest(),
			train.Plateau(optim.PlateauOptions{Patience: 1, Factor: 0.5, Threshold: 0.3}))...).FitContext(ctx, m, set)
		return m, r, err
	}
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:2]} {
		want, whole, err := fit(context.Background(), devices)
		if err != nil {
			t.Fatal(err)
		}
		if lr := whole.Last().LR; lr >= 0.5 {
			t.Errorf("the rate never went down: %v", lr)
		}
		for _, stop := range []int64{4, 12, 20, 31} {
			dir := train.Checkpoints(filepath.Join(t.TempDir(), "run"), 2)
			ctx, cancel := context.WithCancel(context.Background())
			if _, _, err := fit(ctx, devices, dir, train.AfterStep(func(s *train.Step) error {
				if s.Steps == stop {
					cancel()
				}
				return nil
			})); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			got, r, err := fit(context.Background(), devices, dir, train.Resume())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(weights(got), weights(want)) {
				t.Errorf("%v, stopped after %d: other weights", devices, stop)
			}
			for i, e := range r.Epochs {
				if e.LR != whole.Epochs[i].LR || fmt.Sprint(e.Validation) != fmt.Sprint(whole.Epochs[i].Validation) {
					t.Errorf("%v, stopped after %d, epoch %d: %v, want %v", devices, stop, i, e, whole.Epochs[i])
				}
			}
		}
	}
}

// The averages are those of a loop by hand; validation and the end use them,
// training does not.
func TestAverageWeights(t *testing.T) {
	set := train.Data{Train: spirals(t, 64), Validation: spirals(t, 30), BatchSize: 16}
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:2]} {
		plain := mlp(2)
		var steps [][]float32
		var begin []float32
		p := must(t)(train.New(train.MaxEpochs(3), train.Devices(devices...), train.PrepareModel(func(m train.Model) error {
			begin = weights(m)
			return nil
		}), train.AfterStep(func(*train.Step) error {
			steps = append(steps, weights(plain))
			return nil
		})).Fit(plain, set))
		average := begin
		for n, w := range steps {
			keep := math.Min(0.8, float64(2+n)/float64(11+n))
			next := make([]float32, len(w))
			for i := range w {
				next[i] = float32(keep*float64(average[i]) + (1-keep)*float64(w[i]))
			}
			average = next
		}
		m := mlp(2)
		at := 0
		r := must(t)(train.New(train.MaxEpochs(3), train.Devices(devices...), train.AverageWeights(0.8), train.AfterStep(func(*train.Step) error {
			if !slices.Equal(weights(m), steps[at]) {
				t.Fatalf("step %d is another one with averages", at)
			}
			at++
			return nil
		})).Fit(m, set))
		for i, w := range weights(m) {
			if math.Abs(float64(w-average[i])) > 1e-5 {
				t.Fatalf("weight %d is %v, want %v", i, w, average[i])
			}
		}
		scores, err := train.New(train.Devices(devices...)).Validate(m, set)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := scores.Values["loss"], r.Last().Validation["loss"]; math.Abs(a-b) > 1e-6 {
			t.Errorf("Fit measured %v, the model does %v", b, a)
		}
		if p.Last().Validation["loss"] == r.Last().Validation["loss"] {
			t.Error("validation does not use the averages")
		}
		if p.Last().Train["loss"] != r.Last().Train["loss"] {
			t.Error("training uses the averages")
		}
	}
}

// The best epoch's averages are kept.
func TestBestAverages(t *testing.T) {
	set := train.Data{Train: spirals(t, 64), Validation: spirals(t, 30), BatchSize: 16}
	m := mlp(2)
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 3, optim.SGDOptions{Momentum: 0.9}) }
	r := must(t)(train.New(train.MaxEpochs(8), train.AverageWeights(0.5), train.KeepBest()).Fit(m, set))
	scores, err := train.New().Validate(m, set)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := scores.Values["loss"], r.Epochs[r.BestEpoch].Validation["loss"]; math.Abs(a-b) > 1e-6 || r.BestEpoch == 7 {
		t.Errorf("the best epoch, %d, had %v, the model has %v", r.BestEpoch, b, a)
	}
}

func TestAverageAndPlateauErrors(t *testing.T) {
	d := train.Data{Train: spirals(t, 8), Validation: spirals(t, 8), BatchSize: 8}
	for _, o := range []train.Option{train.AverageWeights(1), train.AverageWeights(math.NaN()), train.Plateau(optim.PlateauOptions{Factor: 3})} {
		if _, err := train.New(o).Fit(mlp(1), d); !errors.Is(err, locus.ErrArgument) {
			t.Error(err)
		}
	}
	if _, err := train.New(train.Plateau(optim.PlateauOptions{})).Fit(mlp(1), train.Data{Train: d.Train, BatchSize: 8}); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "Validation") {
		t.Error(err)
	}
	leaks(t, "averages", func() {
		must(t)(train.New(train.MaxEpochs(3), train.Devices(fuzzGPUs[:2]...), train.AverageWeights(0.9)).Fit(mlp(1), train.Data{Train: spirals(t, 64), Validation: d.Validation, BatchSize: 8}))
	})
}
