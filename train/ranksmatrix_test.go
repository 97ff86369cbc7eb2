package train_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

// The matrix of several devices and ranks: what they compute is what one device computes with
// the whole batch, which TestMatrix checks against a loop by hand. All combinations of
// precision, accumulation, layers, sizes of the last batch, number and kind of devices with
// LOCUS_TRAIN_MATRIX=full (.ci/run), else every third; the other options take turns.
func TestPlacesMatrix(t *testing.T) {
	build := func(layer string) *train.Supervised {
		k := locus.NewKey(33).Split(6)
		first, last := nn.Linear(4, 6, nn.WithKey(k[0])), nn.Linear(6, 3, nn.WithKey(k[1]))
		var net *nn.SequentialLayer
		switch layer {
		case "BatchNorm":
			net = nn.Sequential(first, nn.Tanh(), nn.BatchNorm(6), last)
		case "Dropout":
			net = nn.Sequential(first, nn.Tanh(), nn.Dropout(0.25, nn.WithKey(k[2])), last)
		default:
			net = nn.Sequential(first, nn.Tanh(), nn.Dropout(0.2, nn.WithKey(k[2])), nn.Residual(nn.Sequential(nn.BatchNorm(6), nn.Linear(6, 6, nn.WithKey(k[3]))), nil), nn.BatchNorm(6), last)
		}
		// Small enough that float16 does not overflow: whether a sum does depends on its parts.
		loss := func(y, target *locus.Tensor) *locus.Tensor { return matrixLoss(y, target).Mul(0.05) }
		return &train.Supervised{Net: net, Optimizer: matrixOptimizer, LossFunc: loss}
	}
	turn, every := 0, 3
	switch {
	case os.Getenv("LOCUS_TRAIN_MATRIX") == "full":
		every = 1
	case testing.Short():
		every = 11
		t.Log("-short: every eleventh cell")
	}
	for _, precision := range []locus.DType{locus.Float32, locus.BFloat16, locus.Float16} {
		for _, accumulate := range []int{1, 3} {
			for _, layer := range []string{"BatchNorm", "Dropout", "both"} {
				for _, l := range []length{lengths[0], lengths[2], tiny} {
					set := train.Data{Train: task(t, l.examples), Validation: task(t, 20), BatchSize: l.batch}
					common := []train.Option{train.MaxEpochs(2), train.Precision(precision), train.Accumulate(accumulate), train.Schedule(matrixSchedule()), train.LogEvery(l.logEvery), train.SyncBatchNorm()}
					tol := 2e-5
					if precision != locus.Float32 {
						tol = 2e-2
					}
					ones := map[bool]ranked{} // by whether gradients are clipped
					for _, places := range []int{2, 3} {
						for _, kind := range []string{"mirrored", "ranks"} {
							if turn++; turn%every != 0 {
								continue
							}
							clip, eager, shard, averaged := turn%2 == 0, turn%3 == 0, turn%5 < 3, turn%7 < 3
							name := fmt.Sprintf("%s, accumulate %d, %s, %s, %d %s, clip %v, eager %v, shard %v, averaged %v", precision, accumulate, layer, l.name, places, kind, clip, eager, shard, averaged)
							opts := slices.Clip(common)
							if clip {
								opts = append(opts, train.ClipGradients(matrixClip))
							}
							if averaged { // compared with one device that averages too
								opts = append(opts, train.AverageWeights(0.5))
							}
							one, ok := ones[clip]
							if !ok || averaged {
								one = alone(t, build(layer), set, opts...)
							}
							if !averaged {
								ones[clip] = one
							}
							opts = append(opts, train.Compile(!eager))
							var many ranked
							if kind == "mirrored" {
								many = alone(t, build(layer), set, append(opts, train.Devices(gpus[:places]...), train.AfterStep(replicasEqual))...)
							} else {
								if shard {
									opts = append(opts, train.ShardOptimizer())
								}
								many = sameEverywhere(t, onRanks(t, cpus(places), func(int) (*train.Supervised, train.Data, []train.Option) { return build(layer), set, opts }))
							}
							near(t, name, one, many, tol)
						}
					}
				}
			}
		}
	}
}
