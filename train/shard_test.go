package train_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// grouped is a network whose optimizer has groups, and of which one layer is frozen.
func grouped() *train.Supervised {
	k := locus.NewKey(6).Split(5)
	frozen := nn.Linear(2, 12, nn.WithKey(k[0]))
	nn.Freeze(frozen)
	m := train.Classifier(nn.Sequential(frozen, nn.Tanh(), nn.Linear(12, 16, nn.WithKey(k[1])), nn.Tanh(), nn.BatchNorm(16),
		nn.Dropout(0.2, nn.WithKey(k[2])), nn.Linear(16, 2, nn.WithKey(k[3]))))
	zero := 0.0
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		return optim.AdamW(p, 0.02, optim.AdamOptions{}).WithGroups(optim.Group{Match: optim.Named("bias"), WeightDecay: &zero, LR: 0.5})
	}
	return m
}

// A sharded optimizer takes the steps of one that is not, to the bit.
func TestShardOptimizer(t *testing.T) {
	set := train.Data{Train: spirals(t, 70), Validation: spirals(t, 40), BatchSize: 16}
	for name, opts := range map[string][]train.Option{
		"clipped":     {train.ClipGradients(0.1), train.AverageWeights(0.9), train.KeepBest()},
		"eager":       {train.Compile(false), train.AverageWeights(0.9)},
		"accumulated": {train.Accumulate(2), train.Schedule(optim.Cosine(15, 0.1))},
		"float16":     {train.Precision(locus.Float16), train.ClipGradients(1), train.SyncBatchNorm()},
		"unfrozen": {train.BeforeStep(func(s *train.Step) error {
			if s.Steps == 4 {
				for _, m := range s.Models {
					nn.Unfreeze(m)
				}
			}
			return nil
		})},
	} {
		opts := append([]train.Option{train.MaxEpochs(3)}, opts...)
		for _, devices := range [][]locus.Device{cpus(3), gpus[:2]} {
			run := func(more ...train.Option) ranked {
				return sameEverywhere(t, onRanks(t, devices, func(int) (*train.Supervised, train.Data, []train.Option) {
					return grouped(), set, append(slices.Clip(opts), more...)
				}))
			}
			a, b := run(), run(train.ShardOptimizer())
			what := fmt.Sprintf("%s on %v", name, devices)
			if !slices.Equal(bitsOf(weights(a.model)), bitsOf(weights(b.model))) {
				t.Errorf("%s: other weights than without", what)
			}
			if fmt.Sprint(a.report.Last().Train, a.report.Last().Validation) != fmt.Sprint(b.report.Last().Train, b.report.Last().Validation) {
				t.Errorf("%s: %v, without %v", what, b.report.Last(), a.report.Last())
			}
			if a.report.Uncompiled != b.report.Uncompiled {
				t.Errorf("%s: not compiled: %q", what, b.report.Uncompiled)
			}
		}
	}
}

// The devices of a rank stay equal when the ranks' optimizers are sharded: each rank has two
// here.
func TestShardOptimizerOfSeveralDevices(t *testing.T) {
	set := train.Data{Train: spirals(t, 70), BatchSize: 16}
	opts := []train.Option{train.MaxEpochs(2), train.SyncBatchNorm()}
	four := locus.AddVirtualGPUs(4, 64<<20)
	for _, eager := range []bool{false, true} {
		run := func(more ...train.Option) ranked {
			return sameEverywhere(t, onRanks(t, []locus.Device{four[0], four[2]}, func(rank int) (*train.Supervised, train.Data, []train.Option) {
				return grouped(), set, slices.Concat(opts, more, []train.Option{train.Compile(!eager), train.AfterStep(replicasEqual), train.Devices(four[2*rank : 2*rank+2]...)})
			}))
		}
		a, b := run(), run(train.ShardOptimizer())
		if !slices.Equal(bitsOf(weights(a.model)), bitsOf(weights(b.model))) {
			t.Errorf("eager %v: other weights than without", eager)
		}
	}
}

