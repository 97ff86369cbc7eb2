//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

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
