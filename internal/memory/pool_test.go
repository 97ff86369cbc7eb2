package memory

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// capped is a source with a limit.
type capped struct{ limit, used int64 }

func (c *capped) Allocate(size int) (Region, error) {
	if c.used+int64(size) > c.limit {
		return Region{}, ErrExhausted
	}
	c.used += int64(size)
	return Region{Ptr: unsafe.Pointer(unsafe.SliceData(make([]byte, size))), Size: size}, nil
}
func (c *capped) Free(r Region)          { c.used -= int64(r.Size) }
func (c *capped) Memory() (int64, int64) { return c.limit, c.limit - c.used }

func label() Label { return Label{"float32", "(2, 3)"} }

func allocate(t *testing.T, p *Pool, size int) *Block {
	t.Helper()
	b, err := p.Allocate(size, label)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClassesWasteLittle(t *testing.T) {
	for size := 1; size < 1<<22; size += 1 + size/50 {
		c := class(size)
		if c < size || class(c) != c || size > smallMax && c > size+size/32+1 {
			t.Fatalf("class(%d) = %d", size, c)
		}
	}
}

func TestFreedBlocksAreReused(t *testing.T) {
	for _, size := range []int{1, 100, 4096, 5000, 1 << 20} {
		p := NewPool(&capped{limit: 1 << 30})
		a := allocate(t, p, size)
		ptr := a.Ptr
		if !a.Free() || a.Free() || !a.Freed() {
			t.Fatal("Free must work once")
		}
		if b := allocate(t, p, size); b.Ptr != ptr {
			t.Errorf("size %d: a freed block was not reused", size)
		}
		if s := p.Stats(); s.InUse != int64(class(size)) || s.Allocations != 2 || s.Frees != 1 || s.Cached != 0 {
			t.Errorf("size %d: %+v", size, s)
		}
	}
}

func TestPinnedMemoryIsNotReused(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 30})
	a := allocate(t, p, 8192)
	a.Hold()
	a.Free()
	if b := allocate(t, p, 8192); b.Ptr == a.Ptr {
		t.Fatal("a pinned block was reused")
	}
	a.LetGo()
	if b := allocate(t, p, 8192); b.Ptr != a.Ptr {
		t.Error("an unpinned block was not reused")
	}
}

func TestGarbageIsReclaimedUnderPressure(t *testing.T) {
	for _, size := range []int{512, 100 << 10} {
		p := NewPool(&capped{limit: 1 << 20})
		for range 20 << 20 / size {
			allocate(t, p, size).Manage()
		}
		if s := p.Stats(); s.OutOfMemory != 0 || s.Peak > 1<<20 {
			t.Errorf("size %d: %+v", size, s)
		}
	}
}

func TestExhaustionNamesTheLargest(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 20})
	a := allocate(t, p, 600<<10)
	_, err := p.Allocate(600<<10, label)
	var e *Exhausted
	if !errors.As(err, &e) || !errors.Is(err, ErrExhausted) {
		t.Fatalf("got %v", err)
	}
	if len(e.Largest) != 1 || !strings.Contains(e.Largest[0].Site, "pool_test.go") || e.Free != 1<<20-int64(class(600<<10)) {
		t.Errorf("report %+v", e)
	}
	a.Free()
	allocate(t, p, 600<<10) // and it goes on
	runtime.KeepAlive(a)
}

func BenchmarkAllocateFree(b *testing.B) {
	p := NewPool(&capped{limit: 1 << 30})
	for b.Loop() {
		x, _ := p.Allocate(24, label)
		x.Free()
	}
}

func BenchmarkAllocateDrop(b *testing.B) {
	p := NewPool(&capped{limit: 1 << 30})
	for b.Loop() {
		x, _ := p.Allocate(24, label)
		x.Manage()
	}
}