// With a sharded optimizer each rank needs less memory, and none is lost from step to step.
func TestShardOptimizerMemory(t *testing.T) {
	x := spirals(t, 64)
	k := locus.NewKey(6).Split(5)
	const width = 256
	inUse := func(more ...train.Option) (after [2]map[int64]int64) {
		after = [2]map[int64]int64{{}, {}}
		before := [2]int64{gpus[0].MemoryStats().InUse, gpus[1].MemoryStats().InUse}
		sameEverywhere(t, onRanks(t, gpus[:2], func(rank int) (*train.Supervised, train.Data, []train.Option) {
			m := train.Classifier(nn.Sequential(nn.Linear(2, width, nn.WithKey(k[0])), nn.Tanh(), nn.Linear(width, width, nn.WithKey(k[1])), nn.Tanh(),
				nn.Linear(width, width, nn.WithKey(k[2])), nn.Tanh(), nn.Linear(width, 2, nn.WithKey(k[3]))))
			m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.001, optim.AdamOptions{}) }
			return m, train.Data{Train: x, BatchSize: 16}, append([]train.Option{train.MaxEpochs(4), train.AfterStep(func(s *train.Step) error {
				after[rank][s.Steps] = gpus[rank].MemoryStats().InUse - before[rank]
				return nil
			})}, more...)
		}))
		return after
	}
	whole, shared := inUse(), inUse(train.ShardOptimizer())
	const weights = 4 * (2*width*width + 5*width + 2 + 2*width)
	for rank := range 2 {
		saved := whole[rank][16] - shared[rank][16]
		if saved < weights*7/10 { // of the 2·weights that Adam remembers, half
			t.Errorf("rank %d: %d bytes with the whole state, %d with a share: saves %d of %d", rank, whole[rank][16], shared[rank][16], saved, weights)
		}
		if grown := shared[rank][16] - shared[rank][8]; grown > weights/4 {
			t.Errorf("rank %d: memory grows by %d in 8 steps", rank, grown)
		}
	}
}

// Checkpoints of a sharded optimizer have its whole state: a run goes on to the bit, with
// another number of ranks, without sharding and alone.
func TestShardOptimizerResumes(t *testing.T) {
	set := train.Data{Train: spirals(t, 70), Validation: spirals(t, 40), BatchSize: 16}
	opts := []train.Option{train.MaxEpochs(4), train.Accumulate(2), train.AverageWeights(0.9), train.SyncBatchNorm()}
	shard := train.ShardOptimizer()
	whole := sameEverywhere(t, fitUntil(t, cpus(3), grouped, set, 0, append(slices.Clip(opts), shard)...))
	folder := t.TempDir()
	for i, o := range fitUntil(t, cpus(3), grouped, set, 7, append(slices.Clip(opts), shard, train.Checkpoints(folder, 2))...) {
		if !errors.Is(o.err, context.Canceled) {
			t.Fatalf("rank %d: %v", i, o.err)
		}
	}
	resume := func(ranks int, more ...train.Option) ranked {
		copied := filepath.Join(t.TempDir(), "run")
		copyFolder(t, folder, copied)
		return sameEverywhere(t, fitUntil(t, cpus(ranks), grouped, set, 0, append(append(slices.Clip(opts), train.Checkpoints(copied, 2), train.Resume()), more...)...))
	}
	same := func(what string, r ranked) {
		t.Helper()
		if !slices.Equal(bitsOf(weights(whole.model)), bitsOf(weights(r.model))) {
			t.Errorf("%s: other weights than those of a run that was not interrupted", what)
		}
	}
	same("sharded", resume(3, shard))
	same("not sharded", resume(3))
	for _, ranks := range []int{1, 2, 4} {
		r := resume(ranks, shard)
		for i := range r.report.Epochs { // of the epoch at hand, the rest is measured
			r.report.Epochs[i].Train = whole.report.Epochs[i].Train
		}
		near(t, fmt.Sprintf("%d ranks", ranks), whole, r, 1e-4)
	}
	for i, o := range onRanks(t, cpus(2), func(rank int) (*train.Supervised, train.Data, []train.Option) {
		return grouped(), set, []train.Option{shard}[:rank]
	}) {
		if o.err == nil || !strings.Contains(o.err.Error(), "rank 0 has a sharded optimizer: false, rank 1 has a sharded optimizer: true") {
			t.Errorf("rank %d: %v", i, o.err)
		}
	}
}
