package locus

import (
	"testing"

	"github.com/locusml/locus/internal/layout"
)

// What a normalization refuses, it refuses with an activation or a sum at its end too, in
// the same words, although the images lie channels last.
func TestNormEndsRefuse(t *testing.T) {
	gpus := AddVirtualGPUs(2, 64<<20)
	gpu, other := gpus[0], gpus[1]
	type operands struct{ x, mean, variance, w, b *Tensor }
	for name, change := range map[string]func(o *operands){
		"whole numbers": func(o *operands) {
			o.x, o.w, o.b = o.x.Cast(Int32), o.w.Cast(Int32), o.b.Cast(Int32)
		},
		"bytes, no parameters": func(o *operands) { o.x, o.w, o.b = o.x.Cast(Uint8), nil, nil },
		"a weight's type":      func(o *operands) { o.w = o.w.Cast(Float64) },
		"a bias's type":        func(o *operands) { o.b = o.b.Cast(BFloat16) },
		"a weight's shape":     func(o *operands) { o.w = o.w.Reshape(3, 1) },
		"a mean's shape":       func(o *operands) { o.mean = o.mean.Reshape(1, 3) },
		"a mean's type":        func(o *operands) { o.mean = o.mean.Cast(Int32) },
		"another device":       func(o *operands) { o.w = o.w.To(other) },
		"a freed bias":         func(o *operands) { o.b.Free() },
		"a freed mean":         func(o *operands) { o.mean.Free() },
		"one element":          func(o *operands) { o.x = o.x.Narrow(0, 0, 1).Narrow(2, 0, 1).Narrow(3, 0, 1) },
	} {
		for _, sum := range []bool{false, true} {
			run := func(s layout.Setting) string {
				defer layout.Set(layout.Set(s))
				last := func() *Tensor { return gpu.Ones(2, 4, 4, 3).Permute(0, 3, 1, 2) }
				o := operands{last(), gpu.Ones(3), gpu.Ones(3), gpu.Ones(3), gpu.Ones(3)}
				change(&o)
				end := normEnd{act: ReluActivation}
				if sum {
					end.add = last().Cast(o.x.dtype)
				}
				err := Try(func() { batchNormRunning(o.x, o.mean, o.variance, o.w, o.b, 0.1, 1e-5, end) })
				if err == nil {
					t.Fatalf("%s: no error", name)
				}
				return err.Error()
			}
			if got, want := run(layout.Always), run(layout.Never); got != want {
				t.Errorf("%s, sum: %t: %s\nwant %s", name, sum, got, want)
			}
		}
	}
}
