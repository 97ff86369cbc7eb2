package nn_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func ExampleLSTM() {
	lstm := nn.LSTM(3, 4, nn.RecurrentOptions{Layers: 2, Bidirectional: true})
	x := locus.Ones(5, 7, 3) // five sequences of seven steps
	y, state := lstm.Run(x, nn.RecurrentState{})
	fmt.Println(y.Shape(), state.H.Shape())
	// Output: [5 7 8] [4 5 4]
}

func ExampleMultiHeadAttentionLayer_Attend() {
	attention := nn.MultiHeadAttention(8, 2, nn.MultiHeadOptions{})
	queries, keys := locus.Ones(2, 3, 8), locus.Ones(2, 5, 8)
	lengths := locus.From([]int{5, 2}) // of the keys; the rest is padding
	y := attention.Attend(queries, keys, keys, nn.PaddingMask(lengths, 5))
	fmt.Println(y.Shape())
	// Output: [2 3 8]
}

func ExampleLoad() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.safetensors")

	net := nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
	if err := nn.SaveWith(path, net, map[string]string{"hidden": "4"}); err != nil {
		fmt.Println(err)
	}
	// A lazy network gets its shapes from the file. One that does not fit is told all.
	fmt.Println(nn.Load(path, nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))))
	err := nn.Load(path, nn.Sequential(nn.LazyLinear(5), nn.ReLU()))
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}

func ExampleCompiled() {
	net := nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
	fast := nn.Compiled(net) // in the mode for use: no dropout
	x := locus.Randn(2, 4)
	for range 3 { // two calls are traced, the third runs the program
		fast.Forward(x)
	}
	y := fast.Forward(x)
	fmt.Println(y.Shape(), y.Sub(net.Forward(x)).Abs().Max().Item(), fast.Fallback() == "")
	// Output:
	// [2 3] 0 true
}
