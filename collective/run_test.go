package collective_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
)

// The error of the rank that fails is returned, not that of those who wait for it.
func TestRunLocal(t *testing.T) {
	three := slices.Repeat([]locus.Device{locus.CPU()}, 3)
	sums := make([]float64, 3)
	if err := collective.RunLocal(three, func(g *collective.Group, d locus.Device) error {
		sum, err := g.AllReduce(t.Context(), d.Full(float64(g.Rank()), 1), collective.Sum).Wait()
		if err == nil {
			sums[g.Rank()] = sum.Item()
		}
		return err
	}); err != nil || !slices.Equal(sums, []float64{3, 3, 3}) {
		t.Error(sums, err)
	}

	broken := errors.New("the disk is full")
	for name, fail := range map[string]func() error{
		"an error": func() error { return broken },
		"a panic":  func() error { locus.Ones(2).Add(locus.Ones(3)); return nil },
		"an exit":  func() error { runtime.Goexit(); return nil },
	} {
		waited := make([]error, 3)
		err := collective.RunLocal(three, func(g *collective.Group, d locus.Device) error {
			if g.Rank() == 1 {
				return fail()
			}
			_, waited[g.Rank()] = g.AllReduce(t.Context(), d.Ones(1), collective.Sum).Wait()
			return waited[g.Rank()]
		})
		if name == "an error" && err != broken || name == "a panic" && !errors.Is(err, locus.ErrShape) || name == "an exit" && err != guard.ErrExit {
			t.Errorf("%s: %v", name, err)
		}
		if waited[0] == nil || waited[2] == nil {
			t.Errorf("%s: the others got %v", name, waited)
		}
	}

	if err := collective.RunLocal(three, nil); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "RunLocal") {
		t.Error(err)
	}
	if err := collective.RunLocal(nil, func(*collective.Group, locus.Device) error { return nil }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// A rank whose own part of a collective fails, while the others read what it has computed: its
// error is returned, and the others are told of it, not of memory that is freed.
func TestRunLocalFailsInCollective(t *testing.T) {
	devices := locus.AddVirtualGPUs(3, 16<<20)
	const n = 512 << 10               // of 2 MiB
	fill := devices[1].Zeros(9 << 18) // 9 MiB: of the 8 that a rank needs in all, 7 are left
	for range 5 {
		got := make([]error, 3)
		err := collective.RunLocal(devices, func(g *collective.Group, d locus.Device) error {
			x := d.Ones(n)
			defer x.Free()
			_, got[g.Rank()] = g.AllReduce(t.Context(), x, collective.Sum).Wait()
			return got[g.Rank()]
		})
		if !errors.Is(err, locus.ErrOutOfMemory) || err != got[1] || !strings.Contains(err.Error(), "Concat") {
			t.Fatalf("%v\nrank 1: %v", err, got[1])
		}
		for _, r := range []int{0, 2} {
			if err := want(got[r], collective.ErrRank, "rank 1 gave up", "Concat"); err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
	}
	fill.Free()
}

func TestRunLocalLosesGPU(t *testing.T) {
	for i := range 20 {
		devices := locus.AddVirtualGPUs(3, 1<<20)
		err := collective.RunLocal(devices, func(g *collective.Group, d locus.Device) error {
			x := d.Ones(3)
			if g.Rank() == 1 {
				lend.Backend(x).(*virtual.Device).LoseAfter(int64(1 + i))
			}
			for {
				if _, err := g.AllReduce(t.Context(), x.Add(1), collective.Sum).Wait(); err != nil {
					return err
				}
			}
		})
		if err := want(err, locus.ErrDeviceLost, devices[1].String()+": "); err != nil {
			t.Errorf("at op %d: %v", i+1, err)
		}
	}
}
