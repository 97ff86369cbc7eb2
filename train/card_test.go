package train_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// card returns the first real GPU.
func card(t *testing.T) locus.Device {
	t.Helper()
	for _, i := range locus.Devices() {
		if i.Device.IsGPU() && !strings.HasPrefix(i.Name, "virtual") {
			return i.Device
		}
	}
	t.Skip("there is no real GPU")
	return locus.Device{}
}

// On a real card, compiled training equals training that is not compiled, to the bit:
// networks, precisions, accumulation, a smaller last batch, averages, metrics on the
// device, predictions.
func TestCompiledOnACard(t *testing.T) {
	d := card(t)
	k := locus.NewKey(9).Split(6)
	const n = 16*30 + 5
	x := locus.CPU().Key(k[0]).Randn(n, 1, 12, 12)
	set, err := data.NewTensorDataset(x, x.Narrow(2, 0, 6).Sum(1, 2, 3).Gt(0).Cast(locus.Int64))
	if err != nil {
		t.Fatal(err)
	}
	for name, net := range map[string]func() nn.Module{
		"MLP": func() nn.Module {
			return nn.Sequential(nn.Flatten(), nn.Linear(144, 64, nn.WithKey(k[1])), nn.ReLU(), nn.Dropout(0.2, nn.WithKey(k[2])), nn.Linear(64, 2, nn.WithKey(k[3])))
		},
		"convolutions": func() nn.Module {
			return nn.Sequential(nn.Conv2D(1, 8, 3, locus.ConvOptions{}, nn.WithKey(k[1])), nn.BatchNorm(8), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{}),
				nn.Flatten(), nn.Linear(200, 2, nn.WithKey(k[3])))
		},
	} {
		for _, precision := range []locus.DType{locus.Float32, locus.BFloat16, locus.Float16} {
			for _, accumulate := range []int{1, 3} {
				t.Run(fmt.Sprint(name, " ", precision, " ", accumulate), func(t *testing.T) {
					fit := func(compile bool) ([]float32, *train.Report) {
						m := train.Classifier(net())
						m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.AdamW(p, 0.01, optim.AdamOptions{}) }
						trainer := train.New(train.MaxEpochs(4), train.Devices(d), train.Precision(precision), train.Accumulate(accumulate), train.ClipGradients(1),
							train.AverageWeights(0.9), train.Schedule(optim.Cosine(100, 0.1)), twoClasses(), train.Compile(compile))
						r := must(t)(trainer.Fit(m, train.Data{Train: set, Validation: set, BatchSize: 16}))
						out := weights(m.Net)
						for y, err := range trainer.Predict(m, train.Data{Predict: set, BatchSize: 50}) {
							if err != nil {
								t.Fatal(err)
							}
							out = append(out, locus.ToSlice[float32](y)...)
							y.Free()
						}
						return out, r
					}
					want, plain := fit(false)
					got, r := fit(true)
					if r.Uncompiled != "" {
						t.Error("not compiled:", r.Uncompiled)
					}
					if !slices.Equal(bitsOf(want), bitsOf(got)) {
						again, _ := fit(false)
						t.Errorf("the weights are others; two runs that are not compiled agree: %v", slices.Equal(bitsOf(want), bitsOf(again)))
					}
					if fmt.Sprint(plain.Last().Train, plain.Last().Validation) != fmt.Sprint(r.Last().Train, r.Last().Validation) {
						t.Errorf("%v, compiled %v", plain.Last(), r.Last())
					}
				})
			}
		}
	}
}
