package nn_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/nn"
)

// onParts computes f with each part of x at the same time, as peers, and returns what they
// make of it, joined along the first axis.
func onParts(t *testing.T, x *locus.Tensor, sizes []int, f func(rank int, p nn.Peers, x *locus.Tensor) *locus.Tensor) *locus.Tensor {
	t.Helper()
	devices := make([]locus.Device, len(sizes))
	for i := range devices {
		devices[i] = x.Device()
	}
	groups, err := collective.Local(devices, collective.Timeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	out, errs := make([]*locus.Tensor, len(sizes)), make([]error, len(sizes))
	var wg sync.WaitGroup
	at := 0
	for i, n := range sizes {
		part := x.Narrow(0, at, at+n).Detach().Copy()
		at += n
		wg.Go(func() {
			defer groups[i].Close()
			if errs[i] = locus.Try(func() { out[i] = f(i, groups[i].Peers(context.Background()), part) }); errs[i] != nil {
				groups[i].Abort(errs[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return locus.Concat(0, out...)
}

func off(a, b *locus.Tensor) float64 {
	a, b = a.Detach().Cast(locus.Float64), b.Detach().Cast(locus.Float64)
	return a.Sub(b).Abs().Div(b.Abs().Add(1)).Max().Item()
}

// Parts that share their statistics are normalized as the whole batch is, with its gradients,
// gradients of gradients and running statistics, whatever the sizes of the parts.
func TestSyncBatchNorm(t *testing.T) {
	for _, c := range []struct {
		shape []int
		sizes []int
		dtype locus.DType
		far   float64 // how far from 0 the inputs are
		tol   float64
	}{
		{[]int{7, 3}, []int{4, 3}, locus.Float32, 0, 2e-6},
		{[]int{7, 3}, []int{1, 1, 5}, locus.Float64, 0, 1e-13},
		{[]int{5, 2, 3, 4}, []int{2, 2, 1}, locus.Float32, 100, 2e-4},
		{[]int{6, 2, 5}, []int{1, 5}, locus.Float64, 1e5, 1e-9},
		{[]int{8, 3, 2, 2}, []int{3, 3, 2}, locus.BFloat16, 0, 2e-2},
	} {
		t.Run(fmt.Sprint(c.shape, c.sizes, c.dtype), func(t *testing.T) {
			k := locus.NewKey(3).Split(5)
			x := locus.As(locus.Float64).Key(k[0]).Randn(c.shape...).Add(c.far).Cast(c.dtype)
			target := locus.As(locus.Float64).Key(k[1]).Randn(c.shape...).Cast(c.dtype)
			channels := c.shape[1]
			layer := func() *nn.BatchNormLayer {
				l := nn.BatchNorm(channels, nn.WithDType(locus.Float64))
				l.Weight.Set(locus.As(locus.Float64).Key(k[2]).Randn(channels))
				l.Bias.Set(locus.As(locus.Float64).Key(k[3]).Randn(channels))
				if c.dtype != locus.Float64 {
					nn.Cast(l, locus.Float32)
				}
				return nn.Train(l)
			}
			// rows computes output, gradient and gradient of a gradient of a layer, side by
			// side, and the gradients of its parameters behind them.
			rows := func(l *nn.BatchNormLayer, x, target *locus.Tensor) (rows, params, kept *locus.Tensor) {
				w, b := l.Weight.Value().Detach().Cast(c.dtype).RequireGrad(), l.Bias.Value().Detach().Cast(c.dtype).RequireGrad()
				bound := nn.Bind(l, nn.Tree{"weight": w, "bias": b})
				x = x.Detach().RequireGrad()
				y := bound.Forward(x)
				loss := y.Sub(target).Square().Mul(y.Sigmoid()).Sum()
				g := locus.Grad([]*locus.Tensor{loss}, []*locus.Tensor{x, w, b}, locus.CreateGraph)
				params = locus.Concat(0, g[1], g[2]).Detach()
				second := locus.Grad([]*locus.Tensor{g[0].Mul(target).Sum()}, []*locus.Tensor{x})[0]
				return locus.Concat(1, y, g[0], second).Detach(), params, locus.Concat(0, l.RunningMean.Value(), l.RunningVar.Value())
			}
			one := layer()
			want, wantParams, wantKept := rows(one, x, target)
			params, kept := make([]*locus.Tensor, len(c.sizes)), make([]*locus.Tensor, len(c.sizes))
			starts := 0
			targets := make([]*locus.Tensor, len(c.sizes))
			for i, n := range c.sizes {
				targets[i] = target.Narrow(0, starts, starts+n).Copy()
				starts += n
			}
			got := onParts(t, x, c.sizes, func(rank int, p nn.Peers, x *locus.Tensor) *locus.Tensor {
				l := nn.SyncBatchNorm(layer(), p)
				var y *locus.Tensor
				y, params[rank], kept[rank] = rows(l, x, targets[rank])
				return y
			})
			if d := off(got, want); !(d <= c.tol*math.Max(1, math.Sqrt(c.far))) {
				t.Errorf("outputs and gradients are off by %v", d)
			}
			sum := params[0]
			for i := range kept {
				if d := off(kept[i], wantKept); !(d <= 1e-5) {
					t.Errorf("running statistics of part %d are off by %v", i, d)
				}
				if off(kept[i], kept[0]) != 0 {
					t.Error("running statistics differ between parts")
				}
				if i > 0 {
					sum = sum.Add(params[i])
				}
			}
			if d := off(sum, wantParams); !(d <= 10*c.tol) {
				t.Errorf("gradients of the parameters are off by %v", d)
			}
		})
	}
}

func TestSyncBatchNormAlone(t *testing.T) {
	groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU()})
	if err != nil {
		t.Fatal(err)
	}
	defer groups[1].Close()
	net := nn.Train(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3)))
	x := locus.Ones(4, 2)
	nn.SyncBatchNorm(net, groups[0].Peers(context.Background()))
	// A copy, inference mode and the layer behind nil wait for nobody.
	nn.Train(nn.CopyTo(net, locus.CPU())).Forward(x)
	nn.Eval(net).Forward(x)
	nn.Train(net)
	c := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{net.Forward(args[0])} }).Lenient()
	done := make(chan error, 1)
	go func() { done <- locus.Try(func() { c.Call(x) }) }()
	groups[1].Abort(errors.New("out of luck"))
	if err := <-done; !errors.Is(err, collective.ErrRank) || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("a peer that gave up: %v", err)
	}
	if why := c.Fallback(); why != "" {
		t.Errorf("not compiled: %q", why)
	}
	nn.SyncBatchNorm(net, nil).Forward(x)
	groups[0].Close()
	if err := locus.Try(func() { collective.Peers{}.Sum(x) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}
