package locus_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
)

// Pinned memory of the tests is that of virtual GPUs, where there is no other.
func pinDevice(t *testing.T) locus.Device {
	t.Helper()
	if locus.NumGPUs() == 0 {
		return locus.AddVirtualGPUs(1, 256<<20)[0]
	}
	return locus.GPU()
}

func TestPin(t *testing.T) {
	gpu := pinDevice(t)
	x := locus.CPU().Arange(100_000).Reshape(100, 1000)
	if x.IsPinned() {
		t.Fatal("a tensor is page-locked that nobody asked to be")
	}
	p := x.Pin()
	if !p.IsPinned() || p.Device() != locus.CPU() || p.SharesMemory(x) {
		t.Fatalf("Pin gave %v on %s, page-locked %v", p.Shape(), p.Device(), p.IsPinned())
	}
	if p.Pin() != p {
		t.Error("pinning twice copies twice")
	}
	if p.To(locus.CPU()) != p {
		t.Error("it is on the CPU already")
	}
	for name, v := range map[string]*locus.Tensor{"a view": p.Narrow(0, 10, 20), "a transposed view": p.Transpose(0, 1)} {
		if !v.IsPinned() {
			t.Errorf("%s is not page-locked", name)
		}
	}
	if s := p.Add(x); s.IsPinned() || !equal(s, x.Mul(2)) { // ops take it as they take any
		t.Error("adding it to another is wrong")
	}
	for name, v := range map[string]*locus.Tensor{"all": x, "transposed": x.Transpose(0, 1), "rows": x.Narrow(0, 10, 20), "one": x.Narrow(0, 3, 4).Narrow(1, 5, 6), "none": x.Narrow(0, 5, 5)} {
		pv := v.Pin()
		if !pv.IsPinned() || !equal(pv, v) {
			t.Errorf("%s: pinned it differs", name)
		}
		on := pv.To(gpu)
		pv.Free() // the copy goes on
		if back := on.Pin(); !back.IsPinned() || back.Device() != locus.CPU() || !equal(back, v) {
			t.Errorf("%s: there and back it differs", name)
		}
	}
}

func equal(a, b *locus.Tensor) bool {
	x, y := locus.ToSlice[int64](a), locus.ToSlice[int64](b)
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return len(x) == len(y)
}

// Pinned memory is freed, counted, kept and given back like any other.
func TestPinnedMemoryIsCounted(t *testing.T) {
	pinDevice(t)
	cpu := locus.CPU()
	stats := func() locus.PinnedStats { return cpu.MemoryStats().Pinned }
	cpu.Collect()
	cpu.FreeCache()
	before, plain := stats(), cpu.MemoryStats().InUse
	const size = 1 << 20
	x := cpu.Ones(size / 4)
	var p *locus.Tensor
	locus.Scoped(func(s *locus.Scope) {
		p = s.Use(x).Pin()
		if got := stats(); got.InUse != before.InUse+size || got.Peak < got.InUse {
			t.Errorf("a pinned tensor counts as %+v after %+v", got, before)
		}
		if got := cpu.MemoryStats().InUse; got != plain+size {
			t.Errorf("ordinary memory: %d after %d", got, plain)
		}
	})
	if !p.Freed() {
		t.Error("its scope has ended")
	}
	if got := stats(); got.InUse != before.InUse || got.Cached != before.Cached+size {
		t.Errorf("after the scope: %+v after %+v", got, before)
	}
	cpu.FreeCache()
	if got := stats(); got.Cached != 0 {
		t.Errorf("kept after FreeCache: %+v", got)
	}
	for range 100 { // left to the collector
		x.Pin()
	}
	cpu.Collect()
	if got := stats(); got.InUse > before.InUse+2*size {
		t.Errorf("the collector leaves %+v", got)
	}
}

// The memory of a pinned tensor that is freed at once is not used again before
// the GPU has read it.
func TestFreedPinnedMemoryIsReadFirst(t *testing.T) {
	gpu := pinDevice(t)
	const n = 1 << 18
	gpuWork := gpu.Rand(500, 500)
	var got []*locus.Tensor
	for i := range 20 {
		gpuWork = gpuWork.MatMul(gpuWork).Tanh() // the copies wait behind it
		p := locus.CPU().Full(float64(i), n).Pin()
		got = append(got, p.To(gpu))
		p.Free()
	}
	for i, x := range got {
		if min, max := x.Min().Item(), x.Max().Item(); min != float64(i) || max != float64(i) {
			t.Fatalf("copy %d holds numbers from %v to %v", i, min, max)
		}
	}
}

