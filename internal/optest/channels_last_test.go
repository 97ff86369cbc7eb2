package optest

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// withLayout runs f with images of programs in a layout.
func withLayout(l layout.Setting, f func()) {
	defer layout.Set(layout.Set(l))
	f()
}

// compiledSteps returns the losses of some compiled steps of a network and what its variables hold
// then, and the program's listing.
func compiledSteps(t *testing.T, d locus.Device, half bool, net func() nn.Module, shape ...int) (losses []float64, all [][]float64, listing string) {
	t.Helper()
	locus.Seed(3)
	model := nn.To(nn.Train(net()), d)
	sgd := optim.SGD(nn.Parameters(model), 0.05, optim.SGDOptions{Momentum: 0.9})
	step := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		m, x := model, a[0]
		if half {
			m, x = nn.Lower(nil, model, locus.BFloat16), a[0].Cast(locus.BFloat16)
		}
		y := m.Forward(x).Cast(locus.Float32)
		loss := y.Sub(a[1]).Square().Mean()
		loss.Backward()
		sgd.Step()
		return []*locus.Tensor{loss.Detach(), y.Detach()}
	})
	x := locus.Randn(shape...).To(d)
	want := locus.Randn(model.Forward(x).Shape()...).To(d)
	for range 4 {
		out := step.Call(x, want)
		losses = append(losses, out[0].Item())
		all = append(all, values(out[1]))
	}
	if why := step.Fallback(); why != "" {
		t.Fatalf("computed without a program: %s", why)
	}
	for _, v := range nn.Values(nn.Parameters(model)) {
		all = append(all, values(v))
	}
	return losses, all, step.Explain()
}

// apart returns the largest distance of two lists of numbers in parts of the largest number.
func apart(a, b []float64) float64 {
	most, size := 0.0, 1e-30
	for i := range a {
		most, size = math.Max(most, math.Abs(a[i]-b[i])), math.Max(size, math.Abs(a[i]))
	}
	return most / size
}

// bound is how far apart networks are that add up in another order.
func bound(half bool) float64 {
	if half {
		return 5e-2
	}
	return 2e-4
}

// Networks are the same, up to the order of sums, whether their images lie channels last in
// programs or not.
func TestChannelsLast(t *testing.T) {
	geo := locus.ConvOptions{Stride: locus.Pair(1), Padding: locus.Pair(1)}
	nets := []struct {
		name  string
		net   func() nn.Module
		shape []int
		want  []string // regular expressions of lines of the listing
	}{
		{"residual", func() nn.Module {
			return nn.Sequential(nn.Conv2D(3, 8, locus.Pair(3), geo, nn.NoBias()), nn.BatchNorm(8), nn.ReLU(),
				nn.MaxPool2D(3, locus.PoolOptions{Stride: 2, Padding: 1}), nn.ResNetBlock(8, 8, 1), nn.ResNetBlock(8, 16, 2),
				nn.GlobalAvgPool(), nn.Linear(16, 5))
		}, []int{2, 3, 11, 9}, []string{`= batch_norm\(.*Act:relu Add:false`, `= batch_norm\(.*Act:relu Add:true`, `= batch_norm_grad\(.*Act:relu`}},
		{"plain result", func() nn.Module {
			return nn.Sequential(nn.Conv2D(2, 4, locus.Pair(3), geo), nn.ReLU(), nn.AvgPool2D(2, locus.PoolOptions{}), nn.Conv2D(4, 3, locus.Pair(1), locus.ConvOptions{}))
		}, []int{2, 2, 8, 6}, nil},
		{"flattened", func() nn.Module {
			return nn.Sequential(nn.Conv2D(3, 6, locus.Pair(3), locus.ConvOptions{}), nn.Sigmoid(), nn.MaxPool2D(2, locus.PoolOptions{}), nn.Flatten(), nn.Linear(6*4*4, 7))
		}, []int{3, 3, 10, 10}, nil},
		{"joined", func() nn.Module { return newJoined(4) }, []int{2, 3, 8, 8}, []string{`= batch_norm\(.*Act:relu Add:false`, `= batch_norm_grad\(.*Act:relu`}},
		{"one channel", func() nn.Module {
			return nn.Sequential(nn.Conv2D(1, 4, locus.Pair(3), geo), nn.BatchNorm(4), nn.HardSwish(), nn.Conv2D(4, 4, locus.Pair(3), locus.ConvOptions{Groups: 4}), nn.ReLU6(), nn.Conv2D(4, 1, locus.Pair(1), locus.ConvOptions{}))
		}, []int{3, 1, 7, 5}, nil},
	}
	for _, d := range devices() {
		for _, half := range []bool{false, true} {
			for _, n := range nets {
				t.Run(fmt.Sprintf("%s/%s/half=%t", d, n.name, half), func(t *testing.T) {
					var a, b []float64
					var va, vb [][]float64
					var listing string
					withLayout(layout.Never, func() { a, va, _ = compiledSteps(t, d, half, n.net, n.shape...) })
					withLayout(layout.Always, func() { b, vb, listing = compiledSteps(t, d, half, n.net, n.shape...) })
					if !strings.Contains(listing, "steps have images channels last") {
						t.Errorf("nothing lies channels last:\n%s", listing)
					}
					for _, want := range n.want {
						if !regexp.MustCompile(want).MatchString(listing) {
							t.Errorf("there is no %q:\n%s", want, listing)
						}
					}
					va, vb = append(va, a), append(vb, b)
					for i := range va {
						if e := apart(va[i], vb[i]); !(e <= bound(half)) {
							t.Errorf("value %d of %d: channels last it is off by %.3g of its size\n%s", i, len(va), e, listing)
						}
					}
				})
			}
		}
	}
}

