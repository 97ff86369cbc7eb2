package nn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// TestVmapPerExample takes one gradient of a network's parameters for each example.
func TestVmapPerExample(t *testing.T) {
	net := nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))
	x := locus.CPU().Key(locus.NewKey(1)).Randn(6, 4)
	classes := locus.From([]int{0, 2, 1, 1, 0, 2})
	net.Forward(x) // makes the parameters
	var params []*locus.Tensor
	for _, e := range nn.Parameters(net) {
		params = append(params, e.Value())
	}
	f := func(a ...*locus.Tensor) *locus.Tensor {
		loss := locus.CrossEntropy(net.Forward(a[0].Unsqueeze(0)), a[1].Unsqueeze(0), locus.CrossEntropyOptions{})
		var flat []*locus.Tensor
		for _, g := range locus.GradOf(loss, params...) {
			flat = append(flat, g.Flatten())
		}
		return locus.Concat(0, flat...)
	}
	got := locus.Vmap(f)(x, classes)
	for i := range 6 {
		if want := f(x.Index(i), classes.Index(i)); !got.Index(i).AllClose(want, 1e-4, 1e-6) {
			t.Errorf("example %d: %v, want %v", i, got.Index(i), want)
		}
	}
}

// TestVmapBuffer makes sure that a layer keeps nothing that stands for all slices.
func TestVmapBuffer(t *testing.T) {
	l := nn.BatchNorm(3)
	x := locus.CPU().Key(locus.NewKey(1)).Randn(2, 8, 3)
	l.Forward(x.Index(0))
	before := locus.ToSlice[float32](l.RunningMean.Value())
	var e *locus.Error
	err := locus.Try(func() { locus.Vmap(func(a ...*locus.Tensor) *locus.Tensor { return l.Forward(a[0]) })(x) })
	if !errors.As(err, &e) || !errors.Is(err, locus.ErrArgument) || !strings.Contains(e.Msg, "inside Vmap") {
		t.Error(err)
	}
	if after := locus.ToSlice[float32](l.RunningMean.Value()); after[0] != before[0] {
		t.Errorf("the running mean is %v, was %v", after, before)
	}
}
