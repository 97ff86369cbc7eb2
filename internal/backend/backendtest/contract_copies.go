package backendtest

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op/sample"
)

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
		t.Errorf("CopyFrom a device it cannot know returned %v, %v", ok, err)
	}
}

// stranger is a device of a kind that no backend knows.
type stranger struct{ backend.Device }

// Two devices that copy from each other at the same time must not wait for each other
// forever.
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
