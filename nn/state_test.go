package nn_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// tracker is a layer of the program's own with a buffer.
type tracker struct {
	Scale *nn.Parameter
	Mean  *nn.Buffer
	Seen  *nn.Buffer // integers
}

func newTracker() *tracker {
	return &tracker{nn.NewParameter(locus.Full(2, 6)), nn.NewBuffer(locus.Zeros(6)), nn.NewBuffer(locus.As(locus.Int64).Zeros())}
}

func (l *tracker) Forward(x *locus.Tensor) *locus.Tensor {
	rows := x.Reshape(-1, 6)
	l.Mean.Update(func(old *locus.Tensor) *locus.Tensor {
		return old.Mul(0.5).Add(rows.Mean(0).Cast(old.DType()).Mul(0.5))
	})
	l.Seen.Update(func(old *locus.Tensor) *locus.Tensor { return old.Add(rows.Dim(0)) })
	return x.Mul(l.Scale.Value()).Sub(l.Mean.Value().Cast(x.DType()))
}

// stateful lists networks with state, for inputs (4, 5, 6), each drawn from a key.
func stateful() map[string]func() nn.Module {
	opt := func(k uint64) nn.Option { return nn.WithKey(locus.NewKey(k)) }
	rec := nn.RecurrentOptions{Layers: 2, Dropout: 0.5}
	return map[string]func() nn.Module{
		"batch norm": func() nn.Module { return nn.BatchNorm(5) },
		"dropout":    func() nn.Module { return nn.Sequential(nn.Linear(6, 6, opt(1)), nn.Dropout(0.5, opt(2))) },
		"channels":   func() nn.Module { return nn.DropoutChannels(0.5, opt(1)) },
		"alpha":      func() nn.Module { return nn.AlphaDropout(0.5, opt(1)) },
		"lstm":       func() nn.Module { return nn.LSTM(6, 6, rec, opt(1)) },
		"gru":        func() nn.Module { return nn.GRU(6, 6, rec, opt(1)) },
		"attention": func() nn.Module {
			return nn.MultiHeadAttention(6, 3, nn.MultiHeadOptions{Dropout: 0.3, Rotary: true}, opt(1))
		},
		"encoder": func() nn.Module {
			return nn.TransformerEncoder(2, 6, 2, nn.TransformerOptions{Hidden: 8, Dropout: 0.3, FinalNorm: true}, opt(1))
		},
		"sinusoidal": func() nn.Module { return nn.Sinusoidal(6, 0.5, opt(1)) },
		"convolution": func() nn.Module {
			return nn.Sequential(nn.Conv1D(5, 5, 1, locus.ConvOptions{}, opt(1)), nn.BatchNorm(5), nn.ReLU(), nn.Dropout(0.4, opt(2)))
		},
		"residual": func() nn.Module {
			return nn.Residual(nn.Sequential(nn.Linear(6, 6, opt(1)), nn.BatchNorm(5)), nn.Dropout(0.2, opt(3)))
		},
		"a program's own":  func() nn.Module { return newTracker() },
		"normalized twice": func() nn.Module { bn := nn.BatchNorm(5); return nn.Sequential(bn, nn.Tanh(), bn) },
	}
}

func eachStateful(t *testing.T, f func(t *testing.T, build func() nn.Module, x *locus.Tensor)) {
	for name, build := range stateful() {
		for _, d := range everywhere {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				f(t, func() nn.Module { return nn.To(build(), d) }, d.Key(locus.NewKey(7)).Randn(4, 5, 6))
			})
		}
	}
}

// stateOf is all of a network's state, for comparing.
func stateOf(m any) string {
	var b strings.Builder
	for _, e := range nn.State(m) {
		fmt.Fprintln(&b, e.Name, e.Value().DType(), e.Value().Device(), values(e.Value()))
	}
	c := nn.Counters(m)
	for _, k := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintln(&b, k, c[k])
	}
	return b.String()
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

