package collective_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// kinds are the ways to make a group, for what must be the same in all.
var kinds = map[string]func(t testing.TB, size int, options ...collective.Option) []*collective.Group{
	"ring": tcp,
	"local": func(t testing.TB, size int, options ...collective.Option) []*collective.Group {
		return local(t, cpus(size), options...)
	},
}

// inEach runs a test with every way to make a group.
func inEach(t *testing.T, f func(t *testing.T, group func(size int, options ...collective.Option) []*collective.Group)) {
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			f(t, func(size int, options ...collective.Option) []*collective.Group { return make(t, size, options...) })
		})
	}
}

// want checks that an error is a *locus.Error of a kind, and says certain things.
func want(err, kind error, texts ...string) error {
	var e *locus.Error
	if !errors.As(err, &e) || !errors.Is(err, kind) {
		return fmt.Errorf("the error is %v (%T), want %v", err, err, kind)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			return fmt.Errorf("the error does not say %q: %v", s, err)
		}
	}
	return nil
}

var ctx = context.Background()

func ones(shape ...int) *locus.Tensor { return locus.CPU().Ones(shape...) }

// Ranks that differ get an error that shows how, all of them, also where each has seen its
// own kind before.
func TestMismatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		call  func(g *collective.Group, odd bool) *collective.Pending
		texts []string
	}{
		{"shape", func(g *collective.Group, odd bool) *collective.Pending {
			if odd {
				return g.AllReduce(ctx, ones(3, 5), collective.Sum)
			}
			return g.AllReduce(ctx, ones(3, 4), collective.Sum)
		}, []string{"(3, 4)", "(3, 5)"}},
		{"type", func(g *collective.Group, odd bool) *collective.Pending {
			if odd {
				return g.AllReduce(ctx, ones(4).Cast(locus.Float64), collective.Sum)
			}
			return g.AllReduce(ctx, ones(4), collective.Sum)
		}, []string{"float32", "float64"}},
		{"op", func(g *collective.Group, odd bool) *collective.Pending {
			if odd {
				return g.AllReduce(ctx, ones(4), collective.Max)
			}
			return g.AllReduce(ctx, ones(4), collective.Sum)
		}, []string{"sum", "max"}},
		{"collective", func(g *collective.Group, odd bool) *collective.Pending {
			if odd {
				return g.AllGather(ctx, ones(4))
			}
			return g.Broadcast(ctx, ones(4), 0)
		}, []string{"all-gather", "broadcast"}},
		{"root", func(g *collective.Group, odd bool) *collective.Pending {
			if odd {
				return g.Broadcast(ctx, ones(4), 1)
			}
			return g.Broadcast(ctx, ones(4), 0)
		}, []string{"from rank 0", "from rank 1"}},
	} {
		for _, seen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, seen %v", c.name, seen), func(t *testing.T) {
				inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
					groups := group(3)
					each(t, 3, func(r int) error {
						g := groups[r]
						if seen {
							for _, odd := range []bool{false, true} {
								if _, err := c.call(g, odd).Wait(); err != nil { // the others are ahead, and differ
									return want(err, collective.ErrMismatch, append(c.texts, "ranks differ")...)
								}
							}
						}
						_, err := c.call(g, r == 1).Wait()
						for n := 0; seen && err == nil && n < 1000; n++ { // it was through before the others announced
							time.Sleep(time.Millisecond)
							_, err = c.call(g, r == 1).Wait()
						}
						if err := want(err, collective.ErrMismatch, append(c.texts, "ranks differ")...); err != nil {
							return err
						}
						// Every later call says the same.
						_, again := g.AllReduce(ctx, ones(1), collective.Sum).Wait()
						if err := want(again, collective.ErrMismatch, c.texts...); err != nil {
							return err
						}
						return want(g.Err(), collective.ErrMismatch)
					})
				})
			})
		}
	}
}

