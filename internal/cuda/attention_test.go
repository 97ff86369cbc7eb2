//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// attentionCase is one call with its operands as float64, and what it should give.
type attentionCase struct {
	batch, rows, keys, depth, width int
	causal                          bool
	mask                            dtype.DType // Invalid: none
	scale                           float64
	woven                           bool // the matrices of a batch lie row by row beside each other, as heads do
}

func (c attentionCase) String() string {
	mask := "none"
	if c.mask != dtype.Invalid {
		mask = c.mask.String()
	}
	return fmt.Sprintf("%dx%dx%dx%dx%d/causal=%v/mask=%s/woven=%v", c.batch, c.rows, c.keys, c.depth, c.width, c.causal, mask, c.woven)
}

// Attention and its gradients at sizes that no tile divides, against sums in
// float64. The suite's samples are too small to reach all of these kernels.
func TestAttentionKernels(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	for _, k := range []struct {
		name  string
		t     dtype.DType
		older bool    // the kernels of cards before Hopper
		split int     // of float32 on the tensor cores: never, or always
		eps   float64 // of sums that largely cancel; half-precision types round in between
	}{
		{"float32", dtype.Float32, false, -1, 16 * 0x1p-24}, {"float64", dtype.Float64, false, 0, 16 * 0x1p-53},
		{"split/float32", dtype.Float32, false, 1, 16 * 0x1p-24},
		{"bfloat16", dtype.BFloat16, false, 0, 2 * 0x1p-9}, {"float16", dtype.Float16, false, 0, 2 * 0x1p-12},
		{"older/bfloat16", dtype.BFloat16, true, 0, 2 * 0x1p-9}, {"older/float16", dtype.Float16, true, 0, 2 * 0x1p-12},
	} {
		for _, c := range []attentionCase{
			{2, 300, 333, 64, 64, false, 0, 0.125, false},
			{2, 333, 300, 64, 64, true, 0, 0.125, true},
			{1, 257, 520, 128, 128, true, 0, 0.09, false},
			{1, 520, 257, 128, 128, false, 0, 0.09, false},
			{1, 260, 390, 80, 96, false, 0, 0.1, false},
			{3, 130, 140, 32, 24, true, 0, 0.2, true},
			{2, 200, 210, 64, 48, true, dtype.Bool, 0.125, false},
			{2, 200, 210, 128, 72, false, k.t, 0.1, false},
			{1, 150, 150, 64, 64, false, 0, -0.125, false},
			{1, 70, 90, 160, 136, true, 0, 0.08, false},
			{2, 100, 120, 63, 61, true, 0, 0.1, false},
			{300, 40, 50, 64, 64, true, 0, 0.125, false}, // a block takes several
		} {
			t.Run(fmt.Sprintf("%s/%v", k.name, c), func(t *testing.T) {
				d.trial.older, d.trial.split = k.older, k.split
				x := &rig{t, d, pool}
				c.check(x, c.operands(x, k.t), k.eps)
			})
		}
	}
}

// The same by cuDNN, at lengths at which it is not worth its while. Gradients of
// narrow heads are our own, from what cuDNN has saved.
func TestAttentionByDNN(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	d.trial.shortDNN = true
	pool := memory.NewPool(d)
	defer pool.Trim()
	n := dnnOf(t, d)
	if n == nil || !n.lib.hasGraphs(dnnAttention) || d.card.major != 9 {
		t.Skip("cuDNN does no attention here: it takes version 9.10.2 and a card of compute capability 9.0")
	}
	for dt, eps := range map[dtype.DType]float64{dtype.BFloat16: 2 * 0x1p-9, dtype.Float16: 2 * 0x1p-12} {
		for _, c := range []attentionCase{
			{2, 256, 384, 64, 64, false, 0, 0.125, false},
			{2, 384, 256, 64, 64, true, 0, 0.125, true},
			{1, 256, 512, 128, 128, true, 0, 0.09, false},
			{3, 512, 256, 128, 128, false, 0, 0.09, true},
			{2, 640, 640, 128, 128, true, 0, 0.09, true},
			{1, 256, 128, 80, 80, true, 0, 0.1, false},
			{2, 128, 128, 32, 32, false, 0, 0.2, false},
		} {
			for _, varies := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/varies=%v", dt, c, varies), func(t *testing.T) {
					defer SetVarying(Varying())
					SetVarying(varies)
					x := &rig{t, d, pool}
					clear(n.attentions)
					c.check(x, c.operands(x, dt), eps)
					plans := 0
					for k, p := range n.attentions {
						if plans++; !p.ok {
							t.Errorf("cuDNN refused %+v", k)
						}
					}
					if want := map[bool]int{false: 1, true: 2}[c.depth > dnnWide || varies]; plans != want {
						t.Errorf("%d plans, want %d", plans, want)
					}
				})
			}
		}
	}
}

