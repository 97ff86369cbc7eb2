package locus_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
)

// Fetch waits for what was queued before it, and not for what came later.
func TestFetch(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	x := gpu.Arange(1000).Cast(locus.Float32)
	slow := lend.Backend(x).(*virtual.Device)
	if err := gpu.Synchronize(); err != nil {
		t.Fatal(err)
	}
	slow.SetDelay(20 * time.Millisecond)
	defer slow.SetDelay(0)
	locus.ResetLedger()
	y := x.Mul(2)
	f := y.Fetch()
	y.Free() // the copy has it
	z := x
	for range 100 { // two seconds, in which even a busy machine gets to look
		z = z.Add(1)
	}
	later := slow.Record()
	got := f.Wait()
	if later.Done() {
		t.Error("it has waited for everything")
	}
	slow.SetDelay(0)
	if got.Device() != locus.CPU() || !got.IsPinned() || got != f.Wait() {
		t.Errorf("%v on %s, pinned %v", got, got.Device(), got.IsPinned())
	}
	for i, v := range locus.ToSlice[float32](got) {
		if v != float32(2*i) {
			t.Fatalf("element %d is %v", i, v)
		}
	}
	if l := locus.Ledger(); l.Count(locus.DeviceToHost) != 1 || l.Bytes(locus.DeviceToHost) != 4000 || l.Count(locus.Wait) != 1 {
		t.Errorf("%v", l)
	}
	if v := z.Slice(locus.R(999, 1000)).Item(); v != 1099 {
		t.Errorf("what was queued later is %v", v)
	}
}

func TestFetchOfOthers(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	x := locus.From([][]float32{{1, 2, 3}, {4, 5, 6}})
	if got := x.Fetch().Wait(); got != x {
		t.Error("a tensor in main memory was copied")
	}
	for name, c := range map[string]*locus.Tensor{"rows": x.To(gpu).T(), "a part": x.To(gpu).T().Slice(locus.R(1, 3)), "none": gpu.Zeros(0, 4), "a scalar": gpu.Full(7)} {
		if got, want := c.Fetch().Wait(), c.To(locus.CPU()); !slices.Equal(locus.ToSlice[float32](got), locus.ToSlice[float32](want)) || !slices.Equal(got.Shape(), want.Shape()) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	w := gpu.Ones(3).RequireGrad()
	loss := w.Mul(2).Fetch().Wait().Square().Sum()
	if g := locus.GradOf(loss, w)[0]; g.Device() != gpu || g.Sum().Item() != 24 {
		t.Errorf("the gradient is %v on %s", g, g.Device())
	}
}

// What fails before is what Wait panics with; a guard that forbids waiting leaves it to a
// later call.
func TestFetchFails(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	f := gpu.Ones(3).Take(0, gpu.From([]int64{5})).Fetch()
	for range 2 {
		if err := locus.Try(func() { f.Wait() }); !errors.Is(err, locus.ErrIndex) {
			t.Errorf("%v", err)
		}
	}
	f = gpu.Ones(3).Fetch()
	restore := locus.Guard(locus.Disallow, locus.Wait)
	if err := locus.Try(func() { f.Wait() }); !errors.Is(err, locus.ErrTransfer) {
		t.Errorf("%v", err)
	}
	restore()
	if v := f.Wait().Sum().Item(); v != 3 {
		t.Errorf("%v", v)
	}
	var none locus.Fetched
	if err := locus.Try(func() { none.Wait() }); err == nil {
		t.Error("a zero value is waited for")
	}
	if err := locus.Try(func() {
		locus.Compile(func(x ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{x[0].Fetch().Wait()} }).Call(gpu.Ones(2))
	}); err == nil {
		t.Error("a compiled function fetches")
	}
}

// The copy outlives the scope that the tensor was computed in, and the tensor.
func TestFetchOutlivesScopes(t *testing.T) {
	for _, d := range []locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 0)[0]} {
		for _, n := range []int{0, 1, 1 << 16} {
			var f *locus.Fetched
			x := d.Full(float64(n), n)
			locus.Scoped(func(s *locus.Scope) { f = s.Use(x).Add(1).Fetch() })
			g := x.Fetch()
			if d != locus.CPU() { // there it is its own copy
				x.Free()
			}
			if a, b := f.Wait(), g.Wait(); a.Len() != n || n > 0 && (a.Max().Item() != float64(n)+1 || b.Min().Item() != float64(n)) {
				t.Errorf("%s, %d elements: another copy", d, n)
			}
		}
	}
}
