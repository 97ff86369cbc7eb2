//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/backend/backendtest"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// What adds up in no fixed order passes the conformance suite too.
func TestConformanceVarying(t *testing.T) {
	d := gpu(t)
	defer SetVarying(Varying())
	SetVarying(true)
	backendtest.Run(t, func() backend.Device { return newDevice(d.card, 0, d.name) }, backendtest.Only(op.IndexAdd, op.ScatterAdd, op.AttendGrad), backendtest.Varies())
}

// Sums at indices repeat their bits unless they need not, and are near each other.
func TestVaryingSums(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	defer SetVarying(Varying())
	x := &rig{t, d, pool}
	const rows, to = 20000, 100
	for _, width := range []int{1, 16, 512} {
		index := x.view(dtype.Int64, []int{rows})
		x.ok(d.Run(&backend.Call{Op: op.RandInt, Attrs: op.Random{DType: dtype.Int64, Shape: op.DimsOf([]int{rows}), Key: 3, Low: 0, Span: to}, Out: index}))
		base, src, out := x.random(dtype.Float32, 1, to, width), x.random(dtype.Float32, 2, rows, width), x.view(dtype.Float32, []int{to, width})
		run := func(on bool) []float64 {
			SetVarying(on)
			x.ok(d.Run(&backend.Call{Op: op.IndexAdd, Attrs: op.Axis{Axis: 0}, In: []backend.View{base, index, src}, Out: out}))
			return x.values(out)
		}
		want := run(false)
		if !slices.Equal(run(false), want) {
			t.Errorf("width %d: bits do not repeat", width)
		}
		for i, v := range run(true) {
			if math.Abs(v-want[i]) > 1e-3 { // sums of 200 numbers near 1
				t.Fatalf("width %d: element %d is %v, want %v", width, i, v, want[i])
			}
		}
	}
}

// The gradient of a weight on a card, with and without bits that repeat: near each other,
// and without the switch the same in a device that knows nothing of the first.
func TestVaryingConvolutions(t *testing.T) {
	devices, err := Open()
	if err != nil || len(devices) == 0 {
		t.Skipf("not run: no NVIDIA GPU: %v", err)
	}
	t.Setenv("LOCUS_CACHE", t.TempDir())
	x := &rig{t, devices[0], memory.NewPool(devices[0]).Drain(func() { devices[0].Record().Wait() })}
	c := convCall(op.ConvGradWeight, dtype.Float32, op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Pad: [2]int{1, 1}, Groups: 1, Size: [2]int{3, 3}}, [4]int{32, 64, 28, 28}, [4]int{64, 64, 3, 3})
	for _, v := range []*backend.View{&c.In[0], &c.In[1], &c.Out} {
		*v = x.view(dtype.Float32, v.Shape)
		data := make([]float32, v.Elements())
		for i := range data {
			data[i] = float32(math.Sin(float64(i) * 0.7))
		}
		x.ok(x.d.CopyIn(v.Block, unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*len(data)), func() {}))
		x.ok(x.d.Synchronize())
	}
	defer SetVarying(Varying())
	defer SetTF32(TF32())
	for _, tf32 := range []bool{false, true} {
		SetTF32(tf32)
		run := func(on bool) []byte {
			SetVarying(on)
			x.ok(x.d.Run(c))
			got := make([]byte, 4*c.Out.Elements())
			x.ok(x.d.CopyOut(got, c.Out.Block, 0))
			return got
		}
		want := run(false)
		if x.d.libs.dnn != nil {
			x.d.libs.dnn.plans = map[convKey]*convPlan{} // as a new process
		}
		for range 2 {
			if !bytes.Equal(run(false), want) {
				t.Errorf("tf32 %v: bits do not repeat", tf32)
			}
		}
		got, changed, worst := run(true), 0, 0.0
		for i := range got[:len(got)/4] {
			a, b := *(*float32)(unsafe.Pointer(&got[4*i])), *(*float32)(unsafe.Pointer(&want[4*i]))
			if a != b {
				changed++
			}
			worst = max(worst, math.Abs(float64(a-b))/1e3) // sums of 25,088 products
		}
		if limit := map[bool]float64{false: 1e-4, true: 2e-2}[tf32]; worst > limit {
			t.Errorf("tf32 %v: off by %v", tf32, worst)
		}
		t.Logf("tf32 %v: %d of %d elements differ where they may, by at most %.2g", tf32, changed, len(got)/4, worst)
	}
}
