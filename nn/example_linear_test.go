package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// A layer from three features to two. It works on the last axis: the axes before it may
// be a batch, or a batch of sequences.
func ExampleLinear() {
	layer := nn.Linear(3, 2)
	fmt.Println(layer.Weight.Value().Shape(), layer.Bias.Value().Shape())
	fmt.Println(layer.Forward(locus.Ones(5, 3)).Shape())
	fmt.Println(layer.Forward(locus.Ones(5, 7, 3)).Shape())
	// Output:
	// [2 3] [2]
	// [5 2]
	// [5 7 2]
}

// The options of all layers with weights: which numbers they begin with, of which type
// they are, and whether there is a bias.
func ExampleLinear_options() {
	layer := nn.Linear(3, 2,
		nn.WithInit(nn.Constant(0.5)),
		nn.WithBiasInit(nn.Constant(1)),
		nn.WithDType(locus.Float64))
	fmt.Println(layer.Forward(locus.As(locus.Float64).Ones(1, 3)))
	plain := nn.Linear(3, 2, nn.NoBias())
	fmt.Println(plain.Bias == nil)
	// Output:
	// [[2.5000 2.5000]] float64 (1, 2) on cpu
	// true
}

// A layer whose number of inputs is found at the first batch, so that nobody has to work
// it out. Before that it has no weights.
func ExampleLazyLinear() {
	layer := nn.LazyLinear(2)
	fmt.Println(layer.Weight.Value() == nil)
	layer.Forward(locus.Ones(5, 12))
	fmt.Println(layer.Weight.Value().Shape())
	// Output:
	// true
	// [2 12]
}

// The same key makes the same weights, whatever else the program has drawn before.
func ExampleWithKey() {
	key := locus.NewKey(7)
	a, b := nn.Linear(3, 2, nn.WithKey(key)), nn.Linear(3, 2, nn.WithKey(key))
	other := nn.Linear(3, 2, nn.WithKey(key.Fold(1)))
	first := a.Weight.Value()
	fmt.Println(first.AllClose(b.Weight.Value(), 0, 0), first.AllClose(other.Weight.Value(), 0, 0))
	// Output: true false
}

// Weights of another type than float32. Inputs must be of that type too.
func ExampleWithDType() {
	layer := nn.Linear(3, 2, nn.WithDType(locus.BFloat16))
	y := layer.Forward(locus.As(locus.BFloat16).Ones(1, 3))
	fmt.Println(layer.Weight.Value().DType(), y.DType())
	// Output: bfloat16 bfloat16
}

// A bias is of no use before a normalization, which takes the mean away again.
func ExampleNoBias() {
	net := nn.Sequential(nn.Linear(8, 16, nn.NoBias()), nn.BatchNorm(16), nn.ReLU())
	for _, p := range nn.Parameters(net) {
		fmt.Println(p.Name)
	}
	// Output:
	// 0.weight
	// 1.weight
	// 1.bias
}

// A score for pairs, such as a user and an article, from the features of both.
func ExampleBilinear() {
	score := nn.Bilinear(4, 3, 1)
	users, articles := locus.Ones(10, 4), locus.Ones(10, 3)
	fmt.Println(score.Forward(users, articles).Shape(), score.Weight.Value().Shape())
	// Output: [10 1] [1 4 3]
}

// From images to the vectors that a linear layer wants; the batch stays.
func ExampleFlatten() {
	fmt.Println(nn.Flatten().Forward(locus.Ones(5, 3, 4, 4)).Shape())
	// Output: [5 48]
}

// Any function without parameters is a layer: here one that scales pixels to [-1, 1].
func ExampleFunc() {
	scale := nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Div(127.5).Sub(1) })
	net := nn.Sequential(scale, nn.Flatten())
	fmt.Println(net.Forward(locus.From([][]float32{{0, 127.5, 255}})))
	// Output: [[-1  0  1]] float32 (1, 3) on cpu
}

// A layer that does nothing takes the place of one that is left out, so that the others
// keep their numbers, and files written before still fit.
func ExampleIdentity() {
	build := func(normalize bool) *nn.SequentialLayer {
		var norm nn.Module = nn.Identity()
		if normalize {
			norm = nn.BatchNorm(4)
		}
		return nn.Sequential(nn.Linear(3, 4), norm, nn.ReLU(), nn.Linear(4, 2))
	}
	for _, p := range nn.Parameters(build(false)) {
		fmt.Println(p.Name)
	}
	// Output:
	// 0.weight
	// 0.bias
	// 3.weight
	// 3.bias
}
