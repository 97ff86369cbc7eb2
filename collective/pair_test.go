package collective_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
)

// byNCCL returns how many messages f sends, and how many of them by NCCL.
func byNCCL(f func()) (sent, byNCCL int) {
	for _, s := range locus.Profile(f).Spans {
		if s.Name == "Send" && s.Host {
			sent++
			if strings.HasSuffix(s.Detail, ", by NCCL") {
				byNCCL++
			}
		}
	}
	return sent, byNCCL
}

// quiet checks that no card has anything under way.
func quiet(t *testing.T, devices []locus.Device) {
	t.Helper()
	for _, d := range devices {
		quietAt(t, d.Ones(1))
	}
}

// quietAt is quiet for the card that a tensor is on.
func quietAt(t *testing.T, x *locus.Tensor) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for collective.Busy(x) != "" {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", x.Device(), collective.Busy(x))
		}
		time.Sleep(time.Millisecond)
	}
}

// meet has two ranks send one message each way, one after the other, so that both directions
// have their communicators.
func meet(t *testing.T, groups []*collective.Group, devices []locus.Device) {
	t.Helper()
	each(t, 2, func(r int) error {
		x := devices[r].Ones(70_000)
		for from := range 2 {
			p := groups[r].Recv
			if r == from {
				p = groups[r].Send
			}
			if _, err := p(ctx, x, 1-r).Wait(); err != nil {
				return err
			}
		}
		return nil
	})
	quiet(t, devices[:2])
}

// Messages between cards, of all types, among collectives in any order.
func TestFakeNCCLMessages(t *testing.T) {
	devices := gpus()
	for _, size := range []int{2, 3, 4} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			collective.FakeCards(t, 22803, false)
			groups := joinCards(t, size, collective.Engine("nccl"))
			sent, by := byNCCL(func() {
				each(t, size, func(r int) error {
					return collectivetest.Messages(context.Background(), groups[r], devices[r], uint64(size), false)
				})
			})
			t.Logf("%d of %d messages by NCCL", by, sent)
			if by < sent/20 || by == sent { // how many depends on how busy the machine is
				t.Errorf("%d of %d messages by NCCL", by, sent)
			}
			quiet(t, devices[:size])
		})
	}
}

// The same where all of them go through main memory.
func TestStagedMessages(t *testing.T) {
	groups := tcp(t, 3)
	each(t, 3, func(r int) error {
		return collectivetest.Messages(context.Background(), groups[r], gpus()[r], 3, false)
	})
}

// exchange sends a tensor each way and checks what comes.
func exchange(g *collective.Group, on, from locus.Device, n int, value float64) error {
	other := 1 - g.Rank()
	sent := g.Send(ctx, on.Full(value+float64(g.Rank()), n), other)
	y, err := g.Recv(ctx, from.Zeros(n), other).Wait()
	if _, e := sent.Wait(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if lo, hi := y.Min().Item(), y.Max().Item(); lo != value+float64(other) || hi != lo {
		return fmt.Errorf("rank %d sent %v to %v", other, lo, hi)
	}
	return nil
}

// Which messages go by NCCL: between cards, not small ones, nor on another card than the
// pair's first.
func TestFakeNCCLMessageWays(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2)
	meet(t, groups, gpus())
	cpu := locus.CPU()
	for _, c := range []struct {
		name     string
		on, from func(r int) locus.Device
		n, want  int
	}{
		{"cards", func(r int) locus.Device { return gpus()[r] }, func(r int) locus.Device { return gpus()[r] }, 70_000, 2},
		{"again", func(r int) locus.Device { return gpus()[r] }, func(r int) locus.Device { return gpus()[r] }, 2_000_000, 2},
		{"small", func(r int) locus.Device { return gpus()[r] }, func(r int) locus.Device { return gpus()[r] }, 65_536, 0},
		{"from the CPU", func(r int) locus.Device { return cpu }, func(r int) locus.Device { return gpus()[r] }, 70_000, 0},
		{"to the CPU", func(r int) locus.Device { return gpus()[r] }, func(r int) locus.Device { return cpu }, 70_000, 0},
		{"rank 1 on the CPU", func(r int) locus.Device { return []locus.Device{gpus()[0], cpu}[r] }, func(r int) locus.Device { return []locus.Device{gpus()[0], cpu}[r] }, 2_000_000, 0},
		{"from another card", func(r int) locus.Device { return gpus()[r+2] }, func(r int) locus.Device { return gpus()[r] }, 70_000, 0},
		{"to another card", func(r int) locus.Device { return gpus()[r] }, func(r int) locus.Device { return gpus()[r+2] }, 70_000, 0},
		{"cards at last", func(r int) locus.Device { return gpus()[r] }, func(r int) locus.Device { return gpus()[r] }, 70_000, 2},
	} {
		sent, by := byNCCL(func() {
			each(t, 2, func(r int) error { return exchange(groups[r], c.on(r), c.from(r), c.n, 5) })
		})
		if sent != 2 || by != c.want {
			t.Errorf("%s: %d of %d messages by NCCL, want %d", c.name, by, sent, c.want)
		}
	}
	quiet(t, gpus()[:4])
}

