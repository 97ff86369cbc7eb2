package optim_test

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// pytorchPeak is what PyTorch holds at most in a step of the network below with plain
// gradient descent, the batch, the parameters and their gradients included.
const pytorchPeak = 2.7 * (1 << 20)

// digitsNet is the MLP that memory is compared with, and a batch for it.
func digitsNet(d locus.Device) (net *nn.SequentialLayer, x, target *locus.Tensor) {
	k := locus.NewKey(1).Split(4)
	net = nn.To(nn.Sequential(nn.Linear(784, 256, nn.WithKey(k[0])), nn.ReLU(), nn.Linear(256, 10, nn.WithKey(k[1]))), d)
	return net, d.Key(k[2]).Randn(256, 784), d.Key(k[3]).Randint(0, 10, 256)
}

func loss(net nn.Module, x, target *locus.Tensor) *locus.Tensor {
	return locus.CrossEntropy(net.Forward(x), target, locus.CrossEntropyOptions{})
}

// The loop that everybody writes, in a scope: Backward, then Step. It holds at most
// twice what PyTorch does.
func TestPeakOfStepInAScope(t *testing.T) {
	for name, c := range map[string]struct {
		make func(p []nn.Entry) *optim.Optimizer
		more float64 // what the optimizer remembers, in parameters
	}{
		"SGD":      {func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.1, optim.SGDOptions{}) }, 0},
		"momentum": {func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.1, optim.SGDOptions{Momentum: 0.9}) }, 1},
		"Adam":     {func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.001, optim.AdamOptions{}) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := locus.AddVirtualGPUs(1, 256<<20)[0]
			net, x, target := digitsNet(d)
			opt := c.make(nn.Parameters(net))
			step := func() float64 {
				s := locus.NewScope()
				defer s.Close()
				l := loss(net, s.Use(x), target)
				l.Backward()
				opt.Step()
				return l.Item()
			}
			first := step() // the first one moves the parameters that were made elsewhere
			d.Collect()
			d.ResetPeak()
			last := 0.0
			for range 30 {
				last = step()
			}
			peak := float64(d.MemoryStats().Peak)
			parameters := 0.0
			for _, e := range nn.Parameters(net) {
				parameters += float64(e.Value().Bytes())
			}
			limit := 2 * (pytorchPeak + c.more*parameters)
			t.Logf("the peak is %.2f MiB, %.2f times PyTorch's", peak/(1<<20), peak/(pytorchPeak+c.more*parameters))
			if peak > limit {
				t.Errorf("the peak is %.1f MiB; want at most %.1f, twice PyTorch's", peak/(1<<20), limit/(1<<20))
			}
			if !(last < first) {
				t.Errorf("the loss went from %v to %v", first, last)
			}
		})
	}
}

// Without a scope the collector decides when the network's results go. Gradients do not
// wait for it: Step frees them.
func TestStepFreesCollectedGradients(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 256<<20)[0]
	net, x, target := digitsNet(d)
	opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
	step := func() {
		loss(net, x, target).Backward()
		opt.Step()
	}
	step()
	step()
	d.Collect()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing is collected meanwhile
	const steps = 10
	before := d.MemoryStats().InUse
	for range steps {
		step()
	}
	grown := (d.MemoryStats().InUse - before) / steps
	var gradients int64
	for _, e := range nn.Parameters(net) {
		gradients += int64(e.Value().Bytes())
	}
	t.Logf("%d bytes a step wait for the collector; the gradients have %d", grown, gradients)
	// The results of the network: 256 times 256 and some.
	if limit := int64(2*256*256*4 + 128<<10); grown > limit || grown > gradients {
		t.Errorf("every step leaves %d bytes to the collector; want at most %d: the gradients have %d", grown, limit, gradients)
	}
}

// A gradient that the program has asked for is the program's: Step leaves it.
func TestStepLeavesGradientsThatAreHeld(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 64<<20)[0]
	type module struct{ P *nn.Parameter }
	m := &module{nn.NewParameter(d.Ones(5000))}
	opt := optim.SGD(nn.Parameters(m), 0.1, optim.SGDOptions{})
	m.P.Value().Mul(3).Sum().Backward()
	held := m.P.Grad()
	opt.Step()
	if held.Freed() || held.Sum().Item() != 15000 {
		t.Error("Step freed a gradient that the program holds")
	}
	if m.P.Grad() != nil {
		t.Error("the gradient is still collected")
	}
	m.P.Value().Mul(3).Sum().Backward()
	held = m.P.Value().Grad()
	opt.ZeroGrad()
	if held.Freed() || held.Sum().Item() != 15000 {
		t.Error("ZeroGrad freed a gradient that the program holds")
	}
	// Two uses of what StepWith is given: it is the caller's.
	g := []*locus.Tensor{d.Full(1, 5000)}
	opt.StepWith(g)
	opt.StepWith(g)
	if g[0].Freed() {
		t.Error("StepWith freed the caller's gradient")
	}
	// A value that the program took before a step stays or is freed; it never changes.
	v := m.P.Value().Detach()
	was := v.Index(0).Item()
	for range 3 {
		opt.StepWith(g)
		if !v.Freed() && v.Index(0).Item() != was {
			t.Error("a value changed under the program's hands")
		}
	}
}

