package nn_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/nn"
)

// A normalization with its activation and residual sum in one op has the results and the
// gradients of single ops, however they are asked for.
func TestNormEnds(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 256<<20)[0]
	networks := map[string]func() nn.Module{
		"relu":  func() nn.Module { return nn.Sequential(filter(3, 8), nn.BatchNorm(8), nn.ReLU()) },
		"relu6": func() nn.Module { return nn.Sequential(filter(3, 8), nn.BatchNorm(8), nn.ReLU6(), filter(8, 4)) },
		"gelu":  func() nn.Module { return nn.Sequential(filter(3, 8), nn.BatchNorm(8), nn.GELU()) },
		"block": func() nn.Module { return nn.Sequential(filter(3, 8), nn.ResNetBlock(8, 8, 1), nn.ResNetBlock(8, 8, 1)) },
		"downsample": func() nn.Module {
			return nn.Sequential(filter(3, 8), nn.ResNetBlock(8, 6, 2), nn.BatchNorm(6), nn.ReLU())
		},
		"first": func() nn.Module { return nn.Sequential(nn.ResNetBlock(3, 3, 1)) }, // what is added has no gradient
		"frozen before": func() nn.Module { // nor has this, which lies channels last
			f := filter(3, 3)
			nn.Freeze(f)
			return nn.Sequential(f, nn.ResNetBlock(3, 3, 1))
		},
		"pooled": func() nn.Module {
			return nn.Sequential(filter(3, 8), nn.BatchNorm(8), nn.ReLU(), nn.AvgPool2D(2, locus.PoolOptions{}), nn.Flatten(), nn.LazyLinear(5))
		},
	}
	ways := map[string]func(m nn.Module, x *locus.Tensor) []*locus.Tensor{
		"backward": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			m.Forward(x).Square().Sum().Backward()
			return collected(m)
		},
		"ones": func(m nn.Module, x *locus.Tensor) []*locus.Tensor { // a gradient without memory of its own
			m.Forward(x).Sum().Backward()
			return collected(m)
		},
		"free": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			m.Forward(x).Square().Sum().Backward(locus.FreeGraph)
			return collected(m)
		},
		"twice": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			y := m.Forward(x).Square().Sum()
			y.Backward(locus.RetainGraph)
			y.Backward()
			return collected(m)
		},
		"input": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			x = x.Detach().RequireGrad()
			return locus.Grad([]*locus.Tensor{m.Forward(x).Square().Sum()}, []*locus.Tensor{x})
		},
		"gradient of gradient": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			x = x.Detach().RequireGrad()
			g := locus.Grad([]*locus.Tensor{m.Forward(x).Square().Sum()}, []*locus.Tensor{x}, locus.CreateGraph)[0]
			g.Square().Sum().Backward()
			return append(collected(m), g.Detach())
		},
		"gradient of the parameters' gradient": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			loss := m.Forward(x).Sum()
			var ps []*locus.Tensor
			for _, p := range nn.Parameters(m) {
				if v := p.Value(); v.RequiresGrad() {
					ps = append(ps, v)
				}
			}
			for _, g := range locus.Grad([]*locus.Tensor{loss}, ps, locus.CreateGraph) {
				loss = loss.Add(g.Sin().Sum())
			}
			loss.Backward()
			return collected(m)
		},
		"compiled gradient": func(m nn.Module, x *locus.Tensor) []*locus.Tensor { // of what was computed before
			x = x.Detach().RequireGrad()
			y := m.Forward(x)
			f := locus.Compile(func(in ...*locus.Tensor) []*locus.Tensor {
				return locus.Grad([]*locus.Tensor{y.Mul(in[0]).Sum()}, []*locus.Tensor{x}, locus.RetainGraph)
			})
			return f.Call(y.Detach().Add(1))
		},
		"frozen": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			for i, p := range nn.Parameters(m) {
				if i%2 == 0 {
					p.SetFrozen(true)
				}
			}
			m.Forward(x).Square().Sum().Backward()
			return collected(m)
		},
		"no gradient": func(m nn.Module, x *locus.Tensor) (y []*locus.Tensor) {
			locus.NoGrad(func() { y = []*locus.Tensor{m.Forward(x)} })
			return y
		},
		"inference": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			nn.Eval(m)
			return []*locus.Tensor{m.Forward(x)}
		},
		"slices of the gradient": func(m nn.Module, x *locus.Tensor) []*locus.Tensor {
			x = x.Detach().RequireGrad()
			y := m.Forward(x).FlattenFrom(1).Sum(0)
			rows := locus.Vmap(func(in ...*locus.Tensor) *locus.Tensor {
				return locus.Grad([]*locus.Tensor{y.Mul(in[0]).Sum()}, []*locus.Tensor{x}, locus.RetainGraph)[0]
			})
			return []*locus.Tensor{rows(locus.Eye(y.Len()).To(x.Device()).Narrow(0, 0, 3).Cast(x.DType()))}
		},
	}
	for name, make := range networks {
		for how, way := range ways {
			for _, dt := range []locus.DType{locus.Float32, locus.Float64, locus.BFloat16} {
				t.Run(fmt.Sprint(name, "/", how, "/", dt), func(t *testing.T) {
					run := func(s layout.Setting) (all [][]float64, buffers [][]float64) {
						defer layout.Set(layout.Set(s))
						locus.Seed(3)
						m := nn.Cast(nn.To(make(), gpu), dt)
						x := locus.Randn(4, 3, 6, 6).To(gpu).Cast(dt)
						for _, g := range way(m, x) {
							all = append(all, values(g))
						}
						for _, b := range nn.Buffers(m) {
							buffers = append(buffers, values(b.Value()))
						}
						return all, buffers
					}
					want, wantBuffers := run(layout.Never)
					got, gotBuffers := run(layout.Always)
					bound := map[locus.DType]float64{locus.Float32: 1e-4, locus.Float64: 1e-9, locus.BFloat16: 0.1}[dt]
					compare(t, "result", got, want, bound)
					compare(t, "buffer", gotBuffers, wantBuffers, bound)
				})
			}
		}
	}
}

