package virtual

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/backend/backendtest"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

func TestConformance(t *testing.T) {
	var n atomic.Int32
	backendtest.Run(t, func() backend.Device { return New(int(n.Add(1)-1), 1<<28) })
}

func label() memory.Label { return memory.Label{DType: "float32", Shape: "test"} }

func view(b *memory.Block, n int) backend.View {
	return backend.View{Block: b, Shape: []int{n}, Strides: []int{1}, DType: dtype.Float32}
}

// adder returns a call that adds two blocks of n elements into a third.
func adder(t testing.TB, d *Device, n int) *backend.Call {
	p := memory.NewPool(d)
	var v [3]backend.View
	for i := range v {
		b, err := p.Allocate(4*n, label)
		if err != nil {
			t.Fatal(err)
		}
		v[i] = view(b, n)
	}
	return &backend.Call{Op: op.Add, In: v[:2], Out: v[2]}
}

func TestInfoAndDefaults(t *testing.T) {
	d := New(3, 0)
	if i := d.Info(); i.Kind != backend.GPU || i.Name != "virtual GPU 3" || i.Backing != "host memory" {
		t.Errorf("%+v", i)
	}
	if total, free := d.Memory(); total != DefaultMemory || free != DefaultMemory {
		t.Errorf("%d of %d", free, total)
	}
}

func TestMemoryLimit(t *testing.T) {
	const limit = 1 << 20
	d := New(0, limit)
	var all []memory.Region
	for {
		r, err := d.Allocate(100 << 10)
		if errors.Is(err, memory.ErrExhausted) {
			break
		}
		if err != nil || len(all) > 20 {
			t.Fatal(len(all), err)
		}
		all = append(all, r)
	}
	if _, free := d.Memory(); len(all) != 10 || free != limit-10*100<<10 {
		t.Errorf("%d regions, %d bytes free", len(all), free)
	}
	for _, r := range all {
		d.Free(r)
	}
	r, err := d.Allocate(limit) // to the last byte
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Allocate(1); !errors.Is(err, memory.ErrExhausted) {
		t.Errorf("one byte more: %v", err)
	}
	d.Free(r)
	if _, free := d.Memory(); free != limit {
		t.Errorf("%d bytes free in the end", free)
	}
}

// Queued work runs behind the caller's back.
func TestRunReturnsAtOnce(t *testing.T) {
	d := New(0, 0)
	c := adder(t, d, 4)
	hold := make(chan struct{})
	d.stream.enqueue(task{f: func() { <-hold }})
	if err := d.Run(c); err != nil {
		t.Fatal(err)
	}
	e := d.Record()
	if e.Done() {
		t.Error("done while the device is held up")
	}
	close(hold)
	if e.Wait(); !e.Done() {
		t.Error("not done after Wait")
	}
}

func TestDelay(t *testing.T) {
	d := New(0, 0)
	c := adder(t, d, 4)
	const delay, n = 2 * time.Millisecond, 5
	d.SetDelay(delay)
	first := d.Record()
	for range n {
		if err := d.Run(c); err != nil {
			t.Fatal(err)
		}
	}
	last := d.Record()
	if err := d.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if took := last.Since(first); took < n*delay {
		t.Errorf("%d ops of %v took %v", n, delay, took)
	}
}

// A producer that is faster than the device waits.
func TestQueueIsBounded(t *testing.T) {
	d := New(0, 0)
	c := adder(t, d, 4)
	hold := make(chan struct{})
	d.stream.enqueue(task{f: func() { <-hold }})
	queued := make(chan int, 1)
	var count atomic.Int32
	go func() {
		for range 3 * depth {
			if err := d.Run(c); err != nil {
				t.Error(err)
			}
			count.Add(1)
		}
		queued <- int(count.Load())
	}()
	deadline := time.Now().Add(10 * time.Second)
	for count.Load() < depth-1 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if n := count.Load(); n != depth-1 {
		t.Errorf("%d ops were queued behind one that hangs, want %d", n, depth-1)
	}
	close(hold)
	if n := <-queued; n != 3*depth {
		t.Errorf("%d were queued in the end", n)
	}
	if err := d.Synchronize(); err != nil {
		t.Error(err)
	}
}

