package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Initializers for weights that keep the size of signals from layer to layer: Xavier's
// for tanh and sigmoid, Kaiming's for rectifiers, FanIn as PyTorch has it. What differs is
// the spread, which depends on the number of inputs (400) and outputs (200).
func ExampleXavierUniform() {
	for _, c := range []struct {
		name string
		init nn.Initializer
	}{
		{"XavierUniform", nn.XavierUniform()}, {"XavierNormal", nn.XavierNormal()},
		{"KaimingUniform", nn.KaimingUniform()}, {"KaimingNormal", nn.KaimingNormal()},
		{"FanIn", nn.FanIn(0)},
	} {
		layer := nn.Linear(400, 200, nn.WithInit(c.init), nn.WithKey(locus.NewKey(1)))
		fmt.Printf("%-14s ±%.3f\n", c.name, layer.Weight.Value().Std().Item())
	}
	// Output:
	// XavierUniform  ±0.058
	// XavierNormal   ±0.058
	// KaimingUniform ±0.071
	// KaimingNormal  ±0.071
	// FanIn          ±0.029
}

// A deep network of rectifiers: with weights drawn by Kaiming's rule the signals behind
// 20 layers are about as large as the input; with weights drawn too small they are gone.
func ExampleKaimingNormal() {
	x := locus.CPU().Key(locus.NewKey(0)).Randn(64, 256)
	for _, init := range []nn.Initializer{nn.KaimingNormal(), nn.Normal(0, 0.02)} {
		net := nn.Sequential()
		for i := range uint64(20) {
			net.Add(nn.Linear(256, 256, nn.NoBias(), nn.WithInit(init), nn.WithKey(locus.NewKey(i))), nn.ReLU())
		}
		size := net.Forward(x).Square().Mean().Sqrt().Item()
		fmt.Println(size > 0.3 && size < 3)
	}
	// Output:
	// true
	// false
}

// Plain distributions, and a constant.
func ExampleUniform() {
	key := nn.WithKey(locus.NewKey(1))
	w := nn.Linear(100, 100, key, nn.WithInit(nn.Uniform(-0.1, 0.3))).Weight.Value()
	fmt.Printf("uniform: at least %.1f, below %.1f\n", w.Min().Item(), w.Max().Item())
	w = nn.Linear(100, 100, key, nn.WithInit(nn.Normal(1, 0.5))).Weight.Value()
	fmt.Printf("normal: about %.1f ± %.1f\n", w.Mean().Item(), w.Std().Item())
	w = nn.Linear(100, 100, nn.WithInit(nn.Constant(0.01))).Weight.Value()
	fmt.Printf("constant: %.2f\n", w.Max().Item())
	// Output:
	// uniform: at least -0.1, below 0.3
	// normal: about 1.0 ± 0.5
	// constant: 0.01
}

// A forget gate that is open at first: the biases of an LSTM are four parts, of which the
// second belongs to that gate. An initializer is a function of the shape.
func ExampleWithBiasInit() {
	open := func(m locus.Maker, shape []int) *locus.Tensor {
		n := shape[0] / 4
		return locus.Concat(0, m.Zeros(n), m.Ones(n), m.Zeros(2*n))
	}
	lstm := nn.LSTM(3, 2, nn.RecurrentOptions{}, nn.WithBiasInit(open))
	fmt.Println(lstm.Cells[0].BiasIH.Value())
	// Output: [0 0 1 1 0 0 0 0] float32 (8,) on cpu
}

// An initializer of the program's own: weights that begin as the identity.
func ExampleWithInit() {
	identity := func(m locus.Maker, shape []int) *locus.Tensor { return m.Eye(shape[0], shape[1]) }
	layer := nn.Linear(3, 3, nn.WithInit(identity), nn.NoBias())
	fmt.Println(layer.Forward(locus.From([][]float32{{1, 2, 3}})))
	// Output: [[1 2 3]] float32 (1, 3) on cpu
}

// All weights of a finished network at once, by a rule and a key: biases become zeros,
// gains of normalizations ones. Lazy layers need their first batch before.
func ExampleInitialize() {
	net := nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(1))
	net.Forward(locus.Ones(1, 4))
	nn.Initialize(net, locus.NewKey(3), nn.XavierUniform())
	first := net.Forward(locus.Ones(1, 4)).Item()
	nn.Initialize(net, locus.NewKey(3), nn.XavierUniform()) // the same again
	fmt.Println(net.Forward(locus.Ones(1, 4)).Item() == first)
	fmt.Println(nn.Parameters(net)[1].Name, nn.Parameters(net)[1].Value().Abs().Sum().Item())
	// Output:
	// true
	// 0.bias 0
}

// A last layer that says 0 at first, so that training begins from a neutral answer.
func ExampleConstant() {
	head := nn.Linear(8, 1, nn.WithInit(nn.Constant(0)), nn.WithBiasInit(nn.Constant(0.1)))
	fmt.Printf("%.1f\n", head.Forward(locus.Randn(1, 8)).Item())
	// Output: 0.1
}

// Rows of an embedding as GPT-2 draws them, smaller than the usual ones.
func ExampleNormal() {
	table := nn.Embedding(1000, 64, nn.WithInit(nn.Normal(0, 0.02)), nn.WithKey(locus.NewKey(1)))
	fmt.Printf("%.2f\n", table.Weight.Value().Std().Item())
	// Output: 0.02
}

// Xavier's rule with a normal distribution: the deviation is √(2/(inputs+outputs)).
func ExampleXavierNormal() {
	layer := nn.Linear(150, 50, nn.WithInit(nn.XavierNormal()), nn.WithKey(locus.NewKey(1)))
	fmt.Printf("%.1f\n", layer.Weight.Value().Std().Item())
	// Output: 0.1
}

// Kaiming's rule with a uniform distribution: up to √(6/inputs). The inputs of a
// convolution are channels times the size of the kernel, here 6·3·3.
func ExampleKaimingUniform() {
	conv := nn.Conv2D(6, 100, 3, locus.ConvOptions{}, nn.WithInit(nn.KaimingUniform()), nn.WithKey(locus.NewKey(1)))
	fmt.Printf("%.2f\n", conv.Weight.Value().Abs().Max().Item())
	// Output: 0.33
}

// PyTorch's rule, which layers follow by themselves: up to 1/√inputs, also for the bias,
// for which the number of inputs must be given.
func ExampleFanIn() {
	layer := nn.Linear(4, 1000, nn.WithInit(nn.FanIn(0)), nn.WithBiasInit(nn.FanIn(4)), nn.WithKey(locus.NewKey(1)))
	fmt.Printf("%.2f %.2f\n", layer.Weight.Value().Abs().Max().Item(), layer.Bias.Value().Abs().Max().Item())
	// Output: 0.50 0.50
}
