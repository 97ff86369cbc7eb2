package export_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/export"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// words embeds integers and runs a transformer over them.
type words struct {
	Embed *nn.EmbeddingLayer
	Body  nn.Module
	Head  nn.Module
}

func (w *words) Forward(x *locus.Tensor) *locus.Tensor {
	return w.Head.Forward(w.Body.Forward(w.Embed.Forward(x)))
}

// fields has tensors in plain fields, one of them not contiguous.
type fields struct {
	W *locus.Tensor `nn:"param"`
	B *locus.Tensor `nn:"buffer"`
}

func (f *fields) Forward(x *locus.Tensor) *locus.Tensor {
	return x.MatMul(f.W).Add(f.B).Mul(2).Maximum(x.Device().From([]float32{0.5, -1}))
}

type network struct {
	net func() nn.Module
	x   func() *locus.Tensor
}

func networks() map[string]network {
	floats := func(shape ...int) func() *locus.Tensor {
		return func() *locus.Tensor { return locus.CPU().Key(locus.NewKey(3)).Randn(shape...) }
	}
	return map[string]network{
		"MLP": {func() nn.Module {
			return nn.Sequential(nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Dropout(0.5), nn.Linear(9, 3), nn.Softmax(-1))
		}, floats(4, 3, 4)},
		"LeNet": {func() nn.Module {
			return nn.Sequential(nn.Conv2D(1, 3, 3, locus.ConvOptions{Padding: 1}), nn.BatchNorm(3), nn.Sigmoid(), nn.AvgPool2D(2, locus.PoolOptions{}),
				nn.Conv2D(3, 4, 3, locus.ConvOptions{}), nn.GELU(), nn.MaxPool2D(2, locus.PoolOptions{}), nn.Flatten(), nn.LazyLinear(5))
		}, floats(2, 1, 12, 12)},
		"GRU":  {func() nn.Module { return nn.GRU(5, 4, nn.RecurrentOptions{Layers: 2, Dropout: 0.3}) }, floats(2, 7, 5)},
		"LSTM": {func() nn.Module { return nn.LSTM(5, 4, nn.RecurrentOptions{}) }, floats(2, 3, 5)},
		"transformer": {func() nn.Module {
			return &words{nn.Embedding(11, 8), nn.TransformerEncoder(2, 8, 2, nn.TransformerOptions{Dropout: 0.1, Hidden: 16, Causal: true}), nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 11))}
		}, func() *locus.Tensor { return locus.CPU().Key(locus.NewKey(4)).Randint(0, 11, 2, 5) }},
		"fields": {func() nn.Module {
			return &fields{W: locus.CPU().Randn(2, 6).T(), B: locus.CPU().Randn(3, 2).Narrow(0, 1, 2)}
		}, floats(3, 6)},
		"the input": {func() nn.Module { return nn.Dropout(0.5) }, floats(2, 3)},
		"a view":    {func() nn.Module { return nn.Flatten() }, floats(2, 3, 2)},
		"odd":       {func() nn.Module { return nn.Sequential(nn.Linear(1, 1), nn.LayerNorm(1)) }, floats(1, 1)},
		"empty":     {func() nn.Module { return nn.Sequential(nn.Linear(3, 2), nn.ReLU()) }, floats(0, 3)},
	}
}

// same fails unless two tensors are equal to the bit.
func same(t *testing.T, what string, want, got *locus.Tensor) {
	t.Helper()
	a, b := locus.ToSlice[float64](want.Detach().To(locus.CPU()).Cast(locus.Float64)), locus.ToSlice[float64](got.Detach().To(locus.CPU()).Cast(locus.Float64))
	equal := slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
	if want.DType() != got.DType() || !slices.Equal(want.Shape(), got.Shape()) || !equal {
		t.Errorf("%s: %v %v, from the file %v %v", what, want.Shape(), a, got.Shape(), b)
	}
}

func load(t testing.TB, path string) *export.Program {
	t.Helper()
	p, err := export.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A network from a file gives what the network gives, on the device that it was exported
// on and on another one.
func TestNetworks(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 0)[0]
	for name, c := range networks() {
		for _, d := range []locus.Device{locus.CPU(), gpu} {
			t.Run(fmt.Sprint(name, " ", d), func(t *testing.T) {
				net, x := nn.To(c.net(), d), c.x().To(d)
				path := filepath.Join(t.TempDir(), "net.locus")
				if err := export.SaveNet(path, net, x); err != nil {
					t.Fatal(err)
				}
				want := net.Forward(x)
				p := load(t, path)
				for _, e := range nn.Parameters(net) { // the file has values of its own
					e.Set(e.Value().Detach().Mul(1.5))
				}
				for _, at := range []locus.Device{locus.CPU(), gpu} {
					q := p.On(at)
					for range 4 { // traced, compared, and run as a program
						y := q.Call(x.To(at))
						if len(y) != 1 || y[0].Device() != at || y[0].RequiresGrad() {
							t.Fatalf("%d results: %v", len(y), y)
						}
						same(t, fmt.Sprint("on ", at), want, y[0])
					}
					if !strings.Contains(q.Explain(), ": compiled") {
						t.Errorf("not compiled:\n%s", q.Explain())
					}
				}
				s := p.Signature()
				if len(s.Args) != 1 || s.Args[0].String() != weights.SpecOf(x).String() || s.Results[0].String() != weights.SpecOf(want).String() {
					t.Error(s)
				}
			})
		}
	}
}

