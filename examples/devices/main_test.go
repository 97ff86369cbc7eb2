package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	run(&b)
	if strings.Contains(b.String(), "print.go") {
		t.Errorf("the ledger names a line of the framework, not of this program:\n%s", b.String())
	}
	for _, part := range []string{"on gpu:0", "on gpu:1", "operands are on different devices", "fix: move operand", "is c: true", "device to device", "in use"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
}
