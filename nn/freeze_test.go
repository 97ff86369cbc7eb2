package nn_test

import (
	"errors"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func TestFreeze(t *testing.T) {
	net := nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(1))
	nn.Freeze(net.At(0))
	nn.Freeze(net.At(1)) // before it has values
	if net.Forward(locus.Ones(1, 2)).RequiresGrad() {
		t.Error("a gradient flows to a frozen network")
	}
	nn.Unfreeze(net.At(1))
	for _, p := range nn.Parameters(net) {
		if want := p.Name[0] == '0'; p.Frozen() != want || p.Value().RequiresGrad() == want {
			t.Errorf("%s is frozen: %v", p.Name, p.Frozen())
		}
	}

	raw := &struct {
		Body *nn.LinearLayer
		W    *locus.Tensor `nn:"param"`
	}{nn.Linear(1, 1), locus.Ones(1).RequireGrad()}
	if err := locus.Try(func() { nn.Freeze(raw) }); !errors.Is(err, locus.ErrArgument) || nn.Parameters(raw)[0].Frozen() {
		t.Errorf("freezing a raw tensor: got %v, want an error and nothing changed", err)
	}
}
