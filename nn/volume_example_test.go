package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Volumes are classified as images are, with one axis more: here bars that lie along the
// depth (class 0) or along the width (class 1), somewhere in noise.
func ExampleConv3D() {
	const size = 8
	volumes := func(key locus.Key, n int) (x, class *locus.Tensor) {
		draw := func(n uint64) locus.Maker { return locus.CPU().Key(key.Fold(n)) }
		class = draw(0).Randint(0, 2, n)
		// A bar is where two of the three coordinates are those that were drawn.
		hit := draw(1).Randint(0, size, 2, n, 1).Eq(locus.Arange(size))
		a, b := hit.Index(0), hit.Index(1)
		rows := a.Reshape(n, 1, 1, size, 1)
		deep := rows.And(b.Reshape(n, 1, 1, 1, size)).Expand(n, 1, size, size, size)
		wide := rows.And(b.Reshape(n, 1, size, 1, 1)).Expand(n, 1, size, size, size)
		bar := class.Eq(0).Reshape(n, 1, 1, 1, 1).Where(deep, wide)
		return draw(2).Randn(n, 1, size, size, size).Mul(0.1).Add(bar.Cast(locus.Float32)), class
	}
	locus.Seed(1)
	net := nn.Sequential(
		nn.Conv3D(1, 8, 3, locus.Conv3DOptions{Padding: locus.Same}), nn.BatchNorm(8), nn.ReLU(),
		nn.MaxPool3D(2, locus.Pool3DOptions{}),
		nn.Conv3D(8, 8, 3, locus.Conv3DOptions{}), nn.ReLU(),
		nn.GlobalMaxPool(), nn.Linear(8, 2),
	)
	opt := optim.Adam(nn.Parameters(net), 0.02, optim.AdamOptions{})
	for step := range 60 {
		x, class := volumes(locus.NewKey(uint64(step)), 16)
		locus.CrossEntropy(net.Forward(x), class, locus.CrossEntropyOptions{}).Backward()
		opt.Step() // and the gradients are gone
	}
	x, class := volumes(locus.NewKey(1000), 64)
	right := nn.Eval(net).Forward(x).ArgMax(1).Eq(class)
	fmt.Println("more than 60 of 64 are right:", right.Sum().Item() > 60)
	// Output: more than 60 of 64 are right: true
}
