package locus_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
)

// updated is a cell that a program updates in place, as an optimizer does.
type updated struct{ box }

func (u *updated) step(grad *locus.Tensor) {
	u.Set(locus.UpdateAll(locus.Update{Rate: 0.5}, []locus.Updating{{Value: u.t, Grad: grad, Free: true}}, nil, nil)[0].Value)
}

func elements(x *locus.Tensor) string { return fmt.Sprint(locus.ToSlice[float32](x.Detach())) }

// TestPlanOutOfMemory wants variables as they were behind a call that finds no room,
// and the same handles to be good.
func TestPlanOutOfMemory(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 4<<20)[0]
	w := updated{box{d.Ones(500)}}
	c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		g := a[0].Reshape(-1, 1).Add(w.t).Exp().Mean(0)
		w.step(g)
		return []*locus.Tensor{g.Sum()}
	}, &w)
	x := d.Zeros(500)
	for range 6 {
		c.Call(x)
	}
	isCompiled(t, c)
	if e := c.Explain(); !strings.Contains(e, "1 variables updated in place, of 2000 bytes") || !strings.Contains(e, "  recorded: 1 recordings") {
		t.Error(e)
	}
	for range 3 {
		before, old := elements(w.t), w.t
		room := d.Zeros(850000) // the arena goes for it
		if err := locus.Try(func() { c.Call(x) }); !errors.Is(err, locus.ErrOutOfMemory) {
			t.Fatalf("out of memory: %v", err)
		}
		if w.t != old || elements(old) != before {
			t.Error("a call that failed has changed a variable")
		}
		room.Free()
		want := w.t.Sub(x.Reshape(-1, 1).Add(w.t).Exp().Mean(0).Mul(0.5))
		c.Call(x)
		if elements(w.t) != elements(want) {
			t.Error("a call behind one that failed computes something else")
		}
		if !old.Freed() {
			t.Error("the old value is not freed")
		}
	}
}

// TestPlanFails has a step that fails behind one that sets a variable.
func TestPlanFails(t *testing.T) {
	w := updated{box{locus.Ones(3)}}
	c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		w.step(a[0])
		return []*locus.Tensor{a[0].Take(0, a[1])}
	}, &w)
	x := locus.Ones(3)
	for range 4 {
		c.Call(x, locus.From([]int64{2}))
	}
	isCompiled(t, c)
	if !strings.Contains(c.Explain(), "1 variables updated in place") {
		t.Error(c.Explain())
	}
	before := elements(w.t)
	if err := locus.Try(func() { c.Call(x, locus.From([]int64{3})) }); !errors.Is(err, locus.ErrIndex) {
		t.Errorf("an index outside: %v", err)
	}
	if elements(w.t) != before {
		t.Errorf("a call that failed has changed a variable from %s to %s", before, elements(w.t))
	}
	c.Call(x, locus.From([]int64{0}))
	if elements(w.t) != elements(locus.Full(-1.5, 3)) {
		t.Error(elements(w.t))
	}
}

// TestPlanLooksAtClasses: a loss that nobody uses still finds classes that do not exist.
func TestPlanLooksAtClasses(t *testing.T) {
	f := func(a ...*locus.Tensor) []*locus.Tensor {
		locus.CrossEntropy(a[0], a[1], locus.CrossEntropyOptions{})
		return []*locus.Tensor{a[0].Exp()}
	}
	c := locus.Compile(f)
	x := locus.Ones(2, 3)
	for range 3 {
		c.Call(x, locus.From([]int64{0, 2}))
	}
	isCompiled(t, c)
	bad := locus.From([]int64{0, 3})
	if err := locus.Try(func() { f(x, bad) }); !errors.Is(err, locus.ErrIndex) {
		t.Fatalf("eager: %v", err)
	}
	if err := locus.Try(func() { c.Call(x, bad) }); !errors.Is(err, locus.ErrIndex) {
		t.Errorf("compiled: %v", err)
	}
}

