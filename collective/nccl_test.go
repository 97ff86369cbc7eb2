//go:build unix

package collective_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
	"github.com/locusml/locus/internal/nccl"
)

// needNCCL skips a test where ranks cannot share a GPU by NCCL.
func needNCCL(t *testing.T, gpus int) {
	t.Helper()
	if n := len(realGPUs()); n < gpus {
		t.Skipf("not run: %d NVIDIA GPUs or shares of one, and it takes %d (LOCUS_SPLIT_GPUS=%d)", n, gpus, gpus)
	}
	lib, err := nccl.Load()
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	if lib.Version < 23000 || os.Getenv("NCCL_MULTI_RANK_GPU_ENABLE") != "1" {
		t.Skipf("not run: ranks share a GPU with NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1, and this is %s", lib)
	}
}

// Two ranks in one process, each on a share of the card, do without NCCL: its kernels
// wait for each other on the card, and would for ever if one rank loads a kernel
// meanwhile.
func TestNCCLShares(t *testing.T) {
	needNCCL(t, 2)
	addr := free(t)
	devices := realGPUs()
	groups := make([]*collective.Group, 2)
	each(t, 2, func(r int) (err error) {
		groups[r], err = collective.Join(ctx, collective.At(collective.Place{Rank: r, Size: 2, Addr: addr, Token: "x"}), collective.Engine("nccl"))
		return err
	})
	closeAll(t, groups)
	each(t, 2, func(r int) error {
		started := time.Now()
		if err := collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Devices: devices[r : r+1], Short: true}); err != nil {
			return err
		}
		t.Logf("rank %d: the suite took %v", r, time.Since(started))
		if e, s := groups[r].Engine(devices[r]), groups[r].String(); e != "ring" || !strings.Contains(s, "one process") {
			return fmt.Errorf("the engine was %s: %s", e, s)
		}
		return speed(groups[r], devices[r], t.Logf)
	})
}

// speed measures an all-reduce of 100 MB.
func speed(g *collective.Group, d locus.Device, logf func(string, ...any)) error {
	x := d.Ones(25_000_000)
	best := time.Hour
	for range 8 {
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		if err := d.Synchronize(); err != nil {
			return err
		}
		started := time.Now()
		y, err := g.AllReduce(ctx, x, collective.Sum).Wait()
		if err != nil {
			return err
		}
		if err := d.Synchronize(); err != nil {
			return err
		}
		best = min(best, time.Since(started))
		if v := y.Slice(locus.R(24_999_999, 25_000_000)).Item(); v != float64(g.Size()) {
			return fmt.Errorf("a sum of ones is %v", v)
		}
		y.Free()
	}
	if g.Rank() == 0 {
		logf("all-reduce of 100 MB on %s, %d ranks, %s: %v", d, g.Size(), g.Engine(d), best)
	}
	return nil
}

// Two ranks on one card without NCCL's leave: main memory serves.
func TestCardsStaged(t *testing.T) {
	if len(realGPUs()) == 0 {
		t.Skipf("not run: %v", locus.WhyNoGPU())
	}
	groups := tcp(t, 2)
	each(t, 2, func(r int) error {
		d := realGPUs()[r%len(realGPUs())]
		if err := collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Devices: []locus.Device{d}, Short: true}); err != nil {
			return err
		}
		return speed(groups[r], d, t.Logf)
	})
}

// Ranks of one program on real cards or shares of one.
func TestCardsLocal(t *testing.T) {
	devices := realGPUs()
	if len(devices) == 0 {
		t.Skipf("not run: %v", locus.WhyNoGPU())
	}
	for len(devices) < 2 {
		devices = append(devices, devices[0])
	}
	groups := local(t, devices[:2])
	each(t, 2, func(r int) error {
		if err := collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Devices: devices[r : r+1], Short: true}); err != nil {
			return err
		}
		return speed(groups[r], devices[r], t.Logf)
	})
}

// Processes that share the card, best under MPS (nvidia-cuda-mps-control -d).
func TestNCCLProcesses(t *testing.T) {
	needNCCL(t, 1)
	for _, size := range []int{2, 4} {
		if size == 4 {
			t.Setenv("NCCL_MAX_CTAS", "8")
		}
		ranks := startRanks(t, "cards", size, "LOCUS_SPLIT_GPUS=")
		for r, p := range ranks {
			out, err := p.end(3 * time.Minute)
			if err != nil || r == 0 && !strings.Contains(out, "all is well") {
				t.Errorf("rank %d of %d: %v\n%s", r, size, err, out)
			}
			t.Logf("rank %d of %d: %s", r, size, out)
		}
	}
}

// Messages between processes that share the card.
func TestNCCLMessages(t *testing.T) {
	needNCCL(t, 1)
	for _, size := range []int{2, 4} {
		if size == 4 {
			t.Setenv("NCCL_MAX_CTAS", "8")
		}
		for r, p := range startRanks(t, "messages", size, "LOCUS_SPLIT_GPUS=") {
			out, err := p.end(3 * time.Minute)
			if err != nil || r == 0 && !strings.Contains(out, "all is well") {
				t.Errorf("rank %d of %d: %v\n%s", r, size, err, out)
			}
			t.Logf("rank %d of %d: %s", r, size, out)
		}
	}
}

// A process that is killed while messages are on the card.
func TestNCCLMessagesKill(t *testing.T) {
	needNCCL(t, 1)
	for range 3 {
		kill(t, startRanks(t, "passing", 3, "LOCUS_SPLIT_GPUS=", "LOCUS_TEST_DEVICE=gpu:0", "NCCL_MAX_CTAS=8"), 1, false)
	}
}

// A process that is killed while the others' kernels wait for it on the card.
func TestNCCLKill(t *testing.T) {
	needNCCL(t, 1)
	ranks := startRanks(t, "endless", 2, "LOCUS_SPLIT_GPUS=", "LOCUS_TEST_DEVICE=gpu:0")
	kill(t, ranks, 1, false)
}