// Ranks of one process on one card do without NCCL, those of several share it if it allows.
func TestFakeNCCLMessagesShared(t *testing.T) {
	for _, c := range []struct {
		told  string
		apart bool
		want  int
	}{{"1", true, 2}, {"1", false, 0}, {"", true, 0}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			if c.apart {
				collective.Apart(t)
			}
			t.Setenv("NCCL_MULTI_RANK_GPU_ENABLE", c.told)
			collective.FakeCards(t, 23203, true)
			groups := joinCards(t, 2)
			meet(t, groups, gpus())
			if _, by := byNCCL(func() {
				each(t, 2, func(r int) error { return exchange(groups[r], gpus()[r], gpus()[r], 70_000, 1) })
			}); by != c.want {
				t.Errorf("%d messages by NCCL, want %d", by, c.want)
			}
		})
	}
}

// A message does not go by NCCL while a collective is on the card: it takes the other way, so
// that neither waits for the other.
func TestFakeNCCLMessageBesideCollective(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2)
	sum := func(r int) *collective.Pending {
		return groups[r].AllReduce(ctx, gpus()[r].Ones(10), collective.Sum)
	}
	each(t, 2, func(r int) error { _, err := sum(r).Wait(); return err })
	quiet(t, gpus()[:2])
	_, by := byNCCL(func() {
		each(t, 2, func(r int) error {
			if r == 1 {
				if _, err := groups[1].Recv(ctx, gpus()[1].Ones(2_000_000), 0).Wait(); err != nil {
					return err
				}
				_, err := sum(1).Wait()
				return err
			}
			p := sum(0)
			for collective.Busy(gpus()[0].Ones(1)) == "" {
				time.Sleep(time.Millisecond)
			}
			if _, err := groups[0].Send(ctx, gpus()[0].Ones(2_000_000), 1).Wait(); err != nil {
				return err
			}
			_, err := p.Wait()
			return err
		})
	})
	if by != 0 {
		t.Error("a message was queued beside a collective")
	}
	quiet(t, gpus()[:2])
	if _, by := byNCCL(func() { meet(t, groups, gpus()) }); by != 2 {
		t.Errorf("%d messages by NCCL behind it, want 2", by)
	}
}

// Messages whose two sides differ: the error of main memory's.
func TestFakeNCCLMessageMismatch(t *testing.T) {
	for name, like := range map[string]func(d locus.Device) *locus.Tensor{
		"shape": func(d locus.Device) *locus.Tensor { return d.Ones(90_000) },
		"type":  func(d locus.Device) *locus.Tensor { return d.As(locus.Int32).Ones(80_000) },
		"small": func(d locus.Device) *locus.Tensor { return d.Ones(4) },
		"CPU":   func(locus.Device) *locus.Tensor { return ones(80_001) },
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", known ", known), func(t *testing.T) {
				collective.FakeCards(t, 22803, false)
				groups := joinCards(t, 2)
				each(t, 2, func(r int) error {
					if known {
						if err := exchange(groups[r], gpus()[r], gpus()[r], 70_000, 1); err != nil {
							return err
						}
					}
					if r == 0 {
						if _, err := groups[0].Send(ctx, gpus()[0].Ones(80_000), 1).Wait(); err != nil { // it may be told in time
							return want(err, collective.ErrRank)
						}
						return nil
					}
					l := like(gpus()[1])
					_, err := groups[1].Recv(ctx, l, 0).Wait()
					return want(err, collective.ErrMismatch, "float32 (80000,)", fmt.Sprint(l.DType(), " (", l.Dim(0), ",)"))
				})
				quiet(t, gpus()[:2])
			})
		}
	}
}

