package optim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// compareTraining trains two equal networks, one by a step that is compiled, and
// compares results, state and what is remembered after every step, bit by bit.
type compared struct {
	net   any
	opt   *Optimizer
	step  func(args ...*locus.Tensor) []*locus.Tensor
	extra []locus.Cell
}

func compareTraining(t *testing.T, d locus.Device, build func() compared, batch func(i int) []*locus.Tensor, steps int, between func(i int, c compared)) *locus.Compiled {
	t.Helper()
	old := locus.SetDefaultDevice(d)
	defer locus.SetDefaultDevice(old)
	locus.Seed(7)
	e := build()
	locus.Seed(7)
	c := build()
	f := locus.Compile(c.step, c.extra...)
	for i := range steps {
		if between != nil {
			between(i, e)
			between(i, c)
		}
		args := batch(i)
		locus.Seed(uint64(100 + i))
		want := e.step(args...)
		locus.Seed(uint64(100 + i))
		got := f.Call(args...)
		for k := range want {
			same(t, fmt.Sprintf("step %d, result %d", i, k), want[k], got[k])
		}
		we, wc := nn.State(e.net), nn.State(c.net)
		for k := range we {
			same(t, fmt.Sprintf("step %d, %s", i, we[k].Name), we[k].Value(), wc[k].Value())
			if we[k].Kind == nn.Trained {
				same(t, fmt.Sprintf("step %d, gradient of %s", i, we[k].Name), we[k].Value().Grad(), wc[k].Value().Grad())
				if we[k].Value().RequiresGrad() != wc[k].Value().RequiresGrad() {
					t.Errorf("step %d: %s requires a gradient in one network only", i, we[k].Name)
				}
			}
		}
		if e.opt != nil {
			if e.opt.Steps() != c.opt.Steps() {
				t.Errorf("step %d: %d and %d steps counted", i, e.opt.Steps(), c.opt.Steps())
			}
			for p := range e.opt.slots {
				for k := range e.opt.slots[p] {
					same(t, fmt.Sprintf("step %d, slot %d of %s", i, k, e.opt.names[p]), e.opt.slots[p][k], c.opt.slots[p][k])
				}
			}
		}
		if t.Failed() {
			t.Fatalf("%s", f.Explain())
		}
	}
	return f
}

func same(t *testing.T, what string, a, b *locus.Tensor) {
	t.Helper()
	if a == nil || b == nil {
		if a != b {
			t.Errorf("%s: %v, compiled %v", what, a, b)
		}
		return
	}
	x, y := locus.ToSlice[float64](a.Detach().Cast(locus.Float64)), locus.ToSlice[float64](b.Detach().Cast(locus.Float64))
	if len(x) != len(y) {
		t.Errorf("%s: %v, compiled %v", what, a.Shape(), b.Shape())
		return
	}
	for i := range x {
		if math.Float64bits(x[i]) != math.Float64bits(y[i]) {
			t.Errorf("%s: element %d is %v, compiled %v", what, i, x[i], y[i])
			return
		}
	}
}

func testDevices() []locus.Device {
	return []locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 0)[0]}
}

func compiledNow(t *testing.T, f *locus.Compiled) {
	t.Helper()
	if why := f.Fallback(); why != "" {
		t.Errorf("not compiled: %s", why)
	}
	if !strings.Contains(f.Explain(), ": compiled\n") {
		t.Errorf("no signature is compiled:\n%s", f.Explain())
	}
}

type twoLayers struct {
	L1, L2 *nn.LinearLayer
}

func (m *twoLayers) loss(x, y *locus.Tensor) *locus.Tensor {
	return locus.CrossEntropy(m.L2.Forward(m.L1.Forward(x).Relu()), y, locus.CrossEntropyOptions{})
}

func classes(d locus.Device, shape []int, n int64) func(i int) []*locus.Tensor {
	return func(i int) []*locus.Tensor {
		k := locus.NewKey(uint64(i)).Split(2)
		return []*locus.Tensor{d.Key(k[0]).Randn(shape...), d.Key(k[1]).Randint(0, n, shape[0])}
	}
}

