package cpu

import (
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