func TestMessageMismatch(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(2)
		each(t, 2, func(r int) error {
			if r == 0 {
				_, err := groups[0].Send(ctx, ones(3), 1).Wait()
				if err != nil { // it may be told in time
					return want(err, collective.ErrRank)
				}
				return nil
			}
			_, err := groups[1].Recv(ctx, ones(4), 0).Wait()
			return want(err, collective.ErrMismatch, "float32 (3,)", "float32 (4,)")
		})
	})
}

// A rank that does not come is named, with what it did last.
func TestTimeout(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(3, collective.Timeout(time.Second))
		started := time.Now()
		each(t, 3, func(r int) error {
			if _, err := groups[r].AllGather(ctx, ones(2)).Wait(); err != nil {
				return err
			}
			if r == 2 {
				for groups[2].Err() == nil { // it computes, and never calls
					time.Sleep(time.Millisecond)
				}
				return want(groups[2].Err(), collective.ErrTimeout, "rank 2")
			}
			_, err := groups[r].AllReduce(ctx, ones(5), collective.Sum).Wait()
			var f *collective.Fault
			if !errors.As(err, &f) || f.Rank != 2 {
				return fmt.Errorf("the fault is %+v", f)
			}
			return want(err, collective.ErrTimeout, "all-reduce sum of float32 (5,)", "rank 2", "has not come to it", "all-gather")
		})
		if d := time.Since(started); d > 30*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// A message that nobody sends, or nobody takes.
func TestMessageTimeout(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(3, collective.Timeout(300*time.Millisecond))
		_, err := groups[0].Recv(ctx, ones(5), 2).Wait()
		if err := want(err, collective.ErrTimeout, "Recv of float32 (5,)", "rank 2"); err != nil {
			t.Error(err)
		}
		var f *collective.Fault
		if !errors.As(err, &f) || f.Rank != 2 {
			t.Errorf("%+v", f)
		}
	})
}

// A context that ends on one rank ends the group, and the others are told.
func TestCancel(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(3)
		each(t, 3, func(r int) error {
			switch r {
			case 0:
				c, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				_, err := groups[0].AllReduce(c, ones(5), collective.Sum).Wait()
				return want(err, collective.ErrTimeout, "context")
			case 1:
				_, err := groups[1].AllReduce(ctx, ones(5), collective.Sum).Wait()
				return want(err, collective.ErrRank, "rank 0", "gave up", "context deadline")
			}
			for groups[2].Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return want(groups[2].Err(), collective.ErrRank, "rank 0")
		})
	})
}

// A rank that leaves is missed by those who still count on it, and by nobody else.
func TestClose(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(3)
		each(t, 3, func(r int) error {
			g := groups[r]
			if _, err := g.AllReduce(ctx, ones(100_000), collective.Sum).Wait(); err != nil {
				if r == 1 {
					return err
				}
				return want(err, collective.ErrRank, "rank 1", "left") // this rank is late
			}
			if r == 1 {
				if err := g.Close(); err != nil {
					return err
				}
				_, err := g.AllReduce(ctx, ones(1), collective.Sum).Wait()
				return want(err, collective.ErrClosed)
			}
			_, err := g.AllReduce(ctx, ones(7), collective.Sum).Wait()
			return want(err, collective.ErrRank, "rank 1", "left", "all-reduce sum of float32 (7,)")
		})
	})
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		for try := 1; ; try++ {
			groups := group(3)
			started := time.Now()
			each(t, 3, func(r int) error {
				if _, err := groups[r].AllReduce(ctx, ones(1_000_000), collective.Sum).Wait(); err != nil {
					return err
				}
				return groups[r].Close()
			})
			d := time.Since(started)
			if d <= 4*time.Second {
				break
			}
			if try == 3 { // a busy machine takes long now and then
				t.Fatalf("leaving took %v", d)
			}
		}
	})
}

func join(rank, size int, addr, token string, options ...collective.Option) (*collective.Group, error) {
	return collective.Join(ctx, append([]collective.Option{collective.At(collective.Place{Rank: rank, Size: size, Addr: addr, Token: token, Launcher: "a test"}),
		collective.Engine("ring"), collective.JoinWithin(time.Second)}, options...)...)
}

