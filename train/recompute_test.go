package train_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// A trainer with Recompute learns the same to the bit, and its explanation says what was
// saved.
func TestRecomputeTrains(t *testing.T) {
	fit := func(options ...train.Option) (values []float32, text string) {
		locus.Seed(3)
		l := []nn.Module{nn.Linear(2, 64)}
		for range 4 {
			l = append(l, nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64))
		}
		m := train.Classifier(nn.Sequential(append(l, nn.Linear(64, 2))...))
		m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.1, optim.SGDOptions{}) }
		var out strings.Builder
		must(t)(train.New(append(options, train.MaxEpochs(5), train.Explain(&out))...).Fit(m, train.Data{Train: spirals(t, 128), BatchSize: 64}))
		return weights(m), out.String()
	}
	want, _ := fit()
	got, text := fit(train.Recompute())
	if !slices.Equal(got, want) {
		t.Error("the parameters differ")
	}
	if !strings.Contains(text, "recomputation: ") || strings.Contains(text, "recomputation: none") {
		t.Errorf("nothing is said of it, or it saves nothing:\n%s", text)
	}
}
