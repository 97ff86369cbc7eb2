package nn_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func leNet() *nn.SequentialLayer {
	return nn.Sequential(
		nn.LazyConv2D(6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), nn.AvgPool2D(2, locus.PoolOptions{}),
		nn.LazyConv2D(16, 5, locus.ConvOptions{}), nn.Sigmoid(), nn.AvgPool2D(2, locus.PoolOptions{}),
		nn.Flatten(), nn.LazyLinear(120), nn.Sigmoid(), nn.LazyLinear(84), nn.Sigmoid(), nn.LazyLinear(10))
}

func TestSummary(t *testing.T) {
	net := leNet()
	s := nn.Summarize(net, gpus[0].Zeros(1, 1, 28, 28))
	if s.Parameters != 61706 || len(s.Rows) != 12 || !slices.Equal(s.Rows[3].Output, []int{1, 16, 10, 10}) || s.Rows[3].Device != gpus[0].String() {
		t.Error(s)
	}
	for _, part := range []string{"Conv", "[1 6 28 28]", "61706 parameters", "AvgPool2D", "layer"} {
		if !strings.Contains(s.String(), part) {
			t.Errorf("%q is missing from\n%s", part, s)
		}
	}
	if nn.Parameters(net)[0].Value() != nil {
		t.Error("a summary made the network's lazy parameters")
	}
}

func TestConvolutionalNetwork(t *testing.T) {
	for _, d := range append([]locus.Device{locus.CPU()}, gpus[0]) {
		net := leNet().To(d)
		y := net.Forward(d.Rand(2, 1, 28, 28))
		if !slices.Equal(y.Shape(), []int{2, 10}) || y.Device() != d {
			t.Error(y)
		}
		y.Square().Sum().Backward()
		for _, e := range nn.Parameters(net) {
			if g := e.Value().Grad(); g == nil || !slices.Equal(g.Shape(), e.Value().Shape()) || g.Device() != d {
				t.Error(e.Name, g)
			}
		}
	}
	c := nn.Conv1D(3, 5, 4, locus.ConvOptions{Stride: 2})
	if y := c.Forward(locus.Rand(2, 3, 10)); !slices.Equal(y.Shape(), []int{2, 5, 4}) {
		t.Error(y)
	}
}

func TestBatchNorm(t *testing.T) {
	for _, lazy := range []bool{true, false} {
		channels := 3
		if lazy {
			channels = 0
		}
		l := nn.BatchNorm(channels)
		x := locus.CPU().Key(locus.NewKey(1)).Randn(64, 3, 4, 4).Mul(2).Add(5)
		for range 100 {
			s := locus.NewScope()
			y := l.Forward(s.Use(x))
			if m, v := y.Mean().Item(), y.Var().Item(); math.Abs(m) > 1e-3 || math.Abs(v-1) > 1e-2 {
				t.Fatal("not normalized:", m, v)
			}
			s.Close()
		}
		for _, m := range values(l.RunningMean.Value()) {
			if math.Abs(m-5) > 0.3 {
				t.Error("running mean", m)
			}
		}
		for _, v := range values(l.RunningVar.Value()) {
			if math.Abs(v-4) > 0.6 {
				t.Error("running variance", v)
			}
		}
		nn.Eval(l)
		if y := l.Forward(x.Slice(locus.R(0, 1))); math.Abs(y.Mean().Item()) > 0.3 {
			t.Error("in use:", y.Mean().Item())
		}
		var kept []string
		for _, e := range nn.State(l) {
			if e.Kind == nn.Kept {
				kept = append(kept, e.Name)
			}
		}
		if !slices.Equal(kept, []string{"running_mean", "running_var"}) {
			t.Error(kept)
		}
	}
}

func TestOtherLayers(t *testing.T) {
	x := locus.Rand(2, 6, 4)
	if y := nn.LayerNorm(4).Forward(x); math.Abs(y.Mean().Item()) > 1e-5 {
		t.Error(y)
	}
	if y := nn.GroupNorm(3, 6).Forward(x); !slices.Equal(y.Shape(), x.Shape()) {
		t.Error(y)
	}
	e := nn.Embedding(10, 3)
	if y := e.Forward(locus.From([][]int{{1, 2}, {9, 0}})); !slices.Equal(y.Shape(), []int{2, 2, 3}) {
		t.Error(y)
	}
	r := nn.Residual(nn.Linear(4, 4), nil)
	if y := r.Forward(x); !slices.Equal(y.Shape(), x.Shape()) {
		t.Error(y)
	}
	r = nn.Residual(nn.Linear(4, 2), nn.Linear(4, 2))
	if y := r.Forward(x); !slices.Equal(y.Shape(), []int{2, 6, 2}) {
		t.Error(y)
	}
}

func TestInitializers(t *testing.T) {
	key := locus.NewKey(5)
	for name, c := range map[string]struct {
		init nn.Initializer
		std  float64
	}{
		"XavierUniform": {nn.XavierUniform(), math.Sqrt(2.0 / 300)}, "XavierNormal": {nn.XavierNormal(), math.Sqrt(2.0 / 300)},
		"KaimingUniform": {nn.KaimingUniform(), math.Sqrt(2.0 / 200)}, "KaimingNormal": {nn.KaimingNormal(), math.Sqrt(2.0 / 200)},
		"Normal": {nn.Normal(0, 0.3), 0.3}, "Uniform": {nn.Uniform(-1, 1), 1 / math.Sqrt(3)}, "FanIn": {nn.FanIn(0), 1 / math.Sqrt(3*200)}, "Constant": {nn.Constant(2), 0},
	} {
		l := nn.Linear(200, 100, nn.WithInit(c.init), nn.WithKey(key))
		if std := l.Weight.Value().Std().Item(); math.Abs(std-c.std) > 0.02*c.std {
			t.Errorf("%s: standard deviation %v, want %v", name, std, c.std)
		}
	}
	net := nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
	nn.Initialize(net, key, nn.XavierUniform())
	first := values(nn.Parameters(net)[0].Value())
	nn.Initialize(net, key, nn.XavierUniform())
	if !slices.Equal(first, values(nn.Parameters(net)[0].Value())) {
		t.Error("Initialize is not a function of its key")
	}
}
