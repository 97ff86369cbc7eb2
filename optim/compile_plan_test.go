package optim

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/nn"
)

// TestPlannedModes trains networks step by step, planned and recorded: all are equal to
// eager training, to the bit.
func TestPlannedModes(t *testing.T) {
	for _, mode := range []program.Mode{program.Best, program.InPlan, program.Default} {
		defer program.SetMode(program.SetMode(mode))
		for _, d := range testDevices() {
			for _, name := range []string{"convolution", "LSTM", "transformer", "clipped"} {
				t.Run(fmt.Sprint(mode, " ", d, " ", name), func(t *testing.T) {
					f := compareTraining(t, d, func() compared {
						m, loss := nets[name].build()
						o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
						return compared{net: m, opt: o, step: byBackward(o, loss)}
					}, classes(d, nets[name].batch, 5), 7, nil)
					compiledNow(t, f)
					recorded := strings.Contains(f.Explain(), "recorded: 1 recordings, ") || strings.Contains(f.Explain(), "recorded: 2 recordings, ")
					if want := mode == program.Best && d != locus.CPU() && name != "convolution"; want && !recorded {
						t.Errorf("not recorded:\n%s", f.Explain())
					}
				})
			}
		}
	}
}

// plannedMLP is the step whose memory PyTorch's is compared with.
func plannedMLP(d locus.Device) (step *locus.Compiled, args []*locus.Tensor) {
	defer locus.SetDefaultDevice(locus.SetDefaultDevice(d))
	m := &twoLayers{nn.Linear(784, 256), nn.Linear(256, 10)}
	return locus.Compile(byBackward(SGD(nn.Parameters(m), 0.01, SGDOptions{}), m.loss)), classes(d, []int{256, 784}, 10)(0)
}

// TestPlannedPeak: PyTorch's step takes 2,694,000 bytes at its peak.
func TestPlannedPeak(t *testing.T) {
	for _, d := range testDevices() {
		d.Collect()
		before := d.MemoryStats().InUse
		step, args := plannedMLP(d)
		for range 5 {
			step.Call(args...)[0].Free()
		}
		d.Collect()
		d.FreeCache()
		if err := d.Synchronize(); err != nil {
			t.Fatal(err)
		}
		d.ResetPeak()
		for range 5 {
			step.Call(args...)[0].Free()
		}
		peak := d.MemoryStats().Peak - before
		t.Logf("%s: %d bytes", d, peak)
		if peak > 2694000*101/100 {
			t.Errorf("%s: the peak is %d bytes; PyTorch's is 2694000\n%s", d, peak, step.Explain())
		}
		runtime.KeepAlive(step)
	}
}

// TestPlannedHandles: what a program writes over is freed for whoever has a handle of
// it, as behind an eager step, and is never seen to change.
func TestPlannedHandles(t *testing.T) {
	for _, d := range testDevices() {
		old := locus.SetDefaultDevice(d)
		m := newConvNet()
		o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
		c := locus.Compile(byBackward(o, m.loss))
		batch := classes(d, []int{6, 2, 8, 8}, 5)
		values := func(x *locus.Tensor) []float32 { return locus.ToSlice[float32](x.Detach()) }
		first := m.L.Weight.Value()
		start := values(first)
		for i := range 12 {
			weight, mean := m.L.Weight.Value(), m.N.RunningMean.Value()
			was := values(mean)
			slot := o.slots[0][0]
			c.Call(batch(i)...)
			if i > 0 {
				for name, x := range map[string]*locus.Tensor{"a parameter's": weight, "an optimizer's": slot} {
					if err := locus.Try(func() { x.Add(1) }); !errors.Is(err, locus.ErrFreed) {
						t.Errorf("call %d: %s old value can be used: %v", i, name, err)
					}
				}
			}
			if now := values(mean); fmt.Sprint(now) != fmt.Sprint(was) {
				t.Errorf("call %d: a handle of a buffer's value shows %v, before %v", i, now, was)
			}
			if same := values(m.N.RunningMean.Value()); fmt.Sprint(same) == fmt.Sprint(was) {
				t.Errorf("call %d: the running mean does not move", i)
			}
		}
		if now := values(first); fmt.Sprint(now) != fmt.Sprint(start) {
			t.Error("the value from before training has changed")
		}
		compiledNow(t, c)
		if !strings.Contains(c.Explain(), "variables updated in place") {
			t.Error(c.Explain())
		}
		locus.SetDefaultDevice(old)
	}
}

// TestPlannedBuffers: buffers that nobody looks at are updated in place, and a program
// with them is replayed.
func TestPlannedBuffers(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 0)[0]
	defer locus.SetDefaultDevice(locus.SetDefaultDevice(d))
	m := newConvNet()
	o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
	c := locus.Compile(byBackward(o, m.loss))
	x := classes(d, []int{6, 2, 8, 8}, 5)(0)
	for range 10 {
		c.Call(x...)[0].Free()
	}
	if e := c.Explain(); !strings.Contains(e, "recorded: 1 recordings, 7 replays; each copies 4 bytes") {
		t.Errorf("%s", e)
	}
	for range 3 { // a look at a buffer moves it once
		m.N.RunningVar.Value()
		for range 5 {
			c.Call(x...)[0].Free()
		}
	}
	if e := c.Explain(); !strings.Contains(e, "recorded: 4 recordings, 16 replays") {
		t.Errorf("%s", e)
	}
}

