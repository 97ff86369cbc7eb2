package optim_test

import (
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Programs as users write them, where features meet, each compiled and as it is written: both
// must be the same to the bit.

// meet runs steps of a function that build makes, on one device after the other, and compares
// what they return and what is left behind. Each must have become a program.
func meet(t *testing.T, steps int, build func(d locus.Device) (f func(a ...*locus.Tensor) []*locus.Tensor, state func() []*locus.Tensor), args func(d locus.Device, step int) []*locus.Tensor) {
	for _, d := range []locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 64<<20)[0]} {
		t.Run(d.String(), func(t *testing.T) {
			run := func(compiled bool) (all []*locus.Tensor) {
				locus.Seed(5)
				f, state := build(d)
				call := f
				c := locus.Compile(f)
				if compiled {
					call = c.Call
				}
				for i := range steps {
					all = append(all, call(args(d, i)...)...)
				}
				for _, s := range state() {
					all = append(all, s.Copy())
				}
				if why := c.Fallback(); why != "" {
					t.Error("not compiled:", why)
				}
				return all
			}
			want, got := run(false), run(true)
			for i := range want {
				if !got[i].AllClose(want[i], 0, 0) {
					t.Errorf("value %d of %d is %v, want %v", i, len(want), got[i], want[i])
				}
			}
		})
	}
}

func nothing() []*locus.Tensor { return nil }

// A generator and a discriminator with an optimizer each, in one step, with batches of two
// sizes, noise, dropout and running statistics.
func TestAdversarialNetworksCompiled(t *testing.T) {
	meet(t, 12, func(d locus.Device) (func(a ...*locus.Tensor) []*locus.Tensor, func() []*locus.Tensor) {
		k := locus.NewKey(3).Split(5)
		gen := nn.To(nn.Sequential(nn.Linear(2, 16, nn.WithKey(k[0])), nn.BatchNorm(16), nn.ReLU(), nn.Linear(16, 2, nn.WithKey(k[1]))), d)
		dis := nn.To(nn.Sequential(nn.Linear(2, 16, nn.WithKey(k[2])), nn.LeakyReLU(0.2), nn.Dropout(0.3, nn.WithKey(k[3])), nn.Linear(16, 1, nn.WithKey(k[4]))), d)
		og, od := optim.AdamW(nn.Parameters(gen), 1e-3, optim.AdamOptions{}), optim.AdamW(nn.Parameters(dis), 1e-3, optim.AdamOptions{})
		f := func(a ...*locus.Tensor) []*locus.Tensor {
			n := a[0].Dim(0)
			fake := gen.Forward(d.Randn(n, 2))
			one, zero := d.Ones(n, 1), d.Zeros(n, 1)
			score := func(x, target *locus.Tensor) *locus.Tensor {
				return locus.BCEWithLogits(dis.Forward(x), target, locus.BCEOptions{})
			}
			ld := score(a[0], one).Add(score(fake.Detach(), zero))
			ld.Backward()
			od.Step()
			lg := score(fake, one)
			lg.Backward()
			og.Step()
			od.ZeroGrad() // what the generator's loss has left in the discriminator
			return []*locus.Tensor{ld.Detach(), lg.Detach()}
		}
		return f, func() []*locus.Tensor { return nn.Values(append(nn.State(gen), nn.State(dis)...)) }
	}, func(d locus.Device, step int) []*locus.Tensor {
		return []*locus.Tensor{d.Key(locus.NewKey(uint64(step))).Randn(8-step%2, 2)}
	})
}

// One network reads three inputs, two of which are the same tensor in one of the calls.
func TestSharedNetworkCompiled(t *testing.T) {
	meet(t, 6, func(d locus.Device) (func(a ...*locus.Tensor) []*locus.Tensor, func() []*locus.Tensor) {
		k := locus.NewKey(3).Split(2)
		body := nn.To(nn.Sequential(nn.Linear(3, 8, nn.WithKey(k[0])), nn.BatchNorm(8), nn.Tanh(), nn.Linear(8, 4, nn.WithKey(k[1]))), d)
		opt := optim.SGD(nn.Parameters(body), 0.1, optim.SGDOptions{Momentum: 0.9, Nesterov: true})
		f := func(a ...*locus.Tensor) []*locus.Tensor {
			loss := locus.TripletMargin(body.Forward(a[0]), body.Forward(a[1]), body.Forward(a[2]), 1, 2, locus.ReduceMean)
			loss.Backward()
			opt.Step()
			return []*locus.Tensor{loss.Detach()}
		}
		return f, func() []*locus.Tensor { return nn.Values(nn.State(body)) }
	}, func(d locus.Device, step int) (l []*locus.Tensor) {
		for _, k := range locus.NewKey(uint64(step)).Split(3) {
			l = append(l, d.Key(k).Randn(5, 3))
		}
		if step == 4 {
			l[1] = l[0]
		}
		return l
	})
}

