package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
	"github.com/locusml/locus/nn"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b, 32, 2); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"stages.0.1.weight", "on gpu:0", "stages.1.2.bias", "on gpu:1", "both devices at work", "difference"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
}

// Gradients of a network on two and on three devices, in even and uneven parts, are
// those of one device on the whole batch, and lie where the parameters are.
func TestGradients(t *testing.T) {
	gpus := locus.AddVirtualGPUs(3, 64<<20)
	x, y, err := examples(37, locus.CPU())
	if err != nil {
		t.Fatal(err)
	}
	grads := func(devices []locus.Device, parts int) (float64, []*locus.Tensor) {
		net := newPipeline(devices, stages(24)...)
		loss := net.Step(x, y, parts).Item()
		var l []*locus.Tensor
		for _, p := range nn.Parameters(net) {
			g := p.Value().Grad()
			if g.Device() != p.Value().Device() {
				t.Errorf("the gradient of %s is on %s", p.Name, g.Device())
			}
			l = append(l, g.To(locus.CPU()))
		}
		return loss, l
	}
	wantLoss, want := grads([]locus.Device{locus.CPU()}, 1)
	for _, devices := range [][]locus.Device{gpus[:1], gpus[:2], {gpus[2], locus.CPU()}} {
		for _, parts := range []int{1, 4, 37} {
			loss, got := grads(devices, parts)
			if math.Abs(loss-wantLoss) > 1e-5 {
				t.Errorf("%v, %d parts: the loss is %g, want %g", devices, parts, loss, wantLoss)
			}
			for i := range want {
				if d := got[i].Sub(want[i]).Abs().Max().Item(); d > 1e-6 || math.IsNaN(d) {
					t.Errorf("%v, %d parts: gradient %d differs by %g", devices, parts, i, d)
				}
			}
		}
	}
}

func TestTrainingIsTheSame(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	one, err := fit(newPipeline(gpus[:1], stages(32)...), 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := fit(newPipeline(gpus, stages(32)...), 3, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i := range one {
		if math.Abs(one[i]-two[i]) > 1e-3 {
			t.Errorf("epoch %d: %g and %g", i, one[i], two[i])
		}
	}
	if two[2] >= two[0] {
		t.Errorf("the losses are %v", two)
	}
}

// Micro-batches let both devices work at the same time. Ops take a millisecond here
// whatever else the machine does.
func TestPartsOverlap(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	net := newPipeline(gpus, stages(8)...)
	x, y, err := examples(64, gpus[0])
	if err != nil {
		t.Fatal(err)
	}
	net.Step(x, y, 1)
	for _, d := range gpus {
		lend.Backend(d.Zeros()).(*virtual.Device).SetDelay(time.Millisecond)
	}
	share := map[int]float64{}
	for _, parts := range []int{1, 8} {
		share[parts] = overlap(locus.Profile(func() { net.Step(x, y, parts) }), gpus[0], gpus[1])
	}
	if share[1] > 0.2 || share[8] < 0.4 {
		t.Errorf("both devices were at work in %.0f %% of the time with one part, %.0f %% with eight", 100*share[1], 100*share[8])
	}
}
