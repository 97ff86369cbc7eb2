package optim_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Keep a moving average of the parameters beside training, and use it in their place at
// the end.
func ExampleNewAverage() {
	net := nn.Linear(1, 1, nn.NoBias())
	net.Weight.Set(locus.Zeros(1, 1))
	average := optim.NewAverage(nn.Parameters(net), 0.999)
	for i := range 500 { // a parameter that swings between 1 and -1
		net.Weight.Set(locus.Full(1-2*float64(i%2), 1, 1))
		average.Update()
	}
	y := nn.Apply(net, nn.TreeOf(net).With(average.Tree()), locus.Ones(1, 1))
	fmt.Printf("trained %.2f, averaged %.2f\n", net.Weight.Value().Item(), y.Item())
	average.Apply() // the network has the average from here on
	fmt.Printf("now %.2f after %d updates\n", net.Weight.Value().Item(), average.Updates())
	// Output:
	// trained -1.00, averaged -0.01
	// now -0.01 after 500 updates
}

// Train in float16: the loss is scaled up, so that small gradients do not vanish, and a step
// whose gradients overflow is left out.
func ExampleNewScaler() {
	x, y := locus.Ones(4, 2), locus.Zeros(4, 1)
	net := nn.Linear(2, 1, nn.WithKey(locus.NewKey(0)))
	params := nn.Parameters(net)
	opt := optim.SGD(params, 0.1, optim.SGDOptions{})
	scaler := optim.NewScaler(locus.CPU())
	for range 20 {
		half := nn.Lower(nil, net, locus.Float16)
		out := half.Forward(x.Cast(locus.Float16)).Cast(locus.Float32)
		loss := locus.MSELoss(out, y, locus.ReduceMean)
		scaler.Step(opt, locus.GradOf(scaler.Scale(loss), nn.Values(params)...))
	}
	fmt.Printf("error %.2f, scale %g\n", net.Forward(x).Abs().Max().Item(), scaler.Value())
	// Output:
	// error 0.00, scale 65536
}

// Clip in float16: undo the scale first, and leave the step out where gradients overflow.
func ExampleScaler_Unscale() {
	net := nn.Linear(2, 1, nn.NoBias())
	net.Weight.Set(locus.Zeros(1, 2))
	params := nn.Parameters(net)
	opt := optim.SGD(params, 1, optim.SGDOptions{})
	scaler := optim.NewScaler(locus.CPU())
	loss := net.Forward(locus.From([][]float32{{3, 4}})).Sum()

	grads := locus.GradOf(scaler.Scale(loss), nn.Values(params)...)
	grads, ok := scaler.Unscale(grads)
	grads, _ = locus.ClipGlobalNorm(grads, 1)
	opt.StepIf(ok, grads)
	scaler.Update(ok)
	fmt.Println(net.Weight.Value().Detach())
	// Output:
	// [[-0.6000 -0.8000]] float32 (1, 2) on cpu
}
