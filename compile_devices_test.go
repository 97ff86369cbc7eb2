package locus_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

var twoGPUs = sync.OnceValue(func() []locus.Device { return locus.AddVirtualGPUs(2, 64<<20) })

// pairs are two devices each: of the same kind and of different ones.
func pairs(t *testing.T, f func(t *testing.T, a, b locus.Device)) {
	gpus := twoGPUs()
	list := [][2]locus.Device{{gpus[0], gpus[1]}, {locus.CPU(), gpus[0]}, {gpus[1], locus.CPU()}}
	if card := locus.TryGPU(); card != locus.CPU() && !card.Details().Virtual {
		list = append(list, [2]locus.Device{card, locus.CPU()}, [2]locus.Device{locus.CPU(), card}, [2]locus.Device{card, gpus[0]})
	}
	for _, p := range list {
		for _, m := range []program.Mode{program.Best, program.InPlan, program.Default} {
			t.Run(fmt.Sprintf("%s %s mode %d", p[0], p[1], m), func(t *testing.T) {
				defer program.SetMode(program.SetMode(m))
				f(t, p[0], p[1])
			})
		}
	}
}

// Copies between devices are part of a program, in both directions, of arguments, variables,
// tensors from outside, Go data, views, and tensors without elements.
func TestCompileCopiesBetweenDevices(t *testing.T) {
	pairs(t, func(t *testing.T, a, b locus.Device) {
		captured := b.Full(3, 2, 3)
		cell := nn.NewBuffer(b.Full(0.5, 3))
		f := func(in ...*locus.Tensor) []*locus.Tensor {
			x, y := in[0], in[1]
			there := x.Exp().To(b).Mul(2).Add(captured)     // there
			back := there.To(a).Sub(x).Tanh()               // and back
			view := x.T().To(b).T().Narrow(1, 1, 3).To(a)   // a copy of a view, and a view of a copy
			data := locus.From([]float32{1, 2, 3}).To(b)    // Go data: no copy at each call
			state := cell.Value().To(a).Add(x).To(b).Add(y) // a variable, and a second argument
			none := b.Zeros(0, 3).To(a)                     // without elements
			return []*locus.Tensor{there, back, view, data.Add(y), state, none, x, y.T(), captured.To(a)}
		}
		c := locus.Compile(f)
		for i := range 6 {
			x, y := a.Key(locus.NewKey(uint64(i))).Randn(2, 3), b.Full(float64(i), 2, 3)
			want, got := f(x, y), c.Call(x, y)
			for k := range want {
				if want[k].Device() != got[k].Device() {
					t.Errorf("result %d of call %d is on %s, not on %s", k, i, got[k].Device(), want[k].Device())
				}
				sameElements(t, fmt.Sprintf("result %d of call %d", k, i), want[k], got[k])
			}
		}
		isCompiled(t, c)
		if s := c.Explain(); !strings.Contains(s, "several devices:") || !strings.Contains(s, "compile_devices_test.go:") || !strings.Contains(s, fmt.Sprintf("on %s:", b)) {
			t.Error(s)
		}
		if s := c.Summary(); !strings.Contains(s, " copies between devices; ") || !strings.Contains(s, fmt.Sprintf(" on %s", b)) {
			t.Error(s)
		}
	})
}

// split is a network with one layer on each device.
type split struct{ First, Second *nn.LinearLayer }

func (s *split) Forward(x *locus.Tensor) *locus.Tensor {
	h := s.First.Forward(x).Tanh()
	return s.Second.Forward(h.To(s.Second.Weight.Device()))
}

// A network whose layers are on two devices trains as a program: gradients flow back
// through the copies, both optimizers' variables are set, and a last batch that is smaller has a
// program of its own.
func TestCompileModelParallelStep(t *testing.T) {
	pairs(t, func(t *testing.T, a, b locus.Device) {
		train := func(compiled bool) (out []*locus.Tensor, c *locus.Compiled) {
			k := locus.NewKey(3).Split(3)
			net := &split{nn.To(nn.Linear(4, 8, nn.WithKey(k[0])), a), nn.To(nn.Linear(8, 3, nn.WithKey(k[1])), b)}
			opts := []*optim.Optimizer{ // an optimizer for each device
				optim.AdamW(nn.Parameters(net.First), 0.01, optim.AdamOptions{}),
				optim.SGD(nn.Parameters(net.Second), 0.1, optim.SGDOptions{Momentum: 0.9})}
			f := func(in ...*locus.Tensor) []*locus.Tensor {
				loss := locus.CrossEntropy(net.Forward(in[0]), in[1].To(b), locus.CrossEntropyOptions{})
				loss.Backward()
				for _, o := range opts {
					o.Step()
				}
				return []*locus.Tensor{loss.Detach()}
			}
			c = locus.Compile(f)
			for i := range 12 {
				n := 6 - i%3/2*2
				x := a.Key(k[2].Fold(uint64(i))).Randn(n, 4)
				y := x.Sum(1).Gt(0).Cast(locus.Int64)
				if compiled {
					out = append(out, c.Call(x, y)...)
				} else {
					out = append(out, f(x, y)...)
				}
			}
			for _, e := range nn.Parameters(net) {
				out = append(out, e.Value().Copy())
			}
			return out, c
		}
		want, _ := train(false)
		got, c := train(true)
		for i := range want {
			sameElements(t, fmt.Sprint("value ", i), want[i], got[i])
		}
		isCompiled(t, c)
	})
}

