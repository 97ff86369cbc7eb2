package collective_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
)

// joinCards makes a group over TCP whose ranks may use NCCL.
func joinCards(t *testing.T, size int, options ...collective.Option) []*collective.Group {
	t.Helper()
	addr := free(t)
	groups := make([]*collective.Group, size)
	each(t, size, func(r int) (err error) {
		groups[r], err = collective.Join(ctx, append([]collective.Option{collective.At(collective.Place{Rank: r, Size: size, Addr: addr, Token: "x"})}, options...)...)
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	closeAll(t, groups)
	return groups
}

// The suite by way of NCCL, on cards that are virtual GPUs, with tensors in main memory in
// between.
func TestFakeNCCL(t *testing.T) {
	devices := gpus()
	for _, size := range []int{2, 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			collective.FakeCards(t, 22803, false)
			groups := joinCards(t, size, collective.Engine("nccl"))
			each(t, size, func(r int) error {
				if err := collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Devices: []locus.Device{devices[r], locus.CPU()}, Short: true, Large: 10_001}); err != nil {
					return err
				}
				if e := groups[r].Engine(devices[r]); e != "nccl" {
					return fmt.Errorf("the engine of %s is %s", devices[r], e)
				}
				if e := groups[r].Engine(locus.CPU()); e != "ring" {
					return fmt.Errorf("the engine of the CPU is %s", e)
				}
				return nil
			})
		})
	}
}

// Ranks that share a card stage through main memory, unless NCCL is new enough and told so.
func TestFakeNCCLShared(t *testing.T) {
	devices := gpus()
	for _, c := range []struct {
		version int
		told    string
		apart   bool // in processes of their own
		want    string
	}{{22803, "1", true, "ring"}, {23203, "", true, "ring"}, {23203, "1", true, "nccl"}, {23203, "1", false, "ring"}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			if c.apart {
				collective.Apart(t)
			}
			t.Setenv("NCCL_MULTI_RANK_GPU_ENABLE", c.told)
			collective.FakeCards(t, c.version, true)
			groups := joinCards(t, 2)
			each(t, 2, func(r int) error {
				x := devices[r].Full(float64(r+1), 5)
				y, err := groups[r].AllReduce(ctx, x, collective.Sum).Wait()
				if err != nil {
					return err
				}
				if s := groups[r].String(); strings.Contains(s, "one GPU") != (c.want == "ring") || !strings.Contains(s, "rank "+fmt.Sprint(r)+" of 2, by ring") {
					return fmt.Errorf("the group is %s", s)
				}
				if v := y.Min().Item(); v != 3 || groups[r].Engine(devices[r]) != c.want {
					return fmt.Errorf("%v by %s", v, groups[r].Engine(devices[r]))
				}
				return nil
			})
		})
	}
}

// A rank on a card and one in main memory cannot work together by NCCL: they are told.
func TestFakeNCCLMixed(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2)
	devices := []locus.Device{gpus()[0], locus.CPU()}
	each(t, 2, func(r int) error {
		_, err := groups[r].AllReduce(ctx, devices[r].Ones(3), collective.Sum).Wait()
		return want(err, collective.ErrMismatch, "on GPUs")
	})
}

// Another GPU than the group's first is refused.
func TestFakeNCCLMoved(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2)
	each(t, 2, func(r int) error {
		if _, err := groups[r].AllReduce(ctx, gpus()[r].Ones(3), collective.Sum).Wait(); err != nil {
			return err
		}
		_, err := groups[r].AllReduce(ctx, gpus()[r+2].Ones(3), collective.Sum).Wait()
		if r == 0 {
			return nil // it is told of its own mistake or of the other's
		}
		if err == nil {
			return fmt.Errorf("a tensor on another card is reduced")
		}
		return nil
	})
}

// A rank that does not come while the others' work waits on their cards: the time-out ends
// what waits.
func TestFakeNCCLTimeout(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2, collective.Timeout(2*time.Second))
	each(t, 2, func(r int) error {
		x := gpus()[r].Ones(3)
		if _, err := groups[r].AllReduce(ctx, x, collective.Sum).Wait(); err != nil {
			return err
		}
		if r == 1 {
			for groups[1].Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return nil
		}
		// A kind that is known does not wait for the other's word, and is done for the host
		// when it is queued: the first call after the time-out says so.
		var err error
		for deadline := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(deadline); {
			_, err = groups[0].AllReduce(ctx, x, collective.Sum).Wait()
		}
		return want(err, collective.ErrTimeout, "rank 1")
	})
}

// A rank whose card is lost: by NCCL and by way of main memory, the others are told which rank
// it was, while they wait for it on their cards.
func TestLostCard(t *testing.T) {
	for _, engine := range []string{"nccl", "ring"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "nccl" {
				collective.FakeCards(t, 22803, false)
			}
			groups := joinCards(t, 3, collective.Engine(engine), collective.Timeout(20*time.Second))
			devices := locus.AddVirtualGPUs(3, 1<<20)
			each(t, 3, func(r int) error {
				x := devices[r].Ones(3)
				if _, err := groups[r].AllReduce(ctx, x, collective.Sum).Wait(); err != nil {
					return err
				}
				if r == 1 {
					lend.Backend(x).(*virtual.Device).LoseAfter(1)
				}
				started := time.Now()
				var err error
				for err == nil && time.Since(started) < 10*time.Second { // on a card it is done for the host when it is queued
					_, err = groups[r].AllReduce(ctx, x.Add(1), collective.Sum).Wait()
				}
				if r == 1 {
					return want(err, locus.ErrDeviceLost, devices[1].String()+": ")
				}
				return want(err, collective.ErrRank, "rank 1")
			})
		})
	}
}

// realGPUs returns the machine's own GPUs, shares of one included.
func realGPUs() (l []locus.Device) {
	for _, i := range locus.Devices()[1:] {
		if !i.Device.Details().Virtual {
			l = append(l, i.Device)
		}
	}
	return l
}
