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
	"github.com/locusml/locus/train/metric"
)

// wide is a model that says what it was made with.
type wide struct {
	*train.Supervised
	Width int `nn:"-"`
}

func (w *wide) Hyperparameters() train.Hyperparameters {
	return train.Hyperparameters{"width": w.Width}
}

type described struct{ data.Dataset }

func (described) Hyperparameters() train.Hyperparameters {
	return train.Hyperparameters{"augmentation": []string{"flip", "crop"}}
}

// hyperRun is a run with one of its hyperparameters changed at a time.
type hyperRun struct {
	width, batch, accumulate, examples int
	lr, clip, decay, note              float64
	adam, dropLast, inOrder, groups    bool
	precision                          locus.DType
	schedule                           optim.Schedule
	measures                           []metric.Metric
	epochs                             int
	more                               []train.Option
}

func firstHyperRun() hyperRun {
	return hyperRun{width: 8, batch: 8, accumulate: 1, examples: 40, lr: 0.1, epochs: 1, note: 1}
}

func (h hyperRun) fit(t *testing.T, ctx context.Context, dir string, after train.Option) (*train.Report, error) {
	k := locus.NewKey(1).Split(2)
	m := &wide{train.Classifier(nn.Sequential(nn.Linear(4, 8, nn.WithKey(k[0])), nn.Tanh(), nn.Linear(8, 3, nn.WithKey(k[1])))), h.width}
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		if h.adam {
			return optim.Adam(p, h.lr, optim.AdamOptions{})
		}
		o := optim.SGD(p, h.lr, optim.SGDOptions{WeightDecay: h.decay})
		if h.groups {
			o.WithGroups(optim.Group{Match: optim.Named("bias"), LR: 0.5})
		}
		return o
	}
	o := append([]train.Option{train.MaxEpochs(h.epochs), train.Accumulate(h.accumulate), train.ClipGradients(h.clip), train.Schedule(h.schedule),
		train.Measure(h.measures...), train.Checkpoints(dir, 3), train.Resume(), train.Record(train.Hyperparameters{"note": h.note}), after}, h.more...)
	if h.precision != 0 {
		o = append(o, train.Precision(h.precision))
	}
	return train.New(o...).FitContext(ctx, m, train.Data{Train: described{task(t, h.examples)}, BatchSize: h.batch, DropLast: h.dropLast, InOrder: h.inOrder})
}

func nothing() train.Option { return train.AfterStep(func(*train.Step) error { return nil }) }

// Whatever is changed in a run that goes on is an error that has both values, and
// can be accepted by name.
func TestResumeComparesHyperparameters(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*hyperRun)
		was, now string
	}{
		"optimizer.lr":           {func(h *hyperRun) { h.lr = 0.2 }, "0.1", "0.2"},
		"optimizer.weight_decay": {func(h *hyperRun) { h.decay = 0.5 }, "0", "0.5"},
		"data.batch_size":        {func(h *hyperRun) { h.batch = 4 }, "8", "4"},
		"data.examples":          {func(h *hyperRun) { h.examples = 32 }, "40", "32"},
		"data.drop_last":         {func(h *hyperRun) { h.dropLast = true }, "false", "true"},
		"data.in_order":          {func(h *hyperRun) { h.inOrder = true }, "false", "true"},
		"trainer.accumulate":     {func(h *hyperRun) { h.accumulate = 2 }, "1", "2"},
		"trainer.clip_gradients": {func(h *hyperRun) { h.clip = 1 }, "0", "1"},
		"trainer.precision":      {func(h *hyperRun) { h.precision = locus.BFloat16 }, `""`, `"bfloat16"`},
		"trainer.precision ":     {func(h *hyperRun) { h.precision = locus.Float16 }, `""`, `"float16"`},
		"trainer.schedule":       {func(h *hyperRun) { h.schedule = optim.StepDecay(1, 0.5) }, "1", "0.03125"},
		"trainer.measures":       {func(h *hyperRun) { h.measures = []metric.Metric{metric.TopK(2)} }, "[]", `["top_2_accuracy"]`},
		"model.width":            {func(h *hyperRun) { h.width = 16 }, "8", "16"},
		"optimizer.groups":       {func(h *hyperRun) { h.groups = true }, "[]", `["2 parameters: lr ×0.5"]`},
		"note":                   {func(h *hyperRun) { h.note = 2 }, "1", "2"},
	} {
		dir, name := filepath.Join(t.TempDir(), "run"), strings.TrimSpace(name)
		must(t)(firstHyperRun().fit(t, context.Background(), dir, nothing()))
		h := firstHyperRun()
		h.epochs = 2
		c.change(&h)
		_, err := h.fit(t, context.Background(), dir, nothing())
		if !errors.Is(err, train.ErrChanged) || !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "\n  "+name+" was "+c.was+", is "+c.now+"\n") || !strings.Contains(err.Error(), `AcceptChanges("`+name+`")`) {
			t.Errorf("%s: %v", name, err)
		}
		h.more = []train.Option{train.AcceptChanges(name)}
		r, err := h.fit(t, context.Background(), dir, nothing())
		if err != nil || len(r.Epochs) != 2 {
			t.Errorf("%s: accepted, but %v", name, err)
		}
	}
}

