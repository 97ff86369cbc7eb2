package nn_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.safetensors")
	net := nn.To(newTagger(), gpus[0])
	x := locus.From([][]int{{1, 2, 3}, {0, 10, 4}})
	if err := nn.Save(path, net); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "lstm.weight_ih_l0") {
		t.Error("a network with lazy layers was saved:", err)
	}
	want := values(net.Forward(x.To(gpus[0])))
	if err := nn.SaveWith(path, net, map[string]string{"hidden": "9"}); err != nil {
		t.Fatal(err)
	}
	if m, err := nn.Metadata(path); err != nil || m["hidden"] != "9" {
		t.Error(m, err)
	}
	// Into a lazy network, on the other GPU and on the CPU.
	for _, d := range []locus.Device{locus.CPU(), gpus[1]} {
		other := nn.To(newTagger(), d)
		if err := nn.Load(path, other); err != nil {
			t.Fatal(err)
		}
		if got, err := nn.Device(other); err != nil || got != d {
			t.Error(got, err)
		}
		if got := values(other.Forward(x.To(d))); !slices.Equal(got, want) {
			t.Errorf("on %s: %v, want %v", d, got, want)
		}
		for _, e := range nn.Parameters(other) {
			if !e.Value().RequiresGrad() {
				t.Error(e.Name, "cannot be trained")
			}
		}
	}
	// What was never moved goes to the default device.
	lazy := nn.LazyLinear(4)
	head := filepath.Join(t.TempDir(), "head.safetensors")
	if err := nn.Save(head, nn.Linear(6, 4)); err != nil {
		t.Fatal(err)
	}
	if err := nn.Load(head, lazy); err != nil || lazy.Weight.Device() != locus.DefaultDevice() {
		t.Error(err, lazy.Weight)
	}
}

func TestLoadReportsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.safetensors")
	if err := nn.Save(path, nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(5, 6))); err != nil {
		t.Fatal(err)
	}
	net := nn.Sequential(nn.Linear(3, 4), nn.LazyLinear(7), nn.ReLU(), nn.Linear(7, 2))
	before := nn.Values(nn.State(net))
	err := nn.Load(path, net)
	var m *weights.MatchError
	if !errors.As(err, &m) {
		t.Fatal(err)
	}
	var different []string
	for _, d := range m.Different {
		different = append(different, d.Name)
	}
	if !slices.Equal(m.Missing, []string{"3.bias", "3.weight"}) || !slices.Equal(m.Unexpected, []string{"2.bias", "2.weight"}) || !slices.Equal(different, []string{"1.bias", "1.weight"}) {
		t.Error(err)
	}
	for _, part := range []string{path, "3.bias", "2.weight", "1.weight is float32 (5, 4), want float32 (7, -1)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing from: %v", part, err)
		}
	}
	if !slices.Equal(before, nn.Values(nn.State(net))) {
		t.Error("a file that does not fit changed the network")
	}

	// With leave to differ.
	small := nn.Sequential(nn.Linear(3, 4), nn.LazyLinear(5), nn.LazyLinear(6), nn.LazyLinear(1))
	if err := nn.Load(path, small); !errors.As(err, &m) || len(m.Missing) != 2 {
		t.Error(err)
	}
	if err := nn.Load(path, small, nn.AllowMissing()); err != nil {
		t.Error(err)
	}
	if y := small.Forward(locus.Ones(2, 3)); !slices.Equal(y.Shape(), []int{2, 1}) {
		t.Error(y)
	}
	one := nn.Linear(3, 4)
	first := func(name string) string { return strings.TrimPrefix(name, "0.") }
	if err := nn.Load(path, one, nn.Rename(first), nn.AllowUnexpected()); err != nil {
		t.Error(err)
	}
	drop := func(name string) string {
		if rest, ok := strings.CutPrefix(name, "0."); ok {
			return rest
		}
		return ""
	}
	if err := nn.Load(path, one, nn.Rename(drop)); err != nil {
		t.Error(err)
	}
	if err := nn.Load(path, one, nn.Rename(func(string) string { return "weight" })); !errors.Is(err, locus.ErrArgument) {
		t.Error("two tensors for one place:", err)
	}
	if err := nn.Load(filepath.Join(t.TempDir(), "none"), one); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestLoadFillsWhatIsMissingOfALazyLayer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := weights.Save(path, map[string]*locus.Tensor{"weight": locus.Ones(2, 3)}, nil); err != nil {
		t.Fatal(err)
	}
	for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
		l := nn.To(nn.LazyLinear(2, nn.WithBiasInit(nn.Constant(4))), d)
		if err := nn.Load(path, l, nn.AllowMissing()); err != nil {
			t.Fatal(err)
		}
		if y := values(l.Forward(d.Ones(1, 3))); !slices.Equal(y, []float64{7, 7}) {
			t.Error(y)
		}
	}
}

