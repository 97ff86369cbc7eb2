package train_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/train"
)

func init() {
	monitorOption = func(metric string) train.Option { return train.Monitor(metric, train.Lowest) }
}

// measured is a model whose validation metrics are made up, epoch by epoch.
type measured struct {
	*train.Supervised
	epoch  *int
	values map[string][]float64
}

func (m *measured) ValidationStep([]*locus.Tensor) map[string]*locus.Tensor {
	out := map[string]*locus.Tensor{}
	for name, v := range m.values {
		out[name] = locus.Full(v[min(*m.epoch, len(v)-1)])
	}
	return out
}

// Monitor says which way is better; KeepBest and EarlyStopping go by it.
func TestMonitor(t *testing.T) {
	values := map[string][]float64{
		"loss":     {5, 4, 3, 2, 1, 6, 7, 8},
		"mae":      {3, 1, 2, 4, 5, 6, 7, 8},
		"accuracy": {0.2, 0.4, 0.9, 0.3, 0.2, 0.1, 0.1, 0.1},
	}
	for name, c := range map[string]struct {
		monitor []train.Option
		best    int
		epochs  int // with EarlyStopping(2)
	}{
		"the default":        {nil, 4, 7},
		"lowest loss":        {[]train.Option{train.Monitor("loss", train.Lowest)}, 4, 7},
		"lowest mae":         {[]train.Option{train.Monitor("mae", train.Lowest)}, 1, 4},
		"highest accuracy":   {[]train.Option{train.Monitor("accuracy", train.Highest)}, 2, 5},
		"highest loss":       {[]train.Option{train.Monitor("loss", train.Highest)}, 0, 3},
		"highest mae":        {[]train.Option{train.Monitor("mae", train.Highest)}, 0, 3},
		"lowest accuracy":    {[]train.Option{train.Monitor("accuracy", train.Lowest)}, 0, 3},
		"the last one given": {[]train.Option{train.Monitor("loss", train.Highest), train.Monitor("mae", train.Lowest)}, 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			epoch := 0
			m := &measured{mlp(1), &epoch, values}
			var kept []float32
			opts := append([]train.Option{train.MaxEpochs(8), train.KeepBest(), train.EarlyStopping(2), train.AfterEpoch(func(e *train.Epoch) error {
				epoch++
				if e.Number == c.best {
					kept = weights(m)
				}
				return nil
			})}, c.monitor...)
			r, err := train.New(opts...).Fit(m, train.Data{Train: spirals(t, 64), Validation: spirals(t, 8), BatchSize: 8})
			if err != nil {
				t.Fatal(err)
			}
			if r.BestEpoch != c.best || !r.Epochs[c.best].Best {
				t.Errorf("the best epoch is %d; want %d", r.BestEpoch, c.best)
			}
			if len(r.Epochs) != c.epochs || r.Stopped == "" {
				t.Errorf("%d epochs, stopped %q; want %d", len(r.Epochs), r.Stopped, c.epochs)
			}
			if !slices.Equal(weights(m), kept) {
				t.Error("the model does not have the weights of its best epoch")
			}
		})
	}
}

// A metric that there is not is an error that lists those that there are, whether
// anything looks at it or not.
func TestMonitorOfAnUnknownMetric(t *testing.T) {
	for name, more := range map[string][]train.Option{
		"alone":                nil,
		"with KeepBest":        {train.KeepBest()},
		"with EarlyStopping":   {train.EarlyStopping(1)},
		"on two devices":       {train.KeepBest(), train.Devices(gpus[:2]...)},
		"in a lower precision": {train.KeepBest(), train.Precision(locus.BFloat16)},
	} {
		opts := append([]train.Option{train.MaxEpochs(2), train.Monitor("acuracy", train.Highest)}, more...)
		_, err := train.New(opts...).Fit(mlp(1), train.Data{Train: spirals(t, 64), Validation: spirals(t, 16), BatchSize: 8})
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, word := range []string{"acuracy", "accuracy", "loss"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error does not say %q: %v", name, word, err)
			}
		}
	}
}

// A direction that there is not, and no name.
func TestMonitorOfNothing(t *testing.T) {
	for name, o := range map[string]train.Option{
		"direction": train.Monitor("loss", train.Direction(7)),
		"name":      train.Monitor("", train.Lowest),
	} {
		_, err := train.New(o, train.KeepBest()).Fit(mlp(1), train.Data{Train: spirals(t, 64), Validation: spirals(t, 16), BatchSize: 8})
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A metric that is not a number is never the best.
func TestMonitorOfNaN(t *testing.T) {
	nan := locus.Full(0).Div(0).Item()
	for _, direction := range []train.Direction{train.Lowest, train.Highest} {
		epoch := 0
		m := &measured{mlp(1), &epoch, map[string][]float64{"loss": {1, 1, 1, 1}, "score": {nan, 2, nan, nan}}}
		r, err := train.New(train.MaxEpochs(4), train.Monitor("score", direction), train.AfterEpoch(func(*train.Epoch) error { epoch++; return nil })).
			Fit(m, train.Data{Train: spirals(t, 64), Validation: spirals(t, 8), BatchSize: 8})
		if err == nil && r.BestEpoch != 1 {
			t.Errorf("the best epoch is %d", r.BestEpoch)
		}
		if err != nil && !errors.Is(err, train.ErrNotFinite) {
			t.Error(err)
		}
	}
}
