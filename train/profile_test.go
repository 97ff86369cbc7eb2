package train_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus/board"
	"github.com/locusml/locus/train"
)

// Profile sees the steps that it is asked for, joined with the programs, and shows them
// on the board; the run goes on as without it.
func TestProfile(t *testing.T) {
	fit := func(o ...train.Option) *train.Report {
		t.Helper()
		return must(t)(train.New(append(o, train.MaxEpochs(4))...).Fit(mlp(3), train.Data{Train: spirals(t, 64), Validation: spirals(t, 20), BatchSize: 8}))
	}
	plain := fit()
	for _, c := range []struct {
		after, steps, first, seen int
	}{{20, 3, 20, 3}, {0, 1, 0, 1}, {1000, 2, 16, 2}, {10, 1000, 10, 22}} {
		var b board.Board
		var got []train.Profiled
		report := fit(train.Board(&b), train.Profile(c.after, c.steps, func(p train.Profiled) error { got = append(got, p); return nil }))
		if len(got) != 1 || got[0].First != c.first || got[0].Steps != c.seen {
			t.Fatalf("%d steps after %d: %+v", c.steps, c.after, got)
		}
		if c.after > 0 && !strings.Contains(got[0].Times, "a step, signature 0 (") || !strings.Contains(got[0].Timeline.String(), "linear") {
			t.Errorf("%d steps after %d:\n%s\n%s", c.steps, c.after, got[0].Timeline, got[0].Times)
		}
		for _, machinery := range []string{"/plan.go:", "/trace.go:", "/compile.go:", "/scope.go:", "/guard.go:"} { // no lines that say something
			if strings.Contains(got[0].Times, machinery) {
				t.Errorf("a step comes from %s:\n%s", machinery, got[0].Times)
			}
		}
		var svg bytes.Buffer
		if err := b.WriteTimelineSVG(&svg); err != nil || !strings.Contains(svg.String(), "training steps, from step") {
			t.Errorf("the board's timeline: %v", err)
		}
		if report.Last().Train["loss"] != plain.Last().Train["loss"] {
			t.Errorf("a loss of %v, without a profile %v", report.Last().Train["loss"], plain.Last().Train["loss"])
		}
	}
}

// An error of the function ends the run; a profile that cannot be is refused; and a run
// that fails while it is profiled leaves none behind.
func TestProfileEnds(t *testing.T) {
	d := train.Data{Train: spirals(t, 64), BatchSize: 8}
	stop := errors.New("enough")
	if _, err := train.New(train.Profile(2, 1, func(train.Profiled) error { return stop })).Fit(mlp(3), d); !errors.Is(err, stop) {
		t.Error(err)
	}
	for _, o := range []train.Option{train.Profile(-1, 1, func(train.Profiled) error { return nil }), train.Profile(0, 0, func(train.Profiled) error { return nil }), train.Profile(1, 1, nil)} {
		if _, err := train.New(o).Fit(mlp(3), d); err == nil {
			t.Error("it was accepted")
		}
	}
	called := false
	fail := train.AfterStep(func(s *train.Step) error {
		if s.Steps >= 3 {
			return stop
		}
		return nil
	})
	if _, err := train.New(fail, train.Profile(1, 5, func(train.Profiled) error { called = true; return nil })).Fit(mlp(3), d); !errors.Is(err, stop) || called {
		t.Errorf("%v, called: %v", err, called)
	}
	if _, err := train.New(train.Profile(1, 1, func(train.Profiled) error { called = true; return nil })).Fit(mlp(3), d); err != nil || !called {
		t.Errorf("the next profile: %v, called: %v", err, called)
	}
}

// The summary says in a line for each part what became of it.
func TestSummary(t *testing.T) {
	var out strings.Builder
	must(t)(train.New(train.MaxEpochs(4), train.Summary(&out)).Fit(mlp(3), train.Data{Train: spirals(t, 64), BatchSize: 8}))
	if s := out.String(); !strings.HasPrefix(s, "a step: compiled, ") || strings.Count(s, "\n") != 1 || !strings.Contains(s, "variables updated in place") {
		t.Error(s)
	}
	out.Reset()
	must(t)(train.New(train.Compile(false), train.Summary(&out)).Fit(mlp(3), train.Data{Train: spirals(t, 64), BatchSize: 8}))
	if s := out.String(); s != "a step: not compiled, as the options ask\n" {
		t.Error(s)
	}
}