// A message that nobody sends, or nobody takes.
func TestFakeNCCLMessageTimeout(t *testing.T) {
	for name, call := range map[string]func(g *collective.Group, x *locus.Tensor) *collective.Pending{
		"Recv": func(g *collective.Group, x *locus.Tensor) *collective.Pending { return g.Recv(ctx, x, 1) },
		"Send": func(g *collective.Group, x *locus.Tensor) *collective.Pending { return g.Send(ctx, x, 1) },
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", known ", known), func(t *testing.T) {
				collective.FakeCards(t, 22803, false)
				groups := joinCards(t, 2, collective.Timeout(2*time.Second))
				each(t, 2, func(r int) error {
					if known {
						return exchange(groups[r], gpus()[r], gpus()[r], 70_000, 1)
					}
					return nil
				})
				_, err := call(groups[0], gpus()[0].Ones(2_000_000)).Wait()
				if err := want(err, collective.ErrTimeout, name+" of float32 (2000000,)", "rank 1"); err != nil {
					t.Error(err)
				}
				quiet(t, gpus()[:2])
			})
		}
	}
}

// A rank whose card is lost between its word and the message: the other, whose card waits
// for it, is told.
func TestFakeNCCLMessageLost(t *testing.T) {
	for i := range 4 {
		victim, known := i%2, i > 1
		t.Run(fmt.Sprint(victim, ", known ", known), func(t *testing.T) {
			collective.FakeCards(t, 22803, false)
			groups := joinCards(t, 2, collective.Timeout(20*time.Second))
			devices := locus.AddVirtualGPUs(2, 64<<20)
			probes := []*locus.Tensor{devices[0].Ones(1), devices[1].Ones(1)}
			if known {
				meet(t, groups, devices)
			}
			started := time.Now()
			each(t, 2, func(r int) error {
				x := devices[r].Ones(1_200_000) // more than is sent before the other takes part
				if err := devices[r].Synchronize(); err != nil {
					return err
				}
				if r == victim {
					lend.Backend(x).(*virtual.Device).LoseAfter(1)
				}
				x = x.Add(1)
				var err error
				if r == 0 {
					_, err = groups[0].Send(ctx, x, 1).Wait()
				} else {
					_, err = groups[1].Recv(ctx, x, 0).Wait()
				}
				if r == victim {
					return want(err, locus.ErrDeviceLost)
				}
				return want(err, collective.ErrRank, fmt.Sprint("rank ", victim))
			})
			if d := time.Since(started); d > 15*time.Second {
				t.Errorf("it took %v", d)
			}
			for _, x := range probes {
				quietAt(t, x)
			}
		})
	}
}

// A rank that gives up while the other waits, before and after they have agreed once.
func TestFakeNCCLMessageAbort(t *testing.T) {
	for _, known := range []bool{false, true} {
		collective.FakeCards(t, 22803, false)
		groups := joinCards(t, 2)
		each(t, 2, func(r int) error {
			if known {
				if err := exchange(groups[r], gpus()[r], gpus()[r], 70_000, 1); err != nil {
					return err
				}
			}
			if r == 1 {
				time.Sleep(50 * time.Millisecond)
				groups[1].Abort(fmt.Errorf("out of luck"))
				return nil
			}
			_, err := groups[0].Send(ctx, gpus()[0].Ones(2_000_000), 1).Wait()
			return want(err, collective.ErrRank, "rank 1", "out of luck")
		})
		quiet(t, gpus()[:2])
	}
}

// What was received and sent is whole although both ranks leave at once, and nothing is left
// on the cards.
func TestFakeNCCLMessagesClose(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	for range 3 {
		groups := joinCards(t, 2)
		each(t, 2, func(r int) error {
			if err := exchange(groups[r], gpus()[r], gpus()[r], 70_000, 3); err != nil {
				return err
			}
			return groups[r].Close()
		})
		for r := range 2 {
			if n := collective.Lanes(gpus()[r].Ones(1)); n != 0 {
				t.Errorf("%d lanes are left on %s", n, gpus()[r])
			}
		}
	}
	quiet(t, gpus()[:2])
}

// Messages of a smaller group, beside those of the whole.
func TestFakeNCCLMessagesSplit(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 4)
	each(t, 4, func(r int) error {
		row, err := groups[r].Split(ctx, r/2)
		if err != nil {
			return err
		}
		defer row.Close()
		for range 3 {
			if err := exchange(row, gpus()[r], gpus()[r], 70_000, float64(10*(r/2))); err != nil {
				return err
			}
			x := gpus()[r].Full(float64(r), 70_000)
			sent := groups[r].Send(ctx, x, (r+1)%4)
			y, err := groups[r].Recv(ctx, x, (r+3)%4).Wait()
			if err != nil {
				return err
			}
			if v := y.Max().Item(); v != float64((r+3)%4) {
				return fmt.Errorf("rank %d sent %v", (r+3)%4, v)
			}
			if _, err := sent.Wait(); err != nil {
				return err
			}
		}
		return nil
	})
	quiet(t, gpus()[:4])
}