func cast(dt locus.DType) func(string, *locus.Tensor) *locus.Tensor {
	return func(_ string, p *locus.Tensor) *locus.Tensor { return p.Cast(dt) }
}

// A bound copy computes in the network's place: statistics and masks are those of
// the network, to the bit.
func TestBoundCopiesShareState(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		plain, bound := build(), build()
		for range 3 {
			want := plain.Forward(x)
			got := nn.Bind(bound, nn.Trainable(bound)).Forward(x)
			near(t, "result", got, want, 0)
			same(t, "state", stateOf(bound), stateOf(plain))
		}
		// In a lower precision the statistics are about the same, in their own type.
		before := nn.Counters(bound)
		y := nn.Bind(bound, nn.Trainable(bound).Map(cast(locus.BFloat16))).Forward(x.Cast(locus.BFloat16))
		plain.Forward(x)
		want := nn.TreeOf(plain)
		for _, e := range nn.State(bound) {
			near(t, e.Name, e.Value(), want[e.Name], 2e-2)
			if e.Value().DType() != want[e.Name].DType() {
				t.Error(e.Name, "is", e.Value().DType())
			}
		}
		if len(before) > 0 && maps.Equal(before, nn.Counters(bound)) || !maps.Equal(nn.Counters(plain), nn.Counters(bound)) {
			t.Error("the copy's masks were not counted")
		}
		// Gradients flow through the rounding.
		if params := nn.Parameters(bound); len(params) > 0 {
			y.Cast(locus.Float32).Square().Sum().Backward()
			for _, e := range params {
				if g := e.Value().Grad(); g == nil || g.DType() != locus.Float32 {
					t.Error(e.Name, g)
				}
			}
		}
	})
}

// What the tree has is the copy's own.
func TestBoundBuffersOfATree(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		plain, net := build(), build()
		before := nn.TreeOf(net).Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.Copy() })
		b := nn.Bind(net, before)
		plain.Forward(x)
		b.Forward(x)
		want := nn.TreeOf(plain)
		for name, v := range nn.TreeOf(b) {
			near(t, name+" of the copy", v, want[name], 0)
		}
		for name, v := range nn.TreeOf(net) {
			near(t, name+" of the network", v, before[name], 0)
		}
		// Modes are apart.
		nn.Eval(b)
		c := nn.Counters(net)
		net.Forward(x)
		if len(c) > 0 && maps.Equal(c, nn.Counters(net)) {
			t.Error("the network is in the copy's mode")
		}
	})
}

func TestApplyIsAFunction(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		net := build()
		net.Forward(x) // away from where it begins
		before := stateOf(net)
		tree := nn.TreeOf(net)
		want := nn.Eval(nn.CopyTo(net, x.Device())).Forward(x)
		before = strings.ReplaceAll(before, "copies 0", "copies 1") // of that replica
		key := locus.NewKey(3)
		y, kept := nn.ApplyTrain(net, tree, key, x)
		other, _ := nn.ApplyTrain(net, tree, locus.NewKey(4), x)
		if drops := len(nn.Counters(net)) > 0; drops == slices.Equal(values(y), values(other)) {
			t.Error("another key, the same result:", !drops)
		}
		for _, mode := range []func(nn.Module) nn.Module{nn.Train[nn.Module], nn.Eval[nn.Module]} {
			mode(net)
			if _, own := net.(*tracker); !own { // which knows no modes
				near(t, "Apply", nn.Apply(net, tree, x), want, 0)
			}
			again, keptAgain := nn.ApplyTrain(net, tree, key, x)
			near(t, "ApplyTrain", again, y, 0)
			for n := range kept {
				near(t, n, keptAgain[n], kept[n], 0)
			}
			// The network's own buffers, where the tree has none.
			params, _ := nn.ApplyTrain(net, nn.Trainable(net), key, x)
			near(t, "ApplyTrain of parameters", params, y, 0)
			same(t, "network", stateOf(net), before)
		}
		// What was given back is what a step in training leaves.
		nn.Train(net).Forward(x)
		if len(kept) != len(nn.Buffers(net)) {
			t.Error(kept.Names())
		}
		for _, e := range nn.Buffers(net) {
			near(t, e.Name, kept[e.Name], e.Value(), 0)
		}
		if y.RequiresGrad() && len(tree) > 0 {
			t.Error("TreeOf is detached, but a gradient flows")
		}
		if leaves := tree.RequireGrad(); len(nn.Parameters(net)) > 0 {
			y, _ := nn.ApplyTrain(net, leaves, key, x)
			grads := leaves.Grad(y.Square().Sum())
			for _, e := range nn.Parameters(net) {
				if g := grads[e.Name]; g == nil || !slices.Equal(g.Shape(), e.Value().Shape()) {
					t.Error(e.Name, g)
				}
			}
		}
	})
}

