package optim_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Fit a line: compute the loss, its gradients, and take a step, again and again.
func ExampleSGD() {
	x := locus.From([]float32{-1, 0, 1, 2}, 4, 1)
	y := x.Mul(3).Add(1)
	net := nn.Linear(1, 1, nn.WithKey(locus.NewKey(0)))
	opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
	for range 200 {
		locus.MSELoss(net.Forward(x), y, locus.ReduceMean).Backward()
		opt.Step() // uses the gradients, and forgets them
	}
	fmt.Printf("%.2f x + %.2f after %d steps\n", net.Weight.Value().Item(), net.Bias.Value().Item(), opt.Steps())
	// Output:
	// 3.00 x + 1.00 after 200 steps
}

// Momentum carries a step on in the direction of the steps before it. Dampening takes the
// gradient's share of it down; Nesterov looks ahead along it instead.
func ExampleSGDOptions() {
	params := nn.Parameters(nn.Linear(2, 3))
	fmt.Println(optim.SGD(params, 0.1, optim.SGDOptions{Momentum: 0.9, Nesterov: true, WeightDecay: 5e-4}))
	fmt.Println(optim.SGD(params, 0.1, optim.SGDOptions{Momentum: 0.9, Dampening: 0.1}))
	// Output:
	// SGD(lr 0.1, Momentum 0.9, Nesterov true, WeightDecay 0.0005): 9 numbers in 2 parameters, 0 steps
	// SGD(lr 0.1, Dampening 0.1, Momentum 0.9): 9 numbers in 2 parameters, 0 steps
}

// Adam with its usual options; those that are zero have their defaults.
func ExampleAdam() {
	x := locus.From([]float32{-1, 0, 1, 2}, 4, 1)
	y := x.Mul(3).Add(1)
	net := nn.Linear(1, 1, nn.WithKey(locus.NewKey(0)))
	opt := optim.Adam(nn.Parameters(net), 0.1, optim.AdamOptions{})
	for range 300 {
		locus.MSELoss(net.Forward(x), y, locus.ReduceMean).Backward()
		opt.Step()
	}
	fmt.Printf("%.2f x + %.2f\n", net.Weight.Value().Item(), net.Bias.Value().Item())
	fmt.Println(opt)
	// Output:
	// 3.00 x + 1.00
	// Adam(lr 0.1, Beta1 0.9, Beta2 0.999, Eps 1e-08): 2 numbers in 2 parameters, 300 steps
}

// Weight decay shrinks the parameters by themselves: even where the gradient is zero, each
// step of AdamW takes lr times the decay away from them.
func ExampleAdamW() {
	net := nn.Linear(1, 1, nn.NoBias())
	net.Weight.Set(locus.Ones(1, 1))
	opt := optim.AdamW(nn.Parameters(net), 0.1, optim.AdamOptions{
		Beta1: 0.9, Beta2: 0.95, Eps: 1e-6, WeightDecay: 0.5,
	})
	opt.StepWith([]*locus.Tensor{locus.Zeros(1, 1)})
	fmt.Printf("%.2f\n", net.Weight.Value().Item())
	// Output:
	// 0.95
}

// RMSProp divides each gradient by a moving average of its size, so that parameters with
// small and with large gradients move at about the same rate.
func ExampleRMSProp() {
	net := nn.Linear(2, 1, nn.NoBias())
	net.Weight.Set(locus.Zeros(1, 2))
	opt := optim.RMSProp(nn.Parameters(net), 0.01, optim.RMSPropOptions{
		Alpha: 0.99, Eps: 1e-8, Momentum: 0.9, WeightDecay: 1e-4, Centered: true,
	})
	gradient := locus.From([][]float32{{0.001, 1000}})
	opt.StepWith([]*locus.Tensor{gradient})
	fmt.Println(net.Weight.Value().Detach())
	// Output:
	// [[-0.1005 -0.1005]] float32 (1, 2) on cpu
}

// Adagrad divides each gradient by the root of the sum of all squares so far: parameters
// that are seldom used, such as rows of an embedding, keep a high rate.
func ExampleAdagrad() {
	net := nn.Linear(2, 1, nn.NoBias())
	net.Weight.Set(locus.Zeros(1, 2))
	opt := optim.Adagrad(nn.Parameters(net), 0.1, optim.AdagradOptions{
		LRDecay: 0.01, InitialAccumulator: 0.1, Eps: 1e-10, WeightDecay: 0,
	})
	for range 4 {
		opt.StepWith([]*locus.Tensor{locus.From([][]float32{{1, 1}})}) // both are used
	}
	before := locus.ToSlice[float32](net.Weight.Value().Detach())
	opt.StepWith([]*locus.Tensor{locus.From([][]float32{{1, 0}})}) // only the first
	after := locus.ToSlice[float32](net.Weight.Value().Detach())
	fmt.Println(after[0] < before[0], after[1] == before[1])
	// Output:
	// true true
}

