//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// BenchmarkReadScalar times ways to read one number that the card has just computed: by
// CopyOut, and by what it could do instead.
func BenchmarkReadScalar(b *testing.B) {
	x := newBench(b)
	d := x.d
	one := x.random(dtype.Float32, 2, 3)
	sum := x.empty(dtype.Float32)
	add := &backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: op.AxesOf(0) | op.AxesOf(1)}, In: []backend.View{one}, Out: sum}
	var host, mapped uintptr
	ok := func(name string, r Result) { x.ok(d.card.drv.check(name, r)) }
	x.ok(d.Run(add))
	x.ok(d.Synchronize())
	x.ok(d.begin())
	ok("cuMemHostAlloc", d.current().MemHostAlloc(&host, 4096, hostMapped|hostPortable))
	ok("cuMemHostGetDevicePointer", d.current().MemHostGetDevicePointer(&mapped, host, 0))
	d.end()
	word := (*uint32)(pointer(host))
	const nothing = 0x7fc0dead // a NaN that no op makes
	var pageable [8]byte
	watch := func() uint32 {
		for {
			if v := atomic.LoadUint32(word); v != nothing {
				return v
			}
		}
	}
	queue := func(to uintptr) {
		if err := d.begin(); err != nil {
			b.Fatal(err)
		}
		err := d.queueOut(to, sum.Block.Addr, 4)
		d.end()
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, way := range []struct {
		name string
		read func() uint32
	}{
		{"CopyOut", func() uint32 {
			var buf [4]byte
			x.ok(d.CopyOut(buf[:], sum.Block, 0))
			return *(*uint32)(unsafe.Pointer(&buf))
		}},
		{"copy and stream", func() uint32 {
			queue(host)
			x.ok(d.wait("cuStreamSynchronize", d.card.drv.streamSynchronize, d.stream))
			return *word
		}},
		{"copy to pageable memory", func() uint32 {
			queue(uintptr(unsafe.Pointer(&pageable)))
			return *(*uint32)(unsafe.Pointer(&pageable))
		}},
		{"copy and watch", func() uint32 {
			atomic.StoreUint32(word, nothing)
			queue(host)
			return watch()
		}},
		{"kernel and watch", func() uint32 {
			atomic.StoreUint32(word, nothing)
			v := sum
			v.Shape, v.Strides = []int{1}, []int{1}
			w := backend.View{Block: blockAt(mapped), Shape: []int{1}, Strides: []int{1}, DType: dtype.Float32}
			x.ok(d.with(x.pool, op.Neg, func() error {
				return d.runElementwise(&backend.Call{Op: op.Neg, In: []backend.View{v}, Out: w})
			}))
			return watch() ^ 1<<31
		}},
	} {
		for _, fresh := range []bool{false, true} {
			name := way.name + "/idle"
			if fresh {
				name = way.name + "/behind a kernel"
			}
			b.Run(name, func(b *testing.B) {
				var buf [4]byte
				x.ok(d.CopyOut(buf[:], sum.Block, 0))
				want := *(*uint32)(unsafe.Pointer(&buf))
				for range b.N {
					if fresh {
						x.ok(d.Run(add))
					}
					if got := way.read(); got != want {
						b.Fatalf("read %v, want %v", math.Float32frombits(got), math.Float32frombits(want))
					}
				}
			})
		}
	}
}