// All differences are in one error; a run that is the same, or longer, has none.
func TestSeveralChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	must(t)(firstHyperRun().fit(t, context.Background(), dir, nothing()))
	h := firstHyperRun()
	h.epochs, h.lr, h.batch, h.adam = 3, 0.3, 10, true
	_, err := h.fit(t, context.Background(), dir, nothing())
	if err == nil || !strings.Contains(err.Error(), `AcceptChanges("data.batch_size", "optimizer", "optimizer.lr")`) {
		t.Error(err)
	}
	h.more = []train.Option{train.AcceptChanges("optimizer.lr")}
	if _, err = h.fit(t, context.Background(), dir, nothing()); err == nil || strings.Contains(err.Error(), "optimizer.lr was") || !strings.Contains(err.Error(), "batch_size was") {
		t.Error(err)
	}
	h.more = []train.Option{train.AcceptChanges("lr")}
	if _, err = h.fit(t, context.Background(), dir, nothing()); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "optimizer.lr") {
		t.Error(err)
	}
	h = firstHyperRun()
	h.epochs = 3
	if r, err := h.fit(t, context.Background(), dir, nothing()); err != nil || len(r.Epochs) != 3 {
		t.Error(err)
	}
	if _, err := train.New(train.AcceptChanges("x")).Fit(normedModel(nil), train.Data{Train: task(t, 8), BatchSize: 4}); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// In the middle of an epoch, other batches begin the epoch again.
func TestOtherBatchesInAnEpoch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(context.Background())
	h := firstHyperRun()
	h.accumulate = 2
	if _, err := h.fit(t, ctx, dir, train.AfterStep(func(s *train.Step) error { cancel(); return nil })); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	h.batch, h.more = 5, []train.Option{train.AcceptChanges("data.batch_size")}
	r := must(t)(h.fit(t, context.Background(), dir, nothing()))
	if r.Last().Examples != 40 || r.Steps != 1+4 {
		t.Errorf("%d examples, %d steps", r.Last().Examples, r.Steps)
	}
}

func TestHyperparametersAreSavedAndShown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	h := firstHyperRun()
	h.more = []train.Option{train.Record(train.Hyperparameters{"odd": math.NaN(), "list": []int{1, 2}, "function": func() {}})}
	r := must(t)(h.fit(t, context.Background(), dir, nothing()))
	saved, err := train.SavedHyperparameters(dir)
	if err != nil {
		t.Fatal(err)
	}
	if saved.String() != r.Hyperparameters.String() {
		t.Errorf("%v\nsaved\n%v", r.Hyperparameters, saved)
	}
	for _, line := range []string{"data.batch_size", `data.augmentation`, `["flip","crop"]`, "model.width", `"SGD"`, `odd `, `"NaN"`, "[1,2]", "trainer.max_epochs"} {
		if !strings.Contains(saved.String(), line) {
			t.Errorf("no %s in\n%s", line, saved)
		}
	}
	if saved["function"] != "func()" { // not its address
		t.Error(saved["function"])
	}
	if lines := strings.Split(strings.TrimSpace(saved.String()), "\n"); !slices.IsSorted(lines) {
		t.Error(lines)
	}
	if _, err := train.SavedHyperparameters(filepath.Join("testdata", "before", "sgd", "checkpoints")); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := train.SavedHyperparameters(t.TempDir()); err == nil {
		t.Error("there is none")
	}
}