// Messages between cards in a compiled function.
func TestFakeNCCLMessagesCompiled(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2)
	_, by := byNCCL(func() {
		each(t, 2, func(r int) error {
			f := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
				x := args[0].Mul(2)
				sent := groups[r].Send(ctx, x, 1-r)
				y, err := groups[r].Recv(ctx, x, 1-r).Wait()
				if err != nil {
					panic(err)
				}
				z := y.Add(1)
				if _, err := sent.Wait(); err != nil {
					panic(err)
				}
				return []*locus.Tensor{z}
			})
			for i := range 6 {
				z := f.Call(gpus()[r].Full(float64(10*i+r), 100_000))[0]
				if lo, hi, want := z.Min().Item(), z.Max().Item(), float64(2*(10*i+1-r)+1); lo != want || hi != want {
					return fmt.Errorf("call %d: %v to %v, want %v", i, lo, hi, want)
				}
			}
			return nil
		})
	})
	if by < 6 {
		t.Errorf("%d messages by NCCL", by)
	}
	quiet(t, gpus()[:2])
}

// Ranks that all send and receive at a time take their cards in turns.
func TestFakeNCCLMessagesMeet(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	for _, size := range []int{2, 4} {
		groups := joinCards(t, size)
		around := func(times int) (sent, by int) {
			return byNCCL(func() {
				each(t, size, func(r int) error {
					x := gpus()[r].Ones(70_000)
					for range times {
						sent := groups[r].Send(ctx, x, (r+1)%size)
						if _, err := groups[r].Recv(ctx, x, (r+size-1)%size).Wait(); err != nil {
							return err
						}
						if _, err := sent.Wait(); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
		if sent, by := around(10); by < sent*3/4 { // a busy machine runs out of patience now and then
			t.Errorf("%d of %d messages of %d ranks by NCCL", by, sent, size)
		}
	}
}

// The words through networks that are slow and cut everything in pieces.
func TestFakeNCCLMessagesInPieces(t *testing.T) {
	for _, delay := range []time.Duration{0, 2 * time.Millisecond} {
		through(t, delay)
		collective.FakeCards(t, 22803, false)
		groups := joinCards(t, 2)
		for range 10 {
			each(t, 2, func(r int) error { return exchange(groups[r], gpus()[r], gpus()[r], 70_000, 2) })
		}
		quiet(t, gpus()[:2])
	}
}

// Connections break or go silent among messages: every rank gets an error in time.
func TestFakeNCCLMessagesBroken(t *testing.T) {
	times := 6
	if testing.Short() {
		times = 2
	}
	for i := range times {
		swallow := i%2 == 1
		t.Run(fmt.Sprint("swallow ", swallow), func(t *testing.T) {
			collective.FakeCards(t, 22803, false)
			n := through(t, 0)
			const size = 3
			groups := joinCards(t, size, collective.Timeout(1500*time.Millisecond), collective.DeadAfter(time.Second))
			var once sync.Once
			started := time.Now()
			each(t, size, func(r int) error {
				x := gpus()[r].Ones(70_000)
				for i := 0; ; i++ {
					if i == 5 && r == 0 {
						go once.Do(func() {
							time.Sleep(rand.N(20 * time.Millisecond))
							_, _, k := n.pick()
							if swallow {
								k.swallow.Store(true)
								return
							}
							k.near.Close()
							k.far.Close()
						})
					}
					sent := groups[r].Send(ctx, x, (r+1)%size)
					_, err := groups[r].Recv(ctx, x, (r+2)%size).Wait()
					if _, e := sent.Wait(); err == nil {
						err = e
					}
					if errors.Is(err, collective.ErrRank) || errors.Is(err, collective.ErrTimeout) || time.Since(started) > 10*time.Second {
						return nil // a connection that nobody uses any more does not matter
					}
					if err != nil {
						return err
					}
				}
			})
			if d := time.Since(started); d > 12*time.Second {
				t.Errorf("it took %v", d)
			}
			quiet(t, gpus()[:size])
		})
	}
}
