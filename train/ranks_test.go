package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
	"github.com/locusml/locus/weights/checkpoint"
)

// ranked is what one rank's Fit left.
type ranked struct {
	model  *train.Supervised
	report *train.Report
	err    error
}

// cpus is the CPU several times.
func cpus(n int) []locus.Device { return slices.Repeat([]locus.Device{locus.CPU()}, n) }

// onRanks runs Fit on one goroutine per device. build returns a rank's model, data and options.
func onRanks(t *testing.T, devices []locus.Device, build func(rank int) (*train.Supervised, train.Data, []train.Option)) []ranked {
	t.Helper()
	groups, err := collective.Local(devices, collective.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	out := slices.Repeat([]ranked{{}}, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() {
			defer g.Close()
			o := &out[i]
			var set train.Data
			var opts []train.Option
			o.model, set, opts = build(i)
			opts = append([]train.Option{train.Ranks(g), train.Devices(devices[i]), train.Seed(5)}, opts...)
			o.report, o.err = train.New(opts...).Fit(o.model, set)
		})
	}
	wg.Wait()
	return out
}

// sameEverywhere checks that all ranks ended well, with one result to the bit.
func sameEverywhere(t *testing.T, out []ranked) ranked {
	t.Helper()
	for i, o := range out {
		if o.err != nil {
			t.Fatalf("rank %d: %v", i, o.err)
		}
		if !slices.Equal(weights(o.model), weights(out[0].model)) {
			t.Fatalf("rank %d has other weights than rank 0", i)
		}
		for e := range o.report.Epochs {
			a, b := out[0].report.Epochs[e], o.report.Epochs[e]
			if fmt.Sprint(a.Train, a.Validation, a.Tables, a.Examples) != fmt.Sprint(b.Train, b.Validation, b.Tables, b.Examples) {
				t.Fatalf("rank %d, epoch %d: %+v, rank 0 has %+v", i, e, b, a)
			}
		}
	}
	return out[0]
}

// near compares two runs' metrics and weights within the tolerance of float32 sums.
func near(t *testing.T, what string, a, b ranked, tol float64) {
	t.Helper()
	if len(a.report.Epochs) != len(b.report.Epochs) || a.report.Steps != b.report.Steps {
		t.Fatalf("%s: %d epochs of %d steps, want %d of %d", what, len(b.report.Epochs), b.report.Steps, len(a.report.Epochs), a.report.Steps)
	}
	for i := range a.report.Epochs {
		for _, m := range [][2]map[string]float64{{a.report.Epochs[i].Train, b.report.Epochs[i].Train}, {a.report.Epochs[i].Validation, b.report.Epochs[i].Validation}} {
			if len(m[0]) != len(m[1]) {
				t.Errorf("%s: epoch %d: %v, want %v", what, i, m[1], m[0])
			}
			for k, v := range m[0] {
				if math.Abs(v-m[1][k]) > tol*math.Max(1, math.Abs(v)) {
					t.Errorf("%s: epoch %d: %s is %v, on one device %v", what, i, k, m[1][k], v)
				}
			}
		}
		if a.report.Epochs[i].Examples != b.report.Epochs[i].Examples {
			t.Errorf("%s: %d examples, want %d", what, b.report.Epochs[i].Examples, a.report.Epochs[i].Examples)
		}
	}
	p, q := weights(a.model), weights(b.model)
	for i := range p {
		if math.Abs(float64(p[i]-q[i])) > 10*tol {
			t.Fatalf("%s: weight %d is %v, on one device %v", what, i, q[i], p[i])
		}
	}
}

func alone(t *testing.T, m *train.Supervised, set train.Data, opts ...train.Option) ranked {
	t.Helper()
	return ranked{m, must(t)(train.New(append([]train.Option{train.Seed(5)}, opts...)...).Fit(m, set)), nil}
}

