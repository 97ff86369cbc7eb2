package nn_test

import (
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// A linear layer, or a convolution, and the activation behind it run as one op; nobody
// may notice.
func TestSequentialJoins(t *testing.T) {
	acts := []nn.Module{nn.ReLU(), nn.GELU(), nn.GELUTanh(), nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.ReLU6(), nn.HardSigmoid(), nn.HardSwish(), nn.LeakyReLU(0.1)}
	for _, act := range append(acts, nn.Flatten()) {
		testJoins(t, act, nn.Sequential(nn.Linear(20, 30), act, nn.Linear(30, 7), act), locus.Randn(5, 20))
	}
	for _, act := range acts {
		geo := locus.ConvOptions{Padding: 1}
		testJoins(t, act, nn.Sequential(nn.Conv2D(3, 10, 3, geo), act, nn.Conv2D(10, 9, 3, geo, nn.NoBias()), act), locus.Randn(4, 3, 7, 6))
		testJoins(t, act, nn.Sequential(nn.Conv1D(3, 4, 3, geo), act, nn.Conv1D(4, 2, 1, locus.ConvOptions{}), act), locus.Randn(2, 3, 9))
	}
}

func testJoins(t *testing.T, act nn.Module, net *nn.SequentialLayer, x *locus.Tensor) {
	t.Helper()
	apply := func() *locus.Tensor { // layer by layer
		y := x
		for _, l := range net.Layers {
			y = l.Forward(y)
		}
		return y
	}
	var plain *locus.Tensor
	locus.NoGrad(func() { plain = net.Forward(x) })
	for what, y := range map[string]*locus.Tensor{"recorded": net.Forward(x), "without a gradient": plain} {
		if d := y.Sub(apply()).Abs().Max().Item(); d != 0 {
			t.Errorf("%v, %s: off by %v", act, what, d)
		}
	}
	w := nn.Values(nn.Parameters(net))
	want, got := locus.Grad([]*locus.Tensor{apply()}, w), locus.Grad([]*locus.Tensor{net.Forward(x)}, w)
	for i := range w {
		if d := want[i].Sub(got[i]).Abs().Max().Item(); d > 1e-5 {
			t.Errorf("%v: gradient %d is off by %v", act, i, d)
		}
	}
	if rows := nn.Summarize(net, x).Rows; len(rows) != 4 {
		t.Errorf("%v: the summary has %d rows, want 4", act, len(rows))
	}
}
