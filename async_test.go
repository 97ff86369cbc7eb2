package locus

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus/internal/virtual"
)

// slowGPU adds a virtual GPU on which every op takes a while.
func slowGPU(t *testing.T, delay time.Duration) Device {
	d := AddVirtualGPUs(1, 64<<20)[0]
	d.find().backend.(*virtual.Device).SetDelay(delay)
	return d
}

func TestOpsReturnBeforeTheyRan(t *testing.T) {
	const delay = 20 * time.Millisecond
	d := slowGPU(t, delay)
	var x *Tensor
	for try := 1; ; try++ {
		start := time.Now()
		x = d.Ones(4)
		for range 9 {
			x = x.Add(1)
		}
		queued := time.Since(start)
		if got := x.Sum().Item(); got != 40 {
			t.Error(got)
		}
		if waited := time.Since(start); waited < 10*delay {
			t.Errorf("the result was there after %v", waited)
		}
		if queued <= 5*delay {
			break
		}
		if try == 10 { // a busy machine takes long now and then, ops that wait take long each time
			t.Errorf("queueing 10 ops of %v took %v", delay, queued)
			break
		}
	}
	for name, wait := range map[string]func(){
		"Synchronize": func() { d.Synchronize() }, "Item": func() { x.Index(0).Item() }, "ToSlice": func() { ToSlice[float32](x) }, "String": func() { _ = x.String() },
	} {
		start := time.Now()
		x = x.Add(1)
		wait()
		if time.Since(start) < delay/2 {
			t.Errorf("%s did not wait", name)
		}
	}
}

func TestQueuedFailureSurfacesOnce(t *testing.T) {
	d := slowGPU(t, time.Millisecond)
	x := d.Ones(3)
	waits := map[string]func() error{
		"Synchronize": d.Synchronize,
		"Item":        func() error { return Try(func() { x.Sum().Item() }) },
		"ToSlice":     func() error { return Try(func() { ToSlice[float32](x) }) },
		"To":          func() error { return Try(func() { x.To(CPU()) }) },
	}
	for name, wait := range waits {
		var bad *Tensor
		if err := Try(func() { bad = x.Take(0, d.From([]int{1, 7})) }); err != nil {
			t.Fatalf("%s: the op failed before it ran: %v", name, err)
		}
		bad.Add(1)
		err := wait()
		var e *Error
		if !errors.As(err, &e) || !e.Async || e.Op != "Take" || !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), "7") {
			t.Errorf("%s: %v", name, err)
		}
		if err := wait(); err != nil {
			t.Errorf("%s: it surfaced twice: %v", name, err)
		}
		if got := x.Add(1).Sum().Item(); got != 6 {
			t.Errorf("%s: the device does not go on: %v", name, got)
		}
	}
	// On the CPU it is seen at once.
	if err := Try(func() { Ones(3).Take(0, From([]int{7})) }); !errors.Is(err, ErrIndex) || err.(*Error).Async {
		t.Error(err)
	}
	// Printing shows it rather than crashing.
	x.Take(0, d.From([]int{9}))
	if s := x.String(); !strings.Contains(s, "Take") {
		t.Error(s)
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	Ones(1 << 20).Exp() // the CPU's worker threads stay, one per core
	before := runtime.NumGoroutine()
	for range 5 {
		d := slowGPU(t, 0)
		x := d.Rand(100, 100)
		for range 20 {
			x = x.MatMul(x).Tanh()
		}
		x.To(CPU()).Sum().Item()
		Ones(1 << 20).Exp().Sum().Item()
	}
	deadline := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

func TestVirtualFromEnv(t *testing.T) {
	for s, want := range map[string][2]int64{"": {0, 0}, "2": {2, 0}, "3:512MiB": {3, 512 << 20}, " 1:2GB": {1, 2e9}, "0": {0, 0}} {
		if n, size, err := virtualFromEnv(s); err != nil || int64(n) != want[0] || size != want[1] {
			t.Errorf("%q: %d, %d, %v", s, n, size, err)
		}
	}
	for _, s := range []string{"x", "-1", "2:", "2:x", "2:0", "1e9", "5000"} {
		if _, _, err := virtualFromEnv(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}
