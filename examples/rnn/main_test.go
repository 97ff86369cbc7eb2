package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestRun(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 256<<20)[0]
	var b strings.Builder
	first, _, _ := strings.Cut(rhyme, "\n\n")
	if err := run(&b, gpu, first, "the ", 6); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`perplexity +(\d+\.\d+)`).FindAllStringSubmatch(b.String(), -1)
	if len(m) != 6 {
		t.Fatal(b.String())
	}
	if p, _ := strconv.ParseFloat(m[5][1], 64); p > 6 {
		t.Errorf("perplexity %v, want 6 or less", p)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "the ") || len(last) < 100 {
		t.Errorf("it wrote %q", last)
	}
}
