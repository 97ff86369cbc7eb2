package memory

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// garbage makes n blocks that nothing refers to.
//
//go:noinline
func garbage(t *testing.T, p *Pool, n, size int) {
	for range n {
		allocate(t, p, size).Manage()
	}
}

// What a collection finds is there when it returns: nothing runs later.
func TestWhatACollectionFindsIsThereAtOnce(t *testing.T) {
	for _, size := range []int{100, 1 << 20} {
		p := NewPool(&addresses{})
		kept := allocate(t, p, size)
		kept.Manage()
		garbage(t, p, 2000, size)
		p.collect(always, false)
		s := p.Stats()
		// Pieces of the slab that is being cut stay, and what registers may still hold.
		if most := int64(max(2*class(size), 2*slabSize)); s.InUse > most {
			t.Errorf("blocks of %d: %d bytes in use after a collection, want %d at most", size, s.InUse, most)
		}
		if kept.Freed() || s.Frees == 0 {
			t.Errorf("blocks of %d: %+v", size, s)
		}
		runtime.KeepAlive(kept)
	}
}

// Collections that Go's runtime begins by itself count too.
func TestEveryCollectionCounts(t *testing.T) {
	p := NewPool(&addresses{})
	for round := range 3 { // the sentinel is set again
		garbage(t, p, 20, 1<<20)
		runtime.GC()
		for deadline := time.Now().Add(10 * time.Second); p.Stats().InUse > 1<<20; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %+v", round, p.Stats())
			}
		}
	}
	if n := p.Stats().Collections; n != 0 {
		t.Errorf("the pool asked for %d collections", n)
	}
}

func TestManageAndUnmanage(t *testing.T) {
	p := NewPool(&addresses{})
	blocks := make([]*Block, 100)
	for i := range blocks {
		blocks[i] = allocate(t, p, 8192)
		blocks[i].Manage()
		blocks[i].Manage() // counts once
	}
	for i, b := range blocks {
		switch i % 3 {
		case 0:
			b.Unmanage()
			b.Unmanage()
		case 1:
			b.Free()
		}
	}
	if p.managed != 33*8192 || len(p.watching) != 33 {
		t.Errorf("%d bytes, %d blocks watched", p.managed, len(p.watching))
	}
	for i, w := range p.watching {
		if w.large.at != i || w.block.Value() == nil || w.block.Value().large.Load() != w.large {
			t.Errorf("block %d is at %d", i, w.large.at)
		}
	}
	clear(blocks) // those that are managed no more live until Free, so nobody finds them
	p.Collect()
	if s := p.Stats(); s.InUse != 34*8192 || p.managed != 0 {
		t.Errorf("%+v, %d bytes managed", s, p.managed)
	}
}

// What takes a block's memory over is watched in its place.
func TestTakenBlocksAreWatched(t *testing.T) {
	p := NewPool(&addresses{})
	b := allocate(t, p, 1<<20)
	b.Manage()
	n, ok := b.Take()
	if !ok {
		t.Fatal("not taken")
	}
	b = nil
	p.Collect()
	if s := p.Stats(); s.InUse != 1<<20 {
		t.Fatalf("the memory of a block in use was taken back: %+v", s)
	}
	runtime.KeepAlive(n)
	n = nil
	p.Collect()
	if s := p.Stats(); s.InUse != 0 {
		t.Errorf("%+v", s)
	}
}

// Blocks come and go while a collection looks through them.
func TestSweepBesideOthers(t *testing.T) {
	p := NewPool(&addresses{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var kept []*Block
			for i := range 3000 {
				b, err := p.Allocate(5000+i%7*1000, label)
				if err != nil {
					t.Error(err)
					return
				}
				b.Manage()
				switch {
				case i%3 == g%3:
					kept = append(kept, b)
				case i%5 == 0:
					b.Free()
				}
				if len(kept) > 50 {
					kept[i%50].Free()
					kept[i%50] = kept[50]
					kept = kept[:50]
				}
			}
			for _, b := range kept {
				if b.Freed() {
					t.Error("a block that is kept was freed")
				}
				b.Free()
			}
		})
	}
	for range 20 {
		p.collect(always, false)
	}
	wg.Wait()
	p.Collect()
	if s := p.Stats(); s.InUse != 0 || s.Allocations != s.Frees || p.managed != 0 || len(p.watching) != 0 {
		t.Errorf("%+v, %d bytes managed", s, p.managed)
	}
}

// joined counts the calls of Join.
type joined struct{ n int }

func (j *joined) Join() { j.n++ }

// Memory that something is being copied to is reused behind the copy.
func TestGarbageJoinsItsArrival(t *testing.T) {
	p := NewPool(&addresses{})
	j := new(joined)
	func() {
		b := allocate(t, p, 1<<20)
		b.SetArrival(j)
		b.Manage()
	}()
	p.Collect()
	if s := p.Stats(); j.n != 1 || s.InUse != 0 {
		t.Errorf("joined %d times, %+v", j.n, s)
	}
}

// What is dropped is collected early, and a program that wants memory waits for it.
func TestDroppedMemoryIsReused(t *testing.T) {
	p := NewPool(&addresses{})
	alive := allocate(t, p, 400<<20)
	alive.Manage()
	p.Collect()
	func() {
		var step []*Block
		for range 15 { // 60 MB: a collection is not due
			b := allocate(t, p, 4<<20)
			b.Manage()
			step = append(step, b)
		}
		if p.overdue() {
			t.Fatal("overdue before anything was dropped")
		}
		Drop(step) // less than a quarter of what is alive
		if p.overdue() {
			t.Fatal("overdue although little was dropped")
		}
		Drop(step) // as if it were more
	}()
	before := p.Stats().Allocations
	garbage(t, p, 15, 4<<20)
	if s := p.Stats(); s.Peak > 400<<20+64<<20 || s.Allocations != before+15 || s.Collections < 2 {
		t.Errorf("%+v", s)
	}
	runtime.KeepAlive(alive)
}

// More garbage is allowed where waiting leaves the device without work, and less again
// where it does not.
func TestSlackFollowsTheCostOfWaiting(t *testing.T) {
	p := NewPool(&addresses{})
	p.settled = 1 << 30
	now := time.Now()
	wait := func(every, took time.Duration, dry bool) float64 {
		now = now.Add(every)
		p.adapt(now.Add(-took), now, dry)
		return float64(p.allowed()) / float64(p.settled)
	}
	for range 10 {
		if got := wait(time.Millisecond, 300*time.Microsecond, false); got != slackMin {
			t.Fatalf("%v allowed while the device works", got)
		}
	}
	for range 10 {
		if got := wait(time.Second, 300*time.Microsecond, true); got != slackMin {
			t.Fatalf("%v allowed although waiting is rare", got)
		}
	}
	last := slackMin
	for range 10 {
		got := wait(time.Millisecond, 300*time.Microsecond, true)
		if got < last || got > slackMax {
			t.Fatalf("from %v to %v", last, got)
		}
		last = got
	}
	if last != slackMax {
		t.Errorf("%v allowed where the device runs dry", last)
	}
	for range 1000 {
		last = wait(time.Millisecond, 300*time.Microsecond, false)
	}
	if last != slackMin {
		t.Errorf("%v allowed long after", last)
	}
	if s := p.Stats(); s.Waited != 1030*300*time.Microsecond {
		t.Errorf("waited %v", s.Waited)
	}
}