// filter is a convolution without a bias, whose gradient before a normalization is 0 but for
// roundings.
func filter(in, out int) nn.Module {
	return nn.Conv2D(in, out, 3, locus.ConvOptions{Padding: 1}, nn.NoBias())
}

// collected returns the gradients of a network's parameters.
func collected(m nn.Module) (all []*locus.Tensor) {
	for _, p := range nn.Parameters(m) {
		if g := p.Value().Grad(); g != nil {
			all = append(all, g)
		}
	}
	return all
}

func compare(t *testing.T, what string, got, want [][]float64, bound float64) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 && what == "result" {
		t.Fatalf("%d %ss, want %d", len(got), what, len(want))
	}
	for i := range got {
		size, worst := 1e-6, 0.0
		for k := range want[i] {
			size = math.Max(size, math.Abs(want[i][k]))
			if e := math.Abs(got[i][k] - want[i][k]); !(e <= worst) {
				worst = e
			}
		}
		if !(worst <= bound*size) {
			t.Errorf("%s %d is off by %.2g of its size", what, i, worst/size)
		}
	}
}

// A layer whose parameters have another type than its input is refused, as without an
// activation.
func TestNormEndsOfOtherTypes(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	defer layout.Set(layout.Set(layout.Always))
	x := nn.To(filter(3, 8), gpu).Forward(gpu.Randn(2, 3, 4, 4)) // lies channels last
	bn := nn.To(nn.Sequential(nn.BatchNorm(8), nn.ReLU()), gpu)
	if err := locus.Try(func() { bn.Forward(x.Cast(locus.BFloat16)) }); !errors.Is(err, locus.ErrDType) {
		t.Errorf("bfloat16 with parameters of float32: %v", err)
	}
	bn.Forward(x)
}
