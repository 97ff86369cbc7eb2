package model

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

func TestBuildAndKeep(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	for _, name := range Names {
		for _, input := range [][]int{{1, 8, 8}, {1, 28, 28}, {3, 5, 7}} {
			net, err := Build(name, input, 10, 7)
			if err != nil {
				t.Fatalf("%s for %v: %v", name, input, err)
			}
			nn.Eval(net)
			x := locus.CPU().Key(locus.NewKey(1)).Rand(append([]int{4}, input...)...)
			want := locus.ToSlice[float32](net.Forward(x).Detach())
			path := filepath.Join(t.TempDir(), "w.safetensors")
			card := Card{Model: name, Data: "digits", Input: input, Classes: make([]string, 10)}
			if err := Save(path, net, card); err != nil {
				t.Fatal(err)
			}
			again, got, err := Load(path, Card{}, gpu)
			if err != nil {
				t.Fatal(err)
			}
			if got.Model != name || got.Data != "digits" {
				t.Errorf("the card came back as %+v", got)
			}
			for i, v := range locus.ToSlice[float32](again.Forward(x.To(gpu)).Detach()) {
				if v != want[i] {
					t.Fatalf("%s for %v: element %d is %v after loading, %v before", name, input, i, v, want[i])
				}
			}
		}
	}
}

func TestSeedDecides(t *testing.T) {
	weightsOf := func(seed uint64) float32 {
		net, err := Build("mlp", []int{1, 8, 8}, 10, seed)
		if err != nil {
			t.Fatal(err)
		}
		return locus.ToSlice[float32](nn.Values(nn.Parameters(net))[0].Detach())[0]
	}
	if weightsOf(1) != weightsOf(1) || weightsOf(1) == weightsOf(2) {
		t.Error("the first weights do not follow the seed")
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.safetensors")
	if err := weights.Save(other, map[string]*locus.Tensor{"a": locus.Zeros(2)}, nil); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage.safetensors")
	if err := os.WriteFile(garbage, []byte("not weights at all, sorry"), 0o666); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong.safetensors")
	net, _ := Build("softmax", []int{1, 8, 8}, 10, 0)
	if err := Save(wrong, net, Card{Model: "mlp", Data: "digits", Input: []int{1, 8, 8}, Classes: make([]string, 10)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		card Card
		kind error
		want string
	}{
		{filepath.Join(dir, "none"), Card{}, os.ErrNotExist, "none"},
		{other, Card{}, ErrNoCard, "--model"},
		{other, Card{Model: "mlp", Input: []int{1, 8, 8}, Classes: make([]string, 10)}, nil, "not the weights of a mlp"},
		{other, Card{Model: "vgg", Input: []int{1, 8, 8}, Classes: make([]string, 10)}, nil, `no model "vgg"`},
		{garbage, Card{}, weights.ErrFormat, "garbage"},
		{wrong, Card{}, nil, "has shape"},
		{dir, Card{}, nil, "no whole checkpoint"},
	} {
		_, _, err := Load(c.path, c.card, locus.CPU())
		if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %q", c.path, err, c.want)
		}
	}
}

func TestOpenData(t *testing.T) {
	s, err := OpenData("digits", Options{Source: data.Source{}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Train.Len() != 1437 || s.Test.Len() != 360 || s.Input[2] != 8 {
		t.Errorf("digits: %d, %d, %v", s.Train.Len(), s.Test.Len(), s.Input)
	}
	if err := s.Limit(10); err != nil || s.Train.Len() != 10 || s.Test.Len() != 10 {
		t.Errorf("limited: %v, %d, %d", err, s.Train.Len(), s.Test.Len())
	}
	if _, err := OpenData("imagenet", Options{Source: data.Source{}}); err == nil || !strings.Contains(err.Error(), "fashion-mnist") {
		t.Errorf("unknown data: %v", err)
	}
	if _, err := OpenData("mnist", Options{Source: data.Source{Folder: t.TempDir()}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing files: %v", err)
	}
}
