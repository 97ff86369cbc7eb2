package main

import (
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	if err := run(&b, 64, 3); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"waits before the value was read: 0, after: 1", "asynchrony/main.go", "the same value: true", "Take"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
}

// Calls return before the work is done. Ops take 20 ms here whatever else the machine
// does.
func TestCallsReturnFirst(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	x := gpu.Ones(8, 8)
	lend.Backend(x).(*virtual.Device).SetDelay(20 * time.Millisecond)
	queued, done, err := multiply(gpu, x, 10)
	if err != nil || queued > done/2 || done < 200*time.Millisecond {
		t.Errorf("queued after %v, done after %v (%v)", queued, done, err)
	}
}
