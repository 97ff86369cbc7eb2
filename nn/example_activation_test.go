package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// An activation stands behind a layer; in a Sequential both are computed at once.
func ExampleReLU() {
	net := nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
	fmt.Println(net.Forward(locus.Ones(2, 3)).Shape())
	fmt.Println(nn.ReLU().Forward(locus.From([]float32{-2, 0, 3})))
	// Output:
	// [2 1]
	// [0 0 3] float32 (3,) on cpu
}

// Rectifiers that cut off above too, or that let something through below.
func ExampleLeakyReLU() {
	x := locus.From([]float32{-2, 1, 8})
	fmt.Println("LeakyReLU", nn.LeakyReLU(0.5).Forward(x))
	fmt.Println("ReLU6", nn.ReLU6().Forward(x))
	fmt.Println("HardTanh", nn.HardTanh(-1, 4).Forward(x))
	fmt.Println("Threshold", nn.Threshold(2, -7).Forward(x)) // -7 where x is not above 2
	// Output:
	// LeakyReLU [-1  1  8] float32 (3,) on cpu
	// ReLU6 [0 1 6] float32 (3,) on cpu
	// HardTanh [-1  1  4] float32 (3,) on cpu
	// Threshold [-7 -7  8] float32 (3,) on cpu
}

// The smooth relatives of the rectifier, at three points.
func ExampleGELU() {
	x := locus.From([]float32{-1, 0.5, 2})
	for _, c := range []struct {
		name string
		f    nn.Module
	}{
		{"GELU", nn.GELU()}, {"GELUTanh", nn.GELUTanh()}, {"SiLU", nn.SiLU()}, {"Mish", nn.Mish()},
		{"HardSwish", nn.HardSwish()}, {"Softplus", nn.Softplus()},
	} {
		y := locus.ToSlice[float32](c.f.Forward(x))
		fmt.Printf("%-9s %5.2f %5.2f %5.2f\n", c.name, y[0], y[1], y[2])
	}
	// Output:
	// GELU      -0.16  0.35  1.95
	// GELUTanh  -0.16  0.35  1.95
	// SiLU      -0.27  0.31  1.76
	// Mish      -0.30  0.38  1.94
	// HardSwish -0.33  0.29  1.67
	// Softplus   0.31  0.97  2.13
}

// Units that are exponential below zero, where they end at a lowest value.
func ExampleELU() {
	x := locus.From([]float32{-2, 1})
	for _, f := range []nn.Module{nn.ELU(1), nn.ELU(0.5), nn.CELU(0.5), nn.SELU()} {
		y := locus.ToSlice[float32](f.Forward(x))
		fmt.Printf("%.2f %.2f\n", y[0], y[1])
	}
	// Output:
	// -0.86 1.00
	// -0.43 1.00
	// -0.49 1.00
	// -1.52 1.05
}

// Functions that press everything into a range.
func ExampleSigmoid() {
	x := locus.From([]float32{-2, 0, 4})
	for _, c := range []struct {
		name string
		f    nn.Module
	}{
		{"Sigmoid", nn.Sigmoid()}, {"HardSigmoid", nn.HardSigmoid()}, {"LogSigmoid", nn.LogSigmoid()},
		{"Tanh", nn.Tanh()}, {"Softsign", nn.Softsign()},
	} {
		y := locus.ToSlice[float32](c.f.Forward(x))
		fmt.Printf("%-11s %5.2f %5.2f %5.2f\n", c.name, y[0], y[1], y[2])
	}
	// Output:
	// Sigmoid      0.12  0.50  0.98
	// HardSigmoid  0.17  0.50  1.00
	// LogSigmoid  -2.13 -0.69 -0.02
	// Tanh        -0.96  0.00  1.00
	// Softsign    -0.67  0.00  0.80
}

