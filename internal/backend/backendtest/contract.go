package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

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

// rig is a device with its pool, and shorthands that fail the test.
type rig struct {
	t    *testing.T
	dev  backend.Device
	pool *memory.Pool
}

func (s *suite) rig(t *testing.T) *rig { return &rig{t, s.dev, s.pool} }

func (s *suite) another(t *testing.T) *rig {
	dev := s.open()
	return &rig{t, dev, memory.NewPool(dev)}
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// alloc returns a block that is freed when the test ends.
func (r *rig) alloc(size int) *memory.Block {
	r.t.Helper()
	b, err := r.pool.Allocate(size, label)
	r.ok(err)
	r.t.Cleanup(func() { b.Free() })
	return b
}

func (r *rig) put(data []byte) *memory.Block {
	r.t.Helper()
	b := r.alloc(len(data))
	r.ok(r.dev.CopyIn(b, data, func() {}))
	return b
}

func (r *rig) get(b *memory.Block, offset, n int) []byte {
	r.t.Helper()
	got := make([]byte, n)
	r.ok(r.dev.CopyOut(got, b, offset))
	return got
}

func repeated(n int, v float64) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		sample.PutFloat(dtype.Float32, b, i, v)
	}
	return b
}

// vector is a contiguous view of n elements.
func vector(b *memory.Block, d dtype.DType, n int) backend.View {
	return backend.View{Block: b, Shape: []int{n}, Strides: []int{1}, DType: d}
}

func scalar32(n int, v float32) backend.View {
	return backend.View{Bits: uint64(math.Float32bits(v)), Shape: []int{n}, Strides: []int{0}, DType: dtype.Float32}
}

// plus queues out = in + v over n float32 elements.
func (r *rig) plus(out, in *memory.Block, n int, v float32) {
	r.t.Helper()
	r.ok(r.dev.Run(&backend.Call{Op: op.Add, In: []backend.View{vector(in, dtype.Float32, n), scalar32(n, v)}, Out: vector(out, dtype.Float32, n)}))
}

// bump queues b += v, by way of other memory: results have their own.
func (r *rig) bump(b *memory.Block, n int, v float32) {
	r.t.Helper()
	tmp := r.alloc(4 * n)
	r.plus(tmp, b, n, v)
	r.ok(r.dev.Run(&backend.Call{Op: op.Copy, In: []backend.View{vector(tmp, dtype.Float32, n)}, Out: vector(b, dtype.Float32, n)}))
	tmp.Free()
}

func (r *rig) want(b *memory.Block, n int, v float64) {
	r.t.Helper()
	got := r.get(b, 0, 4*n)
	for i := range n {
		if x := sample.GetFloat(dtype.Float32, got, i); x != v {
			r.t.Fatalf("element %d is %v, want %v", i, x, v)
		}
	}
}

func (s *suite) testInfo(t *testing.T) {
	i := s.dev.Info()
	if i.Name == "" || i.Backing == "" {
		t.Errorf("Info says too little: %+v", i)
	}
	if total, free := s.dev.Memory(); free < 0 || total < 0 || free > total {
		t.Errorf("Memory gives %d total, %d free", total, free)
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

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*31 + byte(i>>8) + seed
	}
	return b
}

func (s *suite) testCopies(t *testing.T) {
	r := s.rig(t)
	for _, n := range []int{1, 3, 64, 4097, 1 << 20, 10<<20 + 13} {
		want := pattern(n, 1)
		b := r.put(want)
		if !bytes.Equal(r.get(b, 0, n), want) {
			t.Errorf("%d bytes did not come back", n)
		}
		for _, off := range []int{0, 1, n / 2, n - 1} {
			if !bytes.Equal(r.get(b, off, n-off), want[off:]) {
				t.Errorf("%d bytes from offset %d are wrong", n-off, off)
			}
		}
		// A shorter copy leaves the rest as it was.
		head := pattern(n/2, 7)
		r.ok(r.dev.CopyIn(b, head, func() {}))
		if got := r.get(b, 0, n); !bytes.Equal(got[:n/2], head) || !bytes.Equal(got[n/2:], want[n/2:]) {
			t.Errorf("a copy of %d bytes into %d is wrong", n/2, n)
		}
		r.get(b, n, 0) // nothing, at the very end
		b.Free()
	}
}

func (s *suite) testCopyFrom(t *testing.T) {
	a, b := s.rig(t), s.another(t)
	const n = 30000
	src, dst := a.put(repeated(n, 0)), b.put(repeated(n, -1))
	for range 20 {
		a.bump(src, n, 1)
	}
	before := b.alloc(4 * n)
	b.plus(before, dst, n, 0)
	direct, err := b.dev.CopyFrom(dst, a.dev, src, 4*(n-5))
	if err != nil {
		t.Fatal(err)
	}
	a.bump(src, n, 100) // must not be seen
	after := b.alloc(4 * n)
	b.plus(after, dst, n, 0.5)
	b.want(before, n, -1)
	if !direct {
		b.want(dst, n, -1) // it must have done nothing
		t.Logf("no direct copies between two devices of this kind")
		return
	}
	b.want(after, n-5, 20.5)
	if x := sample.GetFloat(dtype.Float32, b.get(dst, 4*(n-1), 4), 0); x != -1 {
		t.Errorf("CopyFrom wrote beyond what was asked: %v", x)
	}
	a.want(src, n, 120)

	// Another kind of device is refused or served, never confused.
	if ok, err := b.dev.CopyFrom(dst, stranger{}, src, 4); ok || err != nil {
		t.Errorf("CopyFrom a device it cannot know gave %v, %v", ok, err)
	}
}

