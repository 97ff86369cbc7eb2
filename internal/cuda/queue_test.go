//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// queueing returns a device whose launches are calls of a C function that does
// nothing, and calls to queue on it: what is left is this package's own work.
func queueing(t testing.TB) (*Device, map[string]*backend.Call) {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		t.Skip(err)
	}
	nothing, err := purego.Dlsym(libc, "pthread_mutexattr_destroy") // looks at no argument and returns 0
	if err != nil {
		t.Skip(err)
	}
	_, drv := newFake()
	devices, err := drv.open()
	if err != nil {
		t.Fatal(err)
	}
	d := devices[0]
	d.libs.blas, d.libs.dnn = &blas{unavailable: true}, &dnn{unavailable: true}
	pool := memory.NewPool(d)
	view := func(typ dtype.DType, shape ...int) backend.View {
		b, err := pool.Allocate(op.Elements(shape)*typ.Size(), func() memory.Label { return memory.Label{} })
		if err != nil {
			t.Fatal(err)
		}
		return backend.View{Block: b, Shape: shape, Strides: op.Strides(shape), DType: typ}
	}
	small, square := view(dtype.Float32, 2, 3), view(dtype.Float32, 100, 100)
	calls := map[string]*backend.Call{
		"add":    {Op: op.Add, In: []backend.View{small, small}, Out: small},
		"matmul": {Op: op.MatMul, In: []backend.View{square, square}, Out: square},
		"norm":   {Op: op.Norm, Attrs: op.Reduce{Axes: op.AxesOf(0, 1)}, In: []backend.View{square}, Out: view(dtype.Float32, 1, 1)},
	}
	for _, c := range calls {
		if err := d.Run(c); err != nil { // loads the kernel
			t.Fatal(err)
		}
	}
	drv.ctxSetCurrent, drv.launchKernel = nothing, nothing
	return d, calls
}

// Queueing is all that the host does for an op: it must leave nothing to collect.
func TestQueueingAllocatesNothing(t *testing.T) {
	d, calls := queueing(t)
	for name, c := range calls {
		if n := testing.AllocsPerRun(100, func() {
			if err := d.Run(c); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkQueue(b *testing.B) {
	d, calls := queueing(b)
	for name, c := range calls {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := d.Run(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
