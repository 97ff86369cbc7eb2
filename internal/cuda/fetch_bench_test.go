//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// BenchmarkFetch times products whose results are copied to main memory: none, all at once,
// and each while the next is computed.
func BenchmarkFetch(b *testing.B) {
	const n = 4096
	x := newBench(b)
	d := x.d
	p, q := x.random(dtype.Float32, n, n), x.random(dtype.Float32, n, n)
	outs := [2]backend.View{x.empty(dtype.Float32, n, n), x.empty(dtype.Float32, n, n)}
	source := d.Pinned()
	var hosts [2][]byte
	for i := range hosts {
		r, err := source.Allocate(4 * n * n)
		x.ok(err)
		b.Cleanup(func() { source.Free(r) })
		hosts[i] = unsafe.Slice((*byte)(r.Ptr), 4*n*n)
	}
	multiply := func(i int) {
		x.ok(d.Run(&backend.Call{Op: op.MatMul, In: []backend.View{p, q}, Out: outs[i%2]}))
	}
	for _, way := range []string{"no copies", "CopyOut", "Fetch"} {
		b.Run(way, func(b *testing.B) {
			multiply(0)
			x.ok(d.Synchronize())
			b.ResetTimer()
			var waits [2]func() error
			for i := range b.N {
				if wait := waits[i%2]; wait != nil { // its memory is written again
					x.ok(wait())
				}
				multiply(i)
				switch way {
				case "CopyOut":
					x.ok(d.CopyOut(hosts[i%2], outs[i%2].Block, 0))
				case "Fetch":
					wait, err := d.Fetch(hosts[i%2], outs[i%2].Block, 0, func() {})
					x.ok(err)
					waits[i%2] = wait
				}
			}
			x.ok(d.Synchronize())
			for _, wait := range waits {
				if wait != nil {
					x.ok(wait())
				}
			}
		})
	}
}