// Functions that make small numbers zero, for sparse codes.
func ExampleSoftShrink() {
	x := locus.From([]float32{-2, 0.25, 1})
	for _, f := range []nn.Module{nn.SoftShrink(0.5), nn.HardShrink(0.5), nn.TanhShrink()} {
		y := locus.ToSlice[float32](f.Forward(x))
		fmt.Printf("%.3f %.3f %.3f\n", y[0], y[1], y[2])
	}
	// Output:
	// -1.500 0.000 0.500
	// -2.000 0.000 1.000
	// -1.036 0.005 0.238
}

// Scores to probabilities, along the axis of the classes. A loss such as
// locus.CrossEntropy takes the scores themselves: this is for use.
func ExampleSoftmax() {
	scores := locus.From([][]float32{{1, 2, 4}})
	for _, f := range []nn.Module{nn.Softmax(1), nn.LogSoftmax(1), nn.Softmin(1)} {
		y := locus.ToSlice[float32](f.Forward(scores))
		fmt.Printf("%.2f %.2f %.2f\n", y[0], y[1], y[2])
	}
	// Output:
	// 0.04 0.11 0.84
	// -3.17 -2.17 -0.17
	// 0.71 0.26 0.04
}

// A gated unit: half of the features say how much of the other half passes, so that the
// layer before it needs twice as many.
func ExampleGLU() {
	net := nn.Sequential(nn.Linear(3, 2*8), nn.GLU(1), nn.Linear(8, 1))
	fmt.Println(net.Forward(locus.Ones(5, 3)).Shape())
	// Output: [5 1]
}

// A rectifier that learns its slope below zero, one for each channel.
func ExamplePReLU() {
	f := nn.PReLU(2)
	f.Weight.Set(locus.From([]float32{0.1, 0.5}))
	fmt.Println(f.Forward(locus.From([][]float32{{-10, -10}, {3, 3}})))
	// Output:
	// [[-1 -5]
	//  [ 3  3]] float32 (2, 2) on cpu
}

// Outputs between -1 and 1, such as the pixels of a generated image.
func ExampleTanh() {
	net := nn.Sequential(nn.Linear(3, 4, nn.WithInit(nn.Constant(100))), nn.Tanh())
	fmt.Println(net.Forward(locus.From([][]float32{{1, 1, 1}})))
	// Output: [[1 1 1 1]] float32 (1, 4) on cpu
}

// As tanh, but it reaches its ends slowly, so that gradients live longer.
func ExampleSoftsign() {
	fmt.Println(nn.Softsign().Forward(locus.From([]float32{-3, 0, 3})))
	// Output: [-0.7500  0.0000  0.7500] float32 (3,) on cpu
}

// A number that must be positive, such as the deviation of a distribution: large inputs
// stay as they are.
func ExampleSoftplus() {
	y := locus.ToSlice[float32](nn.Softplus().Forward(locus.From([]float32{-20, 0, 20})))
	fmt.Println(y[0] > 0 && y[0] < 1e-8, fmt.Sprintf("%.3f %.3f", y[1], y[2]))
	// Output: true 0.693 20.000
}

// The logarithm of a probability, where the probability itself is too small for float32.
func ExampleLogSigmoid() {
	x := locus.From([]float32{-200})
	fmt.Println(nn.Sigmoid().Forward(x).Item(), nn.LogSigmoid().Forward(x).Item())
	// Output: 0 -200
}

// Logarithms of probabilities, for a loss that takes them (locus.NLLLoss).
func ExampleLogSoftmax() {
	logs := nn.LogSoftmax(1).Forward(locus.From([][]float32{{1, 2, 4}}))
	loss := locus.NLLLoss(logs, locus.From([]int{2}), locus.NLLOptions{})
	fmt.Printf("%.2f\n", loss.Item())
	// Output: 0.17
}

// Distances to weights: the nearest counts most.
func ExampleSoftmin() {
	y := locus.ToSlice[float32](nn.Softmin(0).Forward(locus.From([]float32{1, 2, 10})))
	fmt.Printf("%.2f %.2f %.2f\n", y[0], y[1], y[2])
	// Output: 0.73 0.27 0.00
}