// byGrad takes a step in a scope by Grad and StepWith; byBackward by Backward and
// Step.
func byGrad(o *Optimizer, loss func(x, y *locus.Tensor) *locus.Tensor) func(a ...*locus.Tensor) []*locus.Tensor {
	return func(a ...*locus.Tensor) []*locus.Tensor {
		var l *locus.Tensor
		locus.Scoped(func(s *locus.Scope) {
			l = loss(s.Use(a[0]), a[1])
			o.StepWith(locus.Grad([]*locus.Tensor{l}, nn.Values(o.Params()), locus.FreeGraph))
			s.Keep(l)
		})
		return []*locus.Tensor{l.Detach()}
	}
}

func byBackward(o *Optimizer, loss func(x, y *locus.Tensor) *locus.Tensor) func(a ...*locus.Tensor) []*locus.Tensor {
	return func(a ...*locus.Tensor) []*locus.Tensor {
		l := loss(a[0], a[1])
		l.Backward()
		o.Step()
		return []*locus.Tensor{l.Detach()}
	}
}

func TestCompiledOptimizers(t *testing.T) {
	rules := map[string]func(p []nn.Entry) *Optimizer{
		"SGD":      func(p []nn.Entry) *Optimizer { return SGD(p, 0.1, SGDOptions{}) },
		"momentum": func(p []nn.Entry) *Optimizer { return SGD(p, 0.1, SGDOptions{Momentum: 0.9, WeightDecay: 1e-3}) },
		"Nesterov": func(p []nn.Entry) *Optimizer { return SGD(p, 0.1, SGDOptions{Momentum: 0.9, Nesterov: true}) },
		"Adam":     func(p []nn.Entry) *Optimizer { return Adam(p, 1e-2, AdamOptions{WeightDecay: 1e-2}) },
		"AdamW":    func(p []nn.Entry) *Optimizer { return AdamW(p, 1e-2, AdamOptions{}) },
		"RMSProp":  func(p []nn.Entry) *Optimizer { return RMSProp(p, 1e-2, RMSPropOptions{Momentum: 0.9, Centered: true}) },
		"Adagrad":  func(p []nn.Entry) *Optimizer { return Adagrad(p, 1e-2, AdagradOptions{LRDecay: 0.1}) },
	}
	for _, d := range testDevices() {
		for name, rule := range rules {
			for how, step := range map[string]func(*Optimizer, func(x, y *locus.Tensor) *locus.Tensor) func(a ...*locus.Tensor) []*locus.Tensor{"Grad": byGrad, "Backward": byBackward} {
				t.Run(fmt.Sprint(d, " ", name, " ", how), func(t *testing.T) {
					f := compareTraining(t, d, func() compared {
						m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
						o := rule(nn.Parameters(m))
						return compared{net: m, opt: o, step: step(o, m.loss)}
					}, classes(d, []int{8, 20}, 5), 8, func(i int, c compared) {
						if i == 5 {
							c.opt.SetLR(c.opt.LR() / 2)
						}
					})
					compiledNow(t, f)
				})
			}
		}
	}
}

// network is a network with a loss.
type network struct {
	build func() (net any, loss func(x, y *locus.Tensor) *locus.Tensor)
	batch []int
}

type convNet struct {
	C    *nn.ConvLayer
	N    *nn.BatchNormLayer
	D, E *nn.DropoutLayer
	L    *nn.LinearLayer
}

func (m *convNet) loss(x, y *locus.Tensor) *locus.Tensor {
	h := m.D.Forward(m.N.Forward(m.C.Forward(x)).Relu())
	return locus.CrossEntropy(m.L.Forward(m.E.Forward(h.FlattenFrom(1))), y, locus.CrossEntropyOptions{})
}

func newConvNet() *convNet {
	return &convNet{nn.Conv2D(2, 4, 3, locus.ConvOptions{}), nn.BatchNorm(4), nn.DropoutChannels(0.3), nn.Dropout(0.4), nn.Linear(4*6*6, 5)}
}

