package cpu

import (
	"bytes"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// Large results are written past the caches, and are the same.
func TestNormalizePastTheCaches(t *testing.T) {
	const n, few = 4096, 9
	const rows = vec.StreamBytes/4/n + 1
	value := func(i int) float32 { return float32(i*7919%1009)/500 - 0.7 }
	x, g, out := view32(t, []int{rows, n}, value), view32(t, []int{rows, n}, func(i int) float32 { return value(i + 5) }), view32(t, []int{rows, n}, value)
	stat := view32(t, []int{rows}, func(i int) float32 { return 0.5 + float32(i%7)/8 })
	some := func(v backend.View) backend.View { // the first rows
		v.Shape = append([]int{few}, v.Shape[1:]...)
		return v
	}
	for _, params := range [][2]int{{1, 2}, {0, 1}} {
		for k := range 8 {
			a := op.Normalize{From: 1, Params: params, Eps: 1e-5, Weight: k&1 != 0, Bias: k&2 != 0, RMS: k&4 != 0}
			p := view32(t, a.ParamShape(op.Normalized, x.Shape), value)
			run := func(id op.ID, out backend.View, in ...backend.View) []byte {
				if err := Open().Run(&backend.Call{Op: id, Attrs: a, In: in, Out: out}); err != nil {
					t.Fatal(err)
				}
				return bytes.Clone(bytesOf(out.Block, 0, few*n*4))
			}
			compare := func(id op.ID, rowsOf int, in ...backend.View) {
				large := run(id, out, in...)
				var small []backend.View
				for i, v := range in {
					if i < rowsOf || len(v.Shape) == 1 && v.Shape[0] == rows {
						v = some(v)
					}
					small = append(small, v)
				}
				if !bytes.Equal(large, run(id, some(out), small...)) {
					t.Errorf("%s with %+v: the first rows of many are not those of a few", id, a)
				}
			}
			in := []backend.View{x}
			for range k&1 + k>>1&1 {
				in = append(in, p)
			}
			compare(op.Normalized, 1, in...)
			in = []backend.View{g, x}
			if a.Weight {
				in = append(in, p)
			}
			if !a.RMS {
				in = append(in, stat)
			}
			compare(op.NormalizeGrad, 2, append(in, stat)...)
		}
	}
}
