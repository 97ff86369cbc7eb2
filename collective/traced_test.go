package collective_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/nn"
)

// everything calls all collectives, with work between them, and returns what they gave.
func everything(g *collective.Group) func(args ...*locus.Tensor) []*locus.Tensor {
	return func(args ...*locus.Tensor) []*locus.Tensor {
		x, n := args[0], args[1]
		var out []*locus.Tensor
		add := func(p *collective.Pending) {
			t, err := p.Wait()
			if err != nil {
				panic(err)
			}
			if t != nil {
				out = append(out, t.Mul(2).Add(1))
			}
		}
		me, size := g.Rank(), g.Size()
		y := x.Exp()
		sum := g.AllReduce(ctx, y, collective.Sum)
		most := g.AllReduce(ctx, x.T(), collective.Max) // not contiguous
		z := y.MatMul(y.T())                            // beside them
		mean := g.AllReduce(ctx, z.Cast(locus.BFloat16), collective.Mean)
		add(mean)
		add(most)
		add(sum)
		add(g.Reduce(ctx, x, collective.Product, size-1))
		add(g.Broadcast(ctx, z, size-1))
		add(g.AllGather(ctx, x.Narrow(0, 0, 2)))
		add(g.ReduceScatter(ctx, y, collective.Min))
		from, to := collective.Part(7, me, size)
		add(g.AllGatherParts(ctx, n.Narrow(0, from, to), 7))
		if size > 1 {
			next, last := (me+1)%size, (me+size-1)%size
			sent := g.Send(ctx, z, next)
			add(g.Recv(ctx, z, last))
			add(sent)
		}
		whole, err := g.AllReduce(ctx, n, collective.Sum).Wait() // returned as it is
		if err != nil {
			panic(err)
		}
		g.AllReduce(ctx, x, collective.Sum)                 // nobody waits
		g.AllReduce(ctx, n.Narrow(0, 0, 0), collective.Sum) // nor is there anything to reduce
		return append(out, whole, z)
	}
}

// compiledAsEager compares everything with everything compiled.
func compiledAsEager(g *collective.Group, d locus.Device) error {
	f := everything(g)
	compiled := locus.Compile(f)
	for call := range 5 {
		k := locus.NewKey(uint64(10*call + g.Rank()))
		x, n := d.Key(k).Randn(5, 3), d.Key(k).Randint(0, 100, 7)
		want, got := f(x, n), compiled.Call(x, n)
		if why := compiled.Fallback(); why != "" {
			return errors.New(why)
		}
		for i := range want {
			if a, b := want[i].String(), got[i].String(); a != b || want[i].DType() != got[i].DType() {
				return fmt.Errorf("call %d, result %d: %s, want %s", call, i, b, a)
			}
		}
	}
	if s := compiled.Explain(); !strings.Contains(s, "begin(") || !strings.Contains(s, "all-reduce sum of float32 (5, 3)") {
		return errors.New(s)
	}
	return nil
}

// By way of NCCL, on cards that are virtual GPUs.
func TestCompiledFakeNCCL(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2, collective.Engine("nccl"))
	each(t, 2, func(r int) error {
		if err := compiledAsEager(groups[r], gpus()[r]); err != nil {
			return err
		}
		if e := groups[r].Engine(gpus()[r]); e != "nccl" {
			return errors.New(e)
		}
		return nil
	})
}

// On a real GPU, which two ranks share.
func TestCompiledOnCard(t *testing.T) {
	if len(realGPUs()) == 0 {
		t.Skipf("not run: %v", locus.WhyNoGPU())
	}
	card := realGPUs()[0]
	for name, groups := range map[string][]*collective.Group{"local": local(t, []locus.Device{card, card}), "ring": tcp(t, 2)} {
		t.Run(name, func(t *testing.T) {
			each(t, 2, func(r int) error { return compiledAsEager(groups[r], card) })
		})
	}
}