var nets = map[string]network{
	"convolution": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) {
		m := newConvNet()
		return m, m.loss
	}, []int{6, 2, 8, 8}},
	"LSTM": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) {
		m := &struct {
			R *nn.RecurrentLayer
			L *nn.LinearLayer
		}{nn.LSTM(7, 6, nn.RecurrentOptions{Layers: 2, Bidirectional: true, Dropout: 0.2}), nn.Linear(12, 5)}
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			return locus.CrossEntropy(m.L.Forward(m.R.Forward(x).Mean(1)), y, locus.CrossEntropyOptions{})
		}
	}, []int{4, 9, 7}},
	"GRU": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) {
		m := &struct {
			R *nn.RecurrentLayer
			L *nn.LinearLayer
		}{nn.GRU(7, 6, nn.RecurrentOptions{}), nn.Linear(6, 5)}
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			return locus.CrossEntropy(m.L.Forward(m.R.Forward(x).Mean(1)), y, locus.CrossEntropyOptions{})
		}
	}, []int{4, 5, 7}},
	"transformer": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) {
		m := &struct {
			E *nn.Encoder
			L *nn.LinearLayer
		}{nn.TransformerEncoder(2, 8, 2, nn.TransformerOptions{Dropout: 0.1, Hidden: 16}), nn.Linear(8, 5)}
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			return locus.CrossEntropy(m.L.Forward(m.E.Forward(x).Mean(1)), y, locus.CrossEntropyOptions{})
		}
	}, []int{3, 6, 8}},
	"checkpoint": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) {
		m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
		drop := nn.Dropout(0.5)
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			h := locus.Checkpoint(func(a ...*locus.Tensor) *locus.Tensor {
				return locus.Linear(a[0], a[1], a[2]).Tanh().Square()
			}, x, m.L1.Weight.Value(), m.L1.Bias.Value())
			return locus.CrossEntropy(m.L2.Forward(drop.Forward(h)), y, locus.CrossEntropyOptions{})
		}
	}, []int{4, 20}},
	"custom": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) {
		m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			h := locus.Custom("round", func(a ...*locus.Tensor) *locus.Tensor { return a[0].Mul(4).Round().Div(4) },
				func(_ []*locus.Tensor, _, g *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{g} }, m.L1.Forward(x))
			return locus.CrossEntropy(m.L2.Forward(h), y, locus.CrossEntropyOptions{})
		}
	}, []int{4, 20}},
	"drawn": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) { // from the sequence of keys, split and folded
		m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			k := locus.NextKey().Split(2)
			h := locus.Dropout(m.L1.Forward(x), 0.3, k[1].Fold(7)).Add(x.Device().Randn(16).Mul(0.1))
			return locus.CrossEntropy(m.L2.Forward(h), y, locus.CrossEntropyOptions{})
		}
	}, []int{4, 20}},
	"bound": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) { // computed in another precision
		m := newConvNet()
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			tree := nn.Tree{}
			for _, e := range nn.Parameters(m) {
				tree[e.Name] = e.Value().Cast(locus.BFloat16)
			}
			return nn.Bind(m, tree).loss(x.Cast(locus.BFloat16), y).Cast(locus.Float32)
		}
	}, []int{6, 2, 8, 8}},
	"clipped": {func() (any, func(x, y *locus.Tensor) *locus.Tensor) {
		m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
		return m, func(x, y *locus.Tensor) *locus.Tensor {
			return m.loss(x, y).Add(locus.GlobalNorm(nn.Values(nn.Parameters(m))).Mul(0.01))
		}
	}, []int{4, 20}},
}

