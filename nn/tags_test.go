package nn_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

type base struct {
	Body *nn.LinearLayer
	Norm *nn.BatchNormLayer
}

// embedding has its layers in an embedded struct of a type that is not exported.
type embedding struct {
	base
	Head *nn.LinearLayer
}

func (e *embedding) Forward(x *locus.Tensor) *locus.Tensor {
	return e.Head.Forward(e.Norm.Forward(e.Body.Forward(x)))
}

func TestEmbeddedStructs(t *testing.T) {
	net := &embedding{base{nn.Linear(3, 4), nn.BatchNorm(4)}, nn.Linear(4, 2)}
	want := []string{"body.weight", "body.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "head.weight", "head.bias"}
	if got := names(nn.State(net)); !slices.Equal(got, want) {
		t.Error(got)
	}
	c := nn.CopyTo(net, gpus[0])
	if c.Body == net.Body || c.Body.Weight.Value().Device() != gpus[0] || c.Norm.RunningMean.Device() != gpus[0] {
		t.Error("the embedded layers were not copied")
	}
	x := locus.Rand(5, 3)
	near(t, "a copy", c.Forward(x.To(gpus[0])), net.Forward(x), 1e-6)
	before := values(net.Norm.RunningMean.Value())
	nn.Bind(net, nn.Trainable(net)).Forward(x)
	if slices.Equal(values(net.Norm.RunningMean.Value()), before) {
		t.Error("a bound copy does not share the statistics")
	}
}

func TestTagsThatMeanNothing(t *testing.T) {
	one := locus.Ones(1)
	for name, c := range map[string]struct {
		m    any
		says []string
	}{
		"not exported": {&struct {
			w *locus.Tensor `nn:"param"`
		}{one}, []string{".w", "call the field W"}},
		"not exported buffer": {&struct {
			mean []*locus.Tensor `nn:"buffer"`
		}{nil}, []string{".mean", "call the field Mean"}},
		"misspelled": {&struct {
			W *locus.Tensor `nn:"params"`
		}{one}, []string{".W", `nn:"params"`, `nn:"param"`}},
		"a number": {&struct {
			W float64 `nn:"param"`
		}{1}, []string{".W", "float64"}},
		"a tensor by value": {&struct {
			W locus.Tensor `nn:"param"`
		}{}, []string{".W", "locus.Tensor"}},
		"a parameter by value": {&struct{ W nn.Parameter }{}, []string{".W", "*nn.Parameter"}},
		"a trained buffer": {&struct {
			B *nn.Buffer `nn:"param"`
		}{}, []string{".B", "*nn.Parameter"}},
		"a kept layer": {&struct {
			L *nn.LinearLayer `nn:"buffer"`
		}{}, []string{".L", "nn.Freeze"}},
		"a map of raw tensors": {&struct {
			W map[string]*locus.Tensor `nn:"param"`
		}{map[string]*locus.Tensor{"a": one}}, []string{"w.a", "*nn.Parameter"}},
		"a struct by value": {struct {
			W *locus.Tensor `nn:"param"`
		}{one}, []string{"pass a pointer"}},
		"an embedded pointer": {&struct{ *base }{&base{Body: nn.Linear(1, 1)}}, []string{"base", "embed the struct"}},
	} {
		err := locus.Try(func() { nn.State(c.m) })
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is missing from %v", name, part, err)
			}
		}
		if err := nn.Check(c.m); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: Check gave %v", name, err)
		}
	}
	// These are fine.
	fine := &struct {
		w      *locus.Tensor   // a cache
		hidden *nn.LinearLayer `nn:"-"`
		W      []*locus.Tensor `nn:"param"`
		B      *nn.Buffer      `nn:"buffer"`
		P      *nn.Parameter   `nn:"param"`
		Frozen *nn.Parameter   `nn:"buffer"`
		Other  *locus.Tensor   `nn:"-"`
	}{one, nil, []*locus.Tensor{one.RequireGrad(), one.RequireGrad()}, nn.NewBuffer(one), nn.NewParameter(one), nn.NewParameter(one), one}
	if got := names(nn.Parameters(fine)); !slices.Equal(got, []string{"w.0", "w.1", "p"}) {
		t.Error(got)
	}
	if err := nn.Check(fine); err != nil {
		t.Error(err)
	}
}

// Two tensors of one name would take each other's place in a file.
func TestTwoTensorsOfOneName(t *testing.T) {
	net := &struct {
		A *nn.LinearLayer `nn:"inline"`
		B *nn.LinearLayer `nn:"inline"`
	}{nn.Linear(1, 1), nn.Linear(1, 1)}
	path := filepath.Join(t.TempDir(), "net.safetensors")
	for what, err := range map[string]error{
		"Save": nn.Save(path, net),
		"Bind": locus.Try(func() { nn.Bind(net, nn.TreeOf(net)) }),
		"tags": nn.Save(path, &struct {
			w *locus.Tensor `nn:"param"`
		}{}),
	} {
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCheck(t *testing.T) {
	one := locus.Ones(1)
	for name, c := range map[string]struct {
		m    any
		says []string
	}{
		"forgotten tag":  {&struct{ W *locus.Tensor }{one}, []string{"no parameters", "W is a *locus.Tensor without a tag", `nn:"param"`}},
		"forgotten tags": {&struct{ Layers []*locus.Tensor }{tensors{one}}, []string{"Layers"}},
		"one of two": {&struct {
			Body *nn.LinearLayer
			W    *locus.Tensor
		}{nn.Linear(1, 1), one}, []string{"W is"}},
		"hidden layer":     {&struct{ body *nn.LinearLayer }{nn.Linear(1, 1)}, []string{"no parameters", "body is not exported", "call it Body"}},
		"hidden layers":    {&struct{ layers []nn.Module }{[]nn.Module{nn.ReLU(), nn.Linear(1, 1)}}, []string{"layers is not exported"}},
		"hidden network":   {&struct{ net nn.Module }{nn.Sequential(nn.Linear(1, 1))}, []string{"net is not exported"}},
		"deep":             {&struct{ Net nn.Module }{nn.Sequential(nn.Linear(1, 1), &rawNet{one})}, []string{"W is a *locus.Tensor"}},
		"numbered":         {&struct{ Heads map[int]*nn.LinearLayer }{map[int]*nn.LinearLayer{1: nn.Linear(1, 1)}}, []string{"Heads is a map", "strings"}},
		"no gradient":      {&rawTracker{one, one}, []string{"w is a parameter that records no gradient", "RequireGrad"}},
		"nothing to train": {nn.Sequential(nn.ReLU()), []string{"no parameters"}},
		"nothing at all":   {nil, []string{"no parameters"}},
	} {
		err := nn.Check(c.m)
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is missing from %v", name, part, err)
			}
		}
	}
	for name, build := range stateful() {
		if m := build(); len(nn.Parameters(m)) > 0 && nn.Check(m) != nil {
			t.Error(name, nn.Check(m))
		}
	}
	if err := nn.Check(nn.Sequential(nn.LazyLinear(3), nn.Func(func(x *locus.Tensor) *locus.Tensor { return x }))); err != nil {
		t.Error(err)
	}
}

type rawNet struct{ W *locus.Tensor }

func (n *rawNet) Forward(x *locus.Tensor) *locus.Tensor { return x.Mul(n.W) }
