package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b, 20); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"read in every step: 20 steps", "read in the end: 20 steps", "device to host", "main.go"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
}

// Every copy and every wait is charged to a line of this program.
func TestLedgerNamesThisProgram(t *testing.T) {
	locus.ResetLedger()
	if err := run(new(strings.Builder), 2); err != nil {
		t.Fatal(err)
	}
	for _, e := range locus.Ledger() {
		if !strings.HasPrefix(e.Site, "logging/main") {
			t.Errorf("%s is charged to %s", e.Kind, e.Site)
		}
	}
}

func TestBothWaysSeeTheSameLosses(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	locus.ResetLedger()
	a := readEveryStep(gpu, 20)
	if n := locus.Ledger().Count(locus.DeviceToHost); n != 20 {
		t.Errorf("reading in every step made %d copies, want 20", n)
	}
	locus.ResetLedger()
	b := readInTheEnd(gpu, 20)
	if n := locus.Ledger().Count(locus.DeviceToHost); n != 1 {
		t.Errorf("reading in the end made %d copies, want 1", n)
	}
	if !slices.Equal(a, b) || a[19] >= a[0] {
		t.Errorf("the losses are\n%v and\n%v; want equal ones that fall", a, b)
	}
}
