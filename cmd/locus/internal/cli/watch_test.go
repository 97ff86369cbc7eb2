package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// --explain and --profile tell what became of the steps, on the screen and in files.
func TestExplainAndProfile(t *testing.T) {
	t.Chdir(t.TempDir())
	run := []string{"train", "--epochs", "2", "--out", "none"}
	s := good(t, append(run, "--explain", "--profile", "trace.json")...)
	for _, want := range []string{"a step: compiled, ", "variables updated in place", "3 steps, from step 20 on: ", "update_all", "a step, signature 0 (", "trace in trace.json", "right (epoch"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	var trace struct{ TraceEvents []struct{ Name string } }
	if b, err := os.ReadFile("trace.json"); err != nil || json.Unmarshal(b, &trace) != nil || len(trace.TraceEvents) < 30 {
		t.Errorf("a trace of %d events, %v", len(trace.TraceEvents), err)
	}
	if s := good(t, append(run, "--explain=full")...); !strings.Contains(s, "not elementwise: ") || !strings.Contains(s, " = linear(") {
		t.Error(s)
	}
	if s := good(t, append(run, "--explain=why.txt", "--profile", "step.svg")...); !strings.Contains(s, "explanation in why.txt") || strings.Contains(s, " = linear(") {
		t.Error(s)
	}
	for file, want := range map[string]string{"why.txt": " = linear(", "step.svg": "<svg"} {
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	r := call("80", append(run, "--json", "--explain")...)
	if r.code != 0 || !json.Valid([]byte(r.out)) || !strings.Contains(r.err, "a step: compiled, ") {
		t.Errorf("%+v", r)
	}
	if r := call("80", append(run, "--profile", "no/such/folder/x.json")...); r.code == 0 || !strings.Contains(r.err, "no/such/folder") {
		t.Errorf("%+v", r)
	}
}
