// Package answers checks what the programs of the section print.
package answers

import (
	"io"
	"strings"
	"testing"
)

// Check makes sure that run prints all lines, or lines that end so, in this order.
func Check(t *testing.T, run func(io.Writer) error, lines ...string) {
	t.Helper()
	var b strings.Builder
	if err := run(&b); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, line := range lines {
		i := strings.Index(b.String()[at:], line+"\n")
		if i < 0 {
			t.Fatalf("%q is missing, in this order, from\n%s", line, b.String())
		}
		at += i + len(line)
	}
}
