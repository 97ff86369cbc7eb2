package nn_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Layers one after the other. More can be added, and each can be asked for.
func ExampleSequential() {
	net := nn.Sequential(nn.Linear(4, 8), nn.ReLU())
	net.Add(nn.Linear(8, 3), nn.Softmax(1))
	fmt.Println(net.Forward(locus.Ones(2, 4)).Shape())
	last := net.At(-2).(*nn.LinearLayer)
	fmt.Println(last.Weight.Value().Shape())
	// Output:
	// [2 3]
	// [3 8]
}

// What a network has to train, by name: here the shapes of the weights, and how many
// numbers there are with the biases.
func ExampleParameters() {
	net := nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
	count := 0
	for _, p := range nn.Parameters(net) {
		count += p.Value().Len()
		if strings.HasSuffix(p.Name, ".weight") {
			fmt.Println(p.Name, p.Value().Shape())
		}
	}
	fmt.Println(count, "numbers")
	// Output:
	// 0.weight [8 4]
	// 2.weight [3 8]
	// 67 numbers
}

// What a network keeps and does not train, and everything that must be saved.
func ExampleBuffers() {
	net := nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(8))
	for _, b := range nn.Buffers(net) {
		fmt.Println(b.Name, b.Kind == nn.Kept)
	}
	fmt.Println(len(nn.Parameters(net)), len(nn.State(net)))
	// Output:
	// 1.running_mean true
	// 1.running_var true
	// 4 6
}

// The tensors of a network in a slice, for functions that want one: the size of all
// gradients together.
func ExampleValues() {
	net := nn.Linear(2, 1, nn.WithInit(nn.Constant(0)))
	net.Forward(locus.From([][]float32{{2, 2}})).Sum().Backward()
	total := 0.0
	for _, v := range nn.Values(nn.Parameters(net)) {
		total += v.Grad().Square().Sum().Item() // 2² + 2² for the weights, 1 for the bias
	}
	fmt.Println(total)
	// Output: 9
}

// A network of the program's own is a struct: its fields name the parameters. A parameter
// can be anything that is learned, here the share of a shortcut.
func ExampleNewParameter() {
	type Net struct {
		Hidden, Out *nn.LinearLayer
		Share       *nn.Parameter
	}
	net := &Net{nn.Linear(3, 4), nn.Linear(4, 3), nn.NewParameter(locus.Full(0.5))}
	forward := func(x *locus.Tensor) *locus.Tensor {
		return net.Out.Forward(net.Hidden.Forward(x).Relu()).Add(x.Mul(net.Share.Value()))
	}
	forward(locus.Ones(2, 3)).Sum().Backward()
	for _, p := range nn.Parameters(net) {
		fmt.Println(p.Name)
	}
	fmt.Println(net.Share.Grad().Item()) // six ones
	// Output:
	// hidden.weight
	// hidden.bias
	// out.weight
	// out.bias
	// share
	// 6
}

// What a network remembers without learning it, here how many examples it has seen. It is
// saved and moved with the network.
func ExampleNewBuffer() {
	type Counted struct{ Seen *nn.Buffer }
	l := &Counted{nn.NewBuffer(locus.Zeros())}
	for _, batch := range []int{32, 32, 7} {
		l.Seen.Update(func(old *locus.Tensor) *locus.Tensor { return old.Add(batch) })
	}
	fmt.Println(l.Seen.Value().Item(), nn.State(l)[0].Name)
	// Output: 71 seen
}

// Names as people sort them.
func ExampleNatural() {
	names := []string{"layers.11.weight", "layers.3.weight", "layers.3.bias"}
	slices.SortFunc(names, nn.Natural)
	fmt.Println(names)
	// Output: [layers.3.bias layers.3.weight layers.11.weight]
}

// A table of the layers and what they weigh, without running the network.
func ExampleDescribe() {
	net := nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LazyLinear(3))
	fmt.Print(nn.Describe(net))
	// Output:
	// path  layer   tensors                                 numbers  memory  device
	// 0     Linear  weight (8, 4), bias (8,)                     40   160 B  cpu
	// 2     Linear  weight not made yet, bias not made yet        0     0 B
	// 40 parameters, 160 B
}