// A compiled function with collectives gives the bits of the function, at every call, in
// every way programs run.
func TestCompiled(t *testing.T) {
	for _, mode := range []program.Mode{program.Best, program.InPlan, program.Default} {
		for _, size := range []int{1, 2, 3} {
			mixed := []locus.Device{gpus()[0], locus.CPU(), gpus()[1]}
			for name, c := range map[string]struct {
				groups  []*collective.Group
				devices []locus.Device
			}{
				"local":                 {local(t, cpus(size)), cpus(size)},
				"local on virtual GPUs": {local(t, gpus()[:size]), gpus()},
				"local on several":      {local(t, mixed[:size]), mixed},
				"local on one GPU":      {local(t, slices.Repeat(gpus()[:1], size)), slices.Repeat(gpus()[:1], size)},
				"ring":                  {tcp(t, size), cpus(size)},
				"ring on virtual GPUs":  {tcp(t, size), gpus()},
			} {
				t.Run(fmt.Sprint(name, " ", size, " mode ", mode), func(t *testing.T) {
					defer program.SetMode(program.SetMode(mode))
					each(t, size, func(r int) error {
						return compiledAsEager(c.groups[r], c.devices[r])
					})
				})
			}
		}
	}
}

// Waiting in the function does not keep what follows from running beside the collective: the
// step that waits stands before the first one that uses the result.
func TestCompiledWaitsLate(t *testing.T) {
	groups := local(t, cpus(2))
	each(t, 2, func(r int) error {
		f := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
			sum, err := groups[r].AllReduce(ctx, args[0], collective.Sum).Wait()
			if err != nil {
				panic(err)
			}
			y := args[0].MatMul(args[0])
			return []*locus.Tensor{y.Softmax(1).MatMul(sum)}
		})
		for range 3 {
			f.Call(ones(3, 3))
		}
		s := f.Explain()
		begin, product, await := strings.Index(s, "begin("), strings.Index(s, "matmul("), strings.Index(s, "await(")
		if !(begin > 0 && begin < product && product < await) {
			return errors.New(s)
		}
		return nil
	})
}

// What goes wrong in a run of a program is the error that the collective would have given.
func TestCompiledFails(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		reduce := func(g *collective.Group) *locus.Compiled {
			return locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
				a := g.AllReduce(ctx, args[0], collective.Sum)
				b := g.AllReduce(ctx, args[0].Exp(), collective.Sum)
				x, err := a.Wait()
				if err != nil {
					panic(err)
				}
				y, err := b.Wait()
				if err != nil {
					panic(err)
				}
				i := args[0].ArgMax(0)
				return []*locus.Tensor{x.Add(y).Take(0, i.Mul(args[1].Cast(locus.Int64)))}
			})
		}
		for what, c := range map[string]struct {
			second func(g *collective.Group, f *locus.Compiled) error // of rank 1, after some calls
			kind   error
			text   string
		}{
			"a rank gives up": {func(g *collective.Group, f *locus.Compiled) error {
				g.Abort(errors.New("no more coffee"))
				return nil
			}, collective.ErrRank, "no more coffee"},
			"a rank leaves": {func(g *collective.Group, f *locus.Compiled) error {
				return g.Close()
			}, collective.ErrRank, "rank 1"},
			"ranks differ": {func(g *collective.Group, f *locus.Compiled) error {
				_, err := g.AllReduce(ctx, ones(4), collective.Sum).Wait()
				if !errors.Is(err, collective.ErrMismatch) {
					return fmt.Errorf("rank 1: %v", err)
				}
				return nil
			}, collective.ErrMismatch, "float32 (4,)"},
			"a rank does not come": {func(g *collective.Group, f *locus.Compiled) error {
				for g.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				return nil
			}, collective.ErrTimeout, "rank 1"},
			"an op of a rank fails": {func(g *collective.Group, f *locus.Compiled) error {
				err := locus.Try(func() { f.Call(locus.From([]float32{1, 2, 3}), locus.From([]float32{7})) })
				if !errors.Is(err, locus.ErrIndex) {
					return fmt.Errorf("rank 1: %v", err)
				}
				g.Abort(err)
				return nil
			}, nil, ""},
		} {
			t.Run(what, func(t *testing.T) {
				groups := group(2, collective.Timeout(2*time.Second))
				each(t, 2, func(r int) error {
					f := reduce(groups[r])
					for range 4 {
						f.Call(ones(3), ones(1))
					}
					if err := groups[r].Barrier(ctx); err != nil {
						return err
					}
					if r == 1 {
						return c.second(groups[r], f)
					}
					err := locus.Try(func() { f.Call(ones(3), ones(1)) })
					if c.kind == nil { // the collectives themselves went well
						return err
					}
					var e *locus.Error
					if !errors.Is(err, c.kind) || !errors.As(err, &e) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "in a compiled function, from") {
						return fmt.Errorf("%v", err)
					}
					again := locus.Try(func() { f.Call(ones(3), ones(1)) })
					if !errors.Is(again, c.kind) || strings.Count(again.Error(), "in a compiled function") != 1 {
						return fmt.Errorf("again: %v", again)
					}
					return nil
				})
			})
		}
	})
}

