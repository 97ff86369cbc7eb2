package main

import (
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b, 64, 3, 2); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"both queued, then a wait", "by the timeline", "copies of", "as fast as apart"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
}

// Two devices are at work at the same time although one goroutine queues everything.
// Ops take a millisecond here whatever else the machine does.
func TestDevicesOverlap(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	a, b := gpus[0].Ones(8, 8), gpus[1].Ones(8, 8)
	for _, x := range []*locus.Tensor{a, b} {
		lend.Backend(x).(*virtual.Device).SetDelay(time.Millisecond)
	}
	work := func(x *locus.Tensor) {
		for range 50 {
			x.MatMul(x)
		}
	}
	line := locus.Profile(func() { work(a); work(b) })
	if share := overlap(line, gpus[0], gpus[1]); share < 0.7 {
		t.Errorf("both devices were at work in %.0f %% of the time", 100*share)
	}
	line = locus.Profile(func() {
		work(a)
		if err := gpus[0].Synchronize(); err != nil {
			t.Error(err)
		}
		work(b)
	})
	if share := overlap(line, gpus[0], gpus[1]); share > 0 {
		t.Errorf("with a wait in between both devices were at work in %.0f %% of the time", 100*share)
	}
}

func TestOverlap(t *testing.T) {
	a, b := locus.GPU(0), locus.GPU(1)
	ms := time.Millisecond
	line := &locus.Timeline{Spans: []locus.Span{
		{Device: a, Start: 0, End: 10 * ms},
		{Device: b, Start: 4 * ms, End: 8 * ms},
		{Device: b, Start: 9 * ms, End: 12 * ms, Host: true}, // the program's time
	}}
	if got := overlap(line, a, b); got != 0.4 {
		t.Errorf("%g, want 0.4", got)
	}
}