// What fails on one device, at any part, leaves variables and memory as they were on all.
func TestCompileDevicesFail(t *testing.T) {
	pairs(t, func(t *testing.T, a, b locus.Device) {
		one, two := nn.NewBuffer(a.Ones(3)), nn.NewBuffer(b.Ones(3))
		c := locus.Compile(func(in ...*locus.Tensor) []*locus.Tensor {
			next := one.Value().Add(1)
			one.Set(next)
			table := b.Zeros(4, 3)
			taken := table.Take(0, in[0].To(b)) // fails for an index that is out of range
			two.Set(two.Value().Add(taken.Sum(0)).Add(1))
			return []*locus.Tensor{two.Value().To(a).Add(next)}
		})
		good, bad := a.From([]int64{1, 2}), a.From([]int64{1, 9})
		for range 4 {
			c.Call(good)
		}
		isCompiled(t, c)
		fails := func() error { // at once, or at the next wait for the device
			err := locus.Try(func() { c.Call(bad)[0].Free() })
			return errors.Join(err, a.Synchronize(), b.Synchronize())
		}
		if err := fails(); !errors.Is(err, locus.ErrIndex) {
			t.Fatal(err)
		}
		if b == locus.CPU() { // it fails at once
			sameElements(t, "a variable behind a call that failed", a.Full(5, 3), one.Value())
			sameElements(t, "the other device's", b.Full(5, 3), two.Value())
		}
		in := a.MemoryStats().InUse + b.MemoryStats().InUse
		for range 50 {
			fails()
		}
		if now := a.MemoryStats().InUse + b.MemoryStats().InUse; now > in+4<<10 {
			t.Errorf("failed calls keep %d bytes", now-in)
		}
	})
}

// The guard and the ledger see the copies of a program, with the lines of the function.
func TestCompileCopiesInLedger(t *testing.T) {
	gpu := twoGPUs()[0]
	c := locus.Compile(func(in ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{in[0].Add(1).To(gpu).Mul(2)}
	})
	x := locus.Ones(4)
	c.Call(x)
	c.Call(x)
	locus.ResetLedger()
	for range 3 {
		c.Call(x)
	}
	n := 0
	for _, e := range locus.Ledger() {
		if e.Kind == locus.HostToDevice && strings.Contains(e.Site, "compile_devices_test.go:") {
			n += int(e.Count)
		}
	}
	if n != 3 {
		t.Errorf("%d copies in the ledger:\n%s", n, locus.Ledger())
	}
	restore := locus.Guard(locus.Disallow, locus.HostToDevice)
	err := locus.Try(func() { c.Call(x) })
	restore()
	if !errors.Is(err, locus.ErrTransfer) {
		t.Error(err)
	}
	sameElements(t, "behind the guard", gpu.Full(4, 4), c.Call(x)[0])
}

// Memory stays flat, and goroutines may share such a program.
func TestCompileDevicesManyCalls(t *testing.T) {
	pairs(t, func(t *testing.T, a, b locus.Device) {
		w := nn.NewBuffer(b.Ones(32, 32))
		c := locus.Compile(func(in ...*locus.Tensor) []*locus.Tensor {
			h := in[0].Tanh()
			y := h.To(b).MatMul(w.Value())
			w.Set(w.Value().Mul(0.999))
			return []*locus.Tensor{y.To(a).Add(h).Sum(1)}
		})
		call := func() {
			x := a.Ones(8, 32)
			c.Call(x)[0].Free()
			x.Free()
		}
		for range 5 {
			call()
		}
		isCompiled(t, c)
		a.Synchronize()
		b.Synchronize()
		before := a.MemoryStats().InUse + b.MemoryStats().InUse
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 250 {
					call()
				}
			})
		}
		wg.Wait()
		a.Synchronize()
		b.Synchronize()
		if now := a.MemoryStats().InUse + b.MemoryStats().InUse; now > before+64<<10 {
			t.Errorf("%d bytes more in use behind 1000 calls", now-before)
		}
	})
}
