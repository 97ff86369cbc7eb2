package main

import (
	"strings"
	"testing"

	"github.com/locusml/locus/train"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	report, err := run(&b, &train.Flags{Data: "digits", Epochs: 6})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Epochs[report.BestEpoch].Validation["accuracy"]; got < 0.9 {
		t.Errorf("the best accuracy is %.3f, want at least 0.9\n%s", got, b.String())
	}
	if !strings.Contains(b.String(), "validation accuracy") {
		t.Errorf("the report is missing from\n%s", b.String())
	}
}
