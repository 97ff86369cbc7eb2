package gemm

import (
	"testing"
	"unsafe"
)

// BenchmarkKernel runs the packed kernel on panels in the L1 cache: what the
// CPU can do at most.
func BenchmarkKernel(b *testing.B) {
	ks := kernelsF32
	const k = 256
	x, y, c := make([]float32, ks.mr*k), make([]float32, ks.nr()*k), make([]float32, ks.mr*ks.nr())
	t := &tile{k: k, rowA: 4, colA: ks.mr * 4, rowB: ks.nr() * 4, ldc: ks.nr() * 4, alpha: toBits(float32(1)), tail: ks.lanes}
	for _, f := range []struct {
		name string
		f    func(*byte)
	}{{"packed", ks.packed}, {"strided", ks.full[ks.mr-1][1]}, {"edge", ks.edge[ks.mr-1][1]}} {
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				for range 16 {
					t.a, t.b, t.c = unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]), unsafe.Pointer(&c[0])
					t.tiles = 1
					t.run(f.f)
				}
			}
			b.ReportMetric(2*16*float64(ks.mr*ks.nr()*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}
