package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Training with functions alone: the state goes in, the new state comes out, and
// nothing else changes. Batch normalization returns its statistics, dropout draws
// from the key.
func ExampleApplyTrain() {
	net := nn.Sequential(nn.LazyLinear(16), nn.BatchNorm(0), nn.ReLU(), nn.Dropout(0.1), nn.LazyLinear(1))
	key := locus.NewKey(0)
	x := locus.CPU().Key(key.Fold(1)).Randn(64, 3)
	target := x.Sum(1).Unsqueeze(1)
	loss := func(y *locus.Tensor) *locus.Tensor { return locus.MSELoss(y, target, locus.ReduceMean) }

	state := nn.Init(net, key, x)
	first := loss(nn.Apply(net, state, x)).Item()
	for step := range uint64(100) {
		leaves := state.RequireGrad()
		y, kept := nn.ApplyTrain(net, leaves, key.Fold(step), x)
		grads := leaves.Grad(loss(y))
		state = state.Map(func(name string, p *locus.Tensor) *locus.Tensor {
			return p.Sub(grads[name].Mul(0.1))
		}).With(kept)
	}
	last := loss(nn.Apply(net, state, x)).Item() // as in inference: running statistics, no dropout
	fmt.Println(last < first/5)
	// Output: true
}

// Mixed precision by hand: a copy of the network computes in bfloat16, gradients
// flow through the rounding to the parameters themselves, and running statistics
// arrive in the network.
func ExampleBind() {
	net := nn.Sequential(nn.Linear(3, 16), nn.BatchNorm(16), nn.ReLU(), nn.Linear(16, 1))
	opt := optim.Adam(nn.Parameters(net), 0.01, optim.AdamOptions{})
	x := locus.CPU().Key(locus.NewKey(1)).Randn(64, 3)
	target := x.Sum(1).Unsqueeze(1)

	for range 50 {
		half := nn.Bind(net, nn.Trainable(net).Map(func(_ string, p *locus.Tensor) *locus.Tensor {
			return p.Cast(locus.BFloat16)
		}))
		y := half.Forward(x.Cast(locus.BFloat16)).Cast(locus.Float32)
		locus.MSELoss(y, target, locus.ReduceMean).Backward()
		opt.Step()
	}
	loss := locus.MSELoss(nn.Eval(net).Forward(x), target, locus.ReduceMean).Item()
	fmt.Println(loss < 1, nn.Buffers(net)[0].Value().DType())
	// Output: true float32
}

// Smoothed scales its input by its mean size so far, which it keeps but does not
// learn.
type Smoothed struct {
	Gain *nn.Parameter
	Size *nn.Buffer
}

func (l *Smoothed) Forward(x *locus.Tensor) *locus.Tensor {
	l.Size.Update(func(old *locus.Tensor) *locus.Tensor {
		return old.Mul(0.9).Add(x.Abs().Mean().Mul(0.1))
	})
	return x.Div(l.Size.Value()).Mul(l.Gain.Value())
}

func ExampleBuffer() {
	l := &Smoothed{nn.NewParameter(locus.Ones()), nn.NewBuffer(locus.Ones())}
	l.Forward(locus.Full(3, 2))
	for _, e := range nn.State(l) {
		fmt.Println(e.Name, e.Kind == nn.Kept, e.Value().Item())
	}
	// Output:
	// gain false 1
	// size true 1.2000000476837158
}
