package locus_test

import (
	"errors"
	"testing"

	"github.com/locusml/locus"
)

func TestSplitGPU(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 10<<20)[0]
	before := locus.NumGPUs()
	for name, sizes := range map[string][]int64{"one part": {1 << 20}, "too large": {8 << 20, 8 << 20}, "empty": {0, 1 << 20}} {
		if _, err := locus.SplitGPU(d, sizes...); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	parts, err := locus.SplitGPU(d, 4<<20, 6<<20)
	if err != nil || len(parts) != 2 || parts[0] != d || locus.NumGPUs() != before+1 {
		t.Fatal(parts, err)
	}
	for i, p := range parts {
		if total := p.MemoryStats().Total; total != int64(4+2*i)<<20 {
			t.Error(p, total)
		}
	}
	a, b := parts[0].Ones(3), parts[1].Ones(3)
	if err := locus.Try(func() { a.Add(b) }); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
	if got := a.To(parts[1]).Add(b).Sum().Item(); got != 6 {
		t.Error(got)
	}
	if err := locus.Try(func() { parts[0].Zeros(2 << 20) }); !errors.Is(err, locus.ErrOutOfMemory) {
		t.Error(err)
	}
	if _, err := locus.SplitGPU(d, 1<<20, 1<<20); !errors.Is(err, locus.ErrArgument) {
		t.Error("a GPU in use was divided:", err)
	}
	if _, err := locus.SplitGPU(locus.CPU(), 1, 1); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
}

func TestAllowTF32(t *testing.T) {
	if locus.AllowTF32(true) {
		t.Error("TF32 is on without being asked for")
	}
	if !locus.AllowTF32(false) {
		t.Error("TF32 was not turned on")
	}
}