// TestCompiledChannelsLast compares every op on images, and its gradients, with the same in
// a program that has them channels last wherever it can.
func TestCompiledChannelsLast(t *testing.T) {
	near := func(want, got []*locus.Tensor) bool {
		for i := range want {
			bound := map[locus.DType]float64{locus.Float64: 1e-12, locus.Float32: 1e-4}[want[i].DType()]
			if bound == 0 {
				bound = 2e-2
			}
			if a, b := values(want[i]), values(got[i]); len(a) != len(b) || apart(a, b) > bound {
				return false
			}
		}
		return len(want) == len(got)
	}
	withLayout(layout.Always, func() {
		onDevices(t, func(t *testing.T, d locus.Device) {
			n := 0
			for _, c := range records(t) {
				if !strings.Contains(c.Op, "Conv") && !strings.Contains(c.Op, "Pool") && !strings.Contains(c.Op, "Norm") && !strings.Contains(c.Op, "Concat") {
					continue
				}
				o := lookup(t, c)
				in := c.Inputs(d, c.DType)
				if o.waiting(c, d, in) {
					continue
				}
				if err := guarded(func() {
					compareCompiled(t, c.String()+describe(c), func(args ...*locus.Tensor) []*locus.Tensor { return c.Call(o, d, args) }, in, unkeyed[c.Op], near)
					n++
					if c.Grad == nil || !o.Differentiable() {
						return
					}
					compareCompiled(t, "gradient of "+c.String()+describe(c), func(args ...*locus.Tensor) []*locus.Tensor {
						return gradients(c, o, d, args, locus.FreeGraph)
					}, in, unkeyed[c.Op], near)
					n++
				}); err != nil {
					t.Errorf("%s%s: %v", c, describe(c), err)
				}
			}
			if n < 100 {
				t.Errorf("only %d functions were compared", n)
			}
		})
	})
}

// joined is a small U-Net: concatenation, a transposed convolution, and parts of images.
type joined struct {
	Down, Bottom, Merge nn.Module
	Up                  nn.Module
	Out                 nn.Module
}

func newJoined(base int) nn.Module {
	twice := func(in, out int) nn.Module {
		geo := locus.ConvOptions{Padding: locus.Pair(1)}
		return nn.Sequential(nn.Conv2D(in, out, locus.Pair(3), geo, nn.NoBias()), nn.BatchNorm(out), nn.ReLU())
	}
	return &joined{twice(3, base), twice(base, 2*base), twice(2*base, base), nn.ConvTranspose2D(2*base, base, 2, locus.ConvTransposeOptions{Stride: 2}), nn.Conv2D(base, 2, 1, locus.ConvOptions{})}
}

func (j *joined) Forward(x *locus.Tensor) *locus.Tensor {
	a := j.Down.Forward(x)
	b := j.Up.Forward(j.Bottom.Forward(locus.MaxPool2D(a, 2, locus.PoolOptions{})))
	both := locus.Concat(1, a, b)
	first := both.Narrow(1, 0, 3).Mean() // some of its channels
	return j.Out.Forward(j.Merge.Forward(both)).Add(first).Add(a.Narrow(2, 1, 3).Mean())
}
