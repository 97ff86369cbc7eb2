package nn_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// A lazy layer becomes, with its first input, what the layer is that was told.
func TestLazyLayers(t *testing.T) {
	for name, c := range layerCases() {
		if c.lazy == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			lazy := c.lazy()
			for _, e := range nn.State(lazy) {
				if e.Name == "weight" && e.Value() != nil {
					t.Error(e.Name, "was made before the first input")
				}
			}
			d := gpus[0]
			nn.To(lazy, d)
			c.call(lazy, numbered(name+"/in", d))
			want := nn.State(c.layer)
			for i, e := range nn.State(lazy) {
				if e.Name != want[i].Name || !slices.Equal(e.Value().Shape(), want[i].Value().Shape()) || e.Value().Device() != d || e.Value().DType() != locus.Float64 {
					t.Errorf("%s: %v, want %s %v", e.Name, e.Value(), want[i].Name, want[i].Value().Shape())
				}
			}
			// The same without an input: shapes come from a file.
			path := filepath.Join(t.TempDir(), "layer.safetensors")
			if err := nn.Save(path, c.layer); err != nil {
				t.Fatal(err)
			}
			loaded := nn.To(c.lazy(), d)
			if err := nn.Load(path, loaded); err != nil {
				t.Fatal(err)
			}
			near(t, "loaded", c.call(loaded, numbered(name+"/in", d))[0], c.call(nn.CopyTo(c.layer, locus.CPU()), numbered(name+"/in", locus.CPU()))[0], 1e-9)
		})
	}
}

// A replica has memory of its own, computes the same and keeps its gradients.
func TestReplicasOfEveryLayer(t *testing.T) {
	for name, c := range layerCases() {
		if len(nn.State(c.layer)) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			fill(t, c.layer, name, locus.CPU())
			for _, d := range []locus.Device{locus.CPU(), gpus[1]} {
				copied := nn.CopyTo(c.layer, d)
				for i, e := range nn.State(copied) {
					if e.Value().SharesMemory(nn.State(c.layer)[i].Value()) || e.Value().Device() != d {
						t.Error(e.Name, "is not a copy on", d)
					}
				}
				y := c.call(copied, numbered(name+"/in", d))[0]
				near(t, "replica", y, records()[name+"/out/0"], 1e-9)
				if y.RequiresGrad() { // a layer may have buffers alone
					y.Sum().Backward()
				}
				for _, e := range nn.Parameters(c.layer) {
					if e.Value().Grad() != nil {
						t.Error("the original got a gradient:", e.Name)
					}
				}
			}
			// Its input must be where it is.
			in := numbered(name+"/in", gpus[0])
			if err := locus.Try(func() { c.call(nn.CopyTo(c.layer, locus.CPU()), in) }); !errors.Is(err, locus.ErrDevice) {
				t.Error("input on another device:", err)
			}
		})
	}
}

// Init is a function of its key alone, and Apply needs nothing but the tree.
func TestFunctionalUseOfEveryLayer(t *testing.T) {
	for name, c := range layerCases() {
		m, ok := c.layer.(nn.Module)
		if !ok || len(nn.State(c.layer)) == 0 || name == "attention_cross" {
			continue // not a function of one tensor, or nothing to make
		}
		t.Run(name, func(t *testing.T) {
			recorded(t, name)
			x := numbered(name+"/in", gpus[0])[0]
			m := nn.Cast(nn.CopyTo(m, locus.CPU()), locus.Float64)
			a, b, other := nn.Init(m, locus.NewKey(1), x), nn.Init(m, locus.NewKey(1), x), nn.Init(m, locus.NewKey(2), x)
			random := false
			for n := range a {
				near(t, n, a[n], b[n], 0)
				random = random || !slices.Equal(values(a[n]), values(other[n]))
			}
			if drawn(c.layer) && !random {
				t.Error("first values do not depend on the key")
			}
			for _, e := range nn.Buffers(c.layer) { // nothing has called this one
				near(t, "Init's "+e.Name, a[e.Name], e.Value(), 0)
			}
			state := nn.Tree{}
			for n, v := range named(name + "/state") {
				state[n] = v.To(gpus[0])
			}
			if len(numbered(name+"/in", locus.CPU())) != 1 {
				return
			}
			want := records()[name+"/out/0"]
			if strings.HasSuffix(name, "_eval") {
				near(t, "Apply", nn.Apply(m, state, x), want, 1e-9)
				return
			}
			y, kept := nn.ApplyTrain(m, state, locus.NewKey(5), x)
			near(t, "ApplyTrain", y, want, 1e-9)
			for _, e := range nn.Buffers(m) {
				near(t, e.Name+" afterwards", kept[e.Name], records()[name+"/after/"+e.Name], 1e-9)
			}
			if len(kept) != len(nn.Buffers(m)) {
				t.Error("ApplyTrain gave back", kept.Names())
			}
		})
	}
}

// drawn reports whether the constructor drew parameters: their elements differ.
func drawn(layer any) bool {
	return slices.ContainsFunc(nn.Parameters(layer), func(e nn.Entry) bool {
		v := values(e.Value())
		return slices.Min(v) != slices.Max(v)
	})
}

