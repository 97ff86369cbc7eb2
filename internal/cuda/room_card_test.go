//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// The same as on the fake driver, on a card: shares of one, so that a few hundred megabytes
// fill it.

// cardRig returns a share of the machine's GPU with so many bytes.
func cardRig(t *testing.T, limit int64) *rig {
	t.Helper()
	d := newDevice(gpu(t).card, limit, "test")
	x := &rig{t, d, memory.NewPool(d).Drain(func() { d.Record().Wait() })}
	t.Cleanup(x.pool.Trim)
	return x
}

// sortsRight runs c, a sortCall, and checks its result.
func (x *rig) sortsRight(c *backend.Call) error {
	x.t.Helper()
	x.fill(c.In[0], 5)
	if err := x.d.Run(c); err != nil {
		return err
	}
	in := x.values(c.In[0])
	order := x.positions(c.Out)
	for i := 1; i < len(order); i++ {
		if !(in[order[i-1]] <= in[order[i]]) {
			x.t.Fatalf("position %d is out of order", i)
		}
	}
	return nil
}

// positions reads what sorting gave.
func (x *rig) positions(v backend.View) []int64 {
	host := make([]byte, v.Elements()*8)
	x.ok(x.d.CopyOut(host, v.Block, 0))
	order := make([]int64, v.Elements())
	for i := range order {
		for k := range 8 {
			order[i] |= int64(host[8*i+k]) << (8 * k)
		}
	}
	return order
}

// Workspaces of a card are counted, make room, keep to a share's cap, fail as out of
// memory, and are freed with the cache.
func TestWorkspaceOnCard(t *testing.T) {
	const total, n = 256 << 20, 4 << 20 // a workspace of 96 MiB
	x := cardRig(t, total)
	c := x.sortCall(n)
	before := x.pool.Stats()
	_, free := x.d.Memory()
	x.ok(x.sortsRight(c))
	after := x.pool.Stats()
	if grown := after.Peak - before.InUse; grown < int64(sortRoom(n)) || after.InUse != before.InUse || after.Cached < int64(sortRoom(n)) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, now := x.d.Memory(); free-now < int64(sortRoom(n)) {
		t.Errorf("%d bytes of the share were free, now %d", free, now)
	}
	x.pool.Trim()
	if _, now := x.d.Memory(); now != free {
		t.Errorf("%d bytes of the share were free, %d after trimming", free, now)
	}

	const most = 180 << 20 // beside which the workspace does not fit
	x.hold(most).Free()
	x.ok(x.sortsRight(c))
	x.pool.Trim()
	func() { x.hold(most).Manage() }()
	x.ok(x.sortsRight(c))
	x.pool.Trim()
	held := x.hold(most)
	var e *memory.Exhausted
	if err := x.d.Run(c); !errors.As(err, &e) || e.Label != (memory.Label{DType: "workspace", Shape: "of argsort"}) || e.Total != total || len(e.Largest) == 0 || e.Largest[0].Bytes < most {
		t.Errorf("a workspace that does not fit: %v, %+v", err, e)
	}
	held.Free()
	x.ok(x.sortsRight(c))
	runtime.KeepAlive(held)
}