// Ranks take the steps of one device on the whole batch, whatever their number, also when the
// last batch has fewer examples than there are ranks, and do the same in every run.
func TestRanksTrainAsOneDevice(t *testing.T) {
	set := train.Data{Train: spirals(t, 129), Validation: spirals(t, 75), BatchSize: 32} // the last batch has 1
	for name, opts := range map[string][]train.Option{
		"plain":       nil,
		"logged":      {train.LogEvery(2)},
		"eager":       {train.Compile(false)},
		"accumulated": {train.Accumulate(3), train.ClipGradients(0.05)},
		"averaged":    {train.AverageWeights(0.9), train.KeepBest(), train.LogEvery(2)},
		"bfloat16":    {train.Precision(locus.BFloat16)},
		"float16":     {train.Precision(locus.Float16), train.ClipGradients(1)},
		"measured":    {train.Measure(metric.ExactAUC(), metric.As("binned_", metric.AUC(0)), metric.ConfusionMatrix(2), metric.F1(2, metric.Macro))},
	} {
		opts := append([]train.Option{train.MaxEpochs(3)}, opts...)
		tol := 2e-5
		if name == "bfloat16" || name == "float16" {
			tol = 2e-2 // sums of rounded products
		}
		one := alone(t, mlp(3), set, opts...)
		for _, devices := range [][]locus.Device{cpus(2), cpus(3), cpus(4), gpus[:2], gpus, eight} {
			if name != "plain" && (len(devices) == 3 || len(devices) == 8) {
				continue
			}
			what := fmt.Sprintf("%s on %v", name, devices)
			run := func() ranked {
				return sameEverywhere(t, onRanks(t, devices, func(rank int) (*train.Supervised, train.Data, []train.Option) {
					if rank > 0 { // rank 0's parameters count, and when it reads metrics
						return mlp(3 + uint64(rank)), set, append(slices.Clip(opts), train.LogEvery(3))
					}
					return mlp(3), set, opts
				}))
			}
			a := run()
			near(t, what, one, a, tol)
			if a.report.Uncompiled != one.report.Uncompiled {
				t.Errorf("%s: not compiled: %q", what, a.report.Uncompiled)
			}
			if b := run(); !slices.Equal(weights(a.model), weights(b.model)) || fmt.Sprint(a.report.Last().Train) != fmt.Sprint(b.report.Last().Train) {
				t.Errorf("%s: two runs differ", what)
			}
		}
	}
}

// recorder notes which examples were read.
type recorder struct {
	data.Dataset
	mu   *sync.Mutex
	read map[int]int
}

func (r recorder) Batch(at []int, key locus.Key) ([]*locus.Tensor, error) {
	r.mu.Lock()
	for _, i := range at {
		r.read[i]++
	}
	r.mu.Unlock()
	return r.Dataset.Batch(at, key)
}

func TestRanksReadTheirShare(t *testing.T) {
	var mu sync.Mutex
	sets := make([]recorder, 3)
	out := onRanks(t, cpus(3), func(rank int) (*train.Supervised, train.Data, []train.Option) {
		r := recorder{spirals(t, 101), &mu, map[int]int{}}
		mu.Lock()
		sets[rank] = r
		mu.Unlock()
		// A lazy model looks at one example more; this one is not.
		m := train.Classifier(nn.Sequential(nn.Linear(2, 2)))
		return m, train.Data{Train: r, BatchSize: 20, Workers: 2}, nil
	})
	sameEverywhere(t, out)
	all := map[int]int{}
	for _, r := range sets {
		if len(r.read) < 30 || len(r.read) > 36 {
			t.Errorf("a rank read %d of 101 examples", len(r.read))
		}
		for i, n := range r.read {
			all[i] += n
		}
	}
	for i := range 101 {
		if all[i] != 1 {
			t.Errorf("example %d was read %d times", i, all[i])
		}
	}
}

// The running statistics are those of rank 0's part, on all ranks, as with mirrored devices.
func TestRanksWithBatchNorm(t *testing.T) {
	set := train.Data{Train: spirals(t, 100), Validation: spirals(t, 40), BatchSize: 16}
	net := func() *train.Supervised {
		k := locus.NewKey(4).Split(2)
		m := train.Classifier(nn.Sequential(nn.Linear(2, 8, nn.WithKey(k[0])), nn.BatchNorm(8), nn.ReLU(), nn.Linear(8, 2, nn.WithKey(k[1]))))
		m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.1, optim.SGDOptions{Momentum: 0.9}) }
		return m
	}
	for _, opts := range [][]train.Option{{train.MaxEpochs(3)}, {train.MaxEpochs(3), train.Accumulate(2)}} {
		mirrored := alone(t, net(), set, append(opts, train.Devices(gpus[:2]...))...)
		ranks := sameEverywhere(t, onRanks(t, gpus[:2], func(int) (*train.Supervised, train.Data, []train.Option) { return net(), set, opts }))
		near(t, "ranks", mirrored, ranks, 1e-5)
	}
}

