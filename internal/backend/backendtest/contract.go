package backendtest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

func (s *suite) testContract(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(*testing.T)
	}{
		{"Info", s.testInfo},
		{"Order", s.testOrder},
		{"Reuse", s.testReuse},
		{"CopyInOut", s.testCopies},
		{"CopyFrom", s.testCopyFrom},
		{"CopyFromBothWays", s.testCopyFromBothWays},
		{"Release", s.testRelease},
		{"Pinned", s.testPinned},
		{"CopiesBesideKernels", s.testCopiesBesideKernels},
		{"Regions", s.testRegions},
		{"OutOfMemory", s.testOutOfMemory},
		{"Failure", s.testFailure},
		{"Events", s.testEvents},
		{"Recording", s.testRecording},
		{"Goroutines", s.testGoroutines},
		{"NoLeak", s.testNoLeak},
	} {
		t.Run(c.name, c.f)
	}
}

func (s *suite) testInfo(t *testing.T) {
	i := s.dev.Info()
	if i.Name == "" || i.Backing == "" {
		t.Errorf("Info says too little: %+v", i)
	}
	if total, free := s.dev.Memory(); free < 0 || total < 0 || free > total {
		t.Errorf("Memory returned %d total, %d free", total, free)
	}
}

// What is queued runs in the order of the calls, copies included.
func (s *suite) testOrder(t *testing.T) {
	r := s.rig(t)
	const n = 1000
	a, b := r.put(repeated(n, 0)), r.alloc(4*n)
	for range 300 {
		r.plus(b, a, n, 1)
		r.plus(a, b, n, 1)
	}
	r.want(a, n, 600)

	// A copy in waits for what still reads the old contents, and what follows sees the new.
	var outs []*memory.Block
	for i := range 50 {
		r.ok(r.dev.CopyIn(a, repeated(n, float64(i)), func() {}))
		out := r.alloc(4 * n)
		r.plus(out, a, n, 0.5)
		outs = append(outs, out)
	}
	for i, out := range outs {
		r.want(out, n, float64(i)+0.5)
	}
}

// Memory that was freed may be used again at once, although work that was
// queued before still uses it.
func (s *suite) testReuse(t *testing.T) {
	r := s.rig(t)
	const n = 5000
	sum := r.put(repeated(n, 0))
	for i := range 100 {
		x, err := r.pool.Allocate(4*n, label)
		r.ok(err)
		r.ok(r.dev.CopyIn(x, repeated(n, float64(i)), func() {}))
		next := r.alloc(4 * n)
		r.ok(r.dev.Run(&backend.Call{Op: op.Add, In: []backend.View{vector(sum, dtype.Float32, n), vector(x, dtype.Float32, n)}, Out: vector(next, dtype.Float32, n)}))
		x.Free()
		sum = next
	}
	r.want(sum, n, 99*100/2)
}

func (s *suite) testRegions(t *testing.T) {
	for _, n := range []int{1, 63, 64, 1000, 1 << 16, 5<<20 + 1} {
		g, err := s.dev.Allocate(n)
		if err != nil {
			t.Fatal(err)
		}
		address := uintptr(g.Ptr)
		if g.Ptr == nil {
			address = g.Addr
		}
		if g.Size < n || address == 0 || address%64 != 0 || g.Ptr != nil && g.Addr != 0 && uintptr(g.Ptr) != g.Addr {
			t.Errorf("Allocate(%d) returned %d bytes at %#x", n, g.Size, address)
		}
		s.dev.Free(g)
	}
}

func (s *suite) testEvents(t *testing.T) {
	r := s.rig(t)
	const n = 1 << 16
	a := r.put(repeated(n, 0))
	r.ok(r.dev.Synchronize())
	var events []backend.Event
	for range 10 {
		events = append(events, r.dev.Record())
		for range 5 {
			r.bump(a, n, 1)
		}
	}
	last := r.dev.Record()
	last.Wait()
	if !last.Done() {
		t.Error("an event that was waited for is not done")
	}
	total := time.Duration(0)
	for i, e := range append(events[1:], last) {
		if !events[i].Done() {
			t.Errorf("event %d is not done although a later one is", i)
		}
		d := e.Since(events[i])
		if d < 0 {
			t.Errorf("event %d is %v after event %d", i+1, d, i)
		}
		total += d
	}
	if whole := last.Since(events[0]); whole < 0 || (total-whole).Abs() > whole/2+time.Millisecond {
		t.Errorf("the parts took %v, the whole %v", total, whole)
	}
	r.want(a, n, 50)
	e := r.dev.Record()
	r.ok(r.dev.Synchronize())
	if !e.Done() {
		t.Error("an event is not done after Synchronize")
	}
}

// Any goroutine may use the device; each sees its own calls in order.
func (s *suite) testGoroutines(t *testing.T) {
	ids := []op.ID{op.Add, op.Exp, op.Sum, op.MatMul, op.Take, op.Copy, op.RandNormal, op.Where}
	err := together(len(ids), func(g int) error {
		for k := range ids {
			id := ids[(g+k)%len(ids)]
			if !s.dev.Supports(id, dtype.Float32) {
				continue
			}
			for _, c := range sample.Of(id, dtype.Float32) {
				if c.Big && k != 0 || thinned(c) {
					continue
				}
				if err := s.try(s.dev, s.pool, c); err != nil {
					return fmt.Errorf("%s: %w", c, err)
				}
			}
		}
		return s.dev.Synchronize()
	})
	if err != nil {
		t.Error(err)
	}
}

// Opening, using and dropping devices leaves no goroutines behind.
func (s *suite) testNoLeak(t *testing.T) {
	use := func() {
		r := s.another(t)
		a := r.put(repeated(1<<17, 1))
		r.bump(a, 1<<17, 1)
		r.want(a, 1<<17, 2)
		r.ok(r.dev.Synchronize())
		a.Free()
	}
	use() // a process-wide helper may start once
	settle := func(limit int) int {
		deadline := time.Now().Add(5 * time.Second)
		for runtime.NumGoroutine() > limit && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		return runtime.NumGoroutine()
	}
	time.Sleep(20 * time.Millisecond)
	before := runtime.NumGoroutine()
	for range 10 {
		use()
	}
	if after := settle(before + 2); after > before+2 {
		t.Errorf("%d goroutines before, %d after opening and using ten devices", before, after)
	}
}
