package nn_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// sameNumbers fails unless two tensors are equal to the bit.
func sameNumbers(t *testing.T, what string, want, got *locus.Tensor) {
	t.Helper()
	a, b := locus.ToSlice[float32](want.Detach().Cast(locus.Float32)), locus.ToSlice[float32](got.Detach().Cast(locus.Float32))
	if !slices.Equal(want.Shape(), got.Shape()) || !slices.Equal(a, b) {
		t.Errorf("%s: %v %v, compiled %v %v", what, want.Shape(), a, got.Shape(), b)
	}
}

// plainNet has a parameter in a plain field, and plain values.
type plainNet struct {
	W     *locus.Tensor `nn:"param"`
	Scale float64
	calls int
	reads bool
	count bool
}

func (n *plainNet) Forward(x *locus.Tensor) *locus.Tensor {
	y := x.MatMul(n.W).Mul(n.Scale)
	if n.reads && y.Sum().Item() > 0 {
		return y.Neg()
	}
	if n.count {
		n.calls++
	}
	return y
}

// A compiled network gives what the network gives, whatever becomes of it in between.
func TestCompiledNetworks(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 0)[0]
	for _, d := range []locus.Device{locus.CPU(), gpu} {
		for name, c := range map[string]struct {
			net   func() nn.Module
			shape []int
		}{
			"MLP": {func() nn.Module { return nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(0.5), nn.Linear(9, 3)) }, []int{4, 6}},
			"LeNet": {func() nn.Module {
				return nn.Sequential(nn.Conv2D(1, 3, 3, locus.ConvOptions{}), nn.BatchNorm(3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))
			}, []int{4, 1, 6, 6}},
			"lazy": {func() nn.Module { return nn.Sequential(nn.LazyLinear(7), nn.BatchNorm(0), nn.LazyLinear(2)) }, []int{3, 4}},
			"LSTM": {func() nn.Module { return nn.LSTM(5, 4, nn.RecurrentOptions{Layers: 2, Dropout: 0.3}) }, []int{2, 7, 5}},
			"encoder": {func() nn.Module {
				return nn.TransformerEncoder(2, 8, 2, nn.TransformerOptions{Dropout: 0.1, Hidden: 16})
			}, []int{2, 5, 8}},
			"the input":  {func() nn.Module { return nn.Dropout(0.5) }, []int{2, 3}},
			"a view":     {func() nn.Module { return nn.Flatten() }, []int{2, 3, 2}},
			"a constant": {func() nn.Module { return nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Device().Ones(2) }) }, []int{2}},
			"fields":     {func() nn.Module { return &plainNet{W: locus.Randn(6, 2).RequireGrad(), Scale: 2} }, []int{3, 6}},
			"in a layer": {func() nn.Module { return nn.Sequential(nn.Compiled(nn.Linear(6, 4)), nn.Tanh()) }, []int{3, 6}},
		} {
			t.Run(fmt.Sprint(d, " ", name), func(t *testing.T) {
				net := nn.To(c.net(), d)
				fast := nn.Compiled(net)
				x := func(n int) *locus.Tensor {
					s := slices.Clone(c.shape)
					s[0] = n
					return d.Randn(s...)
				}
				check := func(what string) {
					t.Helper()
					for i := range 4 {
						n := c.shape[0]
						if i == 3 {
							n++ // another size
						}
						in := x(n)
						want := net.Forward(in)
						got := fast.Forward(in)
						sameNumbers(t, what, want, got)
						if got.RequiresGrad() {
							t.Errorf("%s: the result has a history", what)
						}
					}
					if why := fast.Fallback(); why != "" {
						t.Errorf("%s: not compiled: %s", what, why)
					}
				}
				fast.Forward(x(c.shape[0])) // lazy layers
				check("at first")
				names := func(m any) (l []string) {
					for _, e := range nn.State(m) {
						l = append(l, e.Name)
					}
					return l
				}
				if !slices.Equal(names(net), names(fast)) {
					t.Errorf("names %v, compiled %v", names(net), names(fast))
				}
				for _, e := range nn.Parameters(net) {
					e.Set(e.Value().Detach().Mul(1.5))
				}
				check("with other parameters")
				if len(nn.Parameters(net)) > 0 { // a step of training
					nn.Train(fast)
					y := fast.Forward(x(4))
					if !y.RequiresGrad() {
						t.Error("no history in training")
					}
					y.Square().Mean().Backward()
					optim.SGD(nn.Parameters(fast), 0.1, optim.SGDOptions{}).Step()
					nn.Eval(fast)
					check("after training")
					in := x(4).RequireGrad()
					if y := fast.Forward(in); !y.RequiresGrad() {
						t.Error("no history for an input with one")
					}
					copied := nn.CopyTo(fast, locus.CPU())
					host := x(4).To(locus.CPU())
					for range 3 {
						sameNumbers(t, "a copy", nn.CopyTo(net, locus.CPU()).Forward(host), copied.Forward(host))
					}
				}
				nn.To(fast, gpu)
				old := d
				d = gpu
				check("somewhere else")
				d = old
				nn.To(fast, d)
				locus.Scoped(func(s *locus.Scope) {
					if y := fast.Forward(s.Use(x(c.shape[0]))); name != "a constant" && y.Scope() != s {
						t.Error("the result is not in the argument's scope")
					}
				})
			})
		}
	}
}