// TestCompiledNetworks also changes the size of a batch, the mode, a parameter and
// what is frozen on the way.
func TestCompiledNetworks(t *testing.T) {
	for _, d := range testDevices() {
		for name, n := range nets {
			for how, step := range map[string]func(*Optimizer, func(x, y *locus.Tensor) *locus.Tensor) func(a ...*locus.Tensor) []*locus.Tensor{"Grad": byGrad, "Backward": byBackward} {
				t.Run(fmt.Sprint(d, " ", name, " ", how), func(t *testing.T) {
					f := compareTraining(t, d, func() compared {
						m, loss := n.build()
						o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
						return compared{net: m, opt: o, step: step(o, loss)}
					}, func(i int) []*locus.Tensor {
						shape := append([]int{}, n.batch...)
						if i == 7 {
							shape[0]--
						}
						return classes(d, shape, 5)(i)
					}, 22, func(i int, c compared) {
						switch i {
						case 9:
							if name != "bound" { // running statistics are not of its precision
								nn.Eval(c.net)
							}
						case 13:
							nn.Train(c.net)
						case 14:
							p := nn.Parameters(c.net)[0]
							p.Set(p.Value().Detach().Mul(0.5))
						case 15:
							nn.Reseed(c.net, locus.NewKey(99))
						case 18:
							if how == "Backward" {
								nn.Freeze(c.net)
								nn.Parameters(c.net)[1].SetFrozen(false)
							}
						}
					})
					if why := f.Fallback(); why != "" {
						t.Errorf("not compiled: %s", why)
					}
				})
			}
		}
	}
}

// rawNet has its parameter in a plain field.
type rawNet struct {
	W *locus.Tensor `nn:"param"`
	S *locus.Tensor `nn:"buffer"`

	counts bool
}

func (m *rawNet) loss(x, y *locus.Tensor) *locus.Tensor {
	if m.counts {
		m.S = m.S.Add(x.Mean().Detach())
	}
	return locus.CrossEntropy(x.MatMul(m.W), y, locus.CrossEntropyOptions{})
}

// TestCompiledFields trains a network whose tensors stand in plain fields: listed as
// state they are variables, else the function is not compiled.
func TestCompiledFields(t *testing.T) {
	for _, d := range testDevices() {
		for _, listed := range []bool{true, false} {
			f := compareTraining(t, d, func() compared {
				m := &rawNet{W: d.Key(locus.NewKey(5)).Randn(20, 5).RequireGrad(), S: d.Zeros(), counts: listed}
				o := SGD(nn.Parameters(m), 0.1, SGDOptions{Momentum: 0.9})
				c := compared{net: m, opt: o, step: byBackward(o, m.loss)}
				if listed {
					c.extra = nn.Cells(m)
				}
				return c
			}, classes(d, []int{4, 20}, 5), 8, nil)
			if listed {
				compiledNow(t, f)
			} else if !strings.Contains(f.Fallback(), "list the variable as state") {
				t.Errorf("a field that is not listed: %q", f.Fallback())
			}
		}
	}
}

// TestCompiledLazy has layers that make their parameters in the first call, which is
// not compiled.
func TestCompiledLazy(t *testing.T) {
	for _, d := range testDevices() {
		old := locus.SetDefaultDevice(d)
		build := func() *nn.SequentialLayer {
			return nn.Sequential(nn.LazyLinear(6, nn.WithKey(locus.NewKey(1))), nn.BatchNorm(0), nn.Dropout(0.2, nn.WithKey(locus.NewKey(2))))
		}
		e, m := build(), build()
		f := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{m.Forward(a[0]).Detach()} })
		for i := range 6 {
			x := d.Key(locus.NewKey(uint64(i))).Randn(4, 3)
			same(t, fmt.Sprintf("%s, call %d", d, i), e.Forward(x), f.Call(x)[0])
			for k, v := range nn.State(e) {
				same(t, fmt.Sprintf("%s, call %d, %s", d, i, v.Name), v.Value(), nn.State(m)[k].Value())
			}
		}
		compiledNow(t, f)
		locus.SetDefaultDevice(old)
	}
}

