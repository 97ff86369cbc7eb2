package nn_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// everywhere is the CPU, a virtual GPU, and the machine's own where it has one;
// gpus are two virtual ones.
var everywhere, gpus = func() (all, virtual []locus.Device) {
	all = []locus.Device{locus.CPU()}
	if locus.NumGPUs() > 0 {
		all = append(all, locus.GPU())
	}
	virtual = locus.AddVirtualGPUs(2, 64<<20)
	return append(all, virtual[0]), virtual
}()

func values(t *locus.Tensor) []float64 { return locus.ToSlice[float64](t.Cast(locus.Float64)) }

func names(entries []nn.Entry) []string {
	var l []string
	for _, e := range entries {
		l = append(l, e.Name)
	}
	return l
}

// The book's example: a lazy network is put on a GPU, and its parameters are made
// there.
func TestLazyNetworkOnAGPU(t *testing.T) {
	for _, d := range append([]locus.Device{locus.CPU()}, gpus...) {
		net := nn.Sequential(nn.LazyLinear(1)).To(d)
		y := net.Forward(d.Ones(2, 3))
		if y.Device() != d || !slices.Equal(y.Shape(), []int{2, 1}) {
			t.Error(y)
		}
		w := net.At(0).(*nn.LinearLayer).Weight
		if w.Value().Device() != d || !slices.Equal(w.Value().Shape(), []int{1, 3}) {
			t.Error(w)
		}
		if got, err := nn.Device(net); err != nil || got != d {
			t.Error(got, err)
		}
	}
	// Not moved: made where the first input is.
	net := nn.Sequential(nn.LazyLinear(1))
	net.Forward(gpus[1].Ones(2, 3))
	if d, _ := nn.Device(net); d != gpus[1] {
		t.Error(d)
	}
}

type block struct {
	Hidden *nn.LinearLayer
	Layers []nn.Module
	ByName map[string]*nn.LinearLayer
	Scale  *locus.Tensor   `nn:"param"`
	Mean   *locus.Tensor   `nn:"buffer"`
	Other  *locus.Tensor   // not part of the state
	Skip   *nn.LinearLayer `nn:"-"`
	Sizes  []int
	Act    func(*locus.Tensor) *locus.Tensor
	Shared *nn.LinearLayer
}

func newBlock() *block {
	b := &block{Hidden: nn.Linear(3, 3), Layers: []nn.Module{nn.Linear(3, 2, nn.NoBias()), nn.ReLU(), nn.Sequential(nn.Linear(2, 2))},
		ByName: map[string]*nn.LinearLayer{"b": nn.Linear(2, 1), "a": nn.Linear(2, 2)},
		Scale:  locus.Ones(1).RequireGrad(), Mean: locus.Zeros(2), Other: locus.Ones(1), Skip: nn.Linear(1, 1), Act: (*locus.Tensor).Tanh}
	b.Shared = b.Hidden
	return b
}

func (b *block) Forward(x *locus.Tensor) *locus.Tensor {
	x = b.Act(b.Shared.Forward(b.Hidden.Forward(x)))
	for _, l := range b.Layers {
		x = l.Forward(x)
	}
	return b.ByName["b"].Forward(b.ByName["a"].Forward(x.Sub(b.Mean))).Mul(b.Scale)
}

func TestWalkingFindsParameters(t *testing.T) {
	want := []string{"hidden.weight", "hidden.bias", "layers.0.weight", "layers.2.0.weight", "layers.2.0.bias",
		"by_name.a.weight", "by_name.a.bias", "by_name.b.weight", "by_name.b.bias", "scale"}
	b := newBlock()
	if got := names(nn.Parameters(b)); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := names(nn.State(b)); !slices.Equal(got, append(want, "mean")) {
		t.Error(got)
	}
}

func TestMovingANetwork(t *testing.T) {
	b := newBlock()
	x := locus.Rand(4, 3)
	want := values(b.Forward(x))
	if err := locus.Try(func() { b.Forward(x.To(gpus[0])) }); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
	if nn.To(b, gpus[0]) != b {
		t.Error("To made another network")
	}
	for _, e := range nn.State(b) {
		if e.Value().Device() != gpus[0] {
			t.Error(e.Name)
		}
	}
	if got := values(b.Forward(x.To(gpus[0]))); !slices.Equal(got, want) {
		t.Error(got, want)
	}
	b.Mean = b.Mean.To(gpus[1])
	if _, err := nn.Device(b); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
}