// Any number of goroutines may apply one network, also in training.
func TestApplyFromManyGoroutines(t *testing.T) {
	for name, build := range stateful() {
		net := build()
		x := locus.CPU().Key(locus.NewKey(7)).Randn(4, 5, 6)
		tree := nn.TreeOf(net)
		want := make([]*locus.Tensor, 4)
		for i := range want {
			want[i], _ = nn.ApplyTrain(net, tree, locus.NewKey(uint64(i)), x)
		}
		before := stateOf(net)
		var wg sync.WaitGroup
		for i := range want {
			wg.Go(func() {
				for range 10 {
					y, _ := nn.ApplyTrain(net, tree, locus.NewKey(uint64(i)), x)
					near(t, name, y, want[i], 0)
					nn.Apply(net, tree, x)
					nn.Bind(net, tree).Forward(x) // shares what dropout draws from
				}
			})
		}
		wg.Go(func() {
			for range 10 {
				nn.Eval(net)
				nn.Train(net)
				nn.CopyTo(net, locus.CPU())
			}
		})
		wg.Wait()
		after := stateOf(net)
		if len(nn.Counters(net)) == 0 {
			same(t, name, after, before)
		}
	}
}

func TestReplicasShareNoState(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		net := build()
		a, b := nn.CopyTo(net, x.Device()), nn.CopyTo(net, x.Device())
		before := stateOf(net)
		ya, yb := a.Forward(x), b.Forward(x)
		same(t, "the original", stateOf(net), before)
		if drops := len(nn.Counters(net)) > 0; drops == slices.Equal(values(ya), values(yb)) {
			t.Error("the replicas drop alike:", !drops)
		}
		// The same again in another run.
		c := nn.CopyTo(build(), x.Device())
		near(t, "another run's first replica", c.Forward(x), ya, 0)
		same(t, "its state", stateOf(c), stateOf(a))
	})
}

func TestMovingAndConvertingState(t *testing.T) {
	for name, build := range stateful() {
		x := locus.CPU().Key(locus.NewKey(7)).Randn(4, 5, 6)
		plain, net := build(), build()
		plain.Forward(x)
		net.Forward(x)
		nn.To(net, gpus[1])
		near(t, name+" moved", net.Forward(x.To(gpus[1])), plain.Forward(x), 1e-5)
		nn.Cast(net, locus.Float64)
		near(t, name+" converted", net.Forward(x.To(gpus[1]).Cast(locus.Float64)), plain.Forward(x), 1e-4)
		want := nn.TreeOf(plain)
		for _, e := range nn.State(net) {
			near(t, name+" "+e.Name, e.Value(), want[e.Name], 1e-4)
			if e.Value().Device() != gpus[1] || e.Value().DType() != locus.Float64 && e.Value().DType() != locus.Int64 {
				t.Error(name, e.Name, e.Value().DType(), e.Value().Device())
			}
		}
	}
}

func TestSavingState(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		net := build()
		net.Forward(x)
		path := filepath.Join(t.TempDir(), "net.safetensors")
		if err := nn.Save(path, net); err != nil {
			t.Fatal(err)
		}
		again := build()
		if err := nn.Load(path, again); err != nil {
			t.Fatal(err)
		}
		if err := nn.SetCounters(again, nn.Counters(net)); err != nil {
			t.Fatal(err)
		}
		same(t, "loaded", stateOf(again), stateOf(net))
		near(t, "goes on", again.Forward(x), net.Forward(x), 0)
		same(t, "after another step", stateOf(again), stateOf(net))
	})
}