// The names of weights are those of the network.
func TestNames(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.BatchNorm(2))
	path := filepath.Join(t.TempDir(), "net.locus")
	if err := export.SaveNet(path, net, locus.Ones(1, 3)); err != nil {
		t.Fatal(err)
	}
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, e := range nn.Parameters(net) {
		if i, ok := f.Info(e.Name); !ok || !slices.Equal(i.Shape, e.Value().Shape()) {
			t.Errorf("%s: %v %v in %v", e.Name, i, ok, f.Names())
		}
	}
	s, ok, err := export.Inspect(f)
	if !ok || err != nil || s.String() != "(float32 (1, 3)) → (float32 (1, 2))" {
		t.Error(s, ok, err)
	}
	if text := load(t, path).String(); !strings.Contains(text, `weight float32 (2, 3) "0.weight"`) || !strings.Contains(text, "= linear(%0,") {
		t.Error(text)
	}
}

// A second process, which has this package and no network, computes the same.
func TestOtherProcess(t *testing.T) {
	if path := os.Getenv("LOCUS_EXPORT_CHILD"); path != "" {
		f, err := weights.Open(filepath.Join(path, "x"))
		if err != nil {
			t.Fatal(err)
		}
		x, err := f.Load("x", locus.CPU())
		if err != nil {
			t.Fatal(err)
		}
		if err := weights.Save(filepath.Join(path, "y"), map[string]*locus.Tensor{"y": load(t, filepath.Join(path, "net")).Call(x)[0]}, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	c := networks()["transformer"]
	net, x := nn.To(c.net(), locus.CPU()), c.x()
	if err := export.SaveNet(filepath.Join(dir, "net"), net, x); err != nil {
		t.Fatal(err)
	}
	if err := weights.Save(filepath.Join(dir, "x"), map[string]*locus.Tensor{"x": x}, nil); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")
	child.Env = append(os.Environ(), "LOCUS_EXPORT_CHILD="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := weights.Open(filepath.Join(dir, "y"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	y, err := f.Load("y", locus.CPU())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "in another process", net.Forward(x), y)
}

// Functions with several arguments and results, with gradients inside, with constants and
// tensors from outside.
func TestFunctions(t *testing.T) {
	outside := locus.CPU().Randn(4, 5)
	for name, c := range map[string]struct {
		f    func(a ...*locus.Tensor) []*locus.Tensor
		args []*locus.Tensor
	}{
		"views": {func(a ...*locus.Tensor) []*locus.Tensor {
			s := outside.Slice(locus.At(2), locus.R(4, 0, -2))
			return []*locus.Tensor{a[0].T(), a[1], a[0].Add(s.Reshape(2, 1)), a[0].Narrow(1, 1, 2).Neg()}
		}, []*locus.Tensor{locus.CPU().Randn(2, 3), locus.CPU().Arange(4)}},
		"constants": {func(a ...*locus.Tensor) []*locus.Tensor {
			return []*locus.Tensor{a[0].Mul(math.Inf(-1)), a[0].Gt(0).Where(a[0], math.NaN()), a[0].Device().From([]int64{1, 2, 3}), a[0].Device().Full(math.Copysign(0, -1), 2)}
		}, []*locus.Tensor{locus.CPU().From([]float64{1, -2, 0})}},
		"gradients": {func(a ...*locus.Tensor) []*locus.Tensor {
			x := a[0].RequireGrad()
			loss := locus.LayerNorm(x, []int{3}, nil, nil, 1e-5).Softmax(-1).Square().Sum()
			return append([]*locus.Tensor{loss.Detach()}, locus.Grad([]*locus.Tensor{loss}, []*locus.Tensor{x})...)
		}, []*locus.Tensor{locus.CPU().Randn(2, 3)}},
		"an argument twice": {func(a ...*locus.Tensor) []*locus.Tensor {
			y := a[0].Sub(a[1])
			return []*locus.Tensor{y, y, y.T()}
		}, []*locus.Tensor{locus.CPU().Ones(2, 2), locus.CPU().Ones(2, 2)}},
		"of another layout": {func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Exp()} }, []*locus.Tensor{locus.CPU().Randn(3, 4).T()}},
		"no arguments":      {func(...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{outside.Mul(2)} }, nil},
		"half precision":    {func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Add(0.1).Cast(locus.Float32)} }, []*locus.Tensor{locus.CPU().Randn(3).Cast(locus.BFloat16)}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.locus")
			if err := export.Save(path, locus.Compile(c.f), c.args...); err != nil {
				t.Fatal(err)
			}
			want, p := c.f(c.args...), load(t, path)
			for range 3 {
				got := p.Call(c.args...)
				if len(got) != len(want) {
					t.Fatal(len(got), len(want))
				}
				for i := range want {
					same(t, fmt.Sprint("result ", i), want[i], got[i])
				}
			}
		})
	}
}