// Products, convolutions, reductions and attention give the same with and without room for
// their workspaces, up to rounding. What each takes with room is logged.
func TestWithoutWorkspaceOnCard(t *testing.T) {
	conv := op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	image, filter := []int{32, 64, 56, 56}, []int{64, 64, 3, 3}
	heads := []int{2, 4, 1024, 128}
	rows := []int{2, 4, 1024, 1}
	for _, k := range []struct {
		name   string
		id     op.ID
		attrs  op.Attrs
		dtype  dtype.DType
		in     [][]int
		out    []int
		within float64 // of the largest result
	}{
		{"product", op.MatMul, nil, dtype.Float32, [][]int{{64, 16384}, {16384, 64}}, []int{64, 64}, 1e-5},
		{"product of halves", op.MatMul, nil, dtype.BFloat16, [][]int{{512, 16384}, {16384, 512}}, []int{512, 512}, 1e-2},
		{"products", op.MatMul, nil, dtype.Float32, [][]int{{8, 512, 1024}, {8, 1024, 512}}, []int{8, 512, 512}, 1e-5},
		{"sum", op.Sum, op.Reduce{Axes: op.AxesOf(0)}, dtype.Float32, [][]int{{1 << 18, 16}}, []int{1, 16}, 1e-5},
		{"convolution", op.Conv2D, conv, dtype.Float32, [][]int{image, filter}, image, 1e-3},
		{"convolution of halves", op.Conv2D, conv, dtype.Float16, [][]int{image, filter}, image, 1e-2},
		{"gradient of the input", op.ConvGradInput, conv, dtype.Float32, [][]int{image, filter}, image, 1e-3},
		{"gradient of the weight", op.ConvGradWeight, conv, dtype.Float32, [][]int{image, image}, filter, 1e-3},
		{"attention", op.Attend, op.Attention{Scale: 0.09}, dtype.BFloat16, [][]int{heads, heads, heads}, heads, 2e-2},
	} {
		t.Run(k.name, func(t *testing.T) {
			var results [2][]float64
			for i, room := range []bool{true, false} {
				x := cardRig(t, 1<<30)
				c := &backend.Call{Op: k.id, Attrs: k.attrs, Out: x.view(k.dtype, k.out)}
				for i, shape := range k.in {
					c.In = append(c.In, x.view(k.dtype, shape))
					x.fill(c.In[i], uint64(i+1))
				}
				if k.id == op.Attend {
					c.More = []backend.View{x.view(dtype.Float32, rows[:3])}
				}
				if !room {
					little := x.hold(1 << 20) // which copies of operands need
					x.pool.Trim()
					_, free := x.d.Memory()
					held := x.hold(int(free &^ (32<<20 - 1)))    // a size that the pool does not round up
					for _, n := range []int{1 << 20, 64 << 10} { // and what rounding leaves
						for {
							b, err := x.pool.Allocate(n, func() memory.Label { return memory.Label{} })
							if err != nil {
								break
							}
							t.Cleanup(func() { b.Free() })
						}
					}
					t.Cleanup(func() { held.Free() })
					little.Free()
				}
				before := x.pool.Stats()
				x.pool.ResetPeak()
				x.ok(x.d.Run(c))
				x.ok(x.d.Synchronize())
				after := x.pool.Stats()
				if after.InUse != before.InUse {
					t.Errorf("room %v: %d bytes are in use, %d before", room, after.InUse, before.InUse)
				}
				if room {
					t.Logf("workspace of %.1f MiB", float64(after.Peak-before.InUse)/(1<<20))
				} else if after.Peak > before.InUse+1<<20+64<<10 {
					t.Errorf("a workspace of %d bytes without room", after.Peak-before.InUse)
				}
				results[i] = x.values(c.Out)
			}
			largest, worst := 0.0, 0.0
			for i, v := range results[0] {
				largest = max(largest, math.Abs(v))
				worst = max(worst, math.Abs(v-results[1][i]))
			}
			t.Logf("with and without room, results differ by %.1e of the largest", worst/largest)
			if !(worst <= k.within*largest) || slices.ContainsFunc(results[1], math.IsNaN) {
				t.Errorf("with and without room, results differ by %v of %v", worst, largest)
			}
		})
	}
}

// What NVIDIA's libraries take for themselves is outside the pool: this logs how much, so
// that docs/memory.md stays true.
func TestLibrariesOwnMemory(t *testing.T) {
	x := cardRig(t, 0)
	free := func() int64 {
		x.ok(x.d.Synchronize())
		_, n := x.d.Memory()
		return n
	}
	x.ok(x.d.with(x.pool, op.MatMul, func() error { return nil })) // sets the device up
	last := free()
	took := func(what string) {
		now := free()
		t.Logf("%s took %.1f MiB", what, float64(last-now)/(1<<20))
		last = now
	}
	var b *blas
	x.ok(x.d.with(x.pool, op.MatMul, func() (err error) { b, err = x.d.cublas(); return err }))
	took("starting cuBLAS")
	if b == nil {
		t.Skip("there is no cuBLAS")
	}
	batch := &backend.Call{Op: op.MatMul, In: []backend.View{x.view(dtype.Float32, []int{8, 512, 512}), x.view(dtype.Float32, []int{8, 512, 512})}, Out: x.view(dtype.Float32, []int{8, 512, 512})}
	single := &backend.Call{Op: op.MatMul, In: []backend.View{x.view(dtype.BFloat16, []int{1024, 8192}), x.view(dtype.BFloat16, []int{8192, 1024})}, Out: x.view(dtype.BFloat16, []int{1024, 1024})}
	took("operands")
	x.ok(x.d.Run(batch))
	took("products by cuBLAS")
	x.ok(x.d.Run(batch))
	took("and again")
	x.ok(x.d.Run(single))
	took("a product by cuBLASLt")
	t.Logf("of which the pool has %+v", x.pool.Stats())
	if dnnOf(t, x.d) != nil {
		took("starting cuDNN")
	}
}
