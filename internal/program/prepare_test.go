package program

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/virtual"
)

// slow is a device that makes faster code while calls run: the first tries to record
// come too early.
type slow struct {
	stubborn
	tries int // that come too early
	shown [][]*backend.Call
	bad   string
}

func (d *slow) Prepare(calls []*backend.Call) {
	d.shown = append(d.shown, calls)
	for i, c := range calls {
		if c.Out.Block == nil {
			d.bad = fmt.Sprintf("call %d of %d has no memory for its result", i, len(calls))
		}
		for _, v := range c.More {
			if v.Block == nil {
				d.bad = fmt.Sprintf("call %d of %d has no memory for a further result", i, len(calls))
			}
		}
	}
}

func (d *slow) RecordCalls(calls []*backend.Call, late []bool) (backend.Recording, error) {
	if d.tries > 0 {
		d.tries--
		return nil, fmt.Errorf("code is being made: %w", backend.ErrLater)
	}
	return d.stubborn.RecordCalls(calls, late)
}

// A program runs call by call as long as the device asks for time, is recorded then, and
// that costs none of the recordings that it may take.
func TestRecordedLater(t *testing.T) {
	g := late(t)
	want, _ := g.history(t, machines()["cpu"], Default, 40)
	for _, tries := range []int{1, 5, 20, 100} {
		d := &slow{stubborn: stubborn{Device: virtual.New(0, 0)}, tries: tries}
		got, e := g.history(t, &machine{Device: d, pool: memory.NewPool(d)}, Best, 40)
		for i := range want {
			if !slices.Equal(want[i], got[i]) {
				t.Fatalf("%d tries too early: result %d differs", tries, i)
			}
		}
		s := strings.Join(e.Explain(), "\n")
		if tries == 100 {
			if !strings.Contains(s, "not recorded yet: code is being made") || e.recorded == nil || e.recorded.records > 0 {
				t.Errorf("%d tries too early: %s", tries, s)
			}
			continue
		}
		if e.recorded == nil || e.recorded.records == 0 || e.recorded.replays < 30-tries {
			t.Errorf("%d tries too early: %s", tries, s)
		}
	}
}

// A device sees all calls of a program once, before its first run, with the memory that
// they will use.
func TestPreparedOnce(t *testing.T) {
	g := late(t)
	want, _ := g.history(t, machines()["cpu"], Default, 5)
	d := &slow{stubborn: stubborn{Device: virtual.New(0, 0)}}
	got, e := g.history(t, &machine{Device: d, pool: memory.NewPool(d)}, InPlan, 5)
	for i := range want {
		if !slices.Equal(want[i], got[i]) {
			t.Fatalf("result %d differs", i)
		}
	}
	if d.bad != "" {
		t.Error(d.bad)
	}
	lateSteps := 0
	for i := range e.p.Steps {
		if e.p.Steps[i].Late != nil && e.p.Steps[i].Attrs == nil {
			lateSteps++
		}
	}
	if len(d.shown) != 1 || len(d.shown[0]) != len(e.p.Steps)-lateSteps {
		t.Errorf("shown %d times, of %d steps", len(d.shown), len(e.p.Steps))
	}
}
