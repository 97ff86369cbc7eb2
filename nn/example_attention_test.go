package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Self-attention: all positions of a sequence look at each other, with two heads.
func ExampleMultiHeadAttention() {
	attention := nn.MultiHeadAttention(8, 2, nn.MultiHeadOptions{})
	fmt.Println(attention.Forward(locus.Ones(5, 7, 8)).Shape())
	// Output: [5 7 8]
}

// Attention for a language model: no position sees those behind it. A change of the last
// position leaves the others as they are.
func ExampleMultiHeadAttention_causal() {
	key := locus.NewKey(0)
	attention := nn.MultiHeadAttention(8, 2, nn.MultiHeadOptions{Causal: true, Rotary: true, Dropout: 0.1}, nn.WithKey(key))
	nn.Eval(attention) // no dropout
	x := locus.CPU().Key(key).Randn(1, 5, 8)
	other := locus.Concat(1, x.Narrow(1, 0, 4), locus.Zeros(1, 1, 8))
	difference := attention.Forward(x).Sub(attention.Forward(other)).Abs().Sum(2)
	fmt.Println(difference.Gt(1e-4))
	// Output: [[false false false false  true]] bool (1, 5) on cpu
}

// Attention from text to images, whose vectors have other sizes.
func ExampleMultiHeadAttention_cross() {
	attention := nn.MultiHeadAttention(8, 2, nn.MultiHeadOptions{KeyFeatures: 12, ValueFeatures: 6})
	text, keys, values := locus.Ones(2, 3, 8), locus.Ones(2, 50, 12), locus.Ones(2, 50, 6)
	fmt.Println(attention.Attend(text, keys, values, nil).Shape())
	// Output: [2 3 8]
}

// Queries that look at other sequences, of different lengths: the mask hides the padding.
func ExampleMultiHeadAttentionLayer_Attend() {
	attention := nn.MultiHeadAttention(8, 2, nn.MultiHeadOptions{})
	queries, keys := locus.Ones(2, 3, 8), locus.Ones(2, 5, 8)
	lengths := locus.From([]int{5, 2}) // of the keys; the rest is padding
	y := attention.Attend(queries, keys, keys, nn.PaddingMask(lengths, 5))
	fmt.Println(y.Shape())
	// Output: [2 3 8]
}

// Sequences of lengths 3 and 1, padded to 4: true is what may be looked at.
func ExamplePaddingMask() {
	fmt.Println(nn.PaddingMask(locus.From([]int{3, 1}), 4))
	// Output:
	// [[[ true  true  true false]]
	//
	//  [[ true false false false]]] bool (2, 1, 4) on cpu
}

// Attention does not know the order of a sequence. Fixed waves, added to it, tell the
// positions apart, for sequences of any length; the second argument is for dropout.
func ExampleSinusoidal() {
	positions := nn.Sinusoidal(4, 0)
	y := positions.Forward(locus.Zeros(1, 100, 4))
	fmt.Println(y.Shape(), y.Index(0, 0))
	// Output: [1 100 4] [0 1 0 1] float32 (4,) on cpu
}

// Positions as vectors that are learned: at most 512 of them.
func ExampleLearnedPositions() {
	net := nn.Sequential(nn.Embedding(1000, 16), nn.LearnedPositions(512, 16))
	fmt.Println(net.Forward(locus.From([][]int{{5, 17, 3}})).Shape())
	err := locus.Try(func() { nn.LearnedPositions(512, 16).Forward(locus.Zeros(1, 513, 16)) })
	fmt.Println(err != nil)
	// Output:
	// [1 3 16]
	// true
}

// Positions by rotation: the product of a query and a key depends on how far apart they
// are, not on where. The base is that of the angles; 0 means 10000.
func ExampleRotary() {
	x := nn.Rotary(8, 0).Forward(locus.Ones(10, 8)) // the same vector at ten positions
	products := x.MatMul(x.T())
	fmt.Printf("%.3f %.3f\n", products.Index(1, 3).Item(), products.Index(6, 8).Item())
	// Output: 5.127 5.127
}

// The encoder of a transformer with two layers, and padding that nobody looks at.
func ExampleTransformerEncoder() {
	encoder := nn.TransformerEncoder(2, 16, 4, nn.TransformerOptions{Hidden: 32, Dropout: 0.1})
	x := locus.Ones(2, 5, 16)
	mask := nn.PaddingMask(locus.From([]int{5, 3}), 5)
	fmt.Println(encoder.Encode(x, mask).Shape(), len(encoder.Layers))
	// Output: [2 5 16] 2
}

// A GPT is a stack of encoder layers in which no position sees those behind it: with
// rotated positions, normalization before each part and once more at the end.
func ExampleTransformerEncoder_gpt() {
	gpt := nn.Sequential(
		nn.Embedding(100, 16),
		nn.TransformerEncoder(2, 16, 4, nn.TransformerOptions{
			Hidden: 64, Causal: true, Rotary: true, PreNorm: true, FinalNorm: true,
			Activation: locus.GeluTanhActivation,
		}),
		nn.Linear(16, 100, nn.NoBias()),
	)
	fmt.Println(gpt.Forward(locus.From([][]int{{1, 2, 3}})).Shape()) // scores of the next token
	// Output: [1 3 100]
}

// One layer alone, with an activation of the program's own between its linear layers.
func ExampleTransformerEncoderLayer() {
	layer := nn.TransformerEncoderLayer(16, 2, nn.TransformerOptions{
		Hidden:         32,
		ActivationFunc: func(x *locus.Tensor) *locus.Tensor { return x.Relu().Square() },
	})
	fmt.Println(layer.Forward(locus.Ones(1, 5, 16)).Shape(), layer.Linear1.Weight.Value().Shape())
	// Output: [1 5 16] [32 16]
}

// Translation: the decoder writes a text of four tokens so far, and looks at the seven that
// the encoder has read, of which two are padding.
func ExampleTransformerDecoder() {
	o := nn.TransformerOptions{Hidden: 32}
	encoder, decoder := nn.TransformerEncoder(1, 16, 2, o), nn.TransformerDecoder(1, 16, 2, o)
	mask := nn.PaddingMask(locus.From([]int{5}), 7)
	memory := encoder.Encode(locus.Ones(1, 7, 16), mask)
	fmt.Println(decoder.Decode(locus.Ones(1, 4, 16), memory, nil, mask).Shape())
	// Output: [1 4 16]
}

// One decoder layer: its names are PyTorch's, so that weights from there load.
func ExampleTransformerDecoderLayer() {
	layer := nn.TransformerDecoderLayer(16, 2, nn.TransformerOptions{Hidden: 32})
	fmt.Println(layer.Decode(locus.Ones(1, 4, 16), locus.Ones(1, 7, 16), nil, nil).Shape())
	for _, p := range nn.Parameters(layer)[:4] {
		fmt.Println(p.Name)
	}
	// Output:
	// [1 4 16]
	// self_attn.in_proj_weight
	// self_attn.in_proj_bias
	// self_attn.out_proj.weight
	// self_attn.out_proj.bias
}