// An op that fails while collectives are under way ends the group, and the others are told.
func TestCompiledFailsBetween(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(2, collective.Timeout(20*time.Second))
		each(t, 2, func(r int) error {
			f := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
				a := groups[r].AllReduce(ctx, args[0], collective.Sum)
				picked := args[0].Take(0, args[1])
				x, err := a.Wait()
				if err != nil {
					panic(err)
				}
				b, err := groups[r].AllReduce(ctx, x.Mul(picked), collective.Sum).Wait()
				if err != nil {
					panic(err)
				}
				return []*locus.Tensor{b}
			})
			at := func(i int) *locus.Tensor { return locus.From([]int64{int64(i)}) }
			for range 4 {
				f.Call(ones(3), at(1))
			}
			err := locus.Try(func() { f.Call(ones(3), at(1+5*r)) })
			if r == 1 && !errors.Is(err, locus.ErrIndex) {
				return fmt.Errorf("%v", err)
			}
			if r == 0 && !errors.Is(err, collective.ErrRank) {
				return fmt.Errorf("%v", err)
			}
			return nil
		})
	})
}

// Ranks that share a device do not wait for its arena while they wait for each other, nor
// does a program of one of them without collectives; also where calls are watched as pieces.
func TestCompiledOnOneDevice(t *testing.T) {
	shared := slices.Repeat(gpus()[:1], 2)
	groups := local(t, shared, collective.Timeout(30*time.Second))
	run := func() {
		each(t, 2, func(r int) error {
			step := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
				y := args[0].MatMul(args[0]).Softmax(1).MatMul(args[0])
				s, err := groups[r].AllReduce(ctx, y, collective.Sum).Wait()
				if err != nil {
					panic(err)
				}
				return []*locus.Tensor{s.MatMul(y).Softmax(1).MatMul(s)}
			})
			other := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
				return []*locus.Tensor{args[0].MatMul(args[0]).Softmax(1).MatMul(args[0]).Softmax(1)}
			})
			x := shared[r].Ones(8, 8)
			for i := range 20 {
				if (i+r)%2 == 0 {
					other.Call(x)
					time.Sleep(time.Millisecond)
				}
				step.Call(x)
				other.Call(x)
			}
			if why := step.Fallback(); why != "" {
				return errors.New(why)
			}
			return nil
		})
	}
	run()
	line := locus.ProfileCalls(run)
	if !strings.Contains(line.String(), "compiled") {
		t.Error(line)
	}
}

