package train_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

func TestDescriptions(t *testing.T) {
	for want, v := range map[string]any{
		"trainer: 1 epochs, on [cpu]": new(train.Trainer),
		"trainer: 5 epochs, on [cpu], seed 3, a step every 2 batches, in bfloat16, monitors f1 (Highest), keeps the best epoch, checkpoints in run, the last 2, goes on from there, measures f1": train.New(train.MaxEpochs(5), train.Seed(3),
			train.Accumulate(2), train.Precision(locus.BFloat16), train.Monitor("f1", train.Highest), train.KeepBest(), train.Checkpoints("run", 2), train.Resume(), train.Measure(metric.F1(3, metric.Macro))),
		"no network": (*train.Supervised)(nil),
	} {
		if got := fmt.Sprint(v); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	groups, err := collective.Local(cpus(2))
	if err != nil {
		t.Fatal(err)
	}
	if s := train.New(train.Ranks(groups[1])).String(); !strings.Contains(s, "rank 1 of 2") {
		t.Error(s)
	}
	if s := train.New(train.MaxEpochs(0), train.Measure(nil)).String(); !strings.Contains(s, "invalid options") {
		t.Error(s)
	}
	if s := train.Classifier(nn.Sequential(nn.Linear(2, 3))).String(); !strings.Contains(s, "net.0") || !strings.Contains(s, "9 parameters") {
		t.Error(s)
	}
}
