package train_test

import (
	"os"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// On a real GPU two ranks train as one does alone, with half precision and
// accumulation, compiled and not.
func TestCardRanks(t *testing.T) {
	if err := locus.WhyNoGPU(); err != nil {
		t.Skip("not run, needs an NVIDIA GPU:", err)
	}
	t.Logf("LOCUS_CUDNN_TIMING=%q", os.Getenv("LOCUS_CUDNN_TIMING"))
	card := locus.GPU(0)
	if card == gpus[0] {
		t.Skip("not run: GPU 0 is a virtual one")
	}
	set := train.Data{Train: spirals(t, 130), Validation: spirals(t, 66), BatchSize: 32}
	net := func() *train.Supervised {
		k := locus.NewKey(4).Split(3)
		m := train.Classifier(nn.Sequential(nn.Linear(2, 64, nn.WithKey(k[0])), nn.Tanh(), nn.Linear(64, 64, nn.WithKey(k[2])), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 2, nn.WithKey(k[1]))))
		m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.01, optim.AdamOptions{}) }
		return m
	}
	for name, opts := range map[string][]train.Option{
		"plain":       nil,
		"eager":       {train.Compile(false)},
		"accumulated": {train.Accumulate(2), train.ClipGradients(0.1)},
		"float16":     {train.Precision(locus.Float16)},
	} {
		opts := append([]train.Option{train.MaxEpochs(4)}, opts...)
		one := alone(t, net(), set, append(opts, train.Devices(card))...)
		two := sameEverywhere(t, onRanks(t, []locus.Device{card, card}, func(int) (*train.Supervised, train.Data, []train.Option) { return net(), set, opts }))
		tol := 1e-3
		if name == "float16" {
			tol = 5e-2
		}
		near(t, name, one, two, tol)
		t.Logf("%s: one %v, two ranks %v; not compiled: %q", name, one.report.Last().Train, two.report.Last().Train, two.report.Uncompiled)
	}
}