// Plain values of a network are part of what is compiled; a network that reads values or
// counts is called.
func TestCompiledPlainValues(t *testing.T) {
	n := &plainNet{W: locus.Ones(2, 1).RequireGrad(), Scale: 2}
	fast := nn.Compiled(n)
	var lines strings.Builder
	fast.Report(&lines)
	x := locus.Ones(1, 2)
	for _, n.Scale = range []float64{2, 2, 2, 3, 3, 3, 2} {
		if got := fast.Forward(x).Item(); got != 2*n.Scale {
			t.Errorf("%v, with a scale of %v", got, n.Scale)
		}
	}
	if why := fast.Fallback(); why != "" {
		t.Error(why)
	}
	if strings.Count(lines.String(), "tracing") != 2 || !strings.Contains(fast.Explain(), ": compiled") {
		t.Errorf("%s\n%s", lines.String(), fast.Explain())
	}
	n.W = locus.Zeros(2, 1).RequireGrad()
	if got := fast.Forward(x).Item(); got != 0 {
		t.Error(got)
	}
	n.W = locus.Ones(2, 1).RequireGrad()
	for what, set := range map[string]func(*plainNet){"reads or waits": func(m *plainNet) { m.reads = true }, "the field calls": func(m *plainNet) { m.count = true }} {
		m := &plainNet{W: locus.Ones(2, 1).RequireGrad(), Scale: 2}
		set(m)
		fast := nn.Compiled(m)
		for range 4 {
			if got := fast.Forward(x).Item(); got != 4 && got != -4 || m.reads != (got < 0) {
				t.Errorf("%s: %v", what, got)
			}
		}
		if !strings.Contains(fast.Fallback(), what) {
			t.Errorf("%q", fast.Fallback())
		}
		if m.count && m.calls != 4 {
			t.Errorf("it was called %d times; want 4", m.calls)
		}
	}
}

func TestCompiledErrors(t *testing.T) {
	for what, f := range map[string]func(){
		"nil":        func() { nn.Compiled(nil) },
		"zero":       func() { new(nn.CompiledLayer).Forward(locus.Ones(1)) },
		"nil layer":  func() { (*nn.CompiledLayer)(nil).Forward(locus.Ones(1)) },
		"nil tensor": func() { nn.Compiled(nn.ReLU()).Forward(nil) },
		"explain":    func() { new(nn.CompiledLayer).Explain() },
		"nil result": func() { nn.Compiled(nn.Func(func(*locus.Tensor) *locus.Tensor { return nil })).Forward(locus.Ones(1)) },
	} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	fast := nn.Compiled(nn.Linear(3, 2))
	for range 4 {
		if err := locus.Try(func() { fast.Forward(locus.Ones(2, 4)) }); !errors.Is(err, locus.ErrShape) {
			t.Error(err)
		}
		fast.Forward(locus.Ones(2, 3))
	}
}

// Goroutines share one compiled network, while another one trains it on.
func TestCompiledTogether(t *testing.T) {
	net := nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
	fast := nn.Compiled(net)
	x := locus.Ones(3, 4)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				y := fast.Forward(x)
				if y.Dim(0) != 3 || y.Freed() {
					t.Error("not a result")
				}
			}
		})
	}
	for range 20 {
		e := nn.Parameters(net)[0]
		e.Set(e.Value().Detach().Mul(0.9))
	}
	group.Wait()
	sameNumbers(t, "in the end", net.Forward(x), fast.Forward(x))
}