// TestPlanShared has variables that come to hold one tensor, an argument that is a
// variable's value, and readers.
func TestPlanShared(t *testing.T) {
	for _, d := range compileDevices() {
		var u, v updated
		u.t, v.t = d.Ones(3), d.Full(2, 3)
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			u.step(a[0])
			v.step(a[0].Mul(2))
			return []*locus.Tensor{a[0].Add(1)}
		}, &u, &v)
		x := d.Ones(3)
		for range 5 {
			c.Call(x)
		}
		isCompiled(t, c)
		one := d.Full(8, 3)
		u.t, v.t = one, one
		c.Call(x)
		sameElements(t, "the first of two", d.Full(7.5, 3), u.t)
		sameElements(t, "the second of two", d.Full(7, 3), v.t)
		r := c.Call(u.t)[0] // the argument is read before it is written over
		sameElements(t, "by its own value", d.Full(3.75, 3), u.t)
		sameElements(t, "by the other's value", d.Full(-0.5, 3), v.t)
		sameElements(t, "the result", d.Full(8.5, 3), r)
		s := locus.NewScope() // what is in a scope is the scope's
		u.t = s.Adopt(d.Full(4, 3))
		c.Call(x)
		sameElements(t, "from a scope", d.Full(3.5, 3), u.t)
		s.Close()
		sameElements(t, "behind the scope", d.Full(3.5, 3), u.t)
	}
}

// recordedStep has arguments, a variable, a constant and a tensor from outside.
func recordedStep(d locus.Device) (c *locus.Compiled, w *updated, f func(a ...*locus.Tensor) []*locus.Tensor, outside *locus.Tensor) {
	outside = d.Full(0.5, 4)
	w = &updated{box{d.Ones(4)}}
	f = func(a ...*locus.Tensor) []*locus.Tensor {
		g := a[0].Mul(w.t).Add(outside).Tanh().Mul(d.From([]float32{1, 2, 3, 4}))
		w.step(g)
		return []*locus.Tensor{g.Sum(), g}
	}
	return locus.Compile(f, w), w, f, outside
}

// TestRecorded replays a program with arguments that lie elsewhere, variables that are
// set, an arena that moves, and a learning rate of its own.
func TestRecorded(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 0)[0]
	c, w, _, _ := recordedStep(d)
	_, e, f, _ := recordedStep(d) // the same, not compiled
	other := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{a[0].Reshape(-1, 1).Add(a[0]).Exp().Sum(0).Tanh()}
	})
	kept := [][]*locus.Tensor{}
	for i := range 60 {
		x := d.Key(locus.NewKey(uint64(i))).Randn(4)
		switch i % 13 {
		case 5:
			d.FreeCache()
		case 7:
			other.Call(d.Ones(100 + i)) // a larger arena
		case 9:
			w.t, e.t = d.Full(2, 4), d.Full(2, 4)
		case 11:
			x = d.Key(locus.NewKey(uint64(i))).Randn(9).Slice(locus.R(3, 7)) // somewhere in its block
		}
		want, got := f(x), c.Call(x)
		kept = append(kept, append(want, got...))
		sameElements(t, fmt.Sprintf("call %d", i), e.t, w.t)
	}
	for i, k := range kept { // results are nobody else's memory
		sameElements(t, fmt.Sprintf("result of call %d", i), k[0], k[2])
		sameElements(t, fmt.Sprintf("second result of call %d", i), k[1], k[3])
	}
	isCompiled(t, c)
	if s := c.Explain(); !strings.Contains(s, "  recorded: ") {
		t.Error(s)
	}
}

