//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// The passes of the sort must cover every key, with what stands for keys out of
// range, and its blocks every place.
func TestRadix(t *testing.T) {
	for _, limit := range []int{0, 1, 2, 255, 256, 511, 512, 513, 50000, 65535, 65536, 1 << 18, 1<<31 - 2} {
		for _, n := range []int{1, 1024, 1025, 32768, 131072, 131073, 1 << 20, 100<<20 + 7} {
			r := newRadix(n, limit)
			if uint64(limit)>>(r.passes*r.digit) != 0 || r.digit > radixBits {
				t.Errorf("limit %d: %d passes of %d bits", limit, r.passes, r.digit)
			}
			if r.blocks > radixBlocks || r.span%radixTile != 0 || r.blocks*r.span < n || (r.blocks-1)*r.span >= n {
				t.Errorf("%d keys: %d blocks of %d", n, r.blocks, r.span)
			}
		}
	}
}

// Rows added at indices that are all different, mostly the same, and all the same,
// so that runs end in a chunk, at its border and many chunks later.
func TestIndexRows(t *testing.T) { testIndexRows(t, newDevice(gpu(t).card, 0, "test"), 1<<30) }

// testIndexRows leaves out cases of more elements than most.
func testIndexRows(t *testing.T, d *Device, most int) {
	pool := memory.NewPool(d)
	defer pool.Trim()
	for _, c := range []struct {
		t                  dtype.DType
		limit, rows, width int
		kind               string
		ulp                float64
	}{
		{dtype.Float32, 50000, 32768, 512, "any", 0x1p-23}, {dtype.Float32, 50000, 32768, 512, "few", 0x1p-23}, {dtype.Float32, 511, 5000, 96, "same", 0x1p-23},
		{dtype.Float32, 512, 1, 32, "any", 0x1p-23}, {dtype.Float32, 7, 33, 4128, "few", 0x1p-23}, {dtype.Float32, 70000, 200001, 36, "few", 0x1p-23},
		{dtype.Float32, 300, 3000, 10, "any", 0x1p-23}, // by the other kernel, with this sort
		{dtype.Float64, 1000, 2100, 40, "few", 0x1p-52}, {dtype.BFloat16, 1000, 2100, 128, "few", 0x1p-8}, {dtype.Float16, 1000, 2100, 128, "any", 0x1p-11},
	} {
		if max(c.rows, c.limit)*c.width > most {
			continue
		}
		for _, uniform := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%dx%d/%d/%s/%v", c.t, c.limit, c.width, c.rows, c.kind, uniform), func(t *testing.T) {
				x := &rig{t, d, pool}
				base, src, out := x.view(c.t, []int{c.limit, c.width}), x.view(c.t, []int{c.rows, c.width}), x.view(c.t, []int{c.limit, c.width})
				x.fill(base, 1)
				x.fill(src, 2)
				x.fill(out, 3)
				if uniform {
					base.Strides = []int{0, 0}
				}
				r := rand.New(rand.NewPCG(1, 2))
				at := make([]int64, c.rows)
				for i := range at {
					switch {
					case c.kind == "same":
						at[i] = int64(c.limit - 1)
					case c.kind == "few" && r.IntN(3) > 0:
						at[i] = int64(r.IntN(4))
					default:
						at[i] = int64(r.IntN(c.limit))
					}
				}
				index := x.view(dtype.Int64, []int{c.rows})
				x.ok(d.CopyIn(index.Block, unsafe.Slice((*byte)(unsafe.Pointer(&at[0])), 8*len(at)), func() {}))
				call := &backend.Call{Op: op.IndexAdd, Attrs: op.Axis{Axis: 0}, In: []backend.View{base, index, src}, Out: out}
				x.ok(d.Run(call))
				got := x.values(out)
				x.ok(d.Run(call))
				if !slices.Equal(got, x.values(out)) {
					t.Error("the bits do not repeat")
				}
				want, size, sv := make([]float64, len(got)), make([]float64, len(got)), x.values(src)
				from := x.values(backend.View{Block: base.Block, Shape: base.Shape, Strides: op.Strides(base.Shape), DType: c.t})
				for i := range want {
					want[i] = from[i]
					if uniform {
						want[i] = from[0]
					}
					size[i] = math.Abs(want[i])
				}
				for i, k := range at {
					for j := range c.width {
						v := sv[i*c.width+j]
						want[int(k)*c.width+j] += v
						size[int(k)*c.width+j] += math.Abs(v)
					}
				}
				for i, w := range want {
					if e := math.Abs(got[i] - w); e > c.ulp*math.Abs(w)+0x1p-22*size[i] && e > c.ulp*size[i] || got[i] != got[i] {
						t.Fatalf("element %d is %v, want %v", i, got[i], w)
					}
				}
			})
		}
	}
	t.Run("out of range", func(t *testing.T) {
		x := &rig{t, d, pool}
		base, src, out, index := x.view(dtype.Float32, []int{10, 64}), x.view(dtype.Float32, []int{3, 64}), x.view(dtype.Float32, []int{10, 64}), x.view(dtype.Int64, []int{3})
		at := []int64{4, 10, 4}
		x.ok(d.CopyIn(index.Block, unsafe.Slice((*byte)(unsafe.Pointer(&at[0])), 8*len(at)), func() {}))
		x.ok(d.Run(&backend.Call{Op: op.IndexAdd, Attrs: op.Axis{Axis: 0}, In: []backend.View{base, index, src}, Out: out}))
		if err := d.Synchronize(); !errors.Is(err, op.ErrIndex) {
			t.Errorf("got %v, want an ErrIndex", err)
		}
	})
}