// TestCompiledConditionally scales the loss and leaves steps out on the device, clips,
// and accumulates gradients over two calls of another function.
func TestCompiledConditionally(t *testing.T) {
	for _, d := range testDevices() {
		f := compareTraining(t, d, func() compared {
			m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
			o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
			scale := nn.NewBuffer(d.Full(1024))
			return compared{net: m, opt: o, step: func(a ...*locus.Tensor) []*locus.Tensor {
				loss := m.loss(a[0], a[1])
				grads := locus.Grad([]*locus.Tensor{loss.Mul(scale.Value())}, nn.Values(o.Params()))
				for i, g := range grads {
					grads[i] = g.Div(scale.Value())
				}
				ok := locus.GlobalNorm(grads).IsFinite().And(a[2])
				clipped, norm := locus.ClipGlobalNorm(grads, 0.5)
				o.StepIf(ok, clipped)
				scale.Update(func(old *locus.Tensor) *locus.Tensor { return ok.Where(old.Mul(2), old.Mul(0.5)) })
				return []*locus.Tensor{loss.Detach(), norm, scale.Value()}
			}}
		}, func(i int) []*locus.Tensor {
			return append(classes(d, []int{4, 20}, 5)(i), d.From(i%3 != 0).Reshape())
		}, 9, nil)
		compiledNow(t, f)
		f = compareTraining(t, d, func() compared {
			m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
			o := SGD(nn.Parameters(m), 0.1, SGDOptions{})
			return compared{net: m, opt: o, step: func(a ...*locus.Tensor) []*locus.Tensor {
				loss := m.loss(a[0], a[1])
				loss.Backward()
				return []*locus.Tensor{loss.Detach()}
			}}
		}, classes(d, []int{4, 20}, 5), 12, func(i int, c compared) {
			if i%2 == 0 && i > 0 { // eagerly, between calls that are compiled
				c.opt.Step()
			}
		})
		compiledNow(t, f)
	}
}

// TestCompiledStepsAndRates takes two steps in one function, whose numbers differ, and
// refuses a learning rate that is set inside.
func TestCompiledStepsAndRates(t *testing.T) {
	d := locus.CPU()
	for _, inside := range []bool{false, true} {
		f := compareTraining(t, d, func() compared {
			m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
			o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
			step := byGrad(o, m.loss)
			return compared{net: m, opt: o, step: func(a ...*locus.Tensor) []*locus.Tensor {
				if inside {
					o.SetLR(1e-2 / float64(o.Steps()+1))
				}
				return append(step(a...), step(a...)...)
			}}
		}, classes(d, []int{4, 20}, 5), 8, nil)
		if !inside {
			compiledNow(t, f)
		} else if !strings.Contains(f.Fallback(), "learning rate is set at") || !strings.Contains(f.Fallback(), "compile_test.go:") {
			t.Errorf("a rate that is set inside: %q", f.Fallback())
		}
	}
}

// TestCompiledStepFails has a step that runs out of memory: nothing has changed then,
// and the next one is as if it had not been tried.
func TestCompiledStepFails(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 8<<20)[0]
	locus.Seed(1)
	old := locus.SetDefaultDevice(d)
	m := nn.Sequential(nn.Linear(300, 300), nn.Dropout(0.5))
	locus.SetDefaultDevice(old)
	o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
	f := locus.Compile(byGrad(o, func(x, y *locus.Tensor) *locus.Tensor {
		return locus.CrossEntropy(m.Forward(x), y, locus.CrossEntropyOptions{})
	}))
	b := classes(d, []int{300, 300}, 300)(0)
	for range 4 {
		f.Call(b...)
	}
	d.Collect()
	free := d.MemoryStats().Free + d.MemoryStats().Cached
	room := d.Zeros(int(free-300_000) / 4)
	value, steps := nn.Parameters(m)[0].Value(), o.Steps()
	err := locus.Try(func() { f.Call(b...) })
	if !errors.Is(err, locus.ErrOutOfMemory) {
		t.Fatalf("a step without room: %v", err)
	}
	room.Free()
	if o.Steps() != steps {
		t.Errorf("%d steps counted, before %d", o.Steps(), steps)
	}
	if nn.Parameters(m)[0].Value() != value || value.Freed() {
		t.Error("a step that failed has changed a parameter")
	}
	f.Call(b...)
	if o.Steps() != steps+1 {
		t.Errorf("%d steps counted", o.Steps())
	}
	compiledNow(t, f)
}

