package optim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

type bag struct{ Params []*nn.Parameter }

// bagOf is a network of n parameters, and a gradient for each.
func bagOf(d locus.Device, n, size int) (m *bag, grads []*locus.Tensor) {
	m = &bag{}
	for i := range n {
		k := locus.NewKey(uint64(i)).Split(2)
		m.Params = append(m.Params, nn.NewParameter(d.Key(k[0]).Randn(size+i)))
		grads = append(grads, d.Key(k[1]).Randn(size+i))
	}
	return m, grads
}

var optimizers = map[string]func(p []nn.Entry) *optim.Optimizer{
	"SGD": func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.1, optim.SGDOptions{}) },
	"momentum": func(p []nn.Entry) *optim.Optimizer {
		return optim.SGD(p, 0.1, optim.SGDOptions{Momentum: 0.9, WeightDecay: 0.1})
	},
	"nesterov": func(p []nn.Entry) *optim.Optimizer {
		return optim.SGD(p, 0.1, optim.SGDOptions{Momentum: 0.9, Nesterov: true})
	},
	"Adam":  func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.1, optim.AdamOptions{WeightDecay: 0.1}) },
	"AdamW": func(p []nn.Entry) *optim.Optimizer { return optim.AdamW(p, 0.1, optim.AdamOptions{}) },
	"RMSProp": func(p []nn.Entry) *optim.Optimizer {
		return optim.RMSProp(p, 0.1, optim.RMSPropOptions{Momentum: 0.9, Centered: true})
	},
	"Adagrad": func(p []nn.Entry) *optim.Optimizer { return optim.Adagrad(p, 0.1, optim.AdagradOptions{}) },
}

// A step of many parameters allocates nothing once there is something to overwrite: it is
// one op, in place. A new tensor would be an allocation, and an op has a result.
func TestStepsAreInPlace(t *testing.T) {
	for _, d := range append(locus.AddVirtualGPUs(1, 64<<20), locus.CPU()) {
		for name, make := range optimizers {
			m, grads := bagOf(d, 60, 2000)
			opt := make(nn.Parameters(m))
			opt.StepWith(grads)
			before := d.MemoryStats()
			for range 5 {
				opt.StepWith(grads)
			}
			after := d.MemoryStats()
			if after.Allocations != before.Allocations || after.InUse > before.InUse { // the collector may find something of before
				t.Errorf("%s, %s: five steps made %d allocations; %d bytes more are in use", d, name, after.Allocations-before.Allocations, after.InUse-before.InUse)
			}
			// Clipping in the step: the norm and four small ops for the factor.
			before = d.MemoryStats()
			opt.StepScaled(locus.ClipFactor(locus.GlobalNorm(grads), 1), nil, grads)
			if n := d.MemoryStats().Allocations - before.Allocations; n > 6 {
				t.Errorf("%s, %s: a step that clips made %d allocations", d, name, n)
			}
		}
	}
}

// A factor in the step is what scaled gradients are.
func TestStepScaled(t *testing.T) {
	for name, make := range optimizers {
		run := func(fold bool) (out [][]float32) {
			m, grads := bagOf(locus.CPU(), 5, 300)
			opt := make(nn.Parameters(m))
			for i := range 3 {
				factor := locus.Full(0.3 + float64(i))
				if fold {
					opt.StepScaled(factor, nil, grads)
				} else {
					opt.StepWith(locus.ScaleAll(grads, factor))
				}
			}
			opt.StepScaled(nil, locus.Zeros().Ne(0), grads) // changes nothing
			for _, e := range nn.Parameters(m) {
				out = append(out, locus.ToSlice[float32](e.Value().Detach()))
			}
			return out
		}
		if a, b := fmt.Sprint(run(false)), fmt.Sprint(run(true)); a != b {
			t.Errorf("%s: a factor in the step gives other bits", name)
		}
	}
}

// Parameters of several types and devices, frozen ones and ones without a gradient are
// each what they are alone.
func TestMixedParameters(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	for name, make := range optimizers {
		values := func() (l []*locus.Tensor) {
			for i, mk := range []locus.Maker{locus.CPU().As(locus.Float32), gpu.As(locus.Float32), locus.CPU().As(locus.Float64), gpu.As(locus.BFloat16), locus.CPU().As(locus.Float32), gpu.As(locus.Float32)} {
				l = append(l, mk.Key(locus.NewKey(uint64(i))).Randn(300))
			}
			return l
		}
		run := func(together bool) (out []string) {
			m := &bag{}
			for _, v := range values() {
				m.Params = append(m.Params, nn.NewParameter(v))
			}
			params := nn.Parameters(m)
			params[4].SetFrozen(true)
			var opts []*optim.Optimizer
			if together {
				opts = append(opts, make(params))
			} else {
				for i := range params {
					opts = append(opts, make(params[i:i+1]))
				}
			}
			for step := range 4 {
				grads := values()
				if step == 1 || step == 2 {
					grads[step] = nil
				}
				if step == 0 {
					grads[5] = nil // its first step comes later
				}
				if together {
					opts[0].StepWith(grads)
					continue
				}
				for i, o := range opts {
					o.StepWith(grads[i : i+1])
				}
			}
			for _, e := range params {
				out = append(out, fmt.Sprint(locus.ToSlice[float64](e.Value().Detach().To(locus.CPU()).Cast(locus.Float64))))
			}
			return out
		}
		if a, b := run(false), run(true); !slices.Equal(a, b) {
			t.Errorf("%s: parameters together are other than alone", name)
		}
	}
}

// A handle from before a step is whole or freed, also where the memory is used again.
func TestHandlesFromBeforeAStep(t *testing.T) {
	for _, d := range append(locus.AddVirtualGPUs(1, 64<<20), locus.CPU()) {
		m, grads := bagOf(d, 3, 3000)
		opt := optim.AdamW(nn.Parameters(m), 0.1, optim.AdamOptions{})
		opt.StepWith(grads)
		value, state := m.Params[0].Value(), opt.State()
		kept := value.Detach().Copy()
		was := locus.ToSlice[float32](kept)
		sum := value.Detach().Sum() // queued before the step, read after it
		want := kept.Sum().Item()
		opt.StepWith(grads)
		if !value.Freed() {
			t.Errorf("%s: a value from before the step is alive", d)
		}
		for k, s := range state {
			if !s.Freed() {
				t.Errorf("%s: %s from before the step is alive", d, k)
			}
		}
		if !slices.Equal(locus.ToSlice[float32](kept), was) || sum.Item() != want {
			t.Errorf("%s: what was copied or computed before the step changed", d)
		}
	}
}

func BenchmarkAdamW(b *testing.B) {
	for _, c := range []struct{ n, size int }{{60, 10_000}, {4, 1 << 20}, {200, 100}} {
		b.Run(fmt.Sprintf("%dx%d", c.n, c.size), func(b *testing.B) {
			m, grads := bagOf(locus.CPU(), c.n, c.size)
			opt := optim.AdamW(nn.Parameters(m), 1e-4, optim.AdamOptions{})
			opt.StepWith(grads)
			b.ReportAllocs()
			for b.Loop() {
				opt.StepWith(grads)
			}
		})
	}
}
