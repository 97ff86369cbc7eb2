package backendtest

import (
	"math"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

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

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*31 + byte(i>>8) + seed
	}
	return b
}

// pinned returns page-locked memory that is freed when the test ends, or ordinary
// memory if the device is not a Pinner.
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