// TestPlannedBuffersSeen: buffers that somebody looks at all the time are copied.
func TestPlannedBuffersSeen(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 0)[0]
	f := compareTraining(t, d, func() compared { // it looks at everything
		m := newConvNet()
		o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
		return compared{net: m, opt: o, step: byBackward(o, m.loss)}
	}, func(int) []*locus.Tensor { return classes(d, []int{6, 2, 8, 8}, 5)(0) }, 40, nil)
	if e := summary(f); !strings.Contains(e, "18 variables updated in place") || !strings.Contains(e, "  recorded: 2 recordings, ") {
		t.Error(e)
	}
}

// TestPlannedReaders looks at parameters and buffers from other goroutines while a
// program updates them in place.
func TestPlannedReaders(t *testing.T) {
	for _, d := range testDevices() {
		m := newConvNet()
		nn.To(m, d)
		o := SGD(nn.Parameters(m), 0.01, SGDOptions{Momentum: 0.9})
		c := locus.Compile(byBackward(o, m.loss))
		batch := classes(d, []int{6, 2, 8, 8}, 5)
		var readers, trainer sync.WaitGroup
		done := make(chan struct{})
		for range 3 {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					v := m.N.RunningVar.Value() // it may be kept
					a, b := v.Sum().Item(), v.Sum().Item()
					if a != b {
						t.Errorf("a value changed from %v to %v", a, b)
					}
					var sum float64
					err := locus.Try(func() { sum = m.L.Weight.Value().Detach().Sum().Item() })
					if err != nil && !errors.Is(err, locus.ErrFreed) {
						t.Error(err)
					}
					_ = sum
				}
			})
		}
		trainer.Go(func() {
			for i := range 100 {
				c.Call(batch(i % 4)...)[0].Free()
			}
		})
		trainer.Wait()
		close(done)
		readers.Wait()
		compiledNow(t, c)
	}
}

// TestPlannedReplays: memory, goroutines and handles are the same behind many replays.
// LOCUS_REPLAYS sets how many.
func TestPlannedReplays(t *testing.T) {
	n := 3000
	if s := os.Getenv("LOCUS_REPLAYS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range testDevices() {
		old := locus.SetDefaultDevice(d)
		m := newConvNet()
		c := locus.Compile(byBackward(AdamW(nn.Parameters(m), 1e-3, AdamOptions{}), m.loss))
		batch := classes(d, []int{6, 2, 8, 8}, 5)
		batches := [][]*locus.Tensor{batch(0), batch(1), batch(2)} // at different addresses
		heap := func() uint64 {
			runtime.GC()
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return s.HeapAlloc
		}
		var early locus.MemoryStats
		var before uint64
		goroutines := 0
		for i := range n {
			locus.Scoped(func(s *locus.Scope) { c.Call(s.Use(batches[i%3][0]), batches[i%3][1]) }) // nothing is left to the collector
			if i == n/10 {
				if err := d.Synchronize(); err != nil {
					t.Fatal(err)
				}
				d.Collect()
				d.ResetPeak()
				early, before, goroutines = d.MemoryStats(), heap(), runtime.NumGoroutine()
			}
		}
		if err := d.Synchronize(); err != nil {
			t.Fatal(err)
		}
		d.Collect()
		late, after := d.MemoryStats(), heap()
		if late.InUse > early.InUse+64<<10 || late.Peak > early.Peak+2<<20 || late.Cached > early.Cached+256<<10 || after > before+2<<20 {
			t.Errorf("%d replays: %d and %d bytes of heap\n%s\n%s", n, before, after, early, late)
		}
		// After a collection every device's pool sweeps in a goroutine that soon ends.
		for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines+2; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d replays: %d goroutines became %d\n%s", n, goroutines, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
			}
		}
		compiledNow(t, c)
		if d != locus.CPU() && !strings.Contains(c.Explain(), "recorded: ") {
			t.Error(c.Explain())
		}
		locus.SetDefaultDevice(old)
	}
}

// BenchmarkReplay reports what a replay of a small program takes the caller: the median
// of many. On a virtual GPU the work itself is done by another goroutine.
func BenchmarkReplay(b *testing.B) {
	for _, d := range append(testDevices(), cards()...) {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			defer locus.SetDefaultDevice(locus.SetDefaultDevice(d))
			m := &twoLayers{nn.Linear(8, 16), nn.Linear(16, 10)}
			c := locus.Compile(byBackward(SGD(nn.Parameters(m), 0.01, SGDOptions{}), m.loss))
			x := classes(d, []int{8, 8}, 10)(0)
			for range 5 {
				c.Call(x...)
			}
			b.ReportAllocs()
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				c.Call(x...)
				times = append(times, time.Since(start))
				if err := d.Synchronize(); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2]), "ns/call")
		})
	}
}