func TestReplicasHaveTheirOwnMemory(t *testing.T) {
	b := newBlock()
	for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
		c := nn.CopyTo(b, d)
		for i, e := range nn.State(c) {
			o := nn.State(b)[i]
			if e.Name != o.Name || e.Value().Device() != d || e.Value().SharesMemory(o.Value()) || e.Value() == o.Value() {
				t.Errorf("%s on %s: %v", e.Name, d, e.Value())
			}
		}
		if c.Shared != c.Hidden || c.Hidden == b.Hidden {
			t.Error("what was shared is not shared in the replica")
		}
		x := locus.Rand(2, 3)
		if !slices.Equal(values(c.Forward(x.To(d))), values(b.Forward(x))) {
			t.Error("the replica computes something else")
		}
		c.Forward(x.To(d)).Sum().Backward()
		if nn.State(c)[0].Value().Grad() == nil || nn.State(b)[0].Value().Grad() != nil {
			t.Error("gradients went to the wrong network")
		}
	}
}

func TestFunctionalUse(t *testing.T) {
	net := nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(1))
	key := locus.NewKey(3)
	x := locus.Rand(5, 2)
	params := nn.Init(net, key, x)
	if !slices.Equal(params.Names(), []string{"0.bias", "0.weight", "2.bias", "2.weight"}) {
		t.Error(params.Names())
	}
	if net.At(0).(*nn.LinearLayer).Weight.Value() != nil {
		t.Error("Init changed the network")
	}
	again := nn.Init(net, key, x)
	for n := range params {
		if !slices.Equal(values(params[n]), values(again[n])) {
			t.Error(n, "is not a function of the key")
		}
	}
	y := nn.Apply(net, params, x)
	moved := params.Map(func(_ string, p *locus.Tensor) *locus.Tensor { return p.To(gpus[0]) })
	if d := moved.Devices()["0.bias"]; d != gpus[0] {
		t.Error(d)
	}
	if !slices.Equal(values(nn.Apply(net, moved, x.To(gpus[0]))), values(y)) {
		t.Error("another result on another device")
	}
	leaf := params.Map(func(_ string, p *locus.Tensor) *locus.Tensor { return p.RequireGrad() })
	g := locus.Grad([]*locus.Tensor{nn.Apply(net, leaf, x).Sum()}, []*locus.Tensor{leaf["0.weight"]})[0]
	if !slices.Equal(g.Shape(), []int{4, 2}) {
		t.Error(g)
	}
	delete(moved, "0.bias")
	if err := locus.Try(func() { nn.Apply(net, moved, x) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

func TestModes(t *testing.T) {
	net := nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.25)))
	x := locus.Ones(1000)
	if a, b := values(net.Forward(x)), values(net.Forward(x)); slices.Equal(a, b) || !slices.Contains(a, 0) {
		t.Error("dropout does not drop")
	}
	nn.Eval(net)
	if net.Forward(x) != x {
		t.Error("dropout drops in use")
	}
	nn.Train(net)
	if net.Forward(x) == x {
		t.Error("training mode is not back")
	}
	if m := net.Forward(locus.Ones(100000)).Mean().Item(); m < 0.97 || m > 1.03 {
		t.Error("the mean is not kept:", m)
	}
}

func TestFreezing(t *testing.T) {
	l := nn.Linear(2, 1)
	l.Weight.Freeze()
	l.Forward(locus.Ones(1, 2)).Sum().Backward()
	if l.Weight.Grad() != nil || l.Bias.Grad() == nil {
		t.Error("gradients of frozen parameters")
	}
	if !nn.Parameters(l)[0].Frozen() || nn.Parameters(l)[1].Frozen() {
		t.Error("Frozen")
	}
	l.Weight.Unfreeze()
	l.Forward(locus.Ones(1, 2)).Sum().Backward()
	if l.Weight.Grad() == nil {
		t.Error("no gradient after Unfreeze")
	}
}

func TestCast(t *testing.T) {
	net := nn.Sequential(nn.LazyLinear(3), nn.BatchNorm(0), nn.LayerNorm(3), nn.BatchNorm(3))
	nn.Cast(net, locus.Float64)
	y := net.Forward(locus.As(locus.Float64).Rand(4, 2))
	if y.DType() != locus.Float64 {
		t.Error(y)
	}
	for _, e := range nn.State(net) {
		if e.Value().DType() != locus.Float64 || e.Kind == nn.Trained && !e.Value().RequiresGrad() {
			t.Error(e.Name, e.Value())
		}
	}
	if err := locus.Try(func() { nn.Cast(net, locus.Int32) }); !errors.Is(err, locus.ErrDType) {
		t.Error(err)
	}
}