type cell struct{ t *locus.Tensor }

func (c *cell) Value() *locus.Tensor { return c.t }
func (c *cell) Set(t *locus.Tensor)  { c.t = t }

// What cannot be saved is an error that says why, and nothing is written.
func TestRefused(t *testing.T) {
	v := &cell{locus.Ones(2)}
	calls := 0.0
	x := locus.Ones(2)
	leaf := locus.Ones(2).RequireGrad()
	one := func(f func(x *locus.Tensor) *locus.Tensor) *locus.Compiled {
		return locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{f(a[0])} }, v)
	}
	for why, c := range map[string]*locus.Compiled{
		"sets 1 variables": one(func(x *locus.Tensor) *locus.Tensor {
			v.Set(v.Value().Add(1))
			return x
		}),
		"numbers that change from call to call": one(func(x *locus.Tensor) *locus.Tensor { return x.Add(locus.Rand(2)) }),
		"two calls do not do the same": one(func(x *locus.Tensor) *locus.Tensor {
			calls++
			return x.Mul(calls)
		}),
		"reads or waits":  one(func(x *locus.Tensor) *locus.Tensor { return x.Mul(x.Sum().Item()) }),
		"result 0 is nil": one(func(x *locus.Tensor) *locus.Tensor { return nil }),
		"collects gradients": one(func(x *locus.Tensor) *locus.Tensor {
			leaf.Mul(x).Sum().Backward()
			return x
		}),
		"receiver is nil": nil,
	} {
		path := filepath.Join(t.TempDir(), "f.locus")
		err := export.Save(path, c, x)
		var e *locus.Error
		if !errors.As(err, &e) || !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: it was written", why)
		}
	}
	if err := export.SaveNet(filepath.Join(t.TempDir(), "x"), nil, x); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if err := export.SaveNet(filepath.Join(t.TempDir(), "x"), nn.Linear(3, 2), x); !errors.Is(err, locus.ErrShape) {
		t.Error(err)
	}
	if v.t.Sum().Item() != 2 {
		t.Error("a variable was set")
	}
}

// Wrong arguments are errors that say what is right.
func TestArguments(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 0)[0]
	path := filepath.Join(t.TempDir(), "net.locus")
	if err := export.SaveNet(path, nn.To(nn.Linear(3, 2), locus.CPU()), locus.CPU().Ones(4, 3)); err != nil {
		t.Fatal(err)
	}
	p := load(t, path).On(locus.CPU())
	for _, c := range []struct {
		kind error
		says string
		f    func()
	}{
		{locus.ErrArgument, "0 arguments", func() { p.Call() }},
		{locus.ErrArgument, "argument 0 is nil", func() { p.Call(nil) }},
		{locus.ErrShape, "(5, 3)", func() { p.Call(locus.CPU().Ones(5, 3)) }},
		{locus.ErrDType, "float64", func() { p.Call(locus.CPU().Ones(4, 3).Cast(locus.Float64)) }},
		{locus.ErrDevice, "On(", func() { p.Call(gpu.Ones(4, 3)) }},
		{locus.ErrArgument, "export.Load", func() { new(export.Program).Call() }},
		{locus.ErrArgument, "export.Load", func() { (*export.Program)(nil).On(gpu) }},
		{locus.ErrFreed, "", func() { x := locus.CPU().Ones(4, 3); x.Free(); p.Call(x) }},
	} {
		if err := locus.Try(c.f); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	if _, err := export.Load(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	// A result belongs to the scope of the arguments, and freeing it harms nobody.
	locus.Scoped(func(s *locus.Scope) {
		if y := p.Call(s.Use(locus.CPU().Ones(4, 3)))[0]; y.Scope() != s {
			t.Error("the result is not in the argument's scope")
		}
	})
}

// An argument that gradients would flow through is one without a history.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.locus")
	if err := export.SaveNet(path, nn.Linear(3, 2), locus.Ones(4, 3)); err != nil {
		t.Fatal(err)
	}
	if y := load(t, path).Call(locus.Ones(4, 3).RequireGrad())[0]; y.RequiresGrad() {
		t.Error("the result has a history")
	}
}

