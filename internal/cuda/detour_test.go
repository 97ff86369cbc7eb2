//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

func doubles(x ...float64) []byte {
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.NativeEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// A detour copies what views span, whatever their strides, and every result back.
func TestDetour(t *testing.T) {
	_, devices := openFake(t, 1)
	d := devices[0]
	pool := memory.NewPool(d)
	put := func(x ...float64) *memory.Block {
		b, err := pool.Allocate(8*len(x), func() memory.Label { return memory.Label{} })
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CopyIn(b, doubles(x...), nil); err != nil {
			t.Fatal(err)
		}
		return b
	}
	got := func(b *memory.Block, n int) []float64 {
		raw := make([]byte, 8*n)
		if err := d.CopyOut(raw, b, 0); err != nil {
			t.Fatal(err)
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = math.Float64frombits(binary.NativeEndian.Uint64(raw[8*i:]))
		}
		return x
	}
	// [[2, 1], [0, 4]] backwards in memory, behind two elements that do not belong to it.
	a := backend.View{Block: put(9, 9, 4, 0, 1, 2), Offset: 5, Shape: []int{2, 2}, Strides: []int{-2, -1}, DType: dtype.Float64}
	b := backend.View{Block: put(4, 8), Shape: []int{2, 1}, Strides: []int{1, 1}, DType: dtype.Float64}
	out := backend.View{Block: put(0, 0), Shape: []int{2, 1}, Strides: []int{1, 1}, DType: dtype.Float64}
	solve := &backend.Call{Op: op.Solve, In: []backend.View{a, b}, Out: out}
	if !d.Detours(solve) || !d.Supports(op.Solve, dtype.Float64) || d.Supports(op.Solve, dtype.Float16) {
		t.Error("the device does not say what it does")
	}
	if err := d.Run(solve); err != nil {
		t.Fatal(err)
	}
	if x := got(out.Block, 2); x[0] != 1 || x[1] != 2 {
		t.Errorf("solution %v, want [1 2]", x)
	}
	scalar := func() backend.View {
		return backend.View{Block: put(0), Shape: []int{}, Strides: []int{}, DType: dtype.Float64}
	}
	log, sign := scalar(), scalar()
	if err := d.Run(&backend.Call{Op: op.SlogDet, In: []backend.View{a}, Out: log, More: []backend.View{sign}}); err != nil {
		t.Fatal(err)
	}
	if l, s := got(log.Block, 1)[0], got(sign.Block, 1)[0]; math.Abs(l-math.Log(8)) > 1e-15 || s != 1 {
		t.Errorf("log %v and sign %v", l, s)
	}
	bad := a
	bad.Strides = []int{0, 0} // all rows are the same
	if err := d.Run(&backend.Call{Op: op.Solve, In: []backend.View{bad, b}, Out: out}); !errors.Is(err, op.ErrMatrix) {
		t.Errorf("%v, want ErrMatrix", err)
	}
	empty := backend.View{Block: put(0), Shape: []int{0, 0}, Strides: []int{1, 1}, DType: dtype.Float64}
	if err := d.Run(&backend.Call{Op: op.Det, In: []backend.View{empty}, Out: log}); err != nil || got(log.Block, 1)[0] != 1 {
		t.Errorf("determinant of nothing: %v, %v", got(log.Block, 1), err)
	}
	if _, err := d.RecordCalls([]*backend.Call{solve}, nil); err == nil || !strings.Contains(err.Error(), "main memory") {
		t.Errorf("recording says %v", err)
	}
}
