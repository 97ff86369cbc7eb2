package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestRun(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	var b strings.Builder
	if err := run(&b, gpu, filepath.Join(t.TempDir(), "body.safetensors")); err != nil {
		t.Fatal(err)
	}
	var accuracy []float64
	for _, m := range regexp.MustCompile(`accuracy (\d\.\d+)`).FindAllStringSubmatch(b.String(), -1) {
		a, _ := strconv.ParseFloat(m[1], 64)
		accuracy = append(accuracy, a)
	}
	if len(accuracy) != 3 || accuracy[0] < 0.95 || accuracy[2] <= accuracy[1] {
		t.Errorf("a new head on a trained body should do better than a network that starts from nothing:\n%s", b.String())
	}
	for _, part := range []string{"body.3.bias    frozen: true", "head.weight    frozen: false"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing from\n%s", part, b.String())
		}
	}
}
