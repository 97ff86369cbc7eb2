package optim_test

import (
	"fmt"
	"testing"

	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func TestDescriptions(t *testing.T) {
	p := nn.Parameters(nn.Linear(2, 3))
	for want, o := range map[string]*optim.Optimizer{
		"SGD(lr 0.1): 9 numbers in 2 parameters, 0 steps":                                                          optim.SGD(p, 0.1, optim.SGDOptions{}),
		"SGD(lr 0.1, Momentum 0.9, Nesterov true): 9 numbers in 2 parameters, 0 steps":                             optim.SGD(p, 0.1, optim.SGDOptions{Momentum: 0.9, Nesterov: true}),
		"AdamW(lr 0.001, Beta1 0.9, Beta2 0.999, Eps 1e-08, WeightDecay 0.01): 9 numbers in 2 parameters, 0 steps": optim.AdamW(p, 1e-3, optim.AdamOptions{WeightDecay: 0.01}),
		"no optimizer": nil,
	} {
		if got := fmt.Sprint(o); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if got := fmt.Sprint(optim.RMSProp(p, 0.1, optim.RMSPropOptions{}).Options()); got != "map[Alpha:0.99 Centered:false Eps:1e-08 Momentum:0 WeightDecay:0]" {
		t.Error(got)
	}
}
