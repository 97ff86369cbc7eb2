package train_test

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

func TestFlags(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	for _, c := range []struct {
		args    []string
		devices int
		first   locus.Device
	}{
		{[]string{"-device", "cpu"}, 1, locus.CPU()},
		{[]string{"-device", gpus[0].String(), "-epochs", "1"}, 1, gpus[0]},
		{[]string{"-gpus", "2"}, 2, locus.GPU(0)},
	} {
		set := flag.NewFlagSet("test", flag.ContinueOnError)
		f := train.NewFlags(set, 1)
		if err := set.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		var bar strings.Builder
		f.Progress = &bar
		learn, test, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		net := nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
		report, err := train.New(f.Options(train.LearningRate(0.5))...).
			Fit(train.Classifier(net), train.Data{Train: learn, Validation: test, BatchSize: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Epochs) != 1 || len(report.Devices) != c.devices || report.Devices[0] != c.first {
			t.Errorf("%v: trained %d epochs on %v", c.args, len(report.Epochs), report.Devices)
		}
		for _, part := range []string{"epoch 1/1", "15/15", "accuracy", "validation loss"} {
			if !strings.Contains(bar.String(), part) {
				t.Errorf("%v: %q is missing from the progress line %q", c.args, part, bar.String())
			}
		}
	}

	set := flag.NewFlagSet("test", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	f := train.NewFlags(set, 3)
	if err := set.Parse([]string{"-device", "tpu:0"}); err == nil {
		t.Error("-device tpu:0 was taken")
	}
	if f.Epochs != 3 || f.Data != "digits" {
		t.Errorf("the defaults are %+v", f)
	}
	f.Data = "cifar"
	if _, _, err := f.Open(); err == nil {
		t.Error("-data cifar was taken")
	}
}
