package main

import (
	"strings"
	"testing"

	"github.com/locusml/locus/train"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	report, err := run(&b, &train.Flags{Data: "digits", Epochs: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Last().Validation["accuracy"]; got < 0.88 {
		t.Errorf("accuracy %.3f, want at least 0.88\n%s", got, b.String())
	}
	if !strings.Contains(b.String(), "validation accuracy") {
		t.Errorf("the report is missing from\n%s", b.String())
	}
}
