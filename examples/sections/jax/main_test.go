package main

import (
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/examples/sections/internal/answers"
)

func TestMain(m *testing.M) {
	locus.AddVirtualGPUs(2, 128<<20)
	m.Run()
}

// The section's answers, on two GPUs.
func TestRun(t *testing.T) {
	answers.Check(t, run,
		"cpu gpu:0 gpu:1",
		"gpu:0 cpu [gpu:0 gpu:1]",
		"cpu",
		" [1 1 1]] float32 (2, 3) on gpu:0",
		" [1 1 1]] float32 (2, 3) on gpu:1",
		"true",
		"map[0.bias:cpu 0.weight:cpu]",
		"map[0.bias:gpu:0 0.weight:gpu:0]",
		"gpu:0",
		"trained on [gpu:0]",
	)
}