// GELU as GPT-2 was trained with it, by a tanh. It differs in the fourth digit.
func ExampleGELUTanh() {
	x := locus.Linspace(-3, 3, 100)
	difference := nn.GELUTanh().Forward(x).Sub(nn.GELU().Forward(x)).Abs().Max().Item()
	fmt.Println(difference > 1e-5, difference < 1e-3)
	// Output: true true
}

// The activation of EfficientNet and LLaMA, also called swish: x times its sigmoid. Its
// lowest value is about -0.28.
func ExampleSiLU() {
	fmt.Printf("%.2f\n", nn.SiLU().Forward(locus.Linspace(-5, 5, 1001)).Min().Item())
	// Output: -0.28
}

// As SiLU, a little deeper.
func ExampleMish() {
	fmt.Printf("%.2f\n", nn.Mish().Forward(locus.Linspace(-5, 5, 1001)).Min().Item())
	// Output: -0.31
}

// SiLU without an exponential, for small processors: it is x from 3 on, and 0 up to -3.
func ExampleHardSwish() {
	fmt.Println(nn.HardSwish().Forward(locus.From([]float32{-1.5, 1.5, 3, 5})))
	// Output: [-0.3750  1.1250  3.0000  5.0000] float32 (4,) on cpu
}

// A gate without an exponential: closed up to -3, open from 3 on.
func ExampleHardSigmoid() {
	fmt.Println(nn.HardSigmoid().Forward(locus.From([]float32{-4, 0, 1.5, 4})))
	// Output: [0.0000 0.5000 0.7500 1.0000] float32 (4,) on cpu
}

// Commands that a motor can follow, between two limits.
func ExampleHardTanh() {
	fmt.Println(nn.HardTanh(-1, 2).Forward(locus.From([]float32{-7, 1.5, 7})))
	// Output: [-1.0000  1.5000  2.0000] float32 (3,) on cpu
}

// A rectifier that ends at 6, which integers of few bits can hold: MobileNet's.
func ExampleReLU6() {
	fmt.Println(nn.ReLU6().Forward(locus.From([]float32{-1, 3, 100})))
	// Output: [0 3 6] float32 (3,) on cpu
}

// What is not above a threshold becomes another value: weak signals are silenced.
func ExampleThreshold() {
	fmt.Println(nn.Threshold(0.5, 0).Forward(locus.From([]float32{-1, 0.25, 0.5, 2})))
	// Output: [0 0 0 2] float32 (4,) on cpu
}

// Small coefficients are set to 0, and the others stay as they are.
func ExampleHardShrink() {
	fmt.Println(nn.HardShrink(1).Forward(locus.From([]float32{-3, 0.5, 1, 2})))
	// Output: [-3  0  0  2] float32 (4,) on cpu
}

// What tanh takes away: almost nothing of small numbers, all but 1 of large ones.
func ExampleTanhShrink() {
	y := locus.ToSlice[float32](nn.TanhShrink().Forward(locus.From([]float32{0.1, 10})))
	fmt.Printf("%.4f %.4f\n", y[0], y[1])
	// Output: 0.0003 9.0000
}

// An ELU whose slope at zero is 1 whatever its lowest value, -alpha.
func ExampleCELU() {
	y := locus.ToSlice[float32](nn.CELU(2).Forward(locus.From([]float32{-100, -0.001, 1})))
	fmt.Printf("%.3f %.3f %.3f\n", y[0], y[1], y[2])
	// Output: -2.000 -0.001 1.000
}

// Signals through 30 layers without normalization: with SELU, and weights that keep the
// variance, mean and deviation stay near 0 and 1.
func ExampleSELU() {
	net := nn.Sequential()
	for i := range uint64(30) {
		net.Add(nn.Linear(256, 256, nn.WithInit(nn.Normal(0, 1./16)), nn.NoBias(), nn.WithKey(locus.NewKey(i))), nn.SELU())
	}
	y := net.Forward(locus.CPU().Key(locus.NewKey(99)).Randn(64, 256))
	fmt.Printf("%.0f %.0f\n", y.Mean().Abs().Item(), y.Std().Item())
	// Output: 0 1
}