// A compiled network has the state and the modes of the network: a layer whose Forward
// depends on more than tensors tells traces so with trace.Watch.
func TestCompiledState(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		plain, net := build(), build()
		f := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
			return []*locus.Tensor{net.Forward(args[0])}
		})
		for i, training := range []bool{true, true, true, false, false, false, true, false} {
			mode := nn.Eval[nn.Module]
			if training {
				mode = nn.Train[nn.Module]
			}
			mode(plain)
			mode(net)
			near(t, fmt.Sprintf("call %d, training %v", i, training), f.Call(x)[0], plain.Forward(x), 1e-6)
		}
		if f.Fallback() != "" {
			t.Error(f.Fallback())
		}
		for i, e := range nn.State(net) {
			near(t, e.Name, e.Value(), nn.State(plain)[i].Value(), 1e-6)
		}
	})
}

// Looking at a network, and making first values from it, leave it as it is.
func TestLookingChangesNothing(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		net := build()
		before := stateOf(net)
		nn.Summarize(net, x)
		nn.Init(net, locus.NewKey(1), x)
		nn.Device(net)
		nn.Check(net)
		same(t, "network", stateOf(net), before)
		y := nn.CopyTo(net, x.Device()).Forward(x)
		near(t, "its first replica", nn.CopyTo(build(), x.Device()).Forward(x), y, 0)
	})
}

// Frozen parameters stay, state goes on.
func TestFreezingState(t *testing.T) {
	eachStateful(t, func(t *testing.T, build func() nn.Module, x *locus.Tensor) {
		plain, net := build(), nn.Freeze(build())
		plain.Forward(x)
		if net.Forward(x).RequiresGrad() {
			t.Error("a gradient flows to a frozen network")
		}
		same(t, "state", stateOf(net), stateOf(plain))
		if nn.Bind(net, nn.Trainable(net)).Forward(x).RequiresGrad() {
			t.Error("a gradient flows through a frozen copy")
		}
	})
}

// A lazy network becomes the same whoever is first, and however many are.
func TestLazyNetworksInManyGoroutines(t *testing.T) {
	build := func() nn.Module {
		k := nn.WithKey(locus.NewKey(1))
		return nn.Eval(nn.Sequential(nn.LazyLinear(6, k), nn.BatchNorm(0, k), nn.LazyConv1D(5, 1, locus.ConvOptions{}, k), nn.LazyLSTM(6, nn.RecurrentOptions{}, k), nn.Rotary(6, 0), nn.Sinusoidal(6, 0, k)))
	}
	x := locus.CPU().Key(locus.NewKey(7)).Randn(4, 5, 6)
	want := build().Forward(x)
	net := build()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { near(t, "result", net.Forward(x), want, 0) })
	}
	wg.Wait()
}

