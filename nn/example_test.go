package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// A network from layers, trained on points of a parabola, and used.
func Example() {
	locus.Seed(1)
	net := nn.Sequential(nn.LazyLinear(32), nn.ReLU(), nn.LazyLinear(1))
	x := locus.Linspace(-1, 1, 64).Reshape(64, 1)
	target := x.Square()

	net.Forward(x) // the lazy layers learn their sizes
	opt := optim.Adam(nn.Parameters(net), 0.02, optim.AdamOptions{})
	for range 300 {
		locus.MSELoss(net.Forward(x), target, locus.ReduceMean).Backward()
		opt.Step()
	}
	y := nn.Eval(net).Forward(locus.From([][]float32{{0.5}}))
	fmt.Println("about 0.25:", y.Item() > 0.22 && y.Item() < 0.28)
	// Output: about 0.25: true
}
