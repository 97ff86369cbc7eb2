//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Results by rows are the others, to the bit, in another order: by all kernels, and by
// cuDNN.
func TestAttentionByRows(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	for _, k := range []struct {
		name  string
		t     dtype.DType
		trial trial
	}{
		{"float64", dtype.Float64, trial{}}, {"float32", dtype.Float32, trial{split: -1}}, {"split", dtype.Float32, trial{split: 1}},
		{"bfloat16", dtype.BFloat16, trial{}}, {"older", dtype.Float16, trial{older: true}}, {"cuDNN", dtype.BFloat16, trial{shortDNN: true}},
	} {
		for _, shape := range [][]int{{2, 3, 128, 64}, {2, 4, 256, 128}, {3, 2, 130, 72}, {5, 40, 24}} {
			for _, causal := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/causal=%v", k.name, shape, causal), func(t *testing.T) {
					d.trial = k.trial
					x := &rig{t, d, pool}
					r := len(shape)
					heads, rows, width := shape[r-3], shape[r-2], shape[r-1]
					outer := op.Elements(shape[:r-3])
					attrs := op.Attention{Scale: 0.1, Causal: causal}
					byRows := attrs
					byRows.Rows = true
					in := []backend.View{x.random(k.t, 1, shape...), x.random(k.t, 2, shape...), x.random(k.t, 3, shape...)}
					saved := x.view(map[bool]dtype.DType{false: dtype.Float32, true: dtype.Float64}[k.t == dtype.Float64], shape[:r-1])
					y, z := x.view(k.t, shape), x.view(k.t, slices.Concat(shape[:r-3], []int{rows, heads, width}))
					x.ok(d.Run(&backend.Call{Op: op.Attend, Attrs: attrs, In: in, Out: y, More: []backend.View{saved}}))
					x.ok(d.Run(&backend.Call{Op: op.Attend, Attrs: byRows, In: in, Out: z, More: []backend.View{saved}}))
					grad := slices.Concat([]backend.View{x.random(k.t, 4, shape...)}, in, []backend.View{y, saved})
					dy, dz := x.view(k.t, []int{3 * op.Elements(shape)}), x.view(k.t, slices.Concat(shape[:r-3], []int{rows, 3, heads, width}))
					x.ok(d.Run(&backend.Call{Op: op.AttendGrad, Attrs: attrs, In: grad, Out: dy}))
					x.ok(d.Run(&backend.Call{Op: op.AttendGrad, Attrs: byRows, In: grad, Out: dz}))
					for _, c := range []struct {
						name      string
						want, got []float64
						parts     int
					}{{"result", x.values(y), x.values(z), 1}, {"gradients", x.values(dy), x.values(dz), 3}} {
						at, bad := 0, 0
						for part := range c.parts {
							for o := range outer {
								for h := range heads {
									for i := range rows {
										for e := range width {
											if c.got[(((o*rows+i)*c.parts+part)*heads+h)*width+e] != c.want[at] {
												bad++
											}
											at++
										}
									}
								}
							}
						}
						if bad > 0 {
							t.Errorf("%d of %d elements of the %s differ", bad, at, c.name)
						}
					}
				})
			}
		}
	}
}
