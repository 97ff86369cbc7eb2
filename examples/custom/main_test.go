package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestRun(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	var b strings.Builder
	if err := run(&b, gpu); err != nil {
		t.Fatal(err)
	}
	var accuracy float64
	if _, err := fmt.Sscanf(b.String(), "accuracy %f", &accuracy); err != nil || accuracy < 0.93 {
		t.Errorf("accuracy %.3f, want at least 0.93 (%v)", accuracy, err)
	}
	for _, part := range []string{"near.points  [16 2] on gpu:0", "near.scale   [16] on gpu:0", "out.weight   [2 16] on gpu:0", "#####"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
}