// The same program makes the same file.
func TestSameBytes(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 4), nn.Tanh())
	var files [2][]byte
	for i := range files {
		path := filepath.Join(t.TempDir(), "net.locus")
		if err := export.SaveNet(path, net, locus.Ones(4, 3)); err != nil {
			t.Fatal(err)
		}
		files[i], _ = os.ReadFile(path)
	}
	if len(files[0]) == 0 || !bytes.Equal(files[0], files[1]) {
		t.Error("two files differ")
	}
}

var update = flag.Bool("update", false, "write testdata/version1.*")

// Later versions load what version 1 of the format has written, and compute the same. The
// file stays as it is when the format changes; a new one is added beside it.
func TestVersion1(t *testing.T) {
	const path, numbers = "testdata/version1.locus", "testdata/version1.safetensors"
	if *update {
		x := locus.CPU().Key(locus.NewKey(9)).Randn(2, 1, 6, 6)
		net := nn.To(oldNetwork(), locus.CPU())
		if err := export.SaveNet(path, net, x); err != nil {
			t.Fatal(err)
		}
		if err := weights.Save(numbers, map[string]*locus.Tensor{"x": x, "y": net.Forward(x)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	f, err := weights.Open(numbers)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.LoadAll(locus.CPU())
	if err != nil {
		t.Fatal(err)
	}
	got := load(t, path).On(locus.CPU()).Call(n["x"])[0]
	if d := got.Sub(n["y"]).Abs().Max().Item(); !slices.Equal(got.Shape(), n["y"].Shape()) || !(d < 1e-5) {
		t.Errorf("off by %g: %v", d, got)
	}
}

// oldNetwork has many kinds of step.
func oldNetwork() nn.Module {
	return nn.Sequential(nn.Conv2D(1, 2, 3, locus.ConvOptions{Padding: 1}), nn.BatchNorm(2), nn.SiLU(), nn.MaxPool2D(2, locus.PoolOptions{Stride: 1}), nn.AvgPool2D(2, locus.PoolOptions{}),
		nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Reshape(2, 2, 4).Permute(0, 2, 1) }), nn.GRU(2, 4, nn.RecurrentOptions{}),
		nn.TransformerEncoder(1, 4, 2, nn.TransformerOptions{Hidden: 8, Causal: true}), nn.Flatten(), nn.LazyLinear(3),
		nn.Func(func(x *locus.Tensor) *locus.Tensor {
			return x.Pad(math.Inf(-1), 0, 0, 0, 1).Softmax(-1).Gt(0.1).Where(x.Device().From([]float32{1, 2, 3, 4}), x.Sum().Mul(0.5))
		}))
}

// What was exported on the CPU runs on an NVIDIA GPU and the other way round; each is
// within rounding of the other, and the same to the bit as the network on its device.
func TestCard(t *testing.T) {
	var card locus.Device
	found := false
	for _, d := range locus.Devices() {
		if d.Device.IsGPU() && !strings.HasPrefix(d.Name, "virtual") && !found {
			card, found = d.Device, true
		}
	}
	if !found {
		t.Skip("there is no NVIDIA GPU")
	}
	for name, c := range networks() {
		for _, from := range []locus.Device{locus.CPU(), card} {
			t.Run(fmt.Sprint(name, " from ", from), func(t *testing.T) {
				net, x := nn.To(c.net(), from), c.x()
				path := filepath.Join(t.TempDir(), "net.locus")
				if err := export.SaveNet(path, net, x.To(from)); err != nil {
					t.Fatal(err)
				}
				p := load(t, path)
				for _, at := range []locus.Device{locus.CPU(), card} {
					q, own := p.On(at), nn.CopyTo(net, at)
					for range 4 {
						got, want := q.Call(x.To(at))[0], own.Forward(x.To(at))
						if at == from {
							same(t, fmt.Sprint("on ", at), want, got)
						} else if d := got.Sub(want.Detach()).Abs(); d.Len() > 0 && !(d.Max().Item() < 1e-4) {
							t.Errorf("on %s off by %g", at, d.Max().Item())
						}
					}
				}
			})
		}
	}
}

// Goroutines share one program, and results that are kept stay what they are.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.locus")
	net := nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
	if err := export.SaveNet(path, net, locus.Ones(4, 3)); err != nil {
		t.Fatal(err)
	}
	p := load(t, path)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			x := locus.Ones(4, 3).Mul(i)
			want := net.Forward(x)
			var kept []*locus.Tensor
			for range 20 {
				kept = append(kept, p.Call(x)[0])
			}
			for _, y := range kept {
				same(t, "beside others", want, y)
			}
			kept[0].Free()
			same(t, "after a result was freed", want, p.Call(x)[0])
		})
	}
	group.Wait()
}
