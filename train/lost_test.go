package train_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
	"github.com/locusml/locus/train"
)

// virtualOf returns a virtual GPU's backend.
func virtualOf(d locus.Device) *virtual.Device { return lend.Backend(d.Zeros(1)).(*virtual.Device) }

// A card that is lost in the middle of a run ends Fit with an error that names it and the op.
// What was written before is whole: a run that goes on from there, on GPUs that work, ends
// with the bits of one without a fault.
func TestLostCard(t *testing.T) {
	set := train.Data{Train: spirals(t, 97), Validation: spirals(t, 40), BatchSize: 16}
	const epochs = 4
	for name, opts := range map[string][]train.Option{
		"eager":       {train.Compile(false)},
		"compiled":    nil,
		"logged":      {train.LogEvery(1)},
		"accumulated": {train.Accumulate(2), train.ClipGradients(0.1), train.KeepBest()},
	} {
		for _, n := range []int{1, 2} {
			opts := append([]train.Option{train.MaxEpochs(epochs), train.Seed(5)}, opts...)
			whole := mlp(3)
			healthy := locus.AddVirtualGPUs(n, 16<<20)
			counted := virtualOf(healthy[n-1]).Runs()
			must(t)(train.New(append(opts, train.Devices(healthy...))...).Fit(whole, set))
			total := virtualOf(healthy[n-1]).Runs() - counted

			for _, share := range []float64{0.01, 0.55, 0.97} {
				t.Run(fmt.Sprintf("%s on %d at %v", name, n, share), func(t *testing.T) {
					devices := locus.AddVirtualGPUs(n, 16<<20)
					bad := devices[n-1]
					virtualOf(bad).LoseAfter(max(1, int64(share*float64(total))))
					dir := t.TempDir()
					var err error
					var report *train.Report
					inTime(t, time.Minute, func() {
						report, err = train.New(append(opts, train.Devices(devices...), train.Checkpoints(dir, 2))...).Fit(mlp(3), set)
					}, "Fit")
					if !errors.Is(err, locus.ErrDeviceLost) || !strings.Contains(err.Error(), bad.String()+": ") || !strings.Contains(err.Error(), "is lost") {
						t.Fatalf("Fit returned %v", err)
					}
					var e *locus.Error
					if !errors.As(err, &e) || e.Op == "" {
						t.Errorf("no op is named: %v", err)
					}
					if len(report.Epochs) >= epochs {
						t.Errorf("all %d epochs are said to be done", len(report.Epochs))
					}
					again := mlp(3)
					r := must(t)(train.New(append(opts, train.Devices(healthy...), train.Checkpoints(dir, 2), train.Resume())...).Fit(again, set))
					if len(r.Epochs) != epochs {
						t.Errorf("the run that went on has %d epochs", len(r.Epochs))
					}
					if !slices.Equal(weights(again), weights(whole)) {
						t.Error("the run that went on ended with other weights")
					}
				})
			}
		}
	}
}

// One of several ranks loses its card: the others are told which, in time, and the checkpoint
// is whole.
func TestLostCardOfRank(t *testing.T) {
	set := train.Data{Train: spirals(t, 97), Validation: spirals(t, 40), BatchSize: 16}
	for name, opts := range map[string][]train.Option{"eager": {train.Compile(false)}, "compiled": nil, "sharded": {train.ShardOptimizer()}} {
		for lost := range 3 {
			t.Run(fmt.Sprint(name, " rank ", lost), func(t *testing.T) {
				dir := t.TempDir()
				plain := append([]train.Option{train.MaxEpochs(4)}, opts...)
				opts := append(plain, train.Checkpoints(dir, 2))
				build := func(int) (*train.Supervised, train.Data, []train.Option) { return mlp(3), set, opts }
				devices := locus.AddVirtualGPUs(3, 16<<20)
				virtualOf(devices[lost]).LoseAfter(400)
				var out []ranked
				inTime(t, time.Minute, func() { out = onRanks(t, devices, build) }, "Fit")
				for r, o := range out {
					switch {
					case r == lost:
						if !errors.Is(o.err, locus.ErrDeviceLost) || !strings.Contains(o.err.Error(), devices[lost].String()+": ") {
							t.Errorf("rank %d, whose card it was: %v", r, o.err)
						}
					case !errors.Is(o.err, collective.ErrRank) || !strings.Contains(o.err.Error(), fmt.Sprint("rank ", lost)) || !strings.Contains(o.err.Error(), "is lost"):
						t.Errorf("rank %d: %v", r, o.err)
					}
				}
				run := func(more ...train.Option) ranked {
					opts = slices.Concat(plain, more)
					return sameEverywhere(t, onRanks(t, gpus, build))
				}
				again, whole := run(train.Checkpoints(dir, 2), train.Resume()), run()
				if !slices.Equal(weights(again.model), weights(whole.model)) {
					t.Error("the run that went on ended with other weights")
				}
			})
		}
	}
}