// A parameter whose first value the program made is not the optimizer's to free.
func TestTheFirstValueIsTheProgramsOwn(t *testing.T) {
	w := locus.Ones(5000)
	type module struct{ P *nn.Parameter }
	m := &module{nn.NewParameter(w)}
	opt := optim.SGD(nn.Parameters(m), 0.1, optim.SGDOptions{Momentum: 0.9})
	g := []*locus.Tensor{locus.Ones(5000)}
	for range 3 {
		opt.StepWith(g)
	}
	if w.Freed() || w.Sum().Item() != 5000 {
		t.Error("a step freed what the program made")
	}
	own := locus.Full(2, 5000)
	m.P.Set(own)
	for range 3 {
		opt.StepWith(g)
	}
	if own.Freed() || own.Sum().Item() != 10000 {
		t.Error("a step freed what the program has set")
	}
}

// A SetState that is refused changes nothing: the next steps are as if it had not been.
func TestRefusedSetState(t *testing.T) {
	type module struct{ A, B *nn.Parameter }
	grads := func() []*locus.Tensor { return []*locus.Tensor{locus.Full(1, 3), locus.Full(-2, 4)} }
	for name, state := range map[string]func(good map[string]*locus.Tensor) map[string]*locus.Tensor{
		"a wrong shape": func(good map[string]*locus.Tensor) map[string]*locus.Tensor {
			good["mean.b"] = locus.Ones(5)
			return good
		},
		"a wrong shape of the first": func(good map[string]*locus.Tensor) map[string]*locus.Tensor {
			good["mean.a"] = locus.Ones(5)
			return good
		},
		"an unknown name": func(good map[string]*locus.Tensor) map[string]*locus.Tensor {
			good["mean.c"] = locus.Ones(3)
			return good
		},
		"another optimizer's": func(map[string]*locus.Tensor) map[string]*locus.Tensor {
			return map[string]*locus.Tensor{"momentum.a": locus.Ones(3), "momentum.b": locus.Ones(4)}
		},
		"nil": func(good map[string]*locus.Tensor) map[string]*locus.Tensor {
			good["square.b"] = nil
			return good
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(try bool) (values []float32) {
				m := &module{nn.NewParameter(locus.Ones(3)), nn.NewParameter(locus.Ones(4))}
				opt := optim.Adam(nn.Parameters(m), 0.1, optim.AdamOptions{})
				for range 3 {
					opt.StepWith(grads())
				}
				if try {
					good := map[string]*locus.Tensor{}
					for k, v := range opt.State() {
						good[k] = v.Mul(10)
					}
					if refuse(t, opt, state(good)) == nil {
						t.Fatal("accepted")
					}
					if opt.Steps() != 3 || len(opt.State()) != 4 {
						t.Errorf("%d steps and %d tensors are left of 3 and 4", opt.Steps(), len(opt.State()))
					}
				}
				opt.StepWith(grads())
				for _, e := range nn.Parameters(m) {
					values = append(values, locus.ToSlice[float32](e.Value().Detach())...)
				}
				return values
			}
			if want, got := run(false), run(true); !slices.Equal(want, got) {
				t.Errorf("the next step gives\n%v, want\n%v", got, want)
			}
		})
	}
}

// refuse returns the error of SetState, also where it panics with one.
func refuse(t *testing.T, opt *optim.Optimizer, state map[string]*locus.Tensor) (err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("SetState panicked: %v", p)
			err = fmt.Errorf("%v", p)
		}
	}()
	if failed := locus.Try(func() { err = opt.SetState(state, 77) }); failed != nil {
		return failed
	}
	return err
}

// Parameters are read while they are trained, in the way the guide shows: any goroutine
// may, and sees one step's value or learns that it was freed.
func TestReadingWhileTraining(t *testing.T) {
	for _, d := range append(locus.AddVirtualGPUs(1, 64<<20), locus.CPU()) {
		type module struct{ P *nn.Parameter }
		m := &module{nn.NewParameter(d.Zeros(3000))}
		opt := optim.Adam(nn.Parameters(m), 0.1, optim.AdamOptions{})
		g := []*locus.Tensor{d.Ones(3000)}
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					var got []float32
					if err := locus.Try(func() { got = locus.ToSlice[float32](m.P.Value().Detach().Copy()) }); err != nil {
						continue
					}
					for _, v := range got {
						if v != got[0] || v > 0 { // each step goes down, from 0
							t.Errorf("%s: %v beside %v", d, v, got[0])
							return
						}
					}
				}
			})
		}
		for range 1000 {
			opt.StepWith(g)
		}
		close(done)
		wg.Wait()
	}
}