func TestLoadConvertsNumbers(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, x *locus.Tensor) string {
		path := filepath.Join(dir, name)
		if err := weights.Save(path, map[string]*locus.Tensor{"weight": x}, nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	half := file("half", locus.As(locus.BFloat16).Ones(2, 3))
	for _, l := range []*nn.LinearLayer{nn.Linear(3, 2, nn.NoBias()), nn.LazyLinear(2, nn.NoBias())} {
		if err := nn.Load(half, l); err != nil || l.Weight.Value().DType() != locus.Float32 {
			t.Error(err, l.Weight)
		}
	}
	l := nn.LazyLinear(2, nn.NoBias(), nn.WithDType(locus.Float16))
	if err := nn.Load(half, l); err != nil || l.Weight.Value().DType() != locus.Float16 {
		t.Error(err, l.Weight)
	}
	var m *weights.MatchError
	if err := nn.Load(file("int", locus.As(locus.Int64).Ones(2, 3)), nn.Linear(3, 2, nn.NoBias())); !errors.As(err, &m) || len(m.Different) != 1 {
		t.Error("integers became a parameter:", err)
	}
}

// Files that PyTorch users saved: testdata/record.py.
func TestPyTorchCheckpoints(t *testing.T) {
	resnet := func(lazy bool) nn.Module {
		first, last := nn.Conv2D(1, 4, 3, locus.ConvOptions{Padding: 1}), nn.Linear(6, 3)
		channels := 4
		if lazy {
			first, last = nn.LazyConv2D(4, 3, locus.ConvOptions{Padding: 1}), nn.LazyLinear(3)
			channels = 0
		}
		return nn.Sequential(first, nn.BatchNorm(channels), nn.ReLU(), nn.ResNetBlock(4, 4, 1), nn.ResNetBlock(4, 6, 2), nn.AdaptiveAvgPool2D(1), nn.Flatten(), last)
	}
	text := func(bool) nn.Module {
		n := newTagger()
		n.Head, n.Scale = nn.LazyLinear(4), nil
		return &textNet{n.Embed, n.LSTM, n.Encoder, n.Head}
	}
	for name, build := range map[string]func(lazy bool) nn.Module{"resnet": resnet, "text": text} {
		for _, d := range everywhere {
			for _, lazy := range []bool{false, true} {
				net := nn.Eval(nn.To(build(lazy), d))
				if err := nn.Load("testdata/"+name+".safetensors", net); err != nil {
					t.Fatal(err)
				}
				y := net.Forward(numbered(name+"/in", d)[0])
				near(t, name+" on "+d.String(), y, records()[name+"/out/0"], 1e-5)
			}
		}
	}
}

type textNet struct {
	Embed   *nn.EmbeddingLayer
	LSTM    *nn.RecurrentLayer
	Encoder *nn.Encoder
	Head    nn.Module
}

func (t *textNet) Forward(x *locus.Tensor) *locus.Tensor {
	return t.Head.Forward(t.Encoder.Forward(t.LSTM.Forward(t.Embed.Forward(x))))
}
