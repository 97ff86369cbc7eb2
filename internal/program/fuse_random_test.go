package program_test

import (
	"testing"

	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/program/programtest"
	"github.com/locusml/locus/internal/virtual"
)

func TestFusedRandomPrograms(t *testing.T) {
	n := 0
	gpu := virtual.New(0, 0)
	for seed := range uint64(200) {
		n += programtest.Check(t, seed, 3+int(seed)%60, cpu.Open())
		if seed%8 == 0 {
			programtest.Check(t, seed, 20, gpu)
		}
	}
	if n < 1000 {
		t.Errorf("only %d steps were fused", n)
	}
}

func FuzzFuse(f *testing.F) {
	f.Add(uint64(1), uint8(20))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) {
		programtest.Check(t, seed, 1+int(steps)%100, cpu.Open())
	})
}