// Two networks that learn from each other: values swapped between parameters, a moving
// average, and a buffer of a power iteration.
func TestVariablesSetCompiled(t *testing.T) {
	meet(t, 7, func(d locus.Device) (func(a ...*locus.Tensor) []*locus.Tensor, func() []*locus.Tensor) {
		one, two := nn.To(nn.Linear(3, 3, nn.WithKey(locus.NewKey(1))), d), nn.To(nn.Linear(3, 3, nn.WithKey(locus.NewKey(2))), d)
		u := nn.NewBuffer(d.Key(locus.NewKey(5)).Randn(3))
		f := func(a ...*locus.Tensor) []*locus.Tensor {
			w1, w2 := one.Weight.Value().Detach(), two.Weight.Value().Detach()
			one.Weight.Set(w2)
			two.Weight.Set(w1.Mul(0.9).Add(w2.Mul(0.1)))
			v := locus.Normalize(w1.T().MatMul(u.Value()), 2, 0, 1e-12)
			u.Set(locus.Normalize(w1.MatMul(v), 2, 0, 1e-12))
			return []*locus.Tensor{u.Value().Mul(w1.MatMul(v)).Sum(), one.Forward(a[0]).Detach()}
		}
		return f, func() []*locus.Tensor {
			return append(nn.Values(append(nn.State(one), nn.State(two)...)), u.Value())
		}
	}, func(d locus.Device, step int) []*locus.Tensor {
		return []*locus.Tensor{d.Key(locus.NewKey(uint64(step))).Randn(5, 3)}
	})
}

// A gradient for each example, by Vmap over Grad inside Compile, which must also be those of
// one example after the other.
func TestGradientsOfExamplesCompiled(t *testing.T) {
	examples := func(d locus.Device, step int) []*locus.Tensor {
		k := locus.NewKey(uint64(step)).Split(2)
		return []*locus.Tensor{d.Key(k[0]).Randn(6, 1, 6, 6), d.Key(k[1]).Randint(0, 3, 6)}
	}
	meet(t, 4, func(d locus.Device) (func(a ...*locus.Tensor) []*locus.Tensor, func() []*locus.Tensor) {
		net := nn.To(nn.Sequential(nn.Conv2D(1, 4, 3, locus.ConvOptions{}), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), d)
		nn.Initialize(net, locus.NewKey(4), nn.XavierUniform())
		f := func(a ...*locus.Tensor) (out []*locus.Tensor) {
			for _, p := range nn.Parameters(net) {
				out = append(out, locus.Vmap(func(b ...*locus.Tensor) *locus.Tensor {
					loss := locus.CrossEntropy(net.Forward(b[0].Unsqueeze(0)), b[1].Reshape(1), locus.CrossEntropyOptions{})
					return locus.GradOf(loss, p.Value())[0]
				})(a...))
			}
			return out
		}
		a := examples(d, 0)
		got := f(a...)
		for i := range a[0].Dim(0) {
			loss := locus.CrossEntropy(net.Forward(a[0].Narrow(0, i, i+1)), a[1].Narrow(0, i, i+1), locus.CrossEntropyOptions{})
			for k, g := range locus.GradOf(loss, nn.Values(nn.Parameters(net))...) {
				if !got[k].Index(i).AllClose(g, 1e-4, 1e-5) {
					t.Errorf("example %d, parameter %d on %s", i, k, d)
				}
			}
		}
		return f, nothing
	}, examples)
}

// A Hessian times a vector, by the gradient of a gradient and by JVP of a gradient.
func TestHessianVectorProductCompiled(t *testing.T) {
	meet(t, 4, func(d locus.Device) (func(a ...*locus.Tensor) []*locus.Tensor, func() []*locus.Tensor) {
		k := locus.NewKey(7).Split(2)
		net := nn.To(nn.Sequential(nn.Linear(4, 8, nn.WithKey(k[0])), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 1, nn.WithKey(k[1]))), d)
		gradient := func(x *locus.Tensor) *locus.Tensor {
			return locus.Grad([]*locus.Tensor{net.Forward(x).Square().Mean()}, []*locus.Tensor{x}, locus.CreateGraph)[0]
		}
		f := func(a ...*locus.Tensor) []*locus.Tensor {
			x := a[0].RequireGrad()
			back := locus.GradOf(gradient(x).Mul(a[1]).Sum(), x)[0]
			_, forth := locus.JVP(func(b ...*locus.Tensor) *locus.Tensor { return gradient(b[0]) }, a[:1], a[1:])
			return []*locus.Tensor{back, forth}
		}
		return f, nothing
	}, func(d locus.Device, step int) []*locus.Tensor {
		k := locus.NewKey(uint64(step)).Split(2)
		return []*locus.Tensor{d.Key(k[0]).Randn(6, 4), d.Key(k[1]).Randn(6, 4)}
	})
}
