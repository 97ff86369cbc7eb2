package collective_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
	"github.com/locusml/locus/internal/ring"
)

// free returns an address of this machine at which nobody listens.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// tcp makes a group of ranks that are goroutines and talk over TCP all the same.
func tcp(t testing.TB, size int, options ...collective.Option) []*collective.Group {
	t.Helper()
	addr := free(t)
	groups := make([]*collective.Group, size)
	each(t, size, func(r int) error {
		var err error
		groups[r], err = collective.Join(context.Background(), append([]collective.Option{collective.At(collective.Place{Rank: r, Size: size, Addr: addr, Token: "secret"}), collective.Engine("ring")}, options...)...)
		return err
	})
	closeAll(t, groups)
	return groups
}

func closeAll(t testing.TB, groups []*collective.Group) {
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, g := range groups {
			wg.Go(func() { g.Close() })
		}
		wg.Wait()
	})
}

func local(t testing.TB, devices []locus.Device, options ...collective.Option) []*collective.Group {
	t.Helper()
	groups, err := collective.Local(devices, options...)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(t, groups)
	return groups
}

// each runs a function for each rank at the same time.
func each(t testing.TB, size int, f func(rank int) error) {
	t.Helper()
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() { errs[r] = f(r) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("a rank hangs")
	}
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func cpus(n int) []locus.Device { return make([]locus.Device, n) }

// gpus are virtual ones, made once.
var gpus = sync.OnceValue(func() []locus.Device { return locus.AddVirtualGPUs(8, 256<<20) })

func TestConformanceLocal(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4, 8} {
		t.Run(fmt.Sprint(size, " on virtual GPUs"), func(t *testing.T) {
			groups := local(t, gpus()[:size])
			each(t, size, func(r int) error {
				return collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Devices: gpus()[r : r+1], Short: size > 3, Large: 30_001})
			})
		})
	}
	t.Run("3 on the CPU", func(t *testing.T) {
		groups := local(t, cpus(3))
		each(t, 3, func(r int) error {
			return collectivetest.Run(context.Background(), groups[r], collectivetest.Config{})
		})
	})
	t.Run("3 on two GPUs and the CPU", func(t *testing.T) {
		devices := []locus.Device{gpus()[0], locus.CPU(), gpus()[1]}
		groups := local(t, devices)
		each(t, 3, func(r int) error {
			return collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Devices: devices[r : r+1], Short: true})
		})
	})
}

func TestConformanceRing(t *testing.T) {
	for _, how := range []struct {
		size   int
		shares bool // memory, as on one machine; else TCP, as between machines
	}{{2, true}, {3, true}, {4, true}, {2, false}, {3, false}, {4, false}} {
		t.Run(fmt.Sprintf("%d, shared memory %v", how.size, how.shares), func(t *testing.T) {
			ring.Sharing = how.shares
			t.Cleanup(func() { ring.Sharing = true })
			groups := tcp(t, how.size)
			each(t, how.size, func(r int) error {
				// A tensor on a GPU is staged through main memory.
				return collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Devices: []locus.Device{locus.CPU(), gpus()[r]}, Short: how.size > 3})
			})
		})
	}
}

// Two groups of the same ranks do not disturb each other.
func TestTwoGroups(t *testing.T) {
	a, b := tcp(t, 2), tcp(t, 2)
	c := local(t, cpus(2))
	each(t, 6, func(i int) error {
		g := [][]*collective.Group{a, b, c}[i/2][i%2]
		return collectivetest.Run(context.Background(), g, collectivetest.Config{Short: true, Large: 100_003})
	})
}