// stranger is a device of a kind that no backend knows.
type stranger struct{ backend.Device }

// Two devices that copy from each other at the same time must not wait for
// each other for ever.
func (s *suite) testCopyFromBothWays(t *testing.T) {
	a, b := s.rig(t), s.another(t)
	const n = 4096
	mine, theirs := a.put(repeated(n, 3)), b.put(repeated(n, 3))
	inA, inB := a.alloc(4*n), b.alloc(4*n)
	if ok, err := b.dev.CopyFrom(inB, a.dev, mine, 4*n); err != nil || !ok {
		t.Logf("no direct copies between two devices of this kind (%v)", err)
		return
	}
	done := make(chan error, 1)
	go func() {
		done <- together(2, func(i int) error {
			for range 200 {
				var err error
				if i == 0 {
					_, err = a.dev.CopyFrom(inA, b.dev, theirs, 4*n)
				} else {
					_, err = b.dev.CopyFrom(inB, a.dev, mine, 4*n)
				}
				if err != nil {
					return err
				}
			}
			return errors.Join(a.dev.Synchronize(), b.dev.Synchronize())
		})
	}()
	select {
	case err := <-done:
		a.ok(err)
	case <-time.After(60 * time.Second):
		t.Fatal("two devices that copy from each other hang")
	}
	a.want(inA, n, 3)
	b.want(inB, n, 3)
}

// CopyIn calls release exactly once, and does not read src after it.
func (s *suite) testRelease(t *testing.T) {
	r := s.rig(t)
	for _, n := range []int{0, 1, 100, 1 << 16, 3 << 20} {
		var released atomic.Int32
		src, b := pattern(n, 3), r.alloc(n+1)
		r.ok(r.dev.CopyIn(b, src, func() {
			released.Add(1)
			clear(src) // too late to matter
		}))
		r.ok(r.dev.Synchronize())
		deadline := time.Now().Add(10 * time.Second)
		for released.Load() == 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if !bytes.Equal(r.get(b, 0, n), pattern(n, 3)) {
			t.Errorf("%d bytes: src was read after release", n)
		}
		if k := released.Load(); k != 1 {
			t.Errorf("%d bytes: release was called %d times", n, k)
		}
	}
}

// pinned returns memory of the device's Pinner that is freed when the test ends, and
// ordinary memory of devices that are none.
func (r *rig) pinned(n int) []byte {
	r.t.Helper()
	p, ok := r.dev.(backend.Pinner)
	if !ok {
		return make([]byte, n)
	}
	g, err := p.Pinned().Allocate(n)
	r.ok(err)
	if g.Ptr == nil || g.Size < n {
		r.t.Fatalf("page-locked memory: %+v", g)
	}
	r.t.Cleanup(func() { p.Pinned().Free(g) })
	return unsafe.Slice((*byte)(g.Ptr), n)
}

// Page-locked memory is copied from and to like any other, and is not read after
// release.
func (s *suite) testPinned(t *testing.T) {
	r := s.rig(t)
	for _, n := range []int{1, 1000, 1 << 16, 1<<16 + 1, 3<<20 + 5} {
		src, dst := r.pinned(n), r.pinned(n+7)
		want := pattern(n, 9)
		copy(src, want)
		b := r.alloc(n)
		released := make(chan struct{})
		r.ok(r.dev.CopyIn(b, src, func() {
			clear(src) // too late to matter
			close(released)
		}))
		r.ok(r.dev.CopyOut(dst[7:], b, 0))
		if !bytes.Equal(dst[7:], want) {
			t.Errorf("%d bytes came back wrong", n)
		}
		if !bytes.Equal(r.get(b, n/2, n-n/2), want[n/2:]) {
			t.Errorf("%d bytes from the middle came back wrong", n)
		}
		select {
		case <-released:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d bytes were never released", n)
		}
	}
}