// Several devices that copy in circles, from many goroutines, with full queues.
func TestCopiesInCirclesDoNotBlock(t *testing.T) {
	const devices, rounds, size = 3, 400, 256
	devs := make([]*Device, devices)
	blocks := make([][2]*memory.Block, devices)
	for i := range devs {
		devs[i] = New(i, 0)
		p := memory.NewPool(devs[i])
		for k := range 2 {
			b, err := p.Allocate(size, label)
			if err != nil {
				t.Fatal(err)
			}
			blocks[i][k] = b
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for i := range devices {
			for j := range devices {
				if i == j {
					continue
				}
				wg.Go(func() {
					for range rounds {
						if ok, err := devs[i].CopyFrom(blocks[i][1], devs[j], blocks[j][0], size); !ok || err != nil {
							t.Errorf("copy from %d to %d: %v, %v", j, i, ok, err)
						}
					}
				})
			}
		}
		wg.Wait()
		for _, d := range devs {
			if err := d.Synchronize(); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		buf := make([]byte, 1<<16)
		t.Fatalf("copies in circles hang:\n%s", buf[:runtime.Stack(buf, true)])
	}
}

// A bug in a kernel is the device's failure, not the program's end.
func TestPanickingKernel(t *testing.T) {
	d := New(0, 0)
	c := adder(t, d, 4)
	good := *c
	c.In = c.In[:1]
	if err := d.Run(c); err != nil {
		t.Fatal(err)
	}
	err := d.Synchronize()
	var async *backend.AsyncError
	if !errors.As(err, &async) || async.Op != op.Add || !errors.Is(err, op.ErrDeviceLost) || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(d.Run(&good), d.Synchronize()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestUnsupportedIsReportedAtOnce(t *testing.T) {
	d := New(0, 0)
	c := adder(t, d, 4)
	c.Op = op.Reshape
	if err := d.Run(c); !errors.Is(err, op.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

// An idle device has no goroutine.
func TestIdleDeviceHasNoGoroutine(t *testing.T) {
	d := New(0, 0)
	c := adder(t, d, 4)
	for range 20 {
		if err := errors.Join(d.Run(c), d.Synchronize()); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		d.stream.mu.Lock()
		running := d.stream.running
		d.stream.mu.Unlock()
		if !running {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker does not end")
		}
		time.Sleep(time.Millisecond)
	}
}

// What queueing a small op costs the caller; full queues are drained outside
// the measurement.
func BenchmarkQueue(b *testing.B) {
	d := New(0, 0)
	c := adder(b, d, 6)
	for i := 0; b.Loop(); i++ {
		if i%(depth/2) == 0 {
			b.StopTimer()
			d.Synchronize()
			b.StartTimer()
		}
		if err := d.Run(c); err != nil {
			b.Fatal(err)
		}
	}
}

// An op and the wait for it.
func BenchmarkRunAndWait(b *testing.B) {
	d := New(0, 0)
	c := adder(b, d, 6)
	for b.Loop() {
		if err := errors.Join(d.Run(c), d.Synchronize()); err != nil {
			b.Fatal(err)
		}
	}
}

// A device that is lost says so in every call from then on: first with the op, then without.
func TestLost(t *testing.T) {
	t.Setenv("LOCUS_LOSE_GPU", "3:2")
	other, d := New(2, 0), New(3, 0)
	pool, from := memory.NewPool(d), memory.NewPool(other)
	label := func() memory.Label { return memory.Label{} }
	b, err := pool.Allocate(24, label)
	if err != nil {
		t.Fatal(err)
	}
	src, err := from.Allocate(24, label)
	if err != nil {
		t.Fatal(err)
	}
	call := &backend.Call{Op: op.Full, Attrs: op.Create{DType: dtype.Float32, Shape: op.DimsOf([]int{6})},
		Out: backend.View{Block: b, Shape: []int{6}, Strides: []int{1}, DType: dtype.Float32}}
	rec, err := d.RecordCalls([]*backend.Call{call}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Run(call), d.Synchronize()); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(call); err != nil {
		t.Fatal(err)
	}
	var async *backend.AsyncError
	var lost *backend.LostError
	if err := d.Synchronize(); !errors.As(err, &async) || async.Op != op.Full || !errors.As(err, &lost) || lost.On != d || !errors.Is(err, op.ErrDeviceLost) {
		t.Fatalf("the fault was reported as %v", err)
	}
	released := false
	_, allocate := d.Allocate(10)
	_, out := other.CopyFrom(src, d, b, 24)
	_, in := d.CopyFrom(b, other, src, 24)
	for name, err := range map[string]error{"Run": d.Run(call), "Replay": rec.Replay(), "CopyIn": d.CopyIn(b, []byte{1}, func() { released = true }),
		"CopyOut": d.CopyOut([]byte{1}, b, 0), "Synchronize": d.Synchronize(), "Allocate": allocate, "a copy to it": in, "a copy from it": out} {
		if !errors.Is(err, op.ErrDeviceLost) || errors.As(err, &async) {
			t.Errorf("%s on a lost device gave %v", name, err)
		}
	}
	if !released {
		t.Error("CopyIn keeps what it does not copy")
	}
	d.Record().Wait()
	if err := errors.Join(other.CopyIn(src, make([]byte, 24), nil), other.Synchronize()); err != nil {
		t.Errorf("the other device: %v", err)
	}
}
