package locus

import (
	"testing"

	"github.com/locusml/locus/internal/memory"
)

// withPinned runs f with another source of page-locked memory; nil for none.
func withPinned(t *testing.T, s memory.Source, f func()) {
	t.Helper()
	old := pinned.Load()
	defer func() { pinned.Store(old) }()
	if s != nil {
		pinned.Store(memory.NewPool(s).Pinned())
		f()
		return
	}
	pinned.Store(nil)
	list := machine.gpus.Load()
	defer machine.gpus.Store(list)
	machine.gpus.Store(nil)
	f()
}

// refusing has room for nothing.
type refusing struct{ asked int }

func (r *refusing) Allocate(int) (memory.Region, error) {
	r.asked++
	return memory.Region{}, memory.ErrExhausted
}
func (*refusing) Free(memory.Region)          {}
func (*refusing) Memory() (total, free int64) { return 0, 0 }

func TestPinWithoutGPU(t *testing.T) {
	gpus() // found once; what the test changes stays changed
	x := CPU().From([]float32{1, 2, 3})
	withPinned(t, nil, func() {
		if p := x.Pin(); p != x || p.IsPinned() {
			t.Errorf("without a GPU, Pin gave page-locked %v, the same %v", p.IsPinned(), p == x)
		}
		WithSlice(x, func(s []float32) {
			if len(s) != 3 || s[2] != 3 {
				t.Errorf("read %v", s)
			}
		})
		if s := CPU().MemoryStats(); s.Pinned != (PinnedStats{}) {
			t.Errorf("counted %+v", s.Pinned)
		}
	})
}

// Where no more can be locked, everything works with ordinary memory.
func TestPinFallsBack(t *testing.T) {
	gpu := AddVirtualGPUs(1, 16<<20)[0]
	other := AddVirtualGPUs(1, 16<<20)[0]
	r := &refusing{}
	withPinned(t, r, func() {
		x := CPU().From([]float32{1, 2, 3})
		if p := x.Pin(); p != x {
			t.Error("a tensor that cannot be pinned is another one")
		}
		y := x.To(gpu)
		if p := y.Pin(); p.IsPinned() || p.Device() != CPU() || p.Sum().Item() != 6 {
			t.Errorf("from a GPU: %v", p)
		}
		WithSlice(y, func(s []float32) {
			if s[1] != 2 {
				t.Errorf("read %v", s)
			}
		})
		if y.To(other).Sum().Item() != 6 {
			t.Error("between GPUs")
		}
	})
	if r.asked == 0 {
		t.Error("nobody asked")
	}
}

// Half of the memory may be locked, the rest belongs to everything else.
func TestLockedMemoryHasALimit(t *testing.T) {
	total, _ := machine.cpu.backend.Memory()
	if total == 0 {
		t.Skip("this system does not say how much memory there is")
	}
	l := newLocked(&refusing{})
	if got, free := l.Memory(); got != total/2 || free != got {
		t.Errorf("%d of %d may be locked, %d free", got, total, free)
	}
	l = &locked{Source: machine.cpu.backend, limit: 1000}
	a, err := l.Allocate(600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Allocate(600); err != memory.ErrExhausted {
		t.Errorf("beyond the limit: %v", err)
	}
	l.Free(a)
	if _, err := l.Allocate(600); err != nil {
		t.Errorf("after freeing: %v", err)
	}
}
