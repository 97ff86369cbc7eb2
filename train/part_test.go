package train_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// images is a small set of images in two classes, which a dataset crops and flips.
func images(t *testing.T, n int) data.Dataset {
	t.Helper()
	x := locus.CPU().Key(locus.NewKey(8)).Randn(n, 2, 5, 5)
	y := x.Reshape(n, 50).Sum(1).Gt(0).Cast(locus.Int64)
	set, err := data.NewTensorDataset(x, y)
	if err != nil {
		t.Fatal(err)
	}
	return data.Map(set, data.RandomCrop(1), data.RandomFlip(0.5))
}

// drawing is a network in which everything draws: channels, elements, attention weights and
// what a recurrent layer passes on, whose steps come first.
func drawing(seed uint64) *train.Supervised {
	k := locus.NewKey(seed).Split(8)
	m := train.Classifier(nn.Sequential(
		nn.Conv2D(2, 4, 3, locus.ConvOptions{}, nn.WithKey(k[0])), nn.DropoutChannels(0.3, nn.WithKey(k[1])), nn.Tanh(),
		nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Reshape(x.Dim(0), 4, 9) }),
		nn.GRU(9, 6, nn.RecurrentOptions{Layers: 2, Dropout: 0.3}, nn.WithKey(k[2])),
		nn.TransformerEncoder(1, 6, 2, nn.TransformerOptions{Dropout: 0.2}, nn.WithKey(k[3])),
		nn.Flatten(), nn.AlphaDropout(0.2, nn.WithKey(k[4])), nn.Linear(24, 2, nn.WithKey(k[5]))))
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		return optim.SGD(p, 0.05, optim.SGDOptions{Momentum: 0.9})
	}
	return m
}

// eight are more virtual GPUs than some batches have examples.
var eight = locus.AddVirtualGPUs(8, 64<<20)

// What is drawn belongs to the example, not to the device: masks, crops of the dataset and
// noise that is added on the device are those of one device, also where some devices have
// nothing of the last batch.
func TestDrawsFollowTheExample(t *testing.T) {
	set := train.Data{Train: images(t, 49), Validation: images(t, 20), BatchSize: 12} // the last batch has 1
	noise := train.PrepareBatch(func(b *train.Batch) error {
		if b.Stage == train.Training {
			x := b.Fields[0]
			b.Fields[0] = x.Add(x.Device().Key(b.Key).Randn(x.Shape()...).Mul(0.1)).Mul(x.Device().Key(b.Key.Fold(1)).Rand().Add(0.5))
		}
		return nil
	})
	for name, opts := range map[string][]train.Option{
		"compiled":    nil,
		"eager":       {train.Compile(false)},
		"accumulated": {train.Accumulate(2)},
	} {
		opts := append([]train.Option{train.MaxEpochs(2), noise}, opts...)
		one := alone(t, drawing(3), set, opts...)
		if one.report.Uncompiled != "" {
			t.Fatal(one.report.Uncompiled)
		}
		for _, devices := range [][]locus.Device{cpus(2), gpus, eight[:4], eight} {
			what := fmt.Sprintf("%s on %v", name, devices)
			mirrored := alone(t, drawing(3), set, append(slices.Clip(opts), train.Devices(devices...))...)
			near(t, "mirrored, "+what, one, mirrored, 5e-5)
			ranks := sameEverywhere(t, onRanks(t, devices, func(rank int) (*train.Supervised, train.Data, []train.Option) {
				return drawing(3 + uint64(rank)), set, opts // rank 0's keys count
			}))
			near(t, "ranks, "+what, one, ranks, 5e-5)
			if ranks.report.Uncompiled != "" || mirrored.report.Uncompiled != "" {
				t.Errorf("%s: not compiled: %q, %q", what, ranks.report.Uncompiled, mirrored.report.Uncompiled)
			}
		}
		both := sameEverywhere(t, onRanks(t, cpus(2), func(int) (*train.Supervised, train.Data, []train.Option) {
			return drawing(3), set, append(slices.Clip(opts), train.Devices(cpus(2)...))
		}))
		near(t, "two devices each, "+name, one, both, 5e-5)
	}
}

// A run goes on with another number of devices, with the masks and the crops that it would
// have had.
func TestResumeOnOtherDevices(t *testing.T) {
	set := train.Data{Train: images(t, 49), Validation: images(t, 20), BatchSize: 12}
	opts := []train.Option{train.MaxEpochs(2), train.Seed(5), train.Accumulate(2)}
	whole := alone(t, drawing(3), set, opts...)
	for _, devices := range [][][]locus.Device{{gpus[:2], gpus}, {gpus, gpus[:1]}, {cpus(1), gpus[:2]}} {
		checkpoints := train.Checkpoints(filepath.Join(memoryDir(t), "run"), 2)
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		_, err := train.New(append(slices.Clip(opts), checkpoints, train.Devices(devices[0]...), tellBatches(devices[0][0], func() {
			if seen++; seen == 3 {
				cancel()
			}
		}))...).FitContext(ctx, drawing(3), set)
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		rest := ranked{model: drawing(4)}
		rest.report = must(t)(train.New(append(slices.Clip(opts), checkpoints, train.Resume(), train.AcceptChanges("trainer.devices"), train.Devices(devices[1]...))...).Fit(rest.model, set))
		for i := range rest.report.Epochs { // of an epoch in which the number changed, the rest is measured
			rest.report.Epochs[i].Train = whole.report.Epochs[i].Train
		}
		near(t, fmt.Sprintf("%d devices, then %d", len(devices[0]), len(devices[1])), whole, rest, 5e-5)
	}
}