// What is not a number stays where it belongs, by whichever kernels: a NaN in a
// query spoils its row, in a key the rows that see it.
func TestAttentionKeepsNaNInItsRows(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	for _, short := range []bool{false, true} {
		d.trial.shortDNN = short
		t.Run(fmt.Sprintf("shortDNN=%v", short), func(t *testing.T) {
			x := &rig{t, d, pool}
			const rows, w = 256, 128
			views := []backend.View{x.random(dtype.BFloat16, 1, 1, rows, w), x.random(dtype.BFloat16, 2, 1, rows, w), x.random(dtype.BFloat16, 3, 1, rows, w)}
			y, saved := x.random(dtype.BFloat16, 4, 1, rows, w), x.random(dtype.Float32, 5, 1, rows)
			nan := dtype.ToBF16(float32(math.NaN()))
			for i, row := range []int{17, 200} { // of q, of k
				host := make([]dtype.BF16, rows*w)
				raw := unsafe.Slice((*byte)(unsafe.Pointer(&host[0])), len(host)*2)
				x.ok(d.CopyOut(raw, views[i].Block, 0))
				host[row*w+5] = nan
				x.ok(d.CopyIn(views[i].Block, raw, nil))
			}
			x.ok(d.Run(&backend.Call{Op: op.Attend, Attrs: op.Attention{Scale: 0.09, Causal: true}, In: views, Out: y, More: []backend.View{saved}}))
			values, lse := x.values(y), x.values(saved)
			for r := range rows {
				spoilt := r == 17 || r >= 200
				if math.IsNaN(values[r*w]) != spoilt || math.IsNaN(lse[r]) != spoilt {
					t.Errorf("row %d: result %v, saved %v; want NaN: %v", r, values[r*w], lse[r], spoilt)
				}
			}
		})
	}
}

// Gradients that store something take some of the heads at a time: the last one's
// are as if it were alone, to the bit by our kernels, and nearly by cuDNN's, which may
// choose another way for another number of heads.
func TestAttentionInTurns(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	for _, c := range []struct {
		t                   dtype.DType
		heads, length, wide int
		causal              bool
		eps                 float64
	}{{dtype.Float32, 40, 2048, 8, false, 0}, {dtype.Float32, 80, 2048, 8, true, 0}, {dtype.BFloat16, 36, 4096, 128, false, 2 * 0x1p-9}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			x := &rig{t, d, pool}
			var all, last []backend.View // g, q, k, v, y, saved
			for i := range 6 {
				v := x.random(c.t, uint64(i), c.heads, c.length, c.wide)
				if i == 5 {
					v = x.random(dtype.Float32, 5, c.heads, c.length)
				}
				one := v
				one.Shape = append([]int{1}, v.Shape[1:]...)
				one.Offset = (c.heads - 1) * v.Strides[0]
				all, last = append(all, v), append(last, one)
			}
			attrs := op.Attention{Scale: 0.09, Causal: c.causal}
			x.ok(d.Run(&backend.Call{Op: op.Attend, Attrs: attrs, In: all[1:4], Out: all[4], More: []backend.View{all[5]}}))
			each := c.length * c.wide
			grads, alone := x.view(c.t, []int{3 * c.heads * each}), x.view(c.t, []int{3 * each})
			x.ok(d.Run(&backend.Call{Op: op.AttendGrad, Attrs: attrs, In: all, Out: grads}))
			x.ok(d.Run(&backend.Call{Op: op.AttendGrad, Attrs: attrs, In: last, Out: alone}))
			want, piece := x.values(alone), x.view(c.t, []int{each})
			for i, name := range []string{"dq", "dk", "dv"} {
				from := backend.View{Block: grads.Block, Offset: ((i+1)*c.heads - 1) * each, Shape: piece.Shape, Strides: piece.Strides, DType: c.t}
				x.ok(d.Run(&backend.Call{Op: op.Copy, In: []backend.View{from}, Out: piece}))
				if got := x.values(piece); c.eps > 0 {
					compare(t, name, got, want[i*each:][:each], c.eps)
				} else if !slices.Equal(got, want[i*each:][:each]) {
					t.Errorf("%s of the last head is not what it is alone", name)
				}
			}
		})
	}
}

