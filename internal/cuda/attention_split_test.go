//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// splitRig is a device that computes float32 attention on the tensor cores, with
// all that a gradient needs.
type splitRig struct {
	*rig
	attrs op.Attention
	in    []backend.View // g, q, k, v, y, saved
}

func newSplitRig(t *testing.T, heads, rows, keys, width int, causal bool) *splitRig {
	d := newDevice(gpu(t).card, 0, "test")
	if d.card.major < 8 {
		t.Skip("attention of float32 on the tensor cores takes a card of compute capability 8.0")
	}
	x := &splitRig{&rig{t, d, memory.NewPool(d)}, op.Attention{Scale: 1 / math.Sqrt(float64(width)), Causal: causal}, nil}
	for i, r := range []int{rows, rows, keys, keys, rows} {
		x.in = append(x.in, x.random(dtype.Float32, uint64(i), heads, r, width))
	}
	x.in = append(x.in, x.random(dtype.Float32, 8, heads, rows))
	return x
}

// run returns y and the gradients.
func (x *splitRig) run(in []backend.View) (y, grads []float64) {
	x.t.Helper()
	x.ok(x.d.Run(&backend.Call{Op: op.Attend, Attrs: x.attrs, In: in[1:4], Out: in[4], More: []backend.View{in[5]}}))
	out := x.view(in[0].DType, []int{in[1].Elements() + in[2].Elements() + in[3].Elements()})
	x.ok(x.d.Run(&backend.Call{Op: op.AttendGrad, Attrs: x.attrs, In: in, Out: out}))
	return x.values(in[4]), x.values(out)
}

// The tensor cores' three products are as exact as float32: errors against float64 beside those of
// the kernels that multiply in float32, also of sums whose terms are all positive.
func TestAttentionSplitIsFloat32(t *testing.T) {
	for _, width := range []int{64, 128} {
		for _, positive := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/positive=%v", width, positive), func(t *testing.T) {
				x := newSplitRig(t, 2, 2048, 2048, width, false)
				defer x.pool.Trim()
				var wide []backend.View
				for i, v := range x.in {
					if positive && i != 1 && i < 4 { // queries are not, or all scores would be large
						x.ok(x.d.Run(&backend.Call{Op: op.Abs, In: []backend.View{v}, Out: v}))
					}
					w := x.view(dtype.Float64, v.Shape)
					x.ok(x.d.Run(&backend.Call{Op: op.CastTo, Attrs: op.Cast{To: dtype.Float64}, In: []backend.View{v}, Out: w}))
					wide = append(wide, w)
				}
				wantY, wantGrads := x.run(wide)
				y, grads := x.run(x.in)
				x.d.trial.split = -1
				plainY, plainGrads := x.run(x.in)
				n := len(y)
				for i, name := range []string{"y", "dq", "dk", "dv"} {
					want, got, plain := wantY, y, plainY
					if i > 0 {
						want, got, plain = wantGrads[(i-1)*n:i*n], grads[(i-1)*n:i*n], plainGrads[(i-1)*n:i*n]
					}
					ours, others := relative(got, want), relative(plain, want)
					t.Logf("%s: error %.2e, of products in float32 %.2e", name, ours, others)
					if ours > 2*others {
						t.Errorf("%s: error %.2e, of products in float32 %.2e", name, ours, others)
					}
				}
			})
		}
	}
}

// relative returns the root of the sum of squares of differences, relative to that of want.
func relative(got, want []float64) float64 {
	off, size := 0.0, 0.0
	for i, w := range want {
		off += (got[i] - w) * (got[i] - w)
		size += w * w
	}
	return math.Sqrt(off / size)
}

// What the tensor cores cannot do, infinities and numbers that round to one, is what the
// other kernels make of it; other heads are untouched.
func TestAttentionSplitAgain(t *testing.T) {
	const heads, rows, keys, width = 6, 520, 650, 128
	for _, causal := range []bool{false, true} {
		for operand, name := range []string{"g", "q", "k", "v"} {
			for _, value := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32} {
				t.Run(fmt.Sprintf("causal=%v/%s/%v", causal, name, value), func(t *testing.T) {
					x := newSplitRig(t, heads, rows, keys, width, causal)
					defer x.pool.Trim()
					beforeY, beforeGrads := x.run(x.in)
					v := x.in[operand]
					host := make([]float32, v.Elements())
					raw := unsafe.Slice((*byte)(unsafe.Pointer(&host[0])), len(host)*4)
					x.ok(x.d.CopyOut(raw, v.Block, 0))
					host[2*v.Strides[0]+300*v.Strides[1]+7] = value // of the third head
					x.ok(x.d.CopyIn(v.Block, raw, nil))
					y, grads := x.run(x.in)
					x.d.trial.split = -1
					plainY, plainGrads := x.run(x.in)
					for _, r := range []struct {
						name               string
						got, plain, before []float64
					}{{"y", y, plainY, beforeY}, {"dq", grads[:heads*rows*width], plainGrads, beforeGrads},
						{"dk", grads[heads*rows*width:][:heads*keys*width], plainGrads[heads*rows*width:], beforeGrads[heads*rows*width:]},
						{"dv", grads[heads*(rows+keys)*width:], plainGrads[heads*(rows+keys)*width:], beforeGrads[heads*(rows+keys)*width:]}} {
						each := len(r.got) / heads
						if !slices.Equal(r.got[:2*each], r.before[:2*each]) || !slices.Equal(r.got[3*each:], r.before[3*each:len(r.got)]) {
							t.Errorf("%s of other heads has changed", r.name)
						}
						got, plain, largest := r.got[2*each:3*each], r.plain[2*each:3*each], 0.0
						for _, v := range plain {
							if a := math.Abs(v); a > largest && !math.IsInf(v, 0) {
								largest = a
							}
						}
						for i, v := range got {
							if same := v == plain[i] || v != v && plain[i] != plain[i] || math.Abs(v-plain[i]) < 1e-5*largest; !same {
								t.Fatalf("element %d of %s is %v, by products in float32 %v", i, r.name, v, plain[i])
							}
						}
					}
				})
			}
		}
	}
}