// What cannot be part of a program is an error that says what to do instead.
func TestNotCompiled(t *testing.T) {
	g := local(t, cpus(1))[0]
	outside := g.AllReduce(ctx, ones(3), collective.Sum)
	var left *collective.Pending
	for what, f := range map[string]func(x *locus.Tensor) *locus.Tensor{
		"a barrier":                   func(x *locus.Tensor) *locus.Tensor { g.Barrier(ctx); return x },
		"asking":                      func(x *locus.Tensor) *locus.Tensor { g.AllReduce(ctx, x, collective.Sum).Done(); return x },
		"waiting for what is outside": func(x *locus.Tensor) *locus.Tensor { y, _ := outside.Wait(); return x.Add(y) },
	} {
		c := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{f(args[0])} })
		if err := locus.Try(func() { c.Call(ones(3)) }); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "traced_test.go") {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
		left = g.AllReduce(ctx, args[0], collective.Sum)
		return []*locus.Tensor{args[0].Exp()}
	})
	c.Call(ones(3))
	if _, err := left.Wait(); !errors.Is(err, locus.ErrArgument) {
		t.Errorf("a collective of a trace: %v", err)
	}
	if _, err := outside.Wait(); err != nil {
		t.Error(err)
	}
}

// Collectives of a program, and the time that it waits for them, are on the timeline.
func TestCompiledTimeline(t *testing.T) {
	for _, devices := range [][]locus.Device{cpus(2), gpus()[:2]} {
		groups := local(t, devices)
		fs := make([]*locus.Compiled, 2)
		each(t, 2, func(r int) error {
			fs[r] = locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
				sum := groups[r].AllReduce(ctx, args[0], collective.Sum)
				y := args[0].MatMul(args[0])
				s, err := sum.Wait()
				if err != nil {
					panic(err)
				}
				return []*locus.Tensor{s.Add(y)}
			})
			for range 3 {
				fs[r].Call(devices[r].Ones(30, 30))
			}
			return nil
		})
		line := locus.Profile(func() {
			each(t, 2, func(r int) error {
				fs[r].Call(devices[r].Ones(30, 30))
				return nil
			})
		})
		var names []string
		for _, s := range line.Spans {
			if s.Host && s.Device == devices[0] && (s.Name == "AllReduce" || s.Name == "wait" && strings.Contains(s.Detail, "AllReduce: all-reduce sum")) {
				names = append(names, s.Name)
			}
		}
		slices.Sort(names)
		if len(names) < 2 || names[0] != "AllReduce" || names[len(names)-1] != "wait" {
			t.Errorf("%v: %v\n%v", devices, names, line)
		}
		var b bytes.Buffer
		if err := line.WriteTrace(&b); err != nil || !strings.Contains(b.String(), `"AllReduce"`) {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
}

// On a device that replays recordings, what lies between collectives is replayed, with keys
// that advance.
func TestCompiledInPieces(t *testing.T) {
	groups := local(t, gpus()[:2])
	each(t, 2, func(r int) error {
		drop := nn.Dropout(0.5, nn.WithKey(locus.NewKey(3)))
		again := nn.Dropout(0.5, nn.WithKey(locus.NewKey(3)))
		f := func(drop nn.Module) func(args ...*locus.Tensor) []*locus.Tensor {
			return func(args ...*locus.Tensor) []*locus.Tensor {
				x := args[0]
				work := func(x *locus.Tensor) *locus.Tensor {
					for range 3 {
						x = drop.Forward(x.MatMul(args[0])).Softmax(1)
					}
					return x
				}
				y := work(x)
				sum := groups[r].AllReduce(ctx, y, collective.Sum)
				z := work(y)
				s, err := sum.Wait()
				if err != nil {
					panic(err)
				}
				return []*locus.Tensor{work(z.Add(s)), s}
			}
		}
		eager, compiled := f(again), locus.Compile(f(drop))
		for call := range 8 {
			x := gpus()[r].Key(locus.NewKey(uint64(call))).Randn(6, 6)
			want, got := eager(x), compiled.Call(x)
			for i := range want {
				if a, b := want[i].String(), got[i].String(); a != b {
					return fmt.Errorf("call %d, result %d: %s, want %s", call, i, b, a)
				}
			}
		}
		if s := compiled.Explain(); !strings.Contains(s, "3 pieces with collectives between") {
			return errors.New(s)
		}
		return nil
	})
}