// operands returns g, q, k, v, y, what attention saves and perhaps a mask, random.
func (c attentionCase) operands(x *rig, dt dtype.DType) []backend.View {
	var views []backend.View
	for i, s := range [][]int{{c.rows, c.width}, {c.rows, c.depth}, {c.keys, c.depth}, {c.keys, c.width}, {c.rows, c.width}} {
		v := x.random(dt, uint64(i), c.batch, s[0], s[1])
		if c.woven && i < 4 {
			v.Strides = []int{s[1], c.batch * s[1], 1}
		}
		views = append(views, v)
	}
	saved := op.Get(op.Attend).More(nil, []op.Spec{{DType: dt, Shape: views[1].Shape}})[0]
	views = append(views, x.random(saved.DType, 8, saved.Shape...))
	switch c.mask {
	case dtype.Invalid:
	case dtype.Bool:
		m := x.view(dtype.Bool, []int{c.batch, c.rows, c.keys})
		host := make([]byte, m.Elements())
		for i := range host {
			if i*7919%1000 < 700 {
				host[i] = 1
			}
		}
		x.ok(x.d.CopyIn(m.Block, host, nil))
		views = append(views, m)
	default: // the same for the whole batch
		m := x.random(dt, 9, c.rows, c.keys)
		m.Shape, m.Strides = []int{c.batch, c.rows, c.keys}, []int{0, c.keys, 1}
		views = append(views, m)
	}
	return views
}

func (x *rig) random(dt dtype.DType, key uint64, shape ...int) backend.View {
	v := x.view(dt, shape)
	x.fill(v, key+1)
	return v
}

// check runs forward and gradient; errors are relative to the root mean square
// of what is compared. The gradient must repeat to the bit, unless it need not.
func (c attentionCase) check(x *rig, in []backend.View, eps float64) {
	t, attrs := in[0].DType, op.Attention{Scale: c.scale, Causal: c.causal}
	y, saved := in[4], in[5]
	forward := &backend.Call{Op: op.Attend, Attrs: attrs, In: slices.Concat(in[1:4], in[6:]), Out: y}
	x.ok(x.d.Run(forward))
	alone := x.values(y)
	forward.More = []backend.View{saved}
	x.ok(x.d.Run(forward))
	if !slices.Equal(alone, x.values(y)) {
		x.t.Errorf("the result is another when something is saved")
	}
	grads := x.random(t, 77, in[1].Elements()+in[2].Elements()+in[3].Elements())
	call := &backend.Call{Op: op.AttendGrad, Attrs: attrs, In: in, Out: grads}
	x.ok(x.d.Run(call))
	first := x.values(grads)
	wantY, wantSaved, wantGrads := c.reference(x, in)
	compare(x.t, "result", x.values(y), wantY, eps)
	compare(x.t, "saved", x.values(saved), wantSaved, max(0x1p-20, min(eps, 0x1p-18))) // at least float32
	nq, nk := in[1].Elements(), in[2].Elements()
	compare(x.t, "dq", first[:nq], wantGrads[:nq], 2*eps)
	compare(x.t, "dk", first[nq:nq+nk], wantGrads[nq:nq+nk], 2*eps)
	compare(x.t, "dv", first[nq+nk:], wantGrads[nq+nk:], 2*eps)
	x.ok(x.d.Run(call))
	for i, v := range x.values(grads) {
		if v != first[i] && !Varying() {
			x.t.Fatalf("element %d of the gradients is %v, then %v", i, first[i], v)
		}
	}
}