// firstField's address is that of its first field.
type firstField struct {
	Scale *locus.Tensor `nn:"param"`
	Inner struct {
		Mean *locus.Tensor `nn:"buffer"`
	}
}

func TestFirstFieldIsFound(t *testing.T) {
	f := &firstField{Scale: locus.Ones(1)}
	f.Inner.Mean = locus.Ones(2)
	if got := names(nn.State(f)); !slices.Equal(got, []string{"scale", "inner.mean"}) {
		t.Error(got)
	}
	if c := nn.CopyTo(f, gpus[0]); c.Scale.Device() != gpus[0] || c.Inner.Mean.Device() != gpus[0] {
		t.Error(c)
	}
	if _, err := nn.Device(&firstField{}); err != nil {
		t.Error(err)
	}
}

func TestFieldNames(t *testing.T) {
	type all struct {
		W1, RunningMean, QProj, BN1, LSTM, HTTPServer *nn.Parameter
	}
	p := func() *nn.Parameter { return nn.NewParameter(locus.Ones(1)) }
	if got := names(nn.State(&all{p(), p(), p(), p(), p(), p()})); !slices.Equal(got, []string{"w1", "running_mean", "q_proj", "bn1", "lstm", "http_server"}) {
		t.Error(got)
	}
}

// With its counters a network goes on with the masks it would have drawn.
func TestCounters(t *testing.T) {
	build := func() *nn.SequentialLayer {
		return nn.Sequential(nn.Dropout(0.5), nn.DropoutChannels(0.3), nn.AlphaDropout(0.4),
			nn.LSTM(3, 2, nn.RecurrentOptions{Layers: 2, Dropout: 0.5}, nn.WithInit(nn.Constant(0.5))))
	}
	x := locus.Rand(3, 4, 3)
	net := build()
	for range 3 {
		net.Forward(x)
	}
	saved, err := json.Marshal(nn.Counters(net))
	if err != nil {
		t.Fatal(err)
	}
	var counters map[string]uint64
	if err := json.Unmarshal(saved, &counters); err != nil {
		t.Fatal(err)
	}
	if counters["0.drawn"] != 3 || counters["3.dropout.drawn"] != 3 || len(counters) != 12 {
		t.Error(counters)
	}
	again := build()
	fresh := again.At(3).(*nn.RecurrentLayer)
	for i, e := range nn.State(fresh) {
		e.Set(nn.State(net.At(3))[i].Value())
	}
	if err := nn.SetCounters(again, counters); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		near(t, "resumed", again.Forward(x), net.Forward(x), 0)
	}
	// Replicas: other masks than the original's, but the same ones in both runs.
	a, b := nn.CopyTo(net, gpus[0]), nn.CopyTo(again, locus.CPU())
	near(t, "replicas", a.Forward(x.To(gpus[0])), b.Forward(x), 1e-6)
	if second := nn.CopyTo(net, locus.CPU()); slices.Equal(values(second.Forward(x)), values(nn.CopyTo(again, locus.CPU()).Forward(x))) == false {
		t.Error("second replicas differ between the runs")
	} else if slices.Equal(values(nn.CopyTo(net, locus.CPU()).Forward(x)), values(second.Forward(x))) {
		t.Error("two replicas drop alike")
	}

	delete(counters, "1.key")
	counters["9.drawn"] = 1
	before := nn.Counters(net)
	if err := nn.SetCounters(net, counters); !errors.Is(err, locus.ErrArgument) || before["0.drawn"] != nn.Counters(net)["0.drawn"] {
		t.Error(err)
	}
}

func TestKindsOfDropout(t *testing.T) {
	x := locus.Ones(4, 50, 6)
	y := values(nn.DropoutChannels(0.5).Forward(x))
	zeros := 0
	for i := 0; i < len(y); i += 6 {
		for _, v := range y[i : i+6] {
			if v != y[i] || v != 0 && v != 2 {
				t.Fatal("a channel was dropped in part:", y[i:i+6])
			}
		}
		if y[i] == 0 {
			zeros++
		}
	}
	if zeros < 60 || zeros > 140 {
		t.Errorf("%d of 200 channels were dropped", zeros)
	}
	n := locus.CPU().Key(locus.NewKey(4)).Randn(100000)
	if z := nn.AlphaDropout(0.3).Forward(n); z.Mean().Item() > 0.02 || z.Mean().Item() < -0.02 || z.Std().Item() < 0.97 || z.Std().Item() > 1.03 {
		t.Error(z.Mean().Item(), z.Std().Item())
	}
	for _, l := range []*nn.DropoutLayer{nn.Dropout(0.5), nn.DropoutChannels(0.5), nn.AlphaDropout(0.5)} {
		if nn.Eval(l).Forward(x) != x {
			t.Error(l, "drops in use")
		}
	}
	e := nn.Embedding(5, 3, nn.PaddingIndex(4))
	if v := values(e.Weight.Value()); !slices.Equal(v[12:], []float64{0, 0, 0}) || v[0] == 0 {
		t.Error(v)
	}
}