// Ranks may have several devices each.
func TestRanksOfSeveralDevices(t *testing.T) {
	set := train.Data{Train: spirals(t, 100), Validation: spirals(t, 33), BatchSize: 32}
	one := alone(t, mlp(3), set, train.MaxEpochs(2))
	both := sameEverywhere(t, onRanks(t, cpus(2), func(int) (*train.Supervised, train.Data, []train.Option) {
		return mlp(3), set, []train.Option{train.MaxEpochs(2), train.Devices(cpus(2)...)}
	}))
	near(t, "two devices each", one, both, 2e-5)
}

func TestRanksStopTogether(t *testing.T) {
	set := train.Data{Train: spirals(t, 100), Validation: spirals(t, 40), BatchSize: 16}
	// By the monitored metric, which all see alike.
	o := sameEverywhere(t, onRanks(t, cpus(3), func(int) (*train.Supervised, train.Data, []train.Option) {
		return mlp(3), set, []train.Option{train.MaxEpochs(50), train.EarlyStopping(2), train.LearningRate(0), train.Monitor("accuracy", train.Highest),
			train.Plateau(optim.PlateauOptions{Patience: 1}), train.KeepBest()}
	}))
	if !strings.Contains(o.report.Stopped, "no better accuracy") || len(o.report.Epochs) == 50 {
		t.Error(o.report)
	}
	// By a callback of one rank.
	for name, stop := range map[string]train.Option{
		"step":  train.AfterStep(func(s *train.Step) error { return stopAt(s.Steps == 10) }),
		"epoch": train.AfterEpoch(func(e *train.Epoch) error { return stopAt(e.Number == 1) }),
	} {
		out := onRanks(t, cpus(3), func(rank int) (*train.Supervised, train.Data, []train.Option) {
			opts := []train.Option{train.MaxEpochs(5)}
			if rank == 1 {
				opts = append(opts, stop)
			}
			return mlp(3), set, opts
		})
		o := sameEverywhere(t, out)
		if want := map[string]int64{"step": 10, "epoch": 14}[name]; o.report.Steps != want || o.report.Stopped == "" || out[2].report.Steps != want {
			t.Errorf("%s: %d steps, want %d: %q", name, o.report.Steps, want, o.report.Stopped)
		}
	}
}

func stopAt(now bool) error {
	if now {
		return train.ErrStop
	}
	return nil
}

// fitUntil runs ranks of which one's context ends before the given step; at 0 none does.
func fitUntil(t *testing.T, devices []locus.Device, net func() *train.Supervised, set train.Data, at int64, opts ...train.Option) []ranked {
	t.Helper()
	groups, err := collective.Local(devices, collective.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]ranked, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() {
			defer g.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seen := int64(0)
			opts := append([]train.Option{train.Ranks(g), train.Devices(devices[i]), train.Seed(5), train.PrepareBatch(func(b *train.Batch) error {
				if b.Stage == train.Training {
					seen++
				}
				if i == len(groups)-1 && seen == at {
					cancel()
				}
				return nil
			})}, opts...)
			out[i].model = net()
			out[i].report, out[i].err = train.New(opts...).FitContext(ctx, out[i].model, set)
		})
	}
	wg.Wait()
	return out
}

