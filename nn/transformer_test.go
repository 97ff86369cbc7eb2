package nn_test

import (
	"errors"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// An activation that is named, and runs as part of a linear layer, must give what
// the function of that name gives, with its gradients.
func TestTransformerActivation(t *testing.T) {
	functions := map[locus.Activation]func(*locus.Tensor) *locus.Tensor{
		locus.NoActivation: (*locus.Tensor).Relu, locus.ReluActivation: (*locus.Tensor).Relu, locus.GeluActivation: (*locus.Tensor).Gelu,
		locus.GeluTanhActivation: (*locus.Tensor).GeluTanh, locus.SiluActivation: (*locus.Tensor).Silu, locus.Relu6Activation: (*locus.Tensor).Relu6,
		locus.HardSwishActivation: (*locus.Tensor).HardSwish,
	}
	x := locus.CPU().Key(locus.NewKey(3)).Randn(2, 5, 6)
	run := func(o nn.TransformerOptions) []*locus.Tensor {
		o.Hidden = 9
		l := nn.TransformerEncoderLayer(6, 3, o, nn.WithKey(locus.NewKey(4)))
		y := l.Forward(x)
		return append([]*locus.Tensor{y}, locus.Grad([]*locus.Tensor{y.Square().Sum()}, nn.Values(nn.Parameters(l)))...)
	}
	for a, f := range functions {
		got, want := run(nn.TransformerOptions{Activation: a}), run(nn.TransformerOptions{ActivationFunc: f})
		for i := range want {
			if d := got[i].Sub(want[i]).Abs().Max().Item(); d > 1e-5 {
				t.Errorf("%v: result %d is off by %v", a, i, d)
			}
		}
	}
	err := locus.Try(func() {
		nn.TransformerEncoderLayer(6, 3, nn.TransformerOptions{Activation: locus.GeluActivation, ActivationFunc: (*locus.Tensor).Gelu})
	})
	if !errors.Is(err, locus.ErrArgument) {
		t.Errorf("both forms: %v", err)
	}
	if err := locus.Try(func() { run(nn.TransformerOptions{Activation: 99}) }); !errors.Is(err, locus.ErrArgument) {
		t.Errorf("an unknown activation: %v", err)
	}
}