// Copies to the device may run beside kernels, but never before those that use the
// memory's old contents, nor after those that use the new; also where the memory
// was freed meanwhile and belongs to another block.
func (s *suite) testCopiesBesideKernels(t *testing.T) {
	r := s.rig(t)
	const n = 1 << 18
	src := make([][]byte, 4)
	for i := range src {
		src[i] = r.pinned(4 * n)
		copy(src[i], repeated(n, float64(i)))
	}
	busy := r.put(repeated(n, 0))
	var sums []*memory.Block
	for i := range 60 {
		k := i % len(src)
		r.bump(busy, n, 1)
		x, err := r.pool.Allocate(4*n, label)
		r.ok(err)
		r.ok(r.dev.CopyIn(x, src[k], nil))
		if i%3 == 0 { // freed while it is on its way; the next takes its memory
			x.Free()
			x, err = r.pool.Allocate(4*n, label)
			r.ok(err)
			r.plus(x, busy, n, 0)
			r.plus(r.alloc(4*n), x, n, 0)
			out := r.alloc(4 * n)
			r.plus(out, x, n, float32(-i-1+k))
			sums = append(sums, out)
		} else {
			r.bump(busy, n, 0)
			out := r.alloc(4 * n)
			r.plus(out, x, n, 0)
			sums = append(sums, out)
		}
		x.Free()
	}
	for i, out := range sums {
		r.want(out, n, float64(i%len(src)))
	}
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
			t.Errorf("Allocate(%d) gave %d bytes at %#x", n, g.Size, address)
		}
		s.dev.Free(g)
	}
}

func (s *suite) testOutOfMemory(t *testing.T) {
	r := s.rig(t)
	total, _ := s.dev.Memory()
	if total == 0 {
		t.Skip("the device does not know how much memory it has")
	}
	for range 3 {
		if _, err := s.dev.Allocate(int(total) + 1); !errors.Is(err, memory.ErrExhausted) {
			t.Fatalf("asking for more than there is gave %v, want memory.ErrExhausted", err)
		}
	}
	var e *memory.Exhausted
	if _, err := s.pool.Allocate(int(total)+1, label); !errors.As(err, &e) {
		t.Fatalf("through the pool: %v", err)
	}
	a := r.put(repeated(100, 1))
	r.bump(a, 100, 1)
	r.want(a, 100, 2) // and it goes on
}

// badCall is a call that fails because of its data, found only when it runs.
func (r *rig) badCall(id op.ID, d dtype.DType, bad int64) *backend.Call {
	x := r.put(repeated(6, 1))
	idx := make([]byte, 4*d.Size())
	for i, v := range []int64{0, 5, bad, 2} {
		sample.PutInt(d, idx, i, v)
	}
	c := &backend.Call{Op: id, Attrs: op.Axis{}, In: []backend.View{vector(x, dtype.Float32, 6), vector(r.put(idx), d, 4)}}
	n := 4
	if id == op.ScatterAdd || id == op.Scatter || id == op.IndexAdd {
		c.In = append(c.In, vector(r.put(repeated(4, 1)), dtype.Float32, 4))
		n = 6
	}
	c.Out = vector(r.alloc(4*n), dtype.Float32, n)
	return c
}

// Failures that depend on the data come out once, name their op, and leave
// the device in order.
func (s *suite) testFailure(t *testing.T) {
	for _, id := range []op.ID{op.Take, op.Gather, op.ScatterAdd, op.Scatter, op.IndexAdd} {
		if !s.dev.Supports(id, dtype.Float32) {
			continue
		}
		for _, d := range dtype.Indices.List() {
			for _, bad := range []int64{6, -1, math.MinInt32} {
				for _, wait := range []string{"Synchronize", "CopyOut"} {
					t.Run(fmt.Sprintf("%s %s %d %s", id, d, bad, wait), func(t *testing.T) {
						s.oneFailure(&rig{t, s.dev, s.pool}, id, d, bad, wait)
					})
				}
			}
		}
	}
	r := s.rig(t)
	first, second := r.badCall(op.Take, dtype.Int64, 6), r.badCall(op.Gather, dtype.Int64, 6)
	if err := r.dev.Run(first); err != nil {
		return // a synchronous device reports each from Run
	}
	errs := []error{r.dev.Run(second), r.dev.Synchronize(), r.dev.Synchronize()}
	var async *backend.AsyncError
	if errs[0] != nil || !errors.As(errs[1], &async) || async.Op != op.Take || errs[2] != nil {
		t.Errorf("of two failures the first must be reported, once: %v", errs)
	}
}

func (s *suite) oneFailure(r *rig, id op.ID, d dtype.DType, bad int64, wait string) {
	x := r.put(repeated(6, 1))
	err := r.dev.Run(r.badCall(id, d, bad))
	if err == nil {
		r.bump(x, 6, 1) // what is queued behind is not lost
		if wait == "CopyOut" {
			err = r.dev.CopyOut(make([]byte, 4), x, 0)
		} else {
			err = r.dev.Synchronize()
		}
		var async *backend.AsyncError
		if !errors.As(err, &async) {
			r.t.Fatalf("%s gave %v, want an *AsyncError", wait, err)
		}
		if async.Op != id {
			r.t.Errorf("it names %s", async.Op)
		}
	} else {
		r.bump(x, 6, 1)
	}
	if !errors.Is(err, op.ErrIndex) {
		r.t.Errorf("%v is not an op.ErrIndex", err)
	}
	if err := r.dev.Synchronize(); err != nil {
		r.t.Errorf("reported again: %v", err)
	}
	r.want(x, 6, 2)
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
