package nn_test

import (
	"errors"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Replicas that are told their parts drop what one network drops, compiled or not, and also
// behind SetKey; told of the whole batch, they drop as ever.
func TestSetPart(t *testing.T) {
	x := locus.CPU().Key(locus.NewKey(1)).Randn(7, 5, 4)
	build := func() *nn.SequentialLayer {
		k := nn.WithKey(locus.NewKey(9))
		return nn.Train(nn.Sequential(nn.Dropout(0.3, k), nn.LSTM(4, 4, nn.RecurrentOptions{Layers: 2, Bidirectional: true, Dropout: 0.5}, k), nn.DropoutChannels(0.4, k)))
	}
	whole, parts := build(), []*nn.SequentialLayer{build(), build()}
	nn.SetPart(parts[0], 0, 4)
	nn.SetPart(parts[1], 4, 3)
	var calls []func(x *locus.Tensor) *locus.Tensor
	for _, p := range parts {
		c := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
			return []*locus.Tensor{p.Forward(args[0])}
		})
		calls = append(calls, func(x *locus.Tensor) *locus.Tensor { return c.Call(x)[0] })
	}
	for turn := range 5 {
		if turn == 3 {
			for _, n := range append(parts, whole) {
				nn.Reseed(n, locus.NewKey(12))
			}
		}
		want := whole.Forward(x)
		got := locus.Concat(0, calls[0](x.Narrow(0, 0, 4).Copy()), calls[1](x.Narrow(0, 4, 7).Copy()))
		if d := got.Sub(want).Abs().Max().Item(); !(d < 1e-6) {
			t.Errorf("turn %d: the parts are off the whole by %v", turn, d)
		}
	}
	nn.SetPart(parts[1], 2, 3)
	nn.SetPart(whole, 2, 3)
	y := x.Narrow(0, 2, 5).Copy()
	if d := calls[1](y).Sub(whole.Forward(y)).Abs().Max().Item(); !(d < 1e-6) {
		t.Errorf("another part in a compiled function: off by %v", d)
	}
	nn.SetPart(parts[1], 0, 0)
	nn.SetPart(whole, 0, 7)
	if d := parts[1].Forward(x).Sub(whole.Forward(x)).Abs().Max().Item(); d != 0 {
		t.Errorf("the whole batch: off by %v", d)
	}
	if err := locus.Try(func() { nn.SetPart(whole, -1, 2) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}
