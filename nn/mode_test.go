package nn_test

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// A compiled function may set the mode itself, for a step and a measurement in one: it is one
// program, whatever the mode was before, and leaves the mode that the function leaves. A mode
// that it only looks at is part of the signature.
func TestModeSetInCompiledFunction(t *testing.T) {
	for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
		build := func() (*nn.SequentialLayer, func(a ...*locus.Tensor) []*locus.Tensor) {
			k := locus.NewKey(1).Split(3)
			net := nn.To(nn.Sequential(nn.Linear(3, 4, nn.WithKey(k[0])), nn.BatchNorm(4), nn.Dropout(0.5, nn.WithKey(k[1])), nn.Linear(4, 1, nn.WithKey(k[2]))), d)
			opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
			return net, func(a ...*locus.Tensor) []*locus.Tensor {
				loss := nn.Train(net).Forward(a[0]).Square().Mean()
				loss.Backward()
				opt.Step()
				return []*locus.Tensor{loss.Detach(), nn.Eval(net).Forward(a[0]).Detach()}
			}
		}
		one, f := build()
		two, g := build()
		c := locus.Compile(g)
		for i := range 6 {
			if i == 4 {
				nn.Train(one)
				nn.Train(two) // which the function does not notice
			}
			x := d.Key(locus.NewKey(uint64(i))).Randn(5, 3)
			want, got := f(x), c.Call(x)
			for k := range want {
				if !got[k].AllClose(want[k], 0, 0) {
					t.Errorf("call %d, result %d on %s: %v, want %v", i, k, d, got[k], want[k])
				}
			}
			y := d.Ones(2, 3)
			if a, b := one.Forward(y), two.Forward(y); !a.AllClose(b, 0, 0) {
				t.Errorf("the mode behind call %d is another one", i)
			}
		}
		// Besides the first call, in which the optimizer had nothing to remember.
		if s := c.Summary(); c.Fallback() != "" || !strings.HasPrefix(s, "compiled, ") || strings.Count(s, "\n") != 2 {
			t.Errorf("not one program: %s\n%s", c.Fallback(), s)
		}
	}
}
