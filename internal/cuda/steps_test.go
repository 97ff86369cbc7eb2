//go:build linux && (amd64 || arm64) && !nocuda

package cuda_test

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// A step of LeNet takes few launches: a bias and its activation are one each way, and the
// gradient of the mean is where it begins. Convolutions are this package's here, two of which
// have their filter copied and two their sums added up.
func TestLaunchesOfLeNet(t *testing.T) {
	launched := cuda.UseFake(t, nil)
	d := locus.GPU()
	pool := nn.AvgPool2D(2, locus.PoolOptions{})
	net := nn.To(nn.Train(nn.Sequential(
		nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), pool,
		nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.Sigmoid(), pool,
		nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))), d)
	x, y := d.Randn(128, 1, 28, 28), d.Zeros(128).Cast(locus.Int64)
	o := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
	step := func() []string {
		launched()
		locus.Scoped(func(s *locus.Scope) {
			loss := locus.CrossEntropy(net.Forward(s.Use(x)), y, locus.CrossEntropyOptions{})
			o.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(o.Params()), locus.FreeGraph))
		})
		return launched()
	}
	step()
	if got := step(); len(got) > 35 {
		t.Errorf("%d launches:\n%s", len(got), strings.Join(got, "\n"))
	}
}