// A run that one rank's context ended goes on to the bit, also in the middle of an epoch and
// of a step, with dropout masks and metrics; and with another number of ranks.
func TestRanksResume(t *testing.T) {
	set := train.Data{Train: spirals(t, 135), Validation: spirals(t, 40), BatchSize: 16}
	net := func() *train.Supervised {
		k := locus.NewKey(4).Split(3)
		m := train.Classifier(nn.Sequential(nn.Linear(2, 16, nn.WithKey(k[0])), nn.BatchNorm(16), nn.Tanh(), nn.Dropout(0.2, nn.WithKey(k[2])), nn.Linear(16, 2, nn.WithKey(k[1]))))
		m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.02, optim.AdamOptions{}) }
		return m
	}
	for _, devices := range [][]locus.Device{cpus(3), gpus[:2]} {
		opts := []train.Option{train.MaxEpochs(4), train.Accumulate(2), train.Measure(metric.ExactAUC(), metric.F1(2, metric.Macro)), train.AverageWeights(0.9)}
		whole := sameEverywhere(t, fitUntil(t, devices, net, set, 0, opts...))
		folder := t.TempDir()
		opts = append(opts, train.Checkpoints(folder, 2))
		for i, o := range fitUntil(t, devices, net, set, 12, opts...) { // the gradients of a batch wait
			if !errors.Is(o.err, context.Canceled) || o.report.Stopped != "interrupted" {
				t.Fatalf("rank %d: %v", i, o.err)
			}
		}
		copied := t.TempDir()
		copyFolder(t, folder, copied)
		again := sameEverywhere(t, fitUntil(t, devices, net, set, 0, append(opts, train.Resume())...))
		if !slices.Equal(weights(whole.model), weights(again.model)) {
			t.Errorf("%v: the weights differ from those of a run that was not interrupted", devices)
		}
		for i := range whole.report.Epochs {
			if a, b := whole.report.Epochs[i], again.report.Epochs[i]; fmt.Sprint(a.Train, a.Validation, a.Examples) != fmt.Sprint(b.Train, b.Validation, b.Examples) {
				t.Errorf("%v, epoch %d: %v, want %v", devices, i, b, a)
			}
		}
		fewer := sameEverywhere(t, fitUntil(t, devices[:len(devices)-1], net, set, 0, append(opts, train.Checkpoints(copied, 2), train.Resume())...))
		if fewer.report.Steps != whole.report.Steps || len(fewer.report.Epochs) != 4 {
			t.Errorf("with one rank fewer: %d steps, want %d", fewer.report.Steps, whole.report.Steps)
		}
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// A rank that fails, in whatever way, ends the others with an error that names it, and the
// last checkpoint is whole.
func TestRankFails(t *testing.T) {
	set := train.Data{Train: spirals(t, 100), Validation: spirals(t, 40), BatchSize: 16}
	for name, bad := range map[string]train.Option{
		"callback": train.AfterStep(func(s *train.Step) error {
			if s.Steps == 9 {
				return errors.New("out of luck")
			}
			return nil
		}),
		"panic": train.BeforeStep(func(s *train.Step) error {
			if s.Steps == 9 {
				panic("out of luck")
			}
			return nil
		}),
		"context": train.AfterStep(func(s *train.Step) error { // of its own, which the others know nothing of
			if s.Steps == 9 {
				return context.Canceled
			}
			return nil
		}),
		"batch": train.PrepareBatch(func(b *train.Batch) error {
			if b.Epoch == 1 && b.Index == 3 {
				return errors.New("out of luck")
			}
			return nil
		}),
		"option": train.MaxEpochs(-1),
	} {
		folder := filepath.Join(t.TempDir(), "run")
		out := onRanks(t, cpus(3), func(rank int) (*train.Supervised, train.Data, []train.Option) {
			opts := []train.Option{train.MaxEpochs(5), train.Checkpoints(folder, 2)}
			if rank == 1 {
				opts = append(opts, bad)
			}
			return mlp(3), set, opts
		})
		for i, o := range out {
			var f *collective.Fault
			switch {
			case i == 1 && (o.err == nil || errors.As(o.err, &f)):
				t.Errorf("%s: the rank that fails has the error %v", name, o.err)
			case i != 1 && (!errors.Is(o.err, collective.ErrRank) || !errors.As(o.err, &f) || f.Rank != 1 || !strings.Contains(o.err.Error(), "rank 1")):
				t.Errorf("%s: rank %d: %v", name, i, o.err)
			}
		}
		if name == "option" {
			continue
		}
		dir, err := checkpoint.Open(folder, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := dir.Latest()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// Ranks that are not the same are told apart before they train, and those that come apart
// afterwards.
func TestRanksDiffer(t *testing.T) {
	set := train.Data{Train: spirals(t, 64), BatchSize: 16}
	refused := func(want string, kind error, build func(rank int) (*train.Supervised, train.Data, []train.Option)) {
		t.Helper()
		for i, o := range onRanks(t, cpus(2), build) {
			if !errors.Is(o.err, kind) || !strings.Contains(o.err.Error(), want) {
				t.Errorf("rank %d: %v, want %q", i, o.err, want)
			}
		}
	}
	refused("data.batch_size 16, rank 1 has data.batch_size 17", locus.ErrArgument, func(rank int) (*train.Supervised, train.Data, []train.Option) {
		d := set
		d.BatchSize += rank
		return mlp(3), d, nil
	})
	refused("rank 0 has checkpoints: false, rank 1 has checkpoints: true", locus.ErrArgument, func(rank int) (*train.Supervised, train.Data, []train.Option) {
		return mlp(3), set, []train.Option{train.Checkpoints(t.TempDir(), 1)}[:rank]
	})
	refused("ranks differ: rank 0 has model.parameters", locus.ErrArgument, func(rank int) (*train.Supervised, train.Data, []train.Option) {
		return train.Classifier(nn.Sequential(nn.Linear(2, 2+rank))), set, nil
	})
	refused("is not that of rank", train.ErrReplicas, func(rank int) (*train.Supervised, train.Data, []train.Option) {
		m := train.Classifier(nn.Sequential(nn.Linear(2, 2)))
		return m, set, []train.Option{train.MaxEpochs(3), train.AfterEpoch(func(e *train.Epoch) error {
			if rank == 1 && e.Number == 1 {
				b := nn.Parameters(m)[1]
				b.Set(b.Value().Detach().Add(1e-6))
			}
			return nil
		})}
	})
	refused("bias of rank", train.ErrReplicas, func(rank int) (*train.Supervised, train.Data, []train.Option) {
		m := train.Classifier(nn.Sequential(nn.Linear(2, 2)))
		return m, set, []train.Option{train.MaxEpochs(2), train.AfterEpoch(func(*train.Epoch) error {
			b := nn.Parameters(m)[1]
			b.Set(b.Value().Detach().Add(float64(rank)))
			return nil
		})}
	})
	if _, err := train.New(train.Ranks(nil)).Fit(mlp(3), set); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if _, err := train.New(train.Ranks(new(collective.Group))).Fit(mlp(3), set); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// An overflow in one rank's part leaves the step out on all ranks.
func TestRanksAgreeOnOverflow(t *testing.T) {
	k := locus.NewKey(3)
	x := locus.CPU().Key(k).Randn(32, 2)
	big := locus.Concat(0, x.Narrow(0, 0, 31), locus.CPU().Full(60000, 1, 2)) // in the last rank's part
	set, err := data.NewTensorDataset(big, locus.Arange(32).Mod(2))
	if err != nil {
		t.Fatal(err)
	}
	out := onRanks(t, cpus(3), func(rank int) (*train.Supervised, train.Data, []train.Option) {
		m := train.Regressor(nn.Sequential(nn.Linear(2, 1, nn.WithKey(k))))
		m.LossFunc = func(y, want *locus.Tensor) *locus.Tensor { return y.Mul(y).Cast(locus.Float32).Mul(1e-4).Mean() }
		before := weights(m)
		return m, train.Data{Train: set, BatchSize: 8, InOrder: true}, []train.Option{train.Precision(locus.Float16), train.LearningRate(1), train.LogEvery(0),
			train.AfterStep(func(s *train.Step) error {
				now := weights(s.Models[0])
				if same := slices.Equal(now, before); same != (s.Index == 3) {
					return fmt.Errorf("rank %d, batch %d: the same weights as before the step: %v", rank, s.Index, same)
				}
				if before = now; s.Index == 3 {
					return train.ErrStop // before the loss, which is not finite, is read
				}
				return nil
			})}
	})
	sameEverywhere(t, out)
}

// Validate and Test share their work out.
func TestRanksValidate(t *testing.T) {
	m := train.Classifier(nn.Sequential(nn.Linear(2, 2, nn.WithKey(locus.NewKey(1)))))
	d := train.Data{Validation: spirals(t, 77), Test: spirals(t, 50), BatchSize: 10}
	measure := train.Measure(metric.ConfusionMatrix(2), metric.ExactAUC())
	want, err := train.New(measure).Validate(m, d)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := collective.Local(cpus(3))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() {
			defer g.Close()
			tr := train.New(measure, train.Ranks(g))
			got, err := tr.Validate(m, d)
			if err != nil || fmt.Sprint(got.Tables) != fmt.Sprint(want.Tables) || math.Abs(got.Values["loss"]-want.Values["loss"]) > 1e-5 || got.Values["auc"] != want.Values["auc"] {
				t.Errorf("rank %d: %v, %v, want %v", i, got, err, want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i == 1 {
				cancel()
			}
			if _, err := tr.TestContext(ctx, m, d); !errors.Is(err, context.Canceled) {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}
