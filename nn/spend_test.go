package nn_test

import (
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/nn"
)

// keeper is a program's layer that keeps its input and what it returns.
type keeper struct{ in, out *locus.Tensor }

func (k *keeper) Forward(x *locus.Tensor) *locus.Tensor {
	k.in, k.out = x, x.Mul(2)
	return k.out
}

func conv(in, out int) nn.Module { return nn.Conv2D(in, out, 3, locus.ConvOptions{Padding: 1}) }

// spendNets are networks whose layers let go of results, with a shape of their input.
func spendNets() map[string]struct {
	net   func() nn.Module
	shape []int
} {
	type c = struct {
		net   func() nn.Module
		shape []int
	}
	encoder := func(o nn.TransformerOptions) func() nn.Module {
		return func() nn.Module { return nn.TransformerEncoder(2, 8, 2, o) }
	}
	images := []int{3, 4, 6, 6}
	return map[string]c{
		"blocks": {func() nn.Module {
			return nn.Sequential(nn.ResNetBlock(4, 8, 2), nn.ResNetBlock(8, 8, 1), nn.GlobalAvgPool(), nn.Linear(8, 3))
		}, images},
		"norms": {func() nn.Module {
			return nn.Sequential(conv(4, 6), nn.BatchNorm(6), nn.ReLU6(), conv(6, 6), nn.GroupNorm(2, 6), nn.Tanh(), nn.MaxPool2D(2, locus.PoolOptions{}), nn.Dropout(0.5), nn.Flatten(), nn.Linear(54, 3), nn.Sigmoid())
		}, images},
		"identity": {func() nn.Module {
			return nn.Sequential(nn.Identity(), nn.ReLU(), nn.Identity(), nn.Dropout(0), nn.BatchNorm(4), nn.Identity(), nn.ReLU(), nn.Flatten())
		}, images},
		"residual": {func() nn.Module {
			return nn.Sequential(conv(4, 4), nn.Residual(conv(4, 4), nil), nn.Residual(nn.Identity(), conv(4, 4)), nn.ReLU())
		}, images},
		"foreign": {func() nn.Module {
			return nn.Sequential(conv(4, 4), nn.BatchNorm(4), new(keeper), nn.ReLU(), nn.Func((*locus.Tensor).Exp), conv(4, 2))
		}, images},
		"encoder":             {encoder(nn.TransformerOptions{Hidden: 12}), []int{2, 5, 8}},
		"encoder, norm first": {encoder(nn.TransformerOptions{Hidden: 12, PreNorm: true, FinalNorm: true, Dropout: 0.2, Activation: locus.GeluActivation}), []int{2, 5, 8}},
		"encoder, function":   {encoder(nn.TransformerOptions{Hidden: 12, ActivationFunc: (*locus.Tensor).Silu}), []int{2, 5, 8}},
	}
}

// What layers let go of changes no number: results, gradients and their gradients are
// those of layers that keep everything, to the bit; the input and what a program's own
// layers have seen stay.
func TestSpentResults(t *testing.T) {
	spendNow, loseNow := lend.Spend, lend.Lose
	defer func() { lend.Spend, lend.Lose = spendNow, loseNow }()
	keep := func(x, by any) {}
	for name, c := range spendNets() {
		for _, d := range []locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 64<<20)[0]} {
			run := func(freeing bool) (all []float32) {
				lend.Spend, lend.Lose = keep, keep
				if freeing {
					lend.Spend, lend.Lose = spendNow, loseNow
				}
				note := func(ts ...*locus.Tensor) {
					for _, x := range ts {
						all = append(all, locus.ToSlice[float32](x)...)
					}
				}
				locus.Seed(5)
				net := nn.To(nn.Train(c.net()), d)
				x := d.Randn(c.shape...)
				params := nn.Values(nn.Parameters(net))
				wanted := append([]*locus.Tensor{x.RequireGrad()}, params...)
				for _, scoped := range []bool{false, true} {
					in := wanted[0]
					if scoped {
						s := locus.NewScope()
						defer s.Close()
						in = s.Use(in)
					}
					out := net.Forward(in)
					note(out)
					// Twice through the same graph, and gradients of gradients.
					grads := locus.Grad([]*locus.Tensor{out.Square().Sum()}, wanted, locus.CreateGraph)
					note(grads...)
					var sum *locus.Tensor
					for _, g := range grads {
						if s := g.Square().Sum(); sum == nil {
							sum = s
						} else {
							sum = sum.Add(s)
						}
					}
					note(locus.Grad([]*locus.Tensor{sum}, wanted, locus.RetainGraph)...)
					out.Sum().Backward()
					for _, p := range wanted {
						note(p.Grad())
					}
					note(x, out) // both are the program's
					if s, ok := net.(*nn.SequentialLayer); ok {
						for _, l := range s.Layers {
							if k, ok := l.(*keeper); ok {
								note(k.in, k.out)
							}
						}
					}
					note(nn.Apply(nn.Eval(net), nn.TreeOf(net), x))
					nn.Train(net)
				}
				return all
			}
			if want, got := run(false), run(true); !slices.Equal(got, want) {
				t.Errorf("%s on %s: numbers differ", name, d)
			}
		}
	}
}

// Backward in a scope, or without one, needs no more memory than FreeGraph, and half of
// what it needs if layers keep everything.
func TestSpentMemory(t *testing.T) {
	spendNow, loseNow := lend.Spend, lend.Lose
	defer func() { lend.Spend, lend.Lose = spendNow, loseNow }()
	defer layout.Set(layout.Set(layout.Never)) // joined ops keep little as it is
	d := locus.AddVirtualGPUs(1, 256<<20)[0]
	net := nn.To(nn.Train(nn.Sequential(nn.ResNetBlock(8, 8, 1), nn.ResNetBlock(8, 8, 1), nn.ResNetBlock(8, 8, 1))), d)
	x := d.Randn(8, 8, 32, 32)
	peak := func(step func(s *locus.Scope, x *locus.Tensor)) float64 {
		check(t, d.Synchronize())
		d.Collect()
		before := d.MemoryStats().InUse
		d.ResetPeak()
		locus.Scoped(func(s *locus.Scope) { step(s, s.Use(x)) })
		check(t, d.Synchronize())
		return float64(d.MemoryStats().Peak-before) / float64(x.Bytes())
	}
	backward := func(s *locus.Scope, x *locus.Tensor) {
		net.Forward(x).Sum().Backward()
		for _, p := range nn.Parameters(net) {
			p.Value().ZeroGrad()
		}
	}
	free := peak(func(s *locus.Scope, x *locus.Tensor) {
		locus.Grad([]*locus.Tensor{net.Forward(x).Sum()}, nn.Values(nn.Parameters(net)), locus.FreeGraph)
	})
	scoped, plain := peak(backward), peak(func(s *locus.Scope, _ *locus.Tensor) { backward(s, x) })
	use := peak(func(s *locus.Scope, x *locus.Tensor) { locus.NoGrad(func() { net.Forward(x) }) })
	lend.Spend = func(x, by any) {}
	lend.Lose = lend.Spend
	kept := peak(backward)
	t.Logf("peaks, in sizes of the input: %.1f with FreeGraph, %.1f with Backward, %.1f without a scope, %.1f where all is kept; %.1f in use", free, scoped, plain, kept, use)
	if scoped > 1.1*free || plain > 1.1*free || scoped > 0.65*kept || use > 6 {
		t.Error("too much is kept")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
