package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// What is taken keeps its memory, its bytes and the counters; the old handle is freed.
func TestTake(t *testing.T) {
	for _, size := range []int{100, 8192, 1 << 20} {
		for _, managed := range []bool{false, true} {
			p := NewPool(&capped{limit: 1 << 30})
			a := allocate(t, p, size)
			if managed {
				a.Manage()
			}
			before, asked := p.Stats(), p.managed
			b, ok := a.Take()
			if !ok || b.Ptr != a.Ptr || b.Size != a.Size || b.Pool() != p {
				t.Fatalf("%d bytes: %v", size, ok)
			}
			if !a.Freed() || a.Free() || a.TryHold() || b.Freed() {
				t.Errorf("%d bytes: the old handle is still alive, or the new one is not", size)
			}
			if _, again := a.Take(); again {
				t.Error("taken twice")
			}
			if s := p.Stats(); s != before || p.managed != asked {
				t.Errorf("%d bytes: the counters went from %+v to %+v", size, before, s)
			}
			if c := allocate(t, p, size); c.Ptr == b.Ptr {
				t.Error("memory that is in use was handed out")
			}
			if !b.Free() || b.Free() {
				t.Error("Free must work once")
			}
			if c := allocate(t, p, size); c.Ptr != a.Ptr {
				t.Errorf("%d bytes: the memory did not go back", size)
			}
			runtime.KeepAlive(a)
		}
	}
}

// Nothing is taken from readers, from groups, or after Free.
func TestTakeIsRefused(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 30})
	held := allocate(t, p, 8192)
	held.Hold()
	if _, ok := held.Take(); ok {
		t.Error("took a block that is held")
	}
	held.LetGo()
	if _, ok := held.Take(); !ok {
		t.Error("cannot take a block that was let go")
	}
	freed := allocate(t, p, 8192)
	freed.Free()
	if _, ok := freed.Take(); ok {
		t.Error("took a freed block")
	}
	grouped, g := allocate(t, p, 8192), NewGroup()
	g.Add(grouped)
	if _, ok := grouped.Take(); ok {
		t.Error("took a group's block")
	}
	g.Free()
}

// GiveBack makes the old handle the owner again.
func TestGiveBack(t *testing.T) {
	for _, size := range []int{100, 8192} {
		p := NewPool(&capped{limit: 1 << 30})
		a := allocate(t, p, size)
		a.Manage()
		before := p.Stats()
		b, _ := a.Take()
		b.GiveBack(a)
		if a.Freed() || !b.Freed() || !a.TryHold() {
			t.Error("the old handle is not alive again")
		}
		a.LetGo()
		if p.Stats() != before {
			t.Errorf("%+v, then %+v", before, p.Stats())
		}
		if b.Free() || !a.Free() || p.Stats().Frees != 1 {
			t.Error("the memory must go back once, by the old handle")
		}
	}
}

// The collector frees what was taken, once.
func TestTakenMemoryIsCollected(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 30})
	func() {
		for range 50 {
			a := allocate(t, p, 100<<10)
			a.Manage()
			if b, ok := a.Take(); !ok || b.Freed() {
				t.Fatal("not taken")
			}
		}
	}()
	for range 5 {
		p.Collect()
	}
	if s := p.Stats(); s.InUse != 0 || s.Frees != 50 || p.managed != 0 {
		t.Errorf("%+v, %d bytes managed", s, p.managed)
	}
}

// Readers in other goroutines hold the block or find it freed; while one holds it,
// nobody takes it.
func TestTakeBesideReaders(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 30})
	var now atomic.Pointer[Block]
	now.Store(allocate(t, p, 8192))
	var writing atomic.Bool
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if b := now.Load(); b.TryHold() {
					if writing.Load() && now.Load() == b {
						t.Error("a block is held and written")
					}
					b.LetGo()
				}
			}
		})
	}
	taken := 0
	for range 20000 {
		old := now.Load()
		if b, ok := old.Take(); ok {
			taken++
			writing.Store(true)
			if old.TryHold() {
				t.Error("the old handle can be held")
			}
			writing.Store(false)
			now.Store(b)
		}
	}
	close(done)
	wg.Wait()
	if s := p.Stats(); taken == 0 || s.Allocations != 1 || s.Frees != 0 {
		t.Errorf("%d taken; %+v", taken, s)
	}
}
