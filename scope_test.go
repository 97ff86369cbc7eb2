package locus_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/locusml/locus"
)

func TestScopeFreesWhatWasComputedInIt(t *testing.T) {
	for _, d := range places() {
		x := d.Ones(100, 100)
		before := d.MemoryStats().InUse
		s := locus.NewScope()
		u := s.Use(x)
		y := u.Add(1).Exp()
		kept := s.Keep(y.Sum())
		other := x.Add(1) // x itself is in no scope
		s.Close()
		s.Close()
		if !y.Freed() || kept.Freed() || x.Freed() || u.Freed() || other.Freed() {
			t.Errorf("%s: freed: y %v, kept %v, x %v, u %v, other %v", d, y.Freed(), kept.Freed(), x.Freed(), u.Freed(), other.Freed())
		}
		if err := locus.Try(func() { y.Add(1) }); !errors.Is(err, locus.ErrFreed) {
			t.Errorf("%s: %v", d, err)
		}
		kept.Item()
		if kept.Add(u.Index(0, 0)).Scope() != nil {
			t.Error("a closed scope still takes members")
		}
		other.Free()
		kept.Free()
		if after := d.MemoryStats().InUse; after > before+4096 {
			t.Errorf("%s: %d bytes before, %d after", d, before, after)
		}
		x.Free()
	}
}

func TestInnerScopeWins(t *testing.T) {
	outer, inner := locus.NewScope(), locus.NewScope()
	a, b := outer.Use(locus.Ones(3)), inner.Use(locus.Ones(3))
	c := a.Add(b)
	if c.Scope() != inner || a.Mul(2).Scope() != outer {
		t.Error("scopes are wrong")
	}
	inner.Close()
	if !c.Freed() {
		t.Error("c outlived the inner scope")
	}
	outer.Close()
}

func TestAdoptAndMove(t *testing.T) {
	s := locus.NewScope()
	x := s.Adopt(locus.Ones(1000))
	y := x.To(virtualGPUs[0])
	if y.Scope() != s {
		t.Error("a copy left the scope")
	}
	s.Close()
	if !x.Freed() || !y.Freed() {
		t.Error("not freed")
	}
	if err := locus.Try(func() { s.Adopt(locus.Ones(2)) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

func TestScopedClosesOnPanic(t *testing.T) {
	var y *locus.Tensor
	err := locus.Try(func() {
		locus.Scoped(func(s *locus.Scope) {
			y = s.Use(locus.Ones(3)).Add(1)
			y.Add(locus.Ones(4))
		})
	})
	if !errors.Is(err, locus.ErrShape) || !y.Freed() {
		t.Error(err, y.Freed())
	}
}

// The loop of the issue: 10,000 steps of an eager expression in a scope hold
// flat memory on every device.
func TestScopedLoopHoldsFlatMemory(t *testing.T) {
	for _, d := range places() {
		w := d.Rand(64, 64)
		step := func() {
			s := locus.NewScope()
			defer s.Close()
			x := s.Adopt(d.Rand(32, 64))
			x.MatMul(w).Tanh().Add(1).Mul(x).Sum(0).Exp()
		}
		for range 100 {
			step()
		}
		if err := d.Synchronize(); err != nil {
			t.Fatal(err)
		}
		d.ResetPeak()
		before := d.MemoryStats()
		for range 10000 {
			step()
		}
		after := d.MemoryStats()
		if after.Peak > before.Peak+256<<10 || after.InUse > before.InUse+64<<10 {
			t.Errorf("%s: before %v\nafter %v", d, before, after)
		}
		if held := after.InUse + after.Cached; held > before.InUse+before.Cached+256<<10 {
			t.Errorf("%s holds %d bytes more than before", d, held-before.InUse-before.Cached)
		}
	}
}

// Tensors in no scope are reclaimed by the collector before memory runs out.
func TestUnscopedGarbageIsReclaimed(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 4<<20)[0]
	for _, n := range []int{16, 1 << 18} { // small blocks and 1 MiB ones
		x := d.Ones(n)
		for range 40 << 20 / (4 * n) / 4 {
			x = x.Add(1)
		}
	}
	if s := d.MemoryStats(); s.OutOfMemory != 0 || s.Peak > 4<<20 {
		t.Error(s)
	}
}

func TestOutOfMemory(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 4<<20)[0]
	x := d.Ones(3 << 18) // 3 MiB
	var e *locus.Error
	err := locus.Try(func() { x.Add(1) })
	if !errors.As(err, &e) || !errors.Is(err, locus.ErrOutOfMemory) || e.Memory == nil {
		t.Fatal(err)
	}
	m := e.Memory
	if m.Device != d || m.Total != 4<<20 || m.Asked < 3<<20 || m.InUse < 3<<20 || m.Free > 1<<20 || len(m.Largest) == 0 {
		t.Errorf("%+v", m)
	}
	if h := m.Largest[0]; h.Shape != "(786432,)" || h.DType != "float32" {
		t.Errorf("%+v", h)
	}
	t.Log(err)
	if s := d.MemoryStats(); s.OutOfMemory != 1 {
		t.Error(s)
	}
	// Nothing is broken: what fits still works, and so does the rest of the machine.
	if got := x.Sum().Item(); got != 3<<18 {
		t.Error(got)
	}
	x.Free()
	if got := d.Ones(3 << 18).Sum().Item(); got != 3<<18 {
		t.Error(got)
	}
	runtime.KeepAlive(x)
}

func TestScopesInManyGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			d := places()[i%len(places())]
			for range 200 {
				locus.Scoped(func(s *locus.Scope) {
					x := s.Use(d.Full(float64(i), 50))
					if got := x.Add(1).Mul(2).Sum().Item(); got != float64(100*(i+1)) {
						t.Errorf("%d: %v", i, got)
					}
				})
			}
		})
	}
	wg.Wait()
}
