package optest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// withLayout runs f with images in a layout.
func withLayout(l layout.Setting, f func()) {
	defer layout.Set(layout.Set(l))
	f()
}

// trainSteps returns the losses of some steps of a network, compiled or not, and what its variables
// hold then, and the program's listing.
func trainSteps(t *testing.T, d locus.Device, compiled, half bool, net func() nn.Module, shape ...int) (losses []float64, all [][]float64, listing string) {
	t.Helper()
	locus.Seed(3)
	model := nn.To(nn.Train(net()), d)
	sgd := optim.SGD(nn.Parameters(model), 0.05, optim.SGDOptions{Momentum: 0.9})
	step := func(a ...*locus.Tensor) []*locus.Tensor {
		m, x := model, a[0]
		if half {
			m, x = nn.Lower(nil, model, locus.BFloat16), a[0].Cast(locus.BFloat16)
		}
		y := m.Forward(x).Cast(locus.Float32)
		loss := y.Sub(a[1]).Square().Mean()
		loss.Backward()
		sgd.Step()
		return []*locus.Tensor{loss.Detach(), y.Detach()}
	}
	c := locus.Compile(step)
	if compiled {
		step = c.Call
	}
	x := locus.Randn(shape...).To(d)
	want := locus.Randn(model.Forward(x).Shape()...).To(d)
	for range 4 {
		out := step(x, want)
		losses = append(losses, out[0].Item())
		all = append(all, values(out[1]))
	}
	if why := c.Fallback(); why != "" {
		t.Fatalf("computed without a program: %s", why)
	}
	for _, v := range nn.Values(nn.Parameters(model)) {
		all = append(all, values(v))
	}
	return losses, all, c.Explain()
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

// Networks are the same, up to the order of sums, whether their images lie channels last or
// not, compiled and op by op.
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
				t.Run(fmt.Sprintf("%s/%s/half=%t/eager", d, n.name, half), func(t *testing.T) {
					var a, b []float64
					var va, vb [][]float64
					withLayout(layout.Never, func() { a, va, _ = trainSteps(t, d, false, half, n.net, n.shape...) })
					withLayout(layout.Always, func() { b, vb, _ = trainSteps(t, d, false, half, n.net, n.shape...) })
					va, vb = append(va, a), append(vb, b)
					for i := range va {
						if e := apart(va[i], vb[i]); !(e <= bound(half)) {
							t.Errorf("value %d of %d: channels last it is off by %.3g of its size", i, len(va), e)
						}
					}
				})
				t.Run(fmt.Sprintf("%s/%s/half=%t", d, n.name, half), func(t *testing.T) {
					var a, b []float64
					var va, vb [][]float64
					var listing string
					withLayout(layout.Never, func() { a, va, _ = trainSteps(t, d, true, half, n.net, n.shape...) })
					withLayout(layout.Always, func() { b, vb, listing = trainSteps(t, d, true, half, n.net, n.shape...) })
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

// TestEagerChannelsLast compares every op that has an image (N, C, H, W), its gradients and
// theirs, with the same where images lie channels last wherever the device can, given in order
// and channels last.
func TestEagerChannelsLast(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		n, last := 0, 0
		for _, c := range records(t) {
			o := lookup(t, c)
			in := c.Inputs(d, c.DType)
			if !slices.ContainsFunc(in, func(x *locus.Tensor) bool { return x.Rank() == 4 && x.Len() > 0 }) {
				continue
			}
			differentiable := c.Grad != nil && o.Differentiable()
			if err := guarded(func() {
				var want, grads, second []*locus.Tensor
				withLayout(layout.Never, func() {
					want = c.Call(o, d, in)
					if differentiable {
						grads, second = gradients(c, o, d, in), secondGradients(c, o, d, in)
					}
				})
				withLayout(layout.Always, func() {
					for _, how := range []string{"images channels last", "operands channels last"} {
						given := slices.Clone(in)
						if how == "operands channels last" {
							for k := range given {
								given[k] = channelsLast(in[k])
							}
						}
						got := c.Call(o, d, given)
						same(t, c, o, how, got, want)
						if differentiable {
							same(t, c, o, how+", gradients", gradients(c, o, d, given), grads)
							same(t, c, o, how+", second gradients", secondGradients(c, o, d, given), second)
						}
						n++
						for _, y := range got {
							if y.Rank() == 4 && y.Dim(1) > 1 && y.Dim(2)*y.Dim(3) > 1 && y.Permute(0, 2, 3, 1).IsContiguous() {
								last++
							}
						}
					}
				})
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
		}
		t.Logf("%d calls were compared, %d results lay channels last", n, last)
		if n < 500 || last < 100 { // a card has convolutions of float32 and float64 in order
			t.Errorf("only %d calls were compared, and %d results lay channels last", n, last)
		}
	})
}

// secondGradients returns gradients of the sum of the squares of gradients.
func secondGradients(c *Case, o *Op, d locus.Device, in []*locus.Tensor) []*locus.Tensor {
	all, wanted := leaves(c, in)
	out := c.Call(o, d, all)
	loss := weighted(out, weightsOf(o, out))
	if loss == nil {
		return nil
	}
	var sum *locus.Tensor
	for _, g := range locus.Grad([]*locus.Tensor{loss}, wanted, locus.CreateGraph) {
		if !g.RequiresGrad() {
			continue
		}
		if s := g.Square().Mean(); sum == nil {
			sum = s
		} else {
			sum = sum.Add(s)
		}
	}
	if sum == nil {
		return nil
	}
	return locus.Grad([]*locus.Tensor{sum}, wanted)
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
