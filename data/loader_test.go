package data

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus"
)

// counting returns n examples: x is (i, -i), y is i.
func counting(t testing.TB, d locus.Device, n int) *TensorDataset {
	t.Helper()
	x, y := make([]float32, 2*n), make([]int64, n)
	for i := range n {
		x[2*i], x[2*i+1], y[i] = float32(i), -float32(i), int64(i)
	}
	ds, err := NewTensorDataset(d.From(x, n, 2), d.From(y))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// labels runs through an epoch and returns the labels of its batches, having made
// sure that each input belongs to its label.
func labels(t testing.TB, l *Loader, epoch, start int) [][]int64 {
	t.Helper()
	var all [][]int64
	for b, err := range l.EpochFrom(epoch, start) {
		if err != nil {
			t.Fatal(err)
		}
		y := locus.ToSlice[int64](b.Y())
		x := locus.ToSlice[float32](b.X())
		for i, v := range y {
			if x[2*i] != float32(v) || x[2*i+1] != -float32(v) {
				t.Fatalf("example %d has the input %v", v, x[2*i:2*i+2])
			}
		}
		if b.Size != len(y) || b.Epoch != epoch || b.Index != start+len(all) {
			t.Fatalf("%+v", b)
		}
		all = append(all, y)
	}
	return all
}

var virtualGPU = sync.OnceValue(func() locus.Device { return locus.AddVirtualGPUs(1, 256<<20)[0] })

func mustLoad(t testing.TB, d Dataset, opt Options) *Loader {
	t.Helper()
	l, err := NewLoader(d, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLoaderInOrder(t *testing.T) {
	d := counting(t, locus.CPU(), 10)
	for _, c := range []struct {
		drop bool
		want [][]int64
	}{
		{false, [][]int64{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}},
		{true, [][]int64{{0, 1, 2, 3}, {4, 5, 6, 7}}},
	} {
		l := mustLoad(t, d, Options{BatchSize: 4, DropLast: c.drop})
		if got := labels(t, l, 0, 0); fmt.Sprint(got) != fmt.Sprint(c.want) || l.Len() != len(c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// The batches depend on the key and the epoch alone: not on the number of
// workers, on the device, or on whether the epoch was run through from its start.
func TestLoaderIsDeterministic(t *testing.T) {
	key := locus.NewKey(1)
	want := map[int]string{}
	gpu := virtualGPU()
	for _, opt := range []Options{{}, {Workers: 4}, {Workers: 3, Prefetch: 10}, {Device: gpu, Workers: 4}, {Prefetch: 1}} {
		opt.BatchSize, opt.Shuffle, opt.Key = 7, true, key
		l := mustLoad(t, counting(t, locus.CPU(), 100), opt)
		for epoch := range 3 {
			got := labels(t, l, epoch, 0)
			var flat []int64
			for _, b := range got {
				flat = append(flat, b...)
			}
			if slices.Sort(flat); len(flat) != 100 || flat[0] != 0 || flat[99] != 99 || len(slices.Compact(flat)) != 100 {
				t.Fatalf("not every example once: %v", flat)
			}
			text := fmt.Sprint(got)
			if want[epoch] == "" {
				want[epoch] = text
			}
			if text != want[epoch] {
				t.Errorf("%+v, epoch %d: %s, want %s", opt, epoch, text, want[epoch])
			}
			for start := range l.Len() + 1 {
				if rest := labels(t, l, epoch, start); fmt.Sprint(rest) != fmt.Sprint(got[start:]) {
					t.Errorf("from batch %d on: %v, want %v", start, rest, got[start:])
				}
			}
		}
	}
	if want[0] == want[1] || want[1] == want[2] || want[0] == fmt.Sprint(labels(t, mustLoad(t, counting(t, locus.CPU(), 100), Options{BatchSize: 7}), 0, 0)) {
		t.Error("the order does not change")
	}
	other := mustLoad(t, counting(t, locus.CPU(), 100), Options{BatchSize: 7, Shuffle: true, Key: locus.NewKey(2)})
	if fmt.Sprint(labels(t, other, 0, 0)) == want[0] {
		t.Error("another key gives the same order")
	}
}

// What a dataset draws is another in every batch and epoch, and the same in
// every run, whatever the number of workers and wherever it goes on.
func TestRandomTransformsAreDeterministic(t *testing.T) {
	d := Map(counting(t, locus.CPU(), 12), func(b []*locus.Tensor, key locus.Key) []*locus.Tensor {
		return []*locus.Tensor{locus.CPU().Key(key).As(locus.Float64).Rand(1)}
	})
	drawn := map[float64]bool{}
	want := map[[2]int]float64{}
	for _, workers := range []int{1, 3} {
		l := mustLoad(t, d, Options{BatchSize: 4, Workers: workers, Key: locus.NewKey(1)})
		for epoch := range 3 {
			for start := range 3 {
				for b, err := range l.EpochFrom(epoch, start) {
					if err != nil {
						t.Fatal(err)
					}
					v, at := b.X().Item(), [2]int{epoch, b.Index}
					if w, ok := want[at]; ok && w != v {
						t.Errorf("batch %v: %v, before %v", at, v, w)
					}
					want[at] = v
					drawn[v] = true
				}
			}
		}
	}
	if len(drawn) != 9 {
		t.Errorf("%d draws in 9 batches", len(drawn))
	}
}

// Batches that take longer than those behind them still come first.
func TestBatchesComeInOrder(t *testing.T) {
	var running, most atomic.Int32
	d := Map(counting(t, locus.CPU(), 64), func(b []*locus.Tensor, _ locus.Key) []*locus.Tensor {
		now := running.Add(1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		if first := b[1].Narrow(0, 0, 1).Int(); first/4%2 == 0 {
			time.Sleep(3 * time.Millisecond)
		}
		running.Add(-1)
		return b
	})
	l := mustLoad(t, d, Options{BatchSize: 4, Workers: 4})
	var flat []int64
	for _, b := range labels(t, l, 0, 0) {
		flat = append(flat, b...)
	}
	if !slices.IsSorted(flat) || len(flat) != 64 {
		t.Error(flat)
	}
	if most.Load() < 2 {
		t.Error("the workers did not work at the same time")
	}
}

// Batches are made ahead of the loop, but not further than asked for.
func TestPrefetchIsBounded(t *testing.T) {
	var made atomic.Int32
	d := Map(counting(t, locus.CPU(), 100), func(b []*locus.Tensor, _ locus.Key) []*locus.Tensor {
		made.Add(1)
		return b
	})
	l := mustLoad(t, d, Options{BatchSize: 1, Prefetch: 3})
	for b, err := range l.Epoch(0) {
		if err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(20 * time.Second)
		for made.Load() < int32(b.Index+1+3) && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		time.Sleep(time.Millisecond)
		if ahead := made.Load() - int32(b.Index+1); ahead < 3 || ahead > 4 {
			t.Errorf("%d batches ahead at %d", ahead, b.Index)
		}
		if b.Index == 10 {
			break
		}
	}
}

func TestLoaderDevices(t *testing.T) {
	gpu := virtualGPU()
	for b, err := range mustLoad(t, counting(t, locus.CPU(), 8), Options{BatchSize: 4, Device: gpu}).Epoch(0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.X().Device() != gpu || b.Y().Device() != gpu {
			t.Errorf("on %s and %s", b.X().Device(), b.Y().Device())
		}
	}
	moved, err := mustLoad(t, counting(t, locus.CPU(), 8), Options{BatchSize: 4}).With(func(o *Options) { o.Device = gpu })
	if err != nil || moved.Options().Device != gpu || moved.Options().BatchSize != 4 || moved.Options().Workers != 1 {
		t.Errorf("%+v %v", moved.Options(), err)
	}
	// A dataset on the GPU stays there: no transfer of examples at all, whatever
	// the guard says of one from device to host.
	defer locus.Guard(locus.Disallow, locus.DeviceToHost, locus.DeviceToDevice)()
	for b, err := range mustLoad(t, counting(t, gpu, 8), Options{BatchSize: 4, Shuffle: true}).Epoch(0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.X().Device() != gpu {
			t.Errorf("on %s", b.X().Device())
		}
	}
	other := locus.AddVirtualGPUs(1, 1<<20)[0]
	for _, err := range mustLoad(t, counting(t, gpu, 8), Options{BatchSize: 4, Device: other}).Epoch(0) {
		if !errors.Is(err, locus.ErrDevice) {
			t.Errorf("%v", err)
		}
	}
}

// Batches that are large enough go to a GPU from page-locked memory, each once, and
// leave nothing locked behind.
func TestBatchesArePinned(t *testing.T) {
	gpu := virtualGPU()
	cpu := locus.CPU()
	const n, width, size = 40, 30_000, 10 // 1.2 MB a batch
	x := cpu.Arange(n).Cast(locus.Float32).Reshape(n, 1).Add(cpu.Zeros(n, width))
	d, err := NewTensorDataset(x, cpu.Arange(n))
	if err != nil {
		t.Fatal(err)
	}
	cpu.Collect()
	cpu.ResetPeak()
	before := cpu.MemoryStats().Pinned
	for _, workers := range []int{1, 3} {
		l := mustLoad(t, d, Options{BatchSize: size, Shuffle: true, Device: gpu, Workers: workers})
		locus.ResetLedger()
		for b, err := range l.Epoch(0) {
			if err != nil {
				t.Fatal(err)
			}
			if b.X().Device() != gpu {
				t.Fatalf("a batch is on %s", b.X().Device())
			}
			if !slices.Equal(locus.ToSlice[float32](b.X().Mean(1)), locus.ToSlice[float32](b.Y().Cast(locus.Float32))) {
				t.Error("inputs and labels do not belong together")
			}
			b.Free()
		}
		moved := locus.Ledger()
		if got := moved.Count(locus.HostToDevice); got != 2*n/size {
			t.Errorf("%d copies to the device, want one per field", got)
		}
		if got := moved.Bytes(locus.HostToDevice); got != n*width*4+n*8 {
			t.Errorf("%d bytes were copied to the device", got)
		}
	}
	if err := gpu.Synchronize(); err != nil {
		t.Fatal(err)
	}
	after := cpu.MemoryStats().Pinned
	if after.Peak < before.InUse+size*width*4 {
		t.Errorf("page-locked memory was not used: %+v after %+v", after, before)
	}
	if after.InUse != before.InUse {
		t.Errorf("%d bytes stay locked in use, %d before", after.InUse, before.InUse)
	}
}

func TestLoaderErrors(t *testing.T) {
	empty, err := NewTensorDataset(locus.CPU().Zeros(0, 2))
	if err != nil {
		t.Fatal(err)
	}
	d := counting(t, locus.CPU(), 10)
	for name, c := range map[string]struct {
		d    Dataset
		opt  Options
		says string
	}{
		"empty":            {empty, Options{BatchSize: 1}, "empty"},
		"no batch size":    {d, Options{}, "BatchSize"},
		"batch too large":  {d, Options{BatchSize: 11}, "batches of 11 from 10 examples"},
		"negative workers": {d, Options{BatchSize: 1, Workers: -1}, "workers"},
		"no such device":   {d, Options{BatchSize: 1, Device: locus.GPU(1000)}, "gpu:1000"},
	} {
		if _, err := NewLoader(c.d, c.opt); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := mustLoad(t, d, Options{BatchSize: 4})
	for _, at := range [][2]int{{0, 4}, {0, -1}, {-1, 0}} {
		n := 0
		for _, err := range l.EpochFrom(at[0], at[1]) {
			if !errors.Is(err, locus.ErrIndex) {
				t.Errorf("%v: %v", at, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%v: %d times", at, n)
		}
	}
}

// An error ends the loop at its batch, with those before it delivered.
func TestErrorsSurface(t *testing.T) {
	bad := errors.New("no such file")
	for name, fail := range map[string]func(b []*locus.Tensor) error{
		"error": func([]*locus.Tensor) error { return bad },
		"tensor misuse": func(b []*locus.Tensor) error {
			b[0].Add(locus.CPU().Zeros(7, 7))
			return nil
		},
	} {
		d := &failing{counting(t, locus.CPU(), 40), 22, fail}
		for _, workers := range []int{1, 4} {
			n := 0
			var last error
			for b, err := range mustLoad(t, d, Options{BatchSize: 4, Workers: workers}).Epoch(2) {
				if last = err; err == nil {
					if b.Index != n {
						t.Errorf("batch %d at %d", b.Index, n)
					}
					n++
				}
			}
			if n != 5 || last == nil || !strings.Contains(last.Error(), "batch 5 of epoch 2") {
				t.Errorf("%s: %d batches, then %v", name, n, last)
			}
			if !errors.Is(last, bad) && !errors.Is(last, locus.ErrShape) {
				t.Errorf("%s: %v", name, last)
			}
		}
	}
}

type failing struct {
	Dataset
	at   int
	fail func([]*locus.Tensor) error
}

func (f *failing) Batch(at []int, key locus.Key) ([]*locus.Tensor, error) {
	b, err := f.Dataset.Batch(at, key)
	if err == nil && slices.Contains(at, f.at) {
		err = f.fail(b)
	}
	return b, err
}

// A panic in a transform, and the end of the worker's goroutine, reach the loop as
// an error.
func TestPanicsReachTheLoop(t *testing.T) {
	for want, f := range map[string]func(){"a bug": func() { panic("a bug") }, "Goexit": runtime.Goexit} {
		d := Map(counting(t, locus.CPU(), 8), func([]*locus.Tensor, locus.Key) []*locus.Tensor { f(); return nil })
		n := 0
		for b, err := range mustLoad(t, d, Options{BatchSize: 4}).Epoch(0) {
			if n++; b != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "batch 0 of epoch 0") {
				t.Errorf("%v, %v", b, err)
			}
		}
		if n != 1 {
			t.Errorf("the loop ran %d times", n)
		}
	}
}

// No goroutine and no batch is left behind, however the loop ends.
func TestNothingIsLeftBehind(t *testing.T) {
	d := counting(t, locus.CPU(), 4096)
	gpu := virtualGPU()
	labels(t, mustLoad(t, d, Options{BatchSize: 64, Device: gpu, Shuffle: true}), 0, 0) // starts what stays
	before := runtime.NumGoroutine()
	for i := range 50 {
		l := mustLoad(t, d, Options{BatchSize: 64, Workers: 4, Prefetch: 8, Device: gpu, Shuffle: true})
		func() {
			defer func() { recover() }()
			for b, err := range l.Epoch(i) {
				if err != nil {
					t.Fatal(err)
				}
				if b.Index == i%10 {
					if i%2 == 0 {
						break
					}
					panic("in the loop")
				}
			}
		}()
	}
	for range 2000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func TestLoopsAtTheSameTime(t *testing.T) {
	l := mustLoad(t, counting(t, locus.CPU(), 200), Options{BatchSize: 8, Workers: 2, Shuffle: true})
	want := fmt.Sprint(labels(t, l, 3, 0))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := fmt.Sprint(labels(t, l, 3, 0)); got != want {
				t.Error("the loops disturb each other")
			}
		})
	}
	wg.Wait()
}

// Memory stays flat over a loop that frees its batches, and undelivered batches
// are freed when the loop breaks.
func TestLoaderMemory(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 8<<20)[0]
	x := locus.CPU().Zeros(64, 16<<10) // 64 KiB an example
	d, err := NewTensorDataset(x)
	if err != nil {
		t.Fatal(err)
	}
	l := mustLoad(t, d, Options{BatchSize: 8, Device: gpu, Workers: 2, Prefetch: 4, Shuffle: true})
	host := locus.CPU().MemoryStats().InUse
	defer func() {
		// What was copied to the device is not kept on the host as well.
		if err := gpu.Synchronize(); err != nil {
			t.Fatal(err)
		}
		if grown := locus.CPU().MemoryStats().InUse - host; grown > 64<<10 {
			t.Errorf("%d bytes stay on the host", grown)
		}
	}()
	for epoch := range 5 {
		for b, err := range l.Epoch(epoch) {
			if err != nil {
				t.Fatal(err)
			}
			b.Free()
			if b.Index == 3+epoch%2 {
				break
			}
		}
		if s := gpu.MemoryStats(); s.InUse != 0 {
			t.Fatalf("epoch %d: %v", epoch, s)
		}
	}
}

func BenchmarkLoader(b *testing.B) {
	d, err := NewTensorDataset(locus.CPU().As(locus.Uint8).Zeros(60000, 1, 28, 28), locus.CPU().As(locus.Int64).Zeros(60000))
	if err != nil {
		b.Fatal(err)
	}
	l := mustLoad(b, Map(d, fromBytes), Options{BatchSize: 256, Shuffle: true})
	n := 0
	b.ResetTimer()
	for epoch := 0; n < b.N; epoch++ {
		for batch, err := range l.Epoch(epoch) {
			if err != nil {
				b.Fatal(err)
			}
			batch.Free()
			if n++; n == b.N {
				break
			}
		}
	}
	b.SetBytes(256 * 784)
}

// The parts of ranks are those of one loader's batches, one after the other, whatever the
// number of ranks.
func TestLoaderOfRanks(t *testing.T) {
	x := locus.Arange(33)
	set, err := NewTensorDataset(x)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{BatchSize: 8, Shuffle: true, Key: locus.NewKey(3)}
	whole, err := NewLoader(set, opt)
	if err != nil {
		t.Fatal(err)
	}
	for ranks := 1; ranks <= 5; ranks++ {
		parts := make([][][]int64, whole.Len())
		for rank := range ranks {
			opt.Rank, opt.Ranks = rank, ranks
			l, err := NewLoader(set, opt)
			if err != nil {
				t.Fatal(err)
			}
			for b, err := range l.Epoch(2) {
				if err != nil {
					t.Fatal(err)
				}
				var part []int64
				if b.Size > 0 {
					part = locus.ToSlice[int64](b.X())
				} else if b.Fields != nil {
					t.Error("an empty part has fields")
				}
				if len(part) != b.Size || b.Whole != min(8, 33-8*b.Index) {
					t.Errorf("%d of %d examples, %v", b.Size, b.Whole, part)
				}
				parts[b.Index] = append(parts[b.Index], part)
			}
		}
		for b, err := range whole.Epoch(2) {
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Concat(parts[b.Index]...); !slices.Equal(got, locus.ToSlice[int64](b.X())) || len(parts[b.Index]) != ranks {
				t.Errorf("%d ranks: batch %d is %v, want %v", ranks, b.Index, parts[b.Index], b.X())
			}
		}
	}
	for _, wrong := range [][2]int{{-1, 2}, {2, 2}, {1, 0}, {0, -1}} {
		opt.Rank, opt.Ranks = wrong[0], wrong[1]
		if _, err := NewLoader(set, opt); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("rank %d of %d: %v", wrong[0], wrong[1], err)
		}
	}
}
