package main

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// run itself compares all results, and fails where a function was not compiled.
func TestRun(t *testing.T) {
	for _, d := range []locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 256<<20)[0]} {
		var b strings.Builder
		if err := run(&b, d, 5); err != nil {
			t.Fatal(err)
		}
		if strings.Count(b.String(), "×") != 3 || !strings.Contains(b.String(), "equal to the bit") {
			t.Error(b.String())
		}
	}
}

// Training steps change their network, alike in both ways.
func TestStepsLearn(t *testing.T) {
	step := tasks(locus.CPU())[1]
	c := locus.Compile(step.f)
	first := c.Call(step.args...)[0].Item()
	for range 20 {
		c.Call(step.args...)
	}
	if last := c.Call(step.args...)[0].Item(); last >= first {
		t.Errorf("the loss went from %g to %g", first, last)
	}
}