// TestRecordedErrors has a freed tensor from outside, and an index that is wrong, which
// is reported as eager mode does.
func TestRecordedErrors(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 0)[0]
	c, _, _, outside := recordedStep(d)
	x := d.Ones(4)
	for range 6 {
		c.Call(x)
	}
	outside.Free()
	if err := locus.Try(func() { c.Call(x) }); !errors.Is(err, locus.ErrFreed) || !strings.Contains(err.Error(), "compile_plan_test.go:") {
		t.Errorf("a freed tensor from outside: %v", err)
	}
	if err := locus.Try(func() { c.Call(outside) }); !errors.Is(err, locus.ErrFreed) {
		t.Errorf("a freed argument: %v", err)
	}
	take := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{a[0].Exp().Tanh().Take(0, a[1]).Add(1)}
	})
	good, bad := d.From([]int64{2}), d.From([]int64{7})
	for range 6 {
		take.Call(x, good)
	}
	if !strings.Contains(take.Explain(), "  recorded: ") {
		t.Error(take.Explain())
	}
	err := locus.Try(func() { take.Call(x, bad)[0].Item() })
	eager := locus.Try(func() { x.Exp().Tanh().Take(0, bad).Add(1).Item() })
	if !errors.Is(err, locus.ErrIndex) || err.Error() != eager.Error() {
		t.Errorf("%v\neager: %v", err, eager)
	}
	sameElements(t, "behind an error", x.Exp().Tanh().Take(0, good).Add(1), take.Call(x, good)[0])
	if err := d.Synchronize(); err != nil {
		t.Error(err)
	}
}

// TestNotRecorded says why a program is not recorded.
func TestNotRecorded(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 0)[0]
	big := 5 << 20 // elements
	for why, run := range map[string]func() *locus.Compiled{
		"not recorded: 2 steps are not worth it": func() *locus.Compiled {
			c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Exp().Sum()} })
			for range 4 {
				c.Call(d.Ones(5))
			}
			return c
		},
		"not recorded: each run would copy 20971520 bytes of results": func() *locus.Compiled {
			c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].CumSum(0).Neg().CumSum(0)} })
			x := d.Ones(big)
			for range 4 {
				c.Call(x)[0].Free()
			}
			return c
		},
		"that lie elsewhere at each call": func() *locus.Compiled {
			c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].CumSum(0).Neg().Sum()} })
			x, y := d.Ones(big), d.Ones(big)
			for range 4 {
				c.Call(x)
				c.Call(y)
			}
			return c
		},
		"not recorded: variables or arguments lay elsewhere too often": func() *locus.Compiled {
			c, w, _, _ := recordedStep(d)
			x := d.Ones(4)
			var keep []*locus.Tensor
			for range 30 {
				w.t = d.Ones(4)
				keep = append(keep, w.t)
				c.Call(x)
			}
			runtime.KeepAlive(keep)
			return c
		},
		"not recorded: the device works at once": func() *locus.Compiled {
			c, _, _, _ := recordedStep(locus.CPU())
			for range 4 {
				c.Call(locus.Ones(4))
			}
			return c
		},
	} {
		c := run()
		isCompiled(t, c)
		if !strings.Contains(c.Explain(), why) {
			t.Errorf("%q is not in\n%s", why, c.Explain())
		}
	}
}

// TestPlanGoroutines runs programs at the same time, which share an arena.
func TestPlanGoroutines(t *testing.T) {
	for _, d := range compileDevices() {
		w := d.Key(locus.NewKey(1)).Randn(8, 8)
		var wg sync.WaitGroup
		shared := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			return []*locus.Tensor{a[0].MatMul(w).Tanh().MatMul(w).Softmax(1)}
		})
		for g := range 4 {
			wg.Go(func() {
				f := func(a ...*locus.Tensor) []*locus.Tensor {
					h := a[0].MatMul(w)
					for range g {
						h = h.Tanh().MatMul(w)
					}
					return []*locus.Tensor{h.Softmax(1)}
				}
				own := locus.Compile(f)
				for i := range 100 {
					x := d.Key(locus.NewKey(uint64(g*1000+i))).Randn(3+i%2, 8)
					sameElements(t, "own", f(x)[0], own.Call(x)[0])
					sameElements(t, "shared", x.MatMul(w).Tanh().MatMul(w).Softmax(1), shared.Call(x)[0])
					if i%20 == 7 {
						d.FreeCache()
					}
				}
				isCompiled(t, own)
			})
		}
		wg.Wait()
	}
}