// Fine-tune a network: the pretrained part learns at a tenth of the rate, and biases do not
// decay. A parameter belongs to the first group that matches it.
func ExampleOptimizer_WithGroups() {
	net := &struct {
		Backbone, Head *nn.LinearLayer
	}{nn.Linear(8, 4), nn.Linear(4, 2)}
	opt := optim.AdamW(nn.Parameters(net), 1e-3, optim.AdamOptions{}).WithGroups(
		optim.Group{Match: optim.Named("bias"), WeightDecay: new(0.0)},
		optim.Group{Match: optim.Named("backbone"), LR: 0.1},
	)
	for _, p := range opt.Params() {
		fmt.Println(p.Name, opt.GroupOf(p.Name))
	}
	// Output:
	// backbone.weight 2
	// backbone.bias 1
	// head.weight 0
	// head.bias 1
}

// Choose parameters by parts of their names.
func ExampleNamed() {
	net := nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
	first := optim.Named("0", "2.bias")
	for _, p := range nn.Parameters(net) {
		fmt.Println(p.Name, first(p))
	}
	// Output:
	// 0.weight true
	// 0.bias true
	// 2.weight false
	// 2.bias true
}

// Clip the gradients to a norm of 1 before the step.
func ExampleOptimizer_StepWith() {
	net := nn.Linear(2, 1, nn.NoBias())
	net.Weight.Set(locus.Zeros(1, 2))
	opt := optim.SGD(nn.Parameters(net), 1, optim.SGDOptions{})
	loss := net.Forward(locus.From([][]float32{{3, 4}})).Sum()
	grads := locus.GradOf(loss, nn.Values(opt.Params())...)
	grads, norm := locus.ClipGlobalNorm(grads, 1)
	opt.StepWith(grads)
	fmt.Println(norm.Item(), net.Weight.Value().Detach())
	// Output:
	// 5 [[-0.6000 -0.8000]] float32 (1, 2) on cpu
}

// Clip without a pass over the gradients of its own: the step multiplies them on the way.
func ExampleOptimizer_StepScaled() {
	net := nn.Linear(2, 1, nn.NoBias())
	net.Weight.Set(locus.Zeros(1, 2))
	opt := optim.SGD(nn.Parameters(net), 1, optim.SGDOptions{})
	grads := []*locus.Tensor{locus.From([][]float32{{3, 4}})}
	factor := locus.ClipFactor(locus.GlobalNorm(grads), 1)
	opt.StepScaled(factor, nil, grads) // a nil ok: whatever the gradients are
	fmt.Println(net.Weight.Value().Detach())
	// Output:
	// [[-0.6000 -0.8000]] float32 (1, 2) on cpu
}

// Go on where an optimizer was: its state is tensors by name, and a number of steps.
func ExampleOptimizer_SetState() {
	net := nn.Linear(2, 1)
	momentum := optim.SGDOptions{Momentum: 0.9}
	opt := optim.SGD(nn.Parameters(net), 0.1, momentum)
	net.Forward(locus.Ones(4, 2)).Sum().Backward()
	opt.Step()

	again := optim.SGD(nn.Parameters(net), 0.1, momentum)
	if err := again.SetState(opt.State(), opt.Steps()); err != nil {
		panic(err)
	}
	fmt.Println(again.Steps(), again.State()["momentum.bias"])
	// Output:
	// 1 [4] float32 (1,) on cpu
}

// Share an optimizer's state out: this rank, the first of two, updates its own parameters
// and fetches the others' new values from the ranks that own them.
func ExampleOptimizer_Shard() {
	net := nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
	opt := optim.Adam(nn.Parameters(net), 1e-3, optim.AdamOptions{}).Shard(0, 2)
	for i, p := range opt.Params() {
		fmt.Println(p.Name, "is updated by rank", opt.Owner(i))
	}
	// Output:
	// 0.weight is updated by rank 0
	// 0.bias is updated by rank 0
	// 1.weight is updated by rank 1
	// 1.bias is updated by rank 1
}
