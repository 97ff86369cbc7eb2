//go:build linux && (amd64 || arm64) && !nocuda

package nccl

import (
	"slices"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/memory"
)

func TestEven(t *testing.T) {
	for _, c := range []struct {
		parts []int
		want  bool
	}{{[]int{0, 3, 6}, true}, {[]int{0, 2, 3}, false}, {[]int{0, 0, 0}, true}, {[]int{0, 5}, true}, {[]int{0, 1, 2, 2}, false}} {
		if even(c.parts) != c.want {
			t.Errorf("%v: %v", c.parts, !c.want)
		}
	}
}

// One rank on a card, with the library that the machine has: every collective and type
// through the device's stream.
func TestOneRank(t *testing.T) {
	devices, err := cuda.Open()
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	lib, err := Load()
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	t.Log(lib, lib.Path)
	d := devices[0]
	pool := memory.NewPool(d)
	unique, err := lib.NewID()
	if err != nil {
		t.Fatal(err)
	}
	var c *Comm
	if err := d.WithContext(func() error { c, err = lib.Init(unique, 0, 1); return err }); err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	for _, dt := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Bool} {
		size := n * dt.Size()
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * 7 & 0x3b) // no NaN in any type
		}
		for name, queue := range map[string]func(k *Call, stream uintptr) error{
			"all-reduce": c.AllReduce, "reduce": c.Reduce, "broadcast": c.Broadcast, "all-gather": c.AllGather, "reduce-scatter": c.ReduceScatter,
		} {
			for _, op := range []engine.Op{engine.Sum, engine.Max, engine.Min, engine.Product} {
				in, out := block(t, pool, size), block(t, pool, size)
				if err := d.CopyIn(in, want, nil); err != nil {
					t.Fatal(err)
				}
				k := &Call{In: in.Addr, Out: out.Addr, N: n, DType: dt, Op: op, Parts: []int{0, n}}
				released := make(chan struct{})
				in.Hold()
				_, err := d.Foreign([]*memory.Block{in}, out, func(stream uintptr) error { return queue(k, stream) }, func() { in.LetGo(); close(released) })
				if err != nil {
					t.Fatalf("%s of %s: %v", name, dt, err)
				}
				in.Free() // while it may be on its way
				got := make([]byte, size)
				if err := d.CopyOut(got, out, 0); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s of %s is not what went in", name, dt)
				}
				select {
				case <-released:
				case <-time.After(10 * time.Second):
					t.Fatal("the operand is not released")
				}
				out.Free()
			}
		}
	}
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	if err := d.WithContext(func() error { c.Destroy(); return nil }); err != nil {
		t.Error(err)
	}
}

func block(t *testing.T, p *memory.Pool, size int) *memory.Block {
	b, err := p.Allocate(size, func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	return b
}