// TestCompiledTrainingMemory takes 10,000 compiled steps: nothing grows, and nothing
// is left to the collector.
func TestCompiledTrainingMemory(t *testing.T) {
	for _, d := range testDevices() {
		old := locus.SetDefaultDevice(d)
		m := nn.Sequential(nn.Linear(6, 40), nn.BatchNorm(40), nn.Dropout(0.1), nn.Linear(40, 3))
		o := AdamW(nn.Parameters(m), 1e-3, AdamOptions{})
		f := locus.Compile(byGrad(o, func(x, y *locus.Tensor) *locus.Tensor {
			return locus.CrossEntropy(m.Forward(x), y, locus.CrossEntropyOptions{})
		}))
		locus.SetDefaultDevice(old)
		b := classes(d, []int{8, 6}, 3)(0)
		steps := 10000
		if testing.Short() {
			steps = 1000
		}
		d.Collect()
		var early locus.MemoryStats
		for i := range steps {
			loss := f.Call(b...)[0]
			s := locus.NewScope() // the loss is a view: its memory is adopted to be freed
			s.Adopt(loss)
			s.Close()
			if i == 100 || i == 200 || i == steps-1 {
				if err := d.Synchronize(); err != nil {
					t.Fatal(err)
				}
			}
			if i == 100 {
				d.ResetPeak()
			}
			if i == 200 {
				early = d.MemoryStats()
			}
		}
		late := d.MemoryStats()
		if late.InUse > early.InUse || late.Peak > early.Peak || late.Cached > early.Cached+128<<10 || late.Collections > early.Collections {
			t.Errorf("memory grew in %d steps:\n%s\n%s", steps, early, late)
		}
		if o.Steps() != int64(steps) {
			t.Errorf("%d steps counted of %d", o.Steps(), steps)
		}
		compiledNow(t, f)
	}
}

// TestCompiledInference calls compiled functions of one network from several
// goroutines while others use it as it is: a trace changes nothing that they see.
func TestCompiledInference(t *testing.T) {
	for _, d := range testDevices() {
		old := locus.SetDefaultDevice(d)
		m := nn.Eval(nn.Sequential(nn.Linear(6, 9), nn.BatchNorm(9), nn.Dropout(0.5)))
		locus.SetDefaultDevice(old)
		done := make(chan struct{})
		for g := range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				for i := range 30 {
					f := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{m.Forward(a[0])} })
					x := d.Key(locus.NewKey(uint64(100*g+i))).Randn(2, 6)
					for range 4 {
						same(t, "inference", m.Forward(x), f.Call(x)[0])
					}
				}
			}()
		}
		for range 4 {
			<-done
		}
	}
}

// BenchmarkCompiledStep takes a step as it is and one that is compiled, in turns, and
// reports the median of each.
func BenchmarkCompiledStep(b *testing.B) {
	for _, size := range []struct {
		name              string
		in, hidden, batch int
	}{{"tiny", 8, 16, 8}, {"MLP", 784, 256, 256}} {
		for _, name := range []string{"SGD", "AdamW"} {
			b.Run(fmt.Sprint(size.name, " ", name), func(b *testing.B) {
				x := classes(locus.CPU(), []int{size.batch, size.in}, 10)(0)
				var steps [2]func(a ...*locus.Tensor) []*locus.Tensor
				for i := range steps {
					m := &twoLayers{nn.Linear(size.in, size.hidden), nn.Linear(size.hidden, 10)}
					o := SGD(nn.Parameters(m), 0.01, SGDOptions{})
					if name == "AdamW" {
						o = AdamW(nn.Parameters(m), 1e-3, AdamOptions{})
					}
					steps[i] = byGrad(o, m.loss)
				}
				steps[1] = locus.Compile(steps[1]).Call
				for range 5 {
					steps[0](x...)
					steps[1](x...)
				}
				var times [2][]time.Duration
				for b.Loop() {
					for i, step := range steps {
						start := time.Now()
						step(x...)
						times[i] = append(times[i], time.Since(start))
					}
				}
				for i, unit := range []string{"ns/eager", "ns/compiled"} {
					slices.Sort(times[i])
					b.ReportMetric(float64(times[i][len(times[i])/2]), unit)
				}
			})
		}
	}
}