func TestTreesThatDoNotFit(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 2), nn.BatchNorm(2))
	tree := nn.TreeOf(net)
	freed := locus.Ones(2)
	freed.Free()
	with := func(name string, x *locus.Tensor) nn.Tree { return tree.With(nn.Tree{name: x}) }
	without := func(names ...string) nn.Tree {
		c := maps.Clone(tree)
		for _, n := range names {
			delete(c, n)
		}
		return c
	}
	for what, c := range map[string]struct {
		kind error
		tree nn.Tree
		says []string
	}{
		"missing":   {locus.ErrArgument, without("0.bias", "1.weight"), []string{"0.bias", "1.weight"}},
		"unknown":   {locus.ErrArgument, with("0.Bias", locus.Ones(2)), []string{"0.Bias"}},
		"both":      {locus.ErrArgument, without("0.bias").With(nn.Tree{"x": locus.Ones(1)}), []string{"lacks 0.bias", "no x"}},
		"nil":       {locus.ErrArgument, with("0.bias", nil), []string{"0.bias"}},
		"shape":     {locus.ErrShape, with("0.bias", locus.Ones(3)), []string{"0.bias", "[3]", "[2]"}},
		"buffer":    {locus.ErrShape, with("1.running_mean", locus.Ones(1)), []string{"1.running_mean"}},
		"freed":     {locus.ErrFreed, with("0.bias", freed), nil},
		"no tree":   {locus.ErrArgument, nil, []string{"0.weight"}},
		"no buffer": {nil, without("1.running_mean", "1.running_var"), nil},
	} {
		for f, call := range map[string]func(){
			"Bind":       func() { nn.Bind(net, c.tree) },
			"Apply":      func() { nn.Apply(net, c.tree, locus.Ones(2, 3)) },
			"ApplyTrain": func() { nn.ApplyTrain(net, c.tree, locus.NewKey(1), locus.Ones(2, 3)) },
		} {
			err := locus.Try(call)
			if c.kind == nil && err == nil {
				continue
			}
			if !errors.Is(err, c.kind) {
				t.Errorf("%s, %s: %v, want %v", f, what, err, c.kind)
				continue
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s, %s: %q is missing from %v", f, what, part, err)
				}
			}
		}
	}
	if err := locus.Try(func() { nn.Trainable(nn.LazyLinear(3)) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if err := locus.Try(func() { tree.Grad(locus.Ones()) }); !errors.Is(err, locus.ErrGrad) {
		t.Error(err)
	}
}

// rawTracker keeps its state in a raw tensor, as layers did before there were
// buffers.
type rawTracker struct {
	W    *locus.Tensor `nn:"param"`
	Mean *locus.Tensor `nn:"buffer"`
}

func (l *rawTracker) Forward(x *locus.Tensor) *locus.Tensor {
	l.Mean = l.Mean.Mul(0.5).Add(x.Detach().Mean(0).Mul(0.5))
	return x.Mul(l.W).Sub(l.Mean)
}

func TestRawBuffers(t *testing.T) {
	build := func() *rawTracker { return &rawTracker{locus.Full(2, 3).RequireGrad(), locus.Zeros(3)} }
	x := locus.From([][]float32{{1, 2, 3}, {3, 4, 5}})
	net := build()
	net.Forward(x)
	path := filepath.Join(t.TempDir(), "raw.safetensors")
	if err := nn.Save(path, net); err != nil {
		t.Fatal(err)
	}
	again := build()
	if err := nn.Load(path, again); err != nil {
		t.Fatal(err)
	}
	same(t, "loaded", stateOf(again), stateOf(net))
	nn.To(again, gpus[0])
	c := nn.CopyTo(net, gpus[0])
	near(t, "moved", again.Forward(x.To(gpus[0])), net.Forward(x), 0)
	near(t, "copied", c.Forward(x.To(gpus[0])), again.Forward(x.To(gpus[0])).Add(again.Mean).Sub(c.Mean), 1e-6)

	// A copy that computes in its place would lose what it computes for it.
	err := locus.Try(func() { nn.Bind(net, nn.Trainable(net)) })
	if !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "mean") || !strings.Contains(err.Error(), "*nn.Buffer") {
		t.Error(err)
	}
	// With the buffer in the tree it is the copy's, and read there.
	before := values(net.Mean)
	b := nn.Bind(net, nn.TreeOf(net).With(nn.Trainable(net)))
	y := b.Forward(x)
	if slices.Equal(values(b.Mean), before) || !slices.Equal(values(net.Mean), before) {
		t.Error(b.Mean, net.Mean)
	}
	if !y.RequiresGrad() {
		t.Error("no gradient flows to a raw parameter")
	}
	_, kept := nn.ApplyTrain(net, nn.Trainable(net), locus.NewKey(1), x)
	near(t, "ApplyTrain", kept["mean"], b.Mean, 0)
	if !slices.Equal(values(net.Mean), before) {
		t.Error("ApplyTrain changed the network")
	}
}
