//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Our own products, in every layout and at sizes that no tile divides, against
// sums in float64 of some of the results. The suite's samples are too small to
// reach all of these kernels.
func TestOwnProducts(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	d.libs.blas = &blas{unavailable: true}
	pool := memory.NewPool(d)
	defer pool.Trim()
	for _, c := range []struct {
		t    dtype.DType
		tf32 bool
		eps  float64 // of a factor
	}{{dtype.Float32, false, 0x1p-24}, {dtype.Float32, true, 0x1p-10}, {dtype.BFloat16, false, 0x1p-9}, {dtype.Float16, false, 0x1p-12}, {dtype.Float64, false, 0x1p-53}, {dtype.Int32, false, 0}} {
		for _, s := range [][4]int{{256, 512, 1024, 1}, {200, 264, 616, 3}, {1, 1000, 2000, 1}, {77, 131, 1029, 2}, {2048, 1544, 72, 1}, {1800, 2312, 200, 1}} {
			for _, layout := range []string{"nn", "nt", "tn", "tt"} {
				t.Run(fmt.Sprintf("%s/tf32=%v/%v/%s", c.t, c.tf32, s, layout), func(t *testing.T) {
					SetTF32(c.tf32)
					defer SetTF32(false)
					x := &rig{t, d, pool}
					x.try(c.t, s[0], s[1], s[2], s[3], layout, c.eps)
				})
			}
		}
	}
}

// rig has what tests of single kernels need.
type rig struct {
	t    testing.TB
	d    *Device
	pool *memory.Pool
}

func (x *rig) ok(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *rig) try(t dtype.DType, m, n, k, batch int, layout string, eps float64) {
	view := func(rows, cols int, trans bool) backend.View {
		v := x.view(t, []int{batch, rows, cols})
		if trans {
			v.Strides = []int{rows * cols, 1, rows}
		}
		return v
	}
	a, b, c := view(m, k, layout[0] == 't'), view(k, n, layout[1] == 't'), view(m, n, false)
	x.fill(a, 1)
	x.fill(b, 2)
	x.fill(c, 3) // what must be overwritten
	x.ok(x.d.Run(&backend.Call{Op: op.MatMul, In: []backend.View{a, b}, Out: c}))
	av, bv, cv := x.values(a), x.values(b), x.values(c)
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		z, i, j := r.IntN(batch), r.IntN(m), r.IntN(n)
		if r.IntN(4) == 0 { // the last of everything
			z, i, j = batch-1, m-1, n-1-r.IntN(min(n, 9))
		}
		sum, size := 0.0, 0.0
		for l := range k {
			p := av[z*a.Strides[0]+i*a.Strides[1]+l*a.Strides[2]] * bv[z*b.Strides[0]+l*b.Strides[1]+j*b.Strides[2]]
			sum += p
			size += p * p
		}
		got := cv[(z*m+i)*n+j]
		if bound := eps * ((8+4*math.Sqrt(float64(k)))*math.Sqrt(size) + math.Abs(sum)); math.Abs(got-sum) > bound || got != got {
			x.t.Fatalf("element (%d, %d, %d) is %v, want %v ± %v", z, i, j, got, sum, bound)
		}
	}
}

// view returns a contiguous view of new memory.
func (x *rig) view(t dtype.DType, shape []int) backend.View {
	b, err := x.pool.Allocate(op.Elements(shape)*t.Size(), func() memory.Label { return memory.Label{} })
	x.ok(err)
	x.t.Cleanup(func() { b.Free() })
	return backend.View{Block: b, Shape: shape, Strides: op.Strides(shape), DType: t}
}

// fill fills a view's memory with random numbers.
func (x *rig) fill(v backend.View, key uint64) {
	shape := op.DimsOf([]int{v.Elements()})
	out := backend.View{Block: v.Block, Shape: shape.Slice(), Strides: []int{1}, DType: v.DType}
	c := &backend.Call{Op: op.RandNormal, Attrs: op.Random{DType: v.DType, Shape: shape, Key: key}, Out: out}
	if v.DType.IsInt() {
		c.Op, c.Attrs = op.RandInt, op.Random{DType: v.DType, Shape: shape, Key: key, Low: -1000, Span: 2000}
	}
	x.ok(x.d.Run(c))
}

// values reads a block as float64.
func (x *rig) values(v backend.View) []float64 {
	n := v.Elements()
	raw := make([]uint64, n*v.DType.Size()/8+1)
	host := unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), n*v.DType.Size())
	x.ok(x.d.CopyOut(host, v.Block, 0))
	out := make([]float64, n)
	for i := range out {
		p := unsafe.Pointer(&host[i*v.DType.Size()])
		switch v.DType {
		case dtype.Float32:
			out[i] = float64(*(*float32)(p))
		case dtype.Float64:
			out[i] = *(*float64)(p)
		case dtype.BFloat16:
			out[i] = float64((*(*dtype.BF16)(p)).Float32())
		case dtype.Float16:
			out[i] = float64((*(*dtype.F16)(p)).Float32())
		case dtype.Int32:
			out[i] = float64(*(*int32)(p))
		}
	}
	return out
}