// What goes wrong at the start names the rank.
func TestJoinFaults(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		addr := free(t)
		each(t, 3, func(i int) error {
			_, err := join([]int{0, 1, 3}[i], 4, addr, "x")
			return want(err, collective.ErrRank, "rank 2 of 4 did not come", "rank 1 (process")
		})
	})
	t.Run("no rank 0", func(t *testing.T) {
		addr := free(t)
		_, err := join(1, 2, addr, "x")
		if err := want(err, collective.ErrRank, "rank 1 cannot reach rank 0 at "+addr); err != nil {
			t.Error(err)
		}
	})
	t.Run("another size", func(t *testing.T) {
		addr := free(t)
		each(t, 2, func(r int) error {
			_, err := join(r, 2+r, addr, "x")
			return want(err, locus.ErrArgument, "group of 3", "one of 2")
		})
	})
	t.Run("twice", func(t *testing.T) {
		addr := free(t)
		var refused atomic.Int32 // one of the two, whichever comes later
		each(t, 3, func(i int) error {
			g, err := join([]int{0, 1, 1}[i], 3, addr, "x")
			if g != nil {
				return errors.New("joined")
			}
			if i > 0 && errors.Is(err, locus.ErrArgument) {
				refused.Add(1)
				return want(err, locus.ErrArgument, "rank 1 is here already")
			}
			return want(err, collective.ErrRank, "rank 2 of 3")
		})
		if n := refused.Load(); n != 1 {
			t.Errorf("%d were refused", n)
		}
	})
	t.Run("token", func(t *testing.T) {
		addr := free(t)
		each(t, 2, func(r int) error {
			_, err := join(r, 2, addr, []string{"right", "wrong"}[r])
			if r == 1 {
				return want(err, locus.ErrArgument, "token")
			}
			return want(err, collective.ErrRank, "rank 1 of 2 did not come")
		})
	})
	t.Run("port taken", func(t *testing.T) {
		groups := tcp(t, 2)
		_ = groups
		l := free(t)
		g, err := collective.Join(ctx, collective.At(collective.Place{Rank: 0, Size: 2, Addr: l, Token: "x"}), collective.JoinWithin(100*time.Millisecond))
		if g != nil || err == nil {
			t.Error("a group of one of two")
		}
	})
	t.Run("no token beyond the machine", func(t *testing.T) {
		_, err := join(0, 2, "192.0.2.1:1234", "")
		if err := want(err, locus.ErrArgument, "LOCUS_TOKEN"); err != nil {
			t.Error(err)
		}
	})
	t.Run("no address", func(t *testing.T) {
		_, err := join(0, 2, "", "x")
		if err := want(err, locus.ErrArgument, "MASTER_ADDR"); err != nil {
			t.Error(err)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		c, cancel := context.WithCancel(ctx)
		cancel()
		started := time.Now()
		if _, err := collective.Join(c, collective.At(collective.Place{Rank: 1, Size: 2, Addr: free(t)})); err == nil || time.Since(started) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(started))
		}
	})
	t.Run("engine", func(t *testing.T) {
		_, err := collective.Join(ctx, collective.Engine("pigeon"))
		if err := want(err, locus.ErrArgument, "pigeon", "ring"); err != nil {
			t.Error(err)
		}
	})
	t.Run("option", func(t *testing.T) {
		_, err := collective.Join(ctx, collective.Timeout(-1))
		if err := want(err, locus.ErrArgument, "Timeout"); err != nil {
			t.Error(err)
		}
	})
}

// A process that nobody launched is a group of its own.
func TestAlone(t *testing.T) {
	g, err := collective.Join(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	x := ones(3)
	y, err := g.AllReduce(ctx, x, collective.Mean).Wait()
	if err != nil || g.Size() != 1 || y.SharesMemory(x) {
		t.Error(g.Size(), y, err)
	}
}
