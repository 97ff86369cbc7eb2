package memory

import (
	"errors"
	"testing"
	"time"
)

func lease(t *testing.T, a *Arena, size int) Region {
	t.Helper()
	r, ok, err := a.Lease(size, true, label)
	if err != nil || !ok || r.Size < size {
		t.Fatalf("%d bytes, %v, %v", r.Size, ok, err)
	}
	return r
}

// TestArena checks that programs get the same memory one after the other, that it grows
// without being there twice, and what the counters say.
func TestArena(t *testing.T) {
	source := &capped{limit: 1 << 20}
	p := NewPool(source)
	a := p.Arena()
	first := lease(t, a, 500<<10)
	if s := p.Stats(); s.InUse != 500<<10 || s.Cached != 0 || s.Peak != s.InUse {
		t.Errorf("leased: %+v", s)
	}
	a.Return()
	if s := p.Stats(); s.InUse != 0 || s.Cached != 500<<10 {
		t.Errorf("idle: %+v", s)
	}
	if again := lease(t, a, 1000); again != first {
		t.Error("a smaller program gets other memory")
	}
	p.Trim()
	if source.used != 500<<10 {
		t.Error("memory was taken away from a program")
	}
	a.Return()
	lease(t, a, 900<<10) // both would not fit
	a.Return()
	if s := p.Stats(); source.used != 900<<10 || s.Cached != 900<<10 || s.Peak != 900<<10 {
		t.Errorf("%d bytes taken: %+v", source.used, s)
	}
	p.Trim()
	if s := p.Stats(); source.used != 0 || s.Cached != 0 || s.InUse != 0 {
		t.Errorf("%d bytes taken behind Trim: %+v", source.used, s)
	}
	lease(t, a, 100)
	a.Return()
	// Tensors that find no room get the arena's.
	b, err := p.Allocate(1<<20, label)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Lease(100, true, label); !errors.Is(err, ErrExhausted) {
		t.Errorf("an arena without room: %v", err)
	}
	b.Free()
	lease(t, a, 100) // the lock is free after an error
	a.Return()
}

// TestArenaTurns checks that one program at a time has the arena.
func TestArenaTurns(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 20})
	a := p.Arena()
	lease(t, a, 100)
	if _, ok, err := a.Lease(100, false, label); ok || err != nil {
		t.Errorf("a second program has it too: %v", err)
	}
	got := make(chan struct{})
	go func() {
		lease(t, a, 200)
		close(got)
	}()
	select {
	case <-got:
		t.Error("a second program did not wait")
	case <-time.After(10 * time.Millisecond):
	}
	a.Return()
	<-got
	a.Return()
}

func TestPiece(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 20})
	r := lease(t, p.Arena(), 4096)
	b := p.Piece(r.Slice(256, 512))
	if uintptr(b.Ptr)-uintptr(r.Ptr) != 256 || b.Size != 512 || b.Pool() != p || b.Freed() {
		t.Errorf("%+v of %+v", b.Region, r)
	}
	p.Arena().Return()
}
