package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b, 2); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "times as fast") {
		t.Error(b.String())
	}
}

// Three devices, with batches that do not divide by three, learn what one does; the
// copies of the parameters stay equal to the bit.
func TestDevicesAgree(t *testing.T) {
	gpus := locus.AddVirtualGPUs(3, 128<<20)
	one, err := fit(gpus[:1], 5)
	if err != nil {
		t.Fatal(err)
	}
	three, err := fit(gpus, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i := range one.losses {
		if d := math.Abs(one.losses[i] - three.losses[i]); d > 1e-3 {
			t.Errorf("epoch %d: the losses are %g and %g", i, one.losses[i], three.losses[i])
		}
	}
	if three.losses[4] > 1 || three.accuracy < 0.8 {
		t.Errorf("it has not learned: %+v", three.losses)
	}
	for j, p := range three.params[0] {
		for i := range three.params {
			if !slices.Equal(locus.ToSlice[float32](three.params[i][j]), locus.ToSlice[float32](p)) {
				t.Errorf("parameter %d of device %d differs", j, i)
			}
			if three.params[i][j].Device() != gpus[i] {
				t.Errorf("parameter %d of device %d is on %s", j, i, three.params[i][j].Device())
			}
		}
	}
}

func TestAllreduceAndSplit(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	sums := allreduce([]*locus.Tensor{gpus[0].Ones(1, 2), gpus[1].Full(2, 1, 2)})
	for i, s := range sums {
		if s.Device() != gpus[i] || !slices.Equal(locus.ToSlice[float32](s), []float32{3, 3}) {
			t.Errorf("%v", s)
		}
	}
	xs, ys := splitBatch(locus.Arange(10).Reshape(5, 2), locus.Arange(5), gpus)
	if xs[0].Dim(0) != 2 || xs[1].Dim(0) != 3 || ys[1].Device() != gpus[1] || locus.ToSlice[int64](ys[1])[0] != 2 {
		t.Errorf("%v %v", xs, ys)
	}
}

// The same device twice computes what two devices do, to the bit: where the parts are
// does not matter, only how the batch was split.
func TestPlacesDoNotMatter(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 128<<20)
	twice, err := fit([]locus.Device{gpus[0], gpus[0]}, 3)
	if err != nil {
		t.Fatal(err)
	}
	two, err := fit(gpus, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(twice.losses, two.losses) {
		t.Errorf("the losses are %v and %v", twice.losses, two.losses)
	}
}
