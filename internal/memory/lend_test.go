package memory

import (
	"errors"
	"testing"
)

var work = Label{"workspace", "of sort"}

func lend(t *testing.T, p *Pool, size int) Region {
	t.Helper()
	r, err := p.Lend(size, work)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Working memory counts while it is out and is cached afterwards, for tensors too.
func TestLoansAreCounted(t *testing.T) {
	source := &capped{limit: 1 << 30}
	p := NewPool(source)
	if _, ok := p.LendCached(1<<20, work); ok {
		t.Fatal("something was cached in a new pool")
	}
	r := lend(t, p, 1<<20)
	if s := p.Stats(); s.InUse != 1<<20 || s.Peak != 1<<20 || s.Allocations != 1 || s.Cached != 0 {
		t.Errorf("while it is out: %+v", s)
	}
	p.Return(r)
	if s := p.Stats(); s.InUse != 0 || s.Peak != 1<<20 || s.Frees != 1 || s.Cached != 1<<20 {
		t.Errorf("afterwards: %+v", s)
	}
	if again, ok := p.LendCached(1<<20-5, work); !ok || again != r {
		t.Errorf("%+v is lent, not %+v", again, r)
	}
	p.Trim()
	if source.used != 1<<20 {
		t.Error("Trim gave back what was lent")
	}
	p.Return(r)
	if b := allocate(t, p, 1<<20); b.Ptr != r.Ptr || b.Pool() != p {
		t.Error("a tensor does not reuse working memory")
	}
}

// Small loans of any size share one cached region.
func TestSmallLoansShareTheCache(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 30})
	p.Return(lend(t, p, 1))
	for _, size := range []int{1, 100, 5000, lendMin} {
		r, ok := p.LendCached(size, work)
		if !ok || r.Size < size {
			t.Errorf("%d bytes: %+v, %v", size, r, ok)
		}
		p.Return(r)
	}
}

// A loan that does not fit trims the cache and collects garbage first, and then fails
// with a report that names what is lent.
func TestLoansMakeRoom(t *testing.T) {
	p := NewPool(&capped{limit: 4 << 20})
	allocate(t, p, 3<<20).Free() // cached
	p.Return(lend(t, p, 2<<20))
	allocate(t, p, 3<<20).Manage() // garbage
	r := lend(t, p, 2<<20)
	var e *Exhausted
	if _, err := p.Lend(3<<20, Label{"workspace", "of conv2d"}); !errors.As(err, &e) || !errors.Is(err, ErrExhausted) {
		t.Fatalf("got %v", err)
	}
	if e.Label.Shape != "of conv2d" || e.Asked != 3<<20 || len(e.Largest) != 1 || e.Largest[0] != (Holder{work, 2 << 20, ""}) {
		t.Errorf("report %+v", e)
	}
	p.Return(r)
	p.Return(lend(t, p, 3<<20)) // and it goes on
	if s := p.Stats(); s.InUse != 0 || s.OutOfMemory != 1 {
		t.Errorf("%+v", s)
	}
}

func TestLendingMakesNoGarbage(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 30})
	p.Return(lend(t, p, 1<<20))
	if n := testing.AllocsPerRun(100, func() {
		r, _ := p.LendCached(1<<20, work)
		p.Return(r)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What the driver says is the error's text, and can be told apart.
func TestExhaustionKeepsItsCause(t *testing.T) {
	p := NewPool(&capped{limit: 1 << 20})
	cause := errors.New("no room for a kernel")
	err := p.Exhausted(0, work, cause)
	if !errors.Is(err, ErrExhausted) || !errors.Is(err, cause) || err.Error() != cause.Error() {
		t.Errorf("%v", err)
	}
}

func BenchmarkLend(b *testing.B) {
	p := NewPool(&capped{limit: 1 << 30})
	r, _ := p.Lend(1<<20, work)
	p.Return(r)
	for b.Loop() {
		r, _ := p.LendCached(1<<20, work)
		p.Return(r)
	}
}
