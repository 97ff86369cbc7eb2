package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"0.weight   [8 4]", "the last weight is 42", "words.weight   [6 4]", "gradient: 6", "x is the same: true", "same outputs: true"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
	if strings.Contains(b.String(), "out.weight") {
		t.Errorf("the shared parameter is listed twice:\n%s", b.String())
	}
}

// Shared parameters stay shared through a step, a copy, a move and a file.
func TestTiedStaysTied(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	net := newTied(locus.NewKey(1))
	check := func(n *Tied, after string) {
		t.Helper()
		if n.Out.Weight.Value() != n.Words.Weight.Value() || len(nn.Parameters(n)) != 3 {
			t.Errorf("after %s the layers have weights of their own: %d parameters", after, len(nn.Parameters(n)))
		}
	}
	opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
	before := locus.ToSlice[float32](net.Words.Weight.Value())
	net.Forward(locus.From([][]int{{1, 2}})).Sum().Backward()
	opt.Step()
	check(net, "a step")
	if slices.Equal(before, locus.ToSlice[float32](net.Words.Weight.Value())) {
		t.Error("the step changed nothing")
	}
	replica := nn.CopyTo(net, gpu)
	check(replica, "a copy")
	if replica.Words.Weight.Value().Device() != gpu || net.Words.Weight.Value().Device() == gpu {
		t.Error("the copy is not on its own device")
	}
	check(nn.To(nn.CopyTo(net, locus.CPU()), gpu), "a move")
	path := filepath.Join(t.TempDir(), "tied.safetensors")
	if err := nn.Save(path, net); err != nil {
		t.Fatal(err)
	}
	other := newTied(locus.NewKey(2))
	if err := nn.Load(path, other); err != nil {
		t.Fatal(err)
	}
	check(other, "loading")
	if !slices.Equal(locus.ToSlice[float32](other.Out.Weight.Value()), locus.ToSlice[float32](net.Words.Weight.Value())) {
		t.Error("what was loaded is not what was saved")
	}
}

// The gradient of a shared parameter is the sum of what both places give.
func TestTiedGradientIsTheSum(t *testing.T) {
	net := newTied(locus.NewKey(1))
	x := locus.From([][]int{{1, 2, 5}})
	tied := locus.GradOf(net.Forward(x).Square().Sum(), net.Words.Weight.Value())[0]
	apart := newTied(locus.NewKey(1))
	apart.Out.Weight = nn.NewParameter(apart.Words.Weight.Value().Copy())
	parts := locus.GradOf(apart.Forward(x).Square().Sum(), apart.Words.Weight.Value(), apart.Out.Weight.Value())
	if d := tied.Sub(parts[0].Add(parts[1])).Abs().Max().Item(); d > 1e-4 || math.IsNaN(d) {
		t.Errorf("the gradients differ by %g", d)
	}
}

func TestSparse(t *testing.T) {
	v := sparse(locus.CPU().Key(locus.NewKey(1)), []int{100, 100})
	zeros := 0
	for _, e := range locus.ToSlice[float32](v) {
		switch a := math.Abs(float64(e)); {
		case a == 0:
			zeros++
		case a < 5 || a > 10:
			t.Fatalf("a weight of %g", e)
		}
	}
	if zeros < 4500 || zeros > 5500 {
		t.Errorf("%d of 10000 weights are zero", zeros)
	}
}
