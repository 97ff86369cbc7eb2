package train_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// residual is a small network of convolutions with shortcuts and batch normalization.
func residual(seed uint64) *train.Supervised {
	k := locus.NewKey(seed).Split(6)
	conv := func(i, in, out int) nn.Module {
		return nn.Conv2D(in, out, 3, locus.ConvOptions{Padding: 1}, nn.WithKey(k[i]))
	}
	body := nn.Sequential(conv(1, 4, 4), nn.BatchNorm(4), nn.ReLU(), nn.Dropout(0.1, nn.WithKey(k[4])), conv(2, 4, 4), nn.BatchNorm(4))
	m := train.Classifier(nn.Sequential(conv(0, 2, 4), nn.BatchNorm(4), nn.ReLU(), nn.Residual(body, nil), nn.ReLU(), nn.Flatten(), nn.Linear(100, 2, nn.WithKey(k[3]))))
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		return optim.SGD(p, 0.05, optim.SGDOptions{Momentum: 0.9})
	}
	return m
}

// With SyncBatchNorm several devices and ranks take the steps of one on the whole batch.
func TestSyncBatchNorm(t *testing.T) {
	set := train.Data{Train: images(t, 34), Validation: images(t, 20), BatchSize: 11} // the last batch has 1
	for name, opts := range map[string][]train.Option{
		"plain":       {train.AverageWeights(0.5)},
		"accumulated": {train.Accumulate(2), train.ClipGradients(0.5)},
		"bfloat16":    {train.Precision(locus.BFloat16)},
		"float16":     {train.Precision(locus.Float16)},
	} {
		opts := append([]train.Option{train.MaxEpochs(2), train.SyncBatchNorm()}, opts...)
		tol := 1e-4
		build := func() *train.Supervised { return residual(3) }
		if strings.Contains(name, "float16") {
			tol = 3e-2
			build = func() *train.Supervised {
				m := residual(3)
				m.MetricsFunc = nil // an accuracy may jump where the loss hardly moves
				loss := m.LossFunc
				m.LossFunc = func(y, target *locus.Tensor) *locus.Tensor { return loss(y, target).Mul(0.05) } // which does not overflow
				return m
			}
		}
		one := alone(t, build(), set, opts...)
		if one.report.Uncompiled != "" {
			t.Errorf("one device is not compiled: %s", one.report.Uncompiled)
		}
		for _, devices := range [][]locus.Device{cpus(2), gpus} {
			what := fmt.Sprintf("%s on %v", name, devices)
			if name == "plain" || len(devices) == 3 {
				mirrored := alone(t, build(), set, append(slices.Clip(opts), train.Devices(devices...))...)
				near(t, "mirrored, "+what, one, mirrored, tol)
				if mirrored.report.Uncompiled != "" {
					t.Errorf("%s: %q", what, mirrored.report.Uncompiled)
				}
			}
			if name == "plain" || len(devices) == 2 {
				ranks := sameEverywhere(t, onRanks(t, devices, func(rank int) (*train.Supervised, train.Data, []train.Option) { return build(), set, opts }))
				near(t, "ranks, "+what, one, ranks, tol)
				if ranks.report.Uncompiled != "" {
					t.Errorf("%s: %q", what, ranks.report.Uncompiled)
				}
			}
		}
		if name == "plain" {
			both := sameEverywhere(t, onRanks(t, cpus(2), func(int) (*train.Supervised, train.Data, []train.Option) {
				return build(), set, append(slices.Clip(opts), train.Devices(gpus[:2]...))
			}))
			near(t, "two devices each, "+name, one, both, tol)
		}
	}
}

// A device that fails ends the step of those that wait for it, with its own error; the model
// is usable afterwards.
func TestSyncBatchNormFails(t *testing.T) {
	set := train.Data{Train: images(t, 40), BatchSize: 10}
	var steps atomic.Int64
	m := residual(3)
	_, err := train.New(train.SyncBatchNorm(), train.Devices(gpus...), train.PrepareBatch(func(b *train.Batch) error {
		if b.Fields[0].Device() == gpus[1] && steps.Add(1) == 3 {
			return errors.New("out of luck")
		}
		return nil
	})).Fit(m, set)
	if err == nil || err.Error() != "out of luck" {
		t.Error(err)
	}
	nn.Train(m.Net).Forward(gpus[0].Ones(3, 2, 5, 5))
}

// Exchanges leave no memory behind.
func TestSyncBatchNormMemory(t *testing.T) {
	set := train.Data{Train: images(t, 40), BatchSize: 10}
	for _, kind := range []string{"mirrored", "ranks"} {
		var used [2][]int64
		opts := func(rank int) []train.Option {
			return []train.Option{train.SyncBatchNorm(), train.MaxEpochs(8), train.LogEvery(0), train.AfterStep(func(s *train.Step) error {
				used[rank] = append(used[rank], gpus[rank].MemoryStats().InUse)
				return nil
			})}
		}
		if kind == "mirrored" {
			alone(t, residual(3), set, append(opts(0), train.Devices(gpus[:2]...))...)
			used[1] = used[0]
		} else {
			sameEverywhere(t, onRanks(t, gpus[:2], func(rank int) (*train.Supervised, train.Data, []train.Option) { return residual(3), set, opts(rank) }))
		}
		for rank, u := range used {
			if grown := u[len(u)-1] - u[8]; grown > 16<<10 { // a step's activations take more
				t.Errorf("%s: device %d holds %d bytes more after %d steps", kind, rank, grown, len(u)-8)
			}
		}
	}
}