func compare(t testing.TB, what string, got, want []float64, eps float64) {
	t.Helper()
	square, off, worst := 0.0, 0.0, 0
	for i, w := range want {
		if got[i] != got[i] {
			t.Errorf("%s: element %d of %d is NaN, want %v", what, i, len(want), w)
			return
		}
		if math.IsInf(w, 0) && got[i] == w {
			got[i], want[i] = 0, 0
			continue
		}
		square += w * w
		off += (got[i] - w) * (got[i] - w)
		if math.Abs(got[i]-w) > math.Abs(got[worst]-want[worst]) {
			worst = i
		}
	}
	rms := math.Sqrt(square / float64(len(want)))
	relative := math.Sqrt(off / square)
	if relative > eps || math.Abs(got[worst]-want[worst]) > 16*eps*(rms+math.Abs(want[worst])) {
		t.Errorf("%s: relative error %.3g, allowed %.3g; element %d of %d is %v, want %v", what, relative, eps, worst, len(want), got[worst], want[worst])
	}
}

// ordered returns the elements of matrices in order, which may be woven.
func (c attentionCase) ordered(x *rig, v backend.View) []float64 {
	from := x.values(v)
	if !c.woven {
		return from
	}
	rows, cols := v.Shape[1], v.Shape[2]
	to := make([]float64, 0, len(from))
	for b := range c.batch {
		for r := range rows {
			to = append(to, from[(r*c.batch+b)*cols:][:cols]...)
		}
	}
	return to
}

// reference computes y, what is saved and the gradients in float64 from the rounded operands.
func (c attentionCase) reference(x *rig, in []backend.View) (y, saved, grads []float64) {
	g, q, k, v := c.ordered(x, in[0]), c.ordered(x, in[1]), c.ordered(x, in[2]), c.ordered(x, in[3])
	var mask []float64
	var shown []byte
	if len(in) == 7 && c.mask == dtype.Bool {
		shown = make([]byte, in[6].Elements())
		x.ok(x.d.CopyOut(shown, in[6].Block, 0))
	} else if len(in) == 7 {
		m := in[6]
		m.Shape, m.Strides = m.Shape[1:], m.Strides[1:]
		mask = x.values(m)
	}
	y, saved = make([]float64, c.batch*c.rows*c.width), make([]float64, c.batch*c.rows)
	grads = make([]float64, len(q)+len(k)+len(v))
	dq, dkv := grads[:len(q)], grads[len(q):]
	// Rows are independent but for dk and dv, of which each part of the rows has its own.
	parts := make([][]float64, 16)
	var wg sync.WaitGroup
	for part := range parts {
		wg.Go(func() {
			sums := make([]float64, len(dkv))
			parts[part] = sums
			dk, dv := sums[:len(k)], sums[len(k):]
			w, t := make([]float64, c.keys), make([]float64, c.keys)
			for row := part; row < c.batch*c.rows; row += len(parts) {
				b, i := row/c.rows, row%c.rows
				qi, gi, yi := q[row*c.depth:][:c.depth], g[row*c.width:][:c.width], y[row*c.width:][:c.width]
				top, sum, less := math.Inf(-1), 0.0, 0.0
				for j := range w {
					kj, vj := k[(b*c.keys+j)*c.depth:], v[(b*c.keys+j)*c.width:]
					s := 0.0
					for l, a := range qi {
						s += a * kj[l]
					}
					w[j], t[j] = s*c.scale, 0
					if mask != nil {
						w[j] += mask[i*c.keys+j]
					}
					if c.causal && j > i || shown != nil && shown[row*c.keys+j] == 0 {
						w[j] = math.Inf(-1)
					}
					top = max(top, w[j])
					for l, a := range gi {
						t[j] += a * vj[l]
					}
				}
				if math.IsInf(top, -1) {
					saved[row] = math.Inf(1)
					continue
				}
				for j := range w {
					w[j] = math.Exp(w[j] - top)
					sum += w[j]
				}
				saved[row] = top + math.Log(sum)
				for j := range w {
					w[j] /= sum
					less += w[j] * t[j]
				}
				for j := range w {
					s := w[j] * (t[j] - less) * c.scale
					at, vt := (b*c.keys+j)*c.depth, (b*c.keys+j)*c.width
					for l := range qi {
						dq[row*c.depth+l] += s * k[at+l]
						dk[at+l] += s * qi[l]
					}
					for l := range gi {
						yi[l] += w[j] * v[vt+l]
						dv[vt+l] += w[j] * gi[l]
					}
				}
			}
		})
	}
	wg.Wait()
	for _, sums := range parts {
		for i, s := range sums {
			dkv[i] += s
		}
	}
	return y, saved, grads
}
