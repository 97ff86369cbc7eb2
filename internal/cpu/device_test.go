package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

func block(t testing.TB, size int) *memory.Block {
	t.Helper()
	b, err := testPool.Allocate(size, func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var testPool = memory.NewPool(Open())

// view32 makes a contiguous float32 view.
func view32(t testing.TB, shape []int, f func(i int) float32) backend.View {
	n := op.Elements(shape)
	v := backend.View{Block: block(t, n*4), Shape: shape, Strides: op.Strides(shape), DType: dtype.Float32}
	for i := range n {
		elements[float32](&v, n)[i] = f(i)
	}
	return v
}

func TestSmallAddAllocatesNothing(t *testing.T) {
	d := Open()
	x := view32(t, []int{2, 3}, func(i int) float32 { return float32(i) })
	k := x
	k.Block, k.Bits, k.Strides = nil, 0x40000000, []int{0, 0}
	for name, in := range map[string][]backend.View{"contiguous": {x, x}, "constant": {x, k}} {
		c := &backend.Call{Op: op.Add, In: in, Out: view32(t, []int{2, 3}, func(int) float32 { return 0 })}
		if n := testing.AllocsPerRun(100, func() { d.Run(c) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if got := elements[float32](&c.Out, 6)[5]; name == "contiguous" && got != 10 || name == "constant" && got != 7 {
			t.Errorf("%s: 5 + … = %v", name, got)
		}
	}
}

func TestMemoryIsAlignedAndBounded(t *testing.T) {
	d := Open()
	for _, size := range []int{1, 63, 64, 100, 5000, 64 << 10, 1 << 20} {
		r, err := d.Allocate(size)
		if err != nil || r.Size != size || uintptr(r.Ptr)%alignment != 0 {
			t.Errorf("Allocate(%d) = %+v, %v", size, r, err)
		}
	}
	if total, _ := d.Memory(); total > 0 {
		if _, err := d.Allocate(int(total) * 2); !errors.Is(err, memory.ErrExhausted) {
			t.Errorf("twice the machine's memory: %v", err)
		}
	}
}

func TestIndexErrorsSayWhich(t *testing.T) {
	x := view32(t, []int{5, 2}, func(i int) float32 { return 0 })
	idx := backend.View{Block: block(t, 32), Shape: []int{2, 2}, Strides: []int{2, 1}, DType: dtype.Int64}
	for _, c := range []struct {
		bad  int64
		want string
	}{{7, "index 7 at (1, 0) of the index tensor is out of range for axis 0 of size 5; valid are 0 to 4"}, {-1, "index -1 at (1, 0)"}} {
		copy(elements[int64](&idx, 4), []int64{0, 4, c.bad, 9})
		for id, out := range map[op.ID][]int{op.Gather: {2, 2}, op.Take: {2, 2, 2}} {
			err := Open().Run(&backend.Call{Op: id, Attrs: op.Axis{}, In: []backend.View{x, idx}, Out: view32(t, out, func(int) float32 { return 0 })})
			if !errors.Is(err, op.ErrIndex) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s with index %d: %v", id, c.bad, err)
			}
		}
	}
}

func TestInfo(t *testing.T) {
	i := Open().Info()
	if i.Kind != backend.CPU || i.Name == "" || !strings.Contains(i.Backing, "thread") {
		t.Errorf("%+v", i)
	}
	if _, ok := Kernel(op.NumOps, dtype.Float32); ok {
		t.Error("a kernel for an op that is none")
	}
	if _, ok := Kernel(op.Reshape, dtype.Float32); ok {
		t.Error("a kernel for a view")
	}
}
