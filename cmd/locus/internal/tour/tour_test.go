package tour

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// What is shown must be what runs: the parts, put together again, are the body
// of the function.
func TestSectionsAreTheProgram(t *testing.T) {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	rest := squeeze(source)
	for i, code := range sections() {
		at := strings.Index(rest, squeeze(code))
		if at < 0 {
			t.Fatalf("part %d is not in the program, or not in order:\n%s", i+1, code)
		}
		rest = rest[at+len(squeeze(code)):]
		if strings.Contains(code, "step(") || strings.TrimSpace(code) == "" {
			t.Errorf("part %d is not what is between two steps:\n%s", i+1, code)
		}
		for _, l := range strings.Split(code, "\n") {
			if len([]rune(l)) > 78 {
				t.Errorf("part %d does not fit 80 columns: %s", i+1, l)
			}
		}
	}
	if strings.TrimRight(rest, "}") != "" {
		t.Errorf("not shown: %s", rest)
	}
}

func TestRun(t *testing.T) {
	if Prepare(); locus.NumGPUs() < MinGPUs {
		t.Fatalf("%d GPUs after Prepare", locus.NumGPUs())
	}
	if n := Prepare(); n != 0 {
		t.Errorf("a second Prepare added %d", n)
	}
	want := []string{"cpu", "gpu:1 true", "gpu:10 does not exist", "on cpu", "on gpu:1", "fix: move operand 1", "on gpu:1", "itself: true",
		"is disallowed", "parameters on gpu:0", "on cpu", "validation accuracy 0.9", "predicted"}
	if len(want) != Len() {
		t.Fatalf("%d steps, %d answers here", Len(), len(want))
	}
	got := 0
	err := Run(t.Context(), io.Discard, func(n int, s Step) error {
		got++
		if n != got || s.Title == "" || s.Text == "" || s.Code == "" {
			t.Errorf("step %d: %+v", n, s)
		}
		if !strings.Contains(s.Output, want[n-1]) {
			t.Errorf("step %d, %s: %q is missing in\n%s", n, s.Title, want[n-1], s.Output)
		}
		return nil
	})
	if err != nil || got != Len() {
		t.Errorf("%d of %d steps, %v", got, Len(), err)
	}
}

func TestStops(t *testing.T) {
	Prepare()
	stop := errors.New("enough")
	if err := Run(t.Context(), io.Discard, func(n int, _ Step) error { return stop }); err != stop {
		t.Errorf("an error of the callback came out as %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := Run(ctx, io.Discard, func(int, Step) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("after canceling: %v in step %d", err, n)
	}
}