func TestPinFromManyGoroutines(t *testing.T) {
	gpu := pinDevice(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				v := float64(100*g + i)
				p := locus.CPU().Full(v, 50_000+g).Pin()
				x := p.To(gpu)
				p.Free()
				y := x.Add(1).Pin()
				x.Free()
				locus.WithSlice(y, func(s []float32) {
					if s[0] != float32(v+1) || s[len(s)-1] != float32(v+1) {
						t.Errorf("%v came back as %v", v+1, s[0])
					}
				})
				y.Free()
			}
		})
	}
	wg.Wait()
}

func TestPinIsCountedAsATransferFromTheGPUOnly(t *testing.T) {
	gpu := pinDevice(t)
	x := locus.CPU().Ones(1000)
	locus.ResetLedger()
	p := x.Pin()
	if n := locus.Ledger().Count(); n != 0 {
		t.Errorf("%d transfers within main memory", n)
	}
	y := p.To(gpu)
	y.Pin()
	locus.WithSlice(y, func([]float32) {})
	l := locus.Ledger()
	if l.Count(locus.HostToDevice) != 1 || l.Count(locus.DeviceToHost) != 2 || l.Bytes() != 3*4000 {
		t.Errorf("the ledger:\n%v", l)
	}
	defer locus.Guard(locus.Disallow, locus.DeviceToHost)()
	if err := locus.Try(func() { y.Pin() }); !errors.Is(err, locus.ErrTransfer) {
		t.Errorf("the guard let it pass: %v", err)
	}
}

func TestGradientsFlowThroughPin(t *testing.T) {
	gpu := pinDevice(t)
	for _, d := range []locus.Device{locus.CPU(), gpu} {
		x := d.From([]float32{1, 2, 3})
		w := x.RequireGrad()
		grads := locus.Grad([]*locus.Tensor{w.Pin().Square().Sum()}, []*locus.Tensor{w})
		if got := locus.ToSlice[float32](grads[0]); got[2] != 6 || grads[0].Device() != d {
			t.Errorf("on %s: %v on %s", d, got, grads[0].Device())
		}
	}
}

func TestWithSlice(t *testing.T) {
	gpu := pinDevice(t)
	x := locus.CPU().From([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	for name, c := range map[string]struct {
		t    *locus.Tensor
		want []float32
	}{
		"main memory": {x, []float32{1, 2, 3, 4, 5, 6}},
		"a view":      {x.Narrow(0, 1, 2), []float32{4, 5, 6}},
		"transposed":  {x.Transpose(0, 1), []float32{1, 4, 2, 5, 3, 6}},
		"pinned":      {x.Pin(), []float32{1, 2, 3, 4, 5, 6}},
		"a GPU":       {x.To(gpu), []float32{1, 2, 3, 4, 5, 6}},
		"none":        {x.Narrow(0, 1, 1), nil},
	} {
		called := 0
		locus.WithSlice(c.t, func(s []float32) {
			called++
			if len(s) != len(c.want) {
				t.Fatalf("%s: %v", name, s)
			}
			for i := range s {
				if s[i] != c.want[i] {
					t.Errorf("%s: %v, want %v", name, s, c.want)
				}
			}
		})
		if called != 1 {
			t.Errorf("%s: called %d times", name, called)
		}
	}
	if n := testing.AllocsPerRun(10, func() { locus.WithSlice(x, func([]float32) {}) }); n > 2 {
		t.Errorf("reading in place allocates %v times", n)
	}
	if err := locus.Try(func() { locus.WithSlice(x, func([]float64) {}) }); !errors.Is(err, locus.ErrDType) {
		t.Errorf("the wrong type gave %v", err)
	}
	locus.WithSlice(x, func(s []float32) {
		x.Free() // by somebody else, meanwhile
		locus.CPU().Full(9, 2, 3)
		if s[5] != 6 {
			t.Error("the memory was used again while it was read")
		}
	})
}

// A copy to the GPU from pinned memory does not make the program wait for what is
// queued there.
func TestCopyFromPinnedMemoryDoesNotWait(t *testing.T) {
	gpu := pinDevice(t)
	p := locus.CPU().Ones(1 << 20).Pin()
	gpu.Ones(1 << 20).Free() // room in the cache: asking the driver for memory may wait
	x := gpu.Rand(700, 700)
	for try := 1; ; try++ {
		for range 20 {
			x = x.MatMul(x).Tanh()
		}
		start := time.Now()
		y := p.To(gpu)
		queued := time.Since(start)
		if err := gpu.Synchronize(); err != nil {
			t.Fatal(err)
		}
		all := time.Since(start)
		if y.Sum().Item() != 1<<20 {
			t.Error("it did not arrive")
		}
		if queued <= all/2+time.Millisecond {
			break
		}
		if try == 10 { // a busy machine takes long now and then, a copy that waits takes long each time
			t.Fatalf("queueing took %v of %v", queued, all)
		}
		y.Free()
	}
}
