package main

import (
	"errors"
	"testing"
)

func TestJudge(t *testing.T) {
	const passed = "    --- PASS: TestConformance/Ops/add (0.10s)\n    --- PASS: TestConformance/Ops/sum (0.10s)\n"
	for _, c := range []struct {
		name, out, want string
		err             error
	}{
		{"memcheck", passed + "========= ERROR SUMMARY: 0 errors\n", clean, nil},
		{"racecheck", passed + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", clean, nil},
		{"an op is missing", "    --- PASS: TestConformance/Ops/add (0.10s)\n========= ERROR SUMMARY: 0 errors\n", "did not pass", nil},
		{"an op failed", "--- FAIL: TestConformance/Ops/add (0.10s)\n" + passed[len(passed)/2:] + "========= ERROR SUMMARY: 0 errors\n", "did not pass", nil},
		{"errors", passed + "========= ERROR SUMMARY: 3 errors\n", "3 errors", errors.New("exit status 99")},
		{"hazards", passed + "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n", "1 hazard displayed (0 errors, 1 warning)", nil},
		{"no summary", passed, "the tool gave no summary", nil},
		{"killed", passed + "========= ERROR SUMMARY: 0 errors\n", "0 errors", errors.New("signal: killed")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(c.out, []string{"add", "sum"}, c.err); got != c.want {
				t.Errorf("judged %q, want %q", got, c.want)
			}
		})
	}
}