// A table with the shapes of results, for inputs like x. The network itself stays as it
// is: lazy layers remain so.
func ExampleSummarize() {
	net := nn.Sequential(
		nn.LazyConv2D(8, 3, locus.ConvOptions{}), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{}),
		nn.Flatten(), nn.LazyLinear(10))
	summary := nn.Summarize(net, locus.Ones(1, 1, 28, 28))
	fmt.Print(summary)
	fmt.Println(summary.Rows[4].Output, summary.Parameters)
	// Output:
	// name  layer      output       parameters  device
	// 0     Conv       [1 8 26 26]          80  cpu
	// 1     ReLU       [1 8 26 26]           0
	// 2     MaxPool2D  [1 8 13 13]           0
	// 3     Flatten    [1 1352]              0
	// 4     Linear     [1 10]            13530  cpu
	// 13610 parameters, 53.2 KiB
	// [1 10] 13610
}

// Layers are made in training mode. Eval is for use: no dropout, running statistics.
func ExampleEval() {
	net := nn.Sequential(nn.Dropout(0.5), nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Mul(3) }))
	x := locus.Ones(100)
	fmt.Println(nn.Eval(net).Forward(x).Mean().Item())
	nn.Train(net)
	fmt.Println(net.Forward(x).AllClose(net.Forward(x), 0, 0)) // other masks each time
	// Output:
	// 3
	// false
}

// A trained body under a new head: training changes the head alone, until the body is
// unfrozen for the last steps.
func ExampleFreeze() {
	body, head := nn.Linear(4, 8), nn.Linear(8, 2)
	net := nn.Sequential(nn.Freeze(body), nn.ReLU(), head)
	before := body.Weight.Value().Copy()
	opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
	net.Forward(locus.Ones(3, 4)).Sum().Backward()
	opt.Step()
	fmt.Println(body.Weight.Value().AllClose(before, 0, 0), body.Weight.Frozen())
	nn.Unfreeze(body)
	fmt.Println(body.Weight.Frozen())
	// Output:
	// true true
	// false
}

// A network in use as a program, which runs faster than its layers one by one. The results
// are the same.
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

// A compiled function sees changes of parameters and buffers by itself; those of tensors in
// plain fields it sees if they are listed.
func ExampleCells() {
	type Scaled struct {
		Scale *locus.Tensor `nn:"param"`
	}
	net := &Scaled{locus.Full(2).RequireGrad()}
	f := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{args[0].Mul(net.Scale)}
	}, nn.Cells(net)...)
	for range 3 {
		f.Call(locus.Ones(1))
	}
	nn.Parameters(net)[0].Set(locus.Full(5))
	fmt.Println(f.Call(locus.Ones(1))[0].Item())
	// Output: 5
}

// A tensor that nobody will train, since its field has no tag: Check finds what was
// probably forgotten.
func ExampleCheck() {
	forgotten := &struct {
		Layer *nn.LinearLayer
		Scale *locus.Tensor
	}{nn.Linear(3, 3), locus.Ones(3).RequireGrad()}
	fmt.Println(nn.Check(forgotten) != nil)
	tagged := &struct {
		Layer *nn.LinearLayer
		Scale *locus.Tensor `nn:"param"`
	}{nn.Linear(3, 3), locus.Ones(3).RequireGrad()}
	fmt.Println(nn.Check(tagged))
	// Output:
	// true
	// <nil>
}

// Everything that a network is saved with, in the order of its fields: how much memory it
// takes.
func ExampleState() {
	net := nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(8))
	bytes := 0
	for _, e := range nn.State(net) {
		bytes += e.Value().Bytes()
	}
	fmt.Println(bytes, "bytes")
	// Output: 288 bytes
}

// Back to training after a look at the network in use: running statistics change again.
func ExampleTrain() {
	norm := nn.BatchNorm(2)
	mean := func() float64 { return norm.RunningMean.Value().Sum().Item() }
	x := locus.Full(5, 3, 2)
	nn.Eval(norm).Forward(x)
	fmt.Println(mean())
	nn.Train(norm).Forward(x)
	fmt.Println(mean())
	// Output:
	// 0
	// 1
}

// A network that was frozen as a whole, with its last layer open to training.
func ExampleUnfreeze() {
	net := nn.Freeze(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
	nn.Unfreeze(net.At(-1))
	for _, p := range nn.Parameters(net) {
		fmt.Println(p.Name, p.Frozen())
	}
	// Output:
	// 0.weight true
	// 0.bias true
	// 2.weight false
	// 2.bias false
}
