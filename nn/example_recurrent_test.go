package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Two layers in both directions: the results of both directions lie side by side, and the
// state has an entry for each layer and direction.
func ExampleLSTM() {
	lstm := nn.LSTM(3, 4, nn.RecurrentOptions{Layers: 2, Bidirectional: true})
	x := locus.Ones(5, 7, 3) // five sequences of seven steps
	y, state := lstm.Run(x, nn.RecurrentState{})
	fmt.Println(y.Shape(), state.H.Shape(), state.C.Shape())
	// Output: [5 7 8] [4 5 4] [4 5 4]
}

// A class for each sequence, from what the network knows at its last step.
func ExampleGRU() {
	net := nn.Sequential(
		nn.Embedding(1000, 16), // tokens to vectors
		nn.GRU(16, 32, nn.RecurrentOptions{Layers: 2, Dropout: 0.1}),
		nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Slice(locus.All(), locus.At(-1)) }),
		nn.Linear(32, 2),
	)
	tokens := locus.From([][]int{{5, 17, 3, 999}, {2, 2, 40, 0}})
	fmt.Println(net.Forward(tokens).Shape())
	// Output: [2 2]
}

// A simple recurrent network, with rectifiers in the place of tanh. A long sequence may be
// read in pieces: the state goes from one to the next, and Detach ends gradients there.
func ExampleRNN() {
	rnn := nn.RNN(2, 3, nn.RecurrentOptions{ReLU: true})
	x := locus.CPU().Key(locus.NewKey(0)).Randn(1, 10, 2)
	whole := rnn.Forward(x)
	var state nn.RecurrentState // zeros
	first, state := rnn.Run(x.Narrow(1, 0, 6), state)
	second, _ := rnn.Run(x.Narrow(1, 6, 10), state.Detach())
	fmt.Println(locus.Concat(1, first, second).AllClose(whole, 1e-5, 1e-6))
	// Output: true
}

// A layer whose number of inputs is found at the first batch. The weights of its four gates
// lie one below the other.
func ExampleLazyLSTM() {
	lstm := nn.LazyLSTM(8, nn.RecurrentOptions{})
	fmt.Println(lstm.Forward(locus.Ones(1, 4, 5)).Shape(), lstm.Cells[0].WeightIH.Value().Shape())
	// Output: [1 4 8] [32 5]
}

// The same with three gates, behind a convolution, whose channels become the features: the
// axes change places, as sequences are (N, L, features) here.
func ExampleLazyGRU() {
	net := nn.Sequential(
		nn.LazyConv1D(6, 5, locus.ConvOptions{Stride: 2}), nn.ReLU(),
		nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Transpose(1, 2) }),
		nn.LazyGRU(8, nn.RecurrentOptions{}),
	)
	fmt.Println(net.Forward(locus.Ones(2, 1, 101)).Shape())
	// Output: [2 49 8]
}

// The same without gates, in both directions, whose cells are two.
func ExampleLazyRNN() {
	rnn := nn.LazyRNN(8, nn.RecurrentOptions{Bidirectional: true})
	fmt.Println(rnn.Forward(locus.Ones(1, 4, 5)).Shape(), len(rnn.Cells))
	for _, p := range nn.Parameters(rnn)[:4] {
		fmt.Println(p.Name, p.Value().Shape())
	}
	// Output:
	// [1 4 16] 2
	// weight_ih_l0 [8 5]
	// weight_hh_l0 [8 8]
	// bias_ih_l0 [8]
	// bias_hh_l0 [8]
}

// Two sequences, of three steps and of one, in a batch: what lies behind the end of the second
// does not count, in neither direction.
func ExampleRecurrentLayer_RunPadded() {
	gru := nn.GRU(2, 4, nn.RecurrentOptions{Bidirectional: true})
	x := locus.Rand(2, 3, 2)
	y, end := gru.RunPadded(x, locus.From([]int{3, 1}), nn.RecurrentState{})
	alone := gru.Forward(x.Narrow(0, 1, 2).Narrow(1, 0, 1)) // the second without padding
	fmt.Println(y.Shape(), end.H.Shape(), y.Narrow(0, 1, 2).Narrow(1, 0, 1).AllClose(alone, 1e-6, 1e-6))
	// Output: [2 3 8] [2 2 4] true
}

// A vector for each of ten tokens. Tokens may have any shape.
func ExampleEmbedding() {
	table := nn.Embedding(10, 4)
	fmt.Println(table.Forward(locus.From([][]int{{1, 5, 1}, {9, 0, 2}})).Shape())
	// Output: [2 3 4]
}

// Token 0 fills sequences up to a common length: its vector is zero, and stays zero in
// training.
func ExamplePaddingIndex() {
	table := nn.Embedding(10, 4, nn.PaddingIndex(0))
	y := table.Forward(locus.From([]int{7, 3, 0, 0}))
	y.Sum().Backward()
	fmt.Println(y.Abs().Sum(1).Eq(0))
	fmt.Println(table.Weight.Grad().Abs().Sum(1))
	// Output:
	// [false false  true  true] bool (4,) on cpu
	// [0 0 0 4 0 0 0 4 0 0] float32 (10,) on cpu
}
