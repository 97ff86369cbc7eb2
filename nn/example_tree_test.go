package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// The network as a recipe and its state apart, as in JAX: the network itself is left as it
// is, and the same key makes the same state.
func ExampleInit() {
	net := nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(1))
	x := locus.Ones(5, 3)
	state := nn.Init(net, locus.NewKey(0), x)
	fmt.Println(state.Names(), state["0.weight"].Shape())
	fmt.Println(nn.Apply(net, state, x).Shape(), nn.Parameters(net)[0].Value() == nil)
	// Output:
	// [0.bias 0.weight 2.bias 2.weight] [4 3]
	// [5 1] true
}

// What would the network say with half its weights? Apply answers with other tensors in the
// place of its own, and leaves them alone.
func ExampleApply() {
	net := nn.Linear(2, 1, nn.WithInit(nn.Constant(3)), nn.NoBias())
	half := nn.TreeOf(net).Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.Div(2) })
	x := locus.Ones(1, 2)
	fmt.Println(net.Forward(x).Item(), nn.Apply(net, half, x).Item())
	// Output: 6 3
}

// The tensors of a network by name, without history.
func ExampleTreeOf() {
	net := nn.Sequential(nn.Linear(3, 2), nn.BatchNorm(2))
	fmt.Print(nn.TreeOf(net))
	// Output:
	// name            type     shape   memory  device
	// 0.bias          float32  (2,)       8 B  cpu
	// 0.weight        float32  (2, 3)    24 B  cpu
	// 1.bias          float32  (2,)       8 B  cpu
	// 1.running_mean  float32  (2,)       8 B  cpu
	// 1.running_var   float32  (2,)       8 B  cpu
	// 1.weight        float32  (2,)       8 B  cpu
}

// Weights with noise, for robust training: gradients flow through the noise to the
// network's own parameters, as they would not with TreeOf.
func ExampleTrainable() {
	net := nn.Linear(2, 1, nn.NoBias())
	noise := locus.CPU().Key(locus.NewKey(0))
	noisy := nn.Bind(net, nn.Trainable(net).Map(func(_ string, p *locus.Tensor) *locus.Tensor {
		return p.Add(noise.Randn(p.Shape()...).Mul(0.01))
	}))
	noisy.Forward(locus.From([][]float32{{3, 4}})).Sum().Backward()
	fmt.Println(net.Weight.Grad())
	// Output: [[3 4]] float32 (1, 2) on cpu
}
