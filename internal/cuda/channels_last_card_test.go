//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// turned is an image with the axes (N, H, W, C).
func turned(v backend.View) backend.View {
	n, s := v.Shape, v.Strides
	v.Shape, v.Strides = []int{n[0], n[2], n[3], n[1]}, []int{s[0], s[2], s[3], s[1]}
	return v
}

// last returns new memory for an image that lies channels last, gap elements apart from
// pixel to pixel.
func (x *rig) last(t dtype.DType, n []int, gap int) backend.View {
	v := x.view(t, []int{n[0], n[2], n[3], n[1] + gap})
	s := v.Strides
	v.Shape, v.Strides = n, []int{s[0], s[3], s[1], s[2]}
	return v
}

// toLast returns a copy of an image that lies channels last.
func (x *rig) toLast(v backend.View) backend.View {
	to := x.last(v.DType, v.Shape, 0)
	out := turned(to)
	x.ok(x.d.Run(&backend.Call{Op: op.Copy, In: []backend.View{turned(v)}, Out: out}))
	return to
}

// inLine returns the elements of a view in order.
func (x *rig) inLine(v backend.View) []float64 {
	to := x.view(v.DType, v.Shape)
	x.ok(x.d.Run(&backend.Call{Op: op.Copy, In: []backend.View{v}, Out: to}))
	return x.values(to)
}

// differs reports whether both layouts of a shape do.
func differs(n []int) bool { return len(n) == 4 && n[1] > 1 && n[2]*n[3] > 1 }

// off returns the largest distance of two lists, in parts of the largest number.
func off(a, b []float64) float64 {
	worst, size := 0.0, 1e-30
	for i := range a {
		if e := math.Abs(a[i] - b[i]); !(e <= worst) && !(a[i] != a[i] && b[i] != b[i]) {
			worst = e
		}
		size = math.Max(size, math.Abs(a[i]))
	}
	return worst / size
}

// imageCall is a call of an op on images.
type imageCall struct {
	id    op.ID
	attrs op.Attrs
	in    [][]int
	stats []int // operands that are float32 in half precision, and positive
}

// calls returns the call with random operands, and the same with images channels last.
func (s *imageCall) calls(x *rig, t dtype.DType) (plain, last *backend.Call) {
	plain, last = &backend.Call{Op: s.id, Attrs: s.attrs}, &backend.Call{Op: s.id, Attrs: s.attrs}
	var specs []op.Spec
	for i, shape := range s.in {
		dt := t
		if slices.Contains(s.stats, i) && t.Size() == 2 {
			dt = dtype.Float32
		}
		v := x.view(dt, shape)
		x.fill(v, uint64(i+1))
		if slices.Contains(s.stats, i) {
			w := x.view(dt, shape)
			x.ok(x.d.Run(&backend.Call{Op: op.Abs, In: []backend.View{v}, Out: w}))
			v = w
		}
		specs = append(specs, op.Spec{DType: dt, Shape: shape})
		plain.In = append(plain.In, v)
		if differs(shape) {
			v = x.toLast(v)
		}
		last.In = append(last.In, v)
	}
	out, err := op.Check(s.id, s.attrs, specs)
	x.ok(err)
	plain.Out, last.Out = x.view(out.DType, out.Shape), x.view(out.DType, out.Shape)
	if differs(out.Shape) {
		last.Out = x.last(out.DType, out.Shape, 0)
	}
	if more := op.Get(s.id).More; more != nil {
		for _, m := range more(s.attrs, specs) {
			plain.More, last.More = append(plain.More, x.view(m.DType, m.Shape)), append(last.More, x.view(m.DType, m.Shape))
		}
	}
	return plain, last
}

func batchNormCalls(n, c, h, w int) []imageCall {
	x, ch := []int{n, c, h, w}, []int{c}
	return []imageCall{
		{id: op.BatchNorm, attrs: op.Normalize{Eps: 1e-5, Weight: true, Bias: true}, in: [][]int{x, ch, ch}},
		{id: op.BatchNorm, attrs: op.Normalize{Eps: 1e-5, Weight: true, Bias: true, Running: true, Momentum: 0.1}, in: [][]int{x, ch, ch, ch, ch}, stats: []int{3, 4}},
		{id: op.BatchNorm, attrs: op.Normalize{Eps: 1e-5}, in: [][]int{x}},
		{id: op.BatchNormGrad, attrs: op.Normalize{Eps: 1e-5, Weight: true, Bias: true, GradWeight: true, GradBias: true}, in: [][]int{x, x, ch, ch, ch}, stats: []int{3, 4}},
		{id: op.BatchNormGrad, attrs: op.Normalize{Eps: 1e-5}, in: [][]int{x, x, ch, ch}, stats: []int{2, 3}},
	}
}

func poolCalls(n, c, h, w int) (l []imageCall) {
	x := []int{n, c, h, w}
	for _, p := range []op.Pool{
		{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}},
		{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Dilation: [2]int{1, 1}, CountPad: true},
		{Kernel: [2]int{3, 2}, Stride: [2]int{1, 1}, Pad: [2]int{1, 0}, Dilation: [2]int{1, 1}},
	} {
		y := []int{n, c, 0, 0}
		for i := range 2 {
			y[2+i] = op.PoolOut(x[2+i], p.Kernel[i], p.Stride[i], p.Pad[i], p.Dilation[i], false)
		}
		q := p
		q.Size = [2]int{h, w}
		l = append(l, imageCall{id: op.MaxPool, attrs: p, in: [][]int{x}}, imageCall{id: op.MaxPoolIndices, attrs: p, in: [][]int{x}},
			imageCall{id: op.MaxPoolGrad, attrs: p, in: [][]int{y, x}}, imageCall{id: op.AvgPool, attrs: p, in: [][]int{x}}, imageCall{id: op.AvgPoolGrad, attrs: q, in: [][]int{y}})
	}
	return l
}

func convCalls(a op.Conv, x, w [4]int) (l []imageCall) {
	for _, id := range convOps {
		c := convCall(id, dtype.Float32, a, x, w)
		a := a
		switch id {
		case op.ConvGradInput:
			a.Size = [2]int{x[2], x[3]}
		case op.ConvGradWeight:
			a.Size = [2]int{w[2], w[3]}
		}
		l = append(l, imageCall{id: id, attrs: a, in: [][]int{c.In[0].Shape, c.In[1].Shape}})
	}
	return l
}

var sameConv = op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}

// Ops on images are the same whether these lie channels last, and repeat their bits.
func TestChannelsLastOnCard(t *testing.T) {
	x := cardRig(t, 0)
	defer SetTF32(TF32())
	SetTF32(true)
	down := sameConv
	down.Stride, down.Pad = [2]int{2, 2}, [2]int{0, 0}
	var all []imageCall
	for _, n := range [][4]int{{2, 8, 5, 7}, {3, 3, 9, 4}, {16, 64, 24, 24}, {8, 320, 6, 6}, {4, 1030, 3, 2}, {128, 16, 48, 48}, {1, 6, 1, 2}} {
		all = append(all, batchNormCalls(n[0], n[1], n[2], n[3])...)
	}
	for _, n := range [][4]int{{2, 8, 5, 7}, {3, 33, 17, 9}, {4, 64, 24, 24}} {
		all = append(all, poolCalls(n[0], n[1], n[2], n[3])...)
	}
	all = append(all, convCalls(sameConv, [4]int{32, 64, 24, 24}, [4]int{64, 64, 3, 3})...)
	all = append(all, convCalls(sameConv, [4]int{2, 6, 7, 5}, [4]int{10, 6, 3, 3})...)
	all = append(all, convCalls(down, [4]int{32, 64, 24, 24}, [4]int{128, 64, 1, 1})...)
	stem := sameConv
	stem.Stride, stem.Pad = [2]int{2, 2}, [2]int{3, 3}
	all = append(all, convCalls(stem, [4]int{16, 3, 96, 96}, [4]int{64, 3, 7, 7})...)
	for _, stride := range []int{1, 2, 3} {
		depth := sameConv
		depth.Stride = [2]int{stride, stride}
		for _, n := range [][4]int{{4, 24, 13, 11}, {2, 37, 6, 9}, {16, 960, 6, 6}} {
			depth.Groups = n[1]
			all = append(all, convCalls(depth, n, [4]int{n[1], 1, 3, 3})...)
		}
		depth.Groups, depth.Pad, depth.Dilation = 6, [2]int{2, 1}, [2]int{2, 1}
		all = append(all, convCalls(depth, [4]int{3, 6, 12, 15}, [4]int{6, 1, 2, 5})...)
	}
	for _, dt := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float16, dtype.Float64} {
		for _, s := range all {
			t.Run(fmt.Sprintf("%s/%s/%v", s.id, dt, s.in), func(t *testing.T) {
				x := &rig{t, x.d, x.pool}
				_, conv := s.attrs.(op.Conv)
				if a, _ := s.attrs.(op.Conv); a.Groups == 1 && dt == dtype.Float64 {
					t.Skip("convolutions of float64 in one group never lie so")
				}
				bound := map[dtype.DType]float64{dtype.Float32: 2e-5, dtype.Float64: 1e-12, dtype.BFloat16: 0x1p-7, dtype.Float16: 0x1p-10}[dt]
				if conv && dt == dtype.Float32 {
					bound = 3e-3
				}
				if op.Get(s.id).Family == op.PoolFamily {
					bound = 0
				}
				plain, last := s.calls(x, dt)
				x.ok(x.d.Run(plain))
				for round := range 2 {
					x.fill(last.Out, 9)
					x.ok(x.d.Run(last))
					if e := off(x.inLine(plain.Out), x.inLine(last.Out)); !(e <= bound) {
						t.Errorf("round %d: off by %.2g of its size", round, e)
					}
					for i := range plain.More {
						if e := off(x.inLine(plain.More[i]), x.inLine(last.More[i])); !(e <= 10*bound) {
							t.Errorf("round %d, result %d: off by %.2g of its size", round, i+1, e)
						}
					}
				}
				first := x.inLine(last.Out)
				x.ok(x.d.Run(last))
				if !slices.Equal(first, x.inLine(last.Out)) {
					t.Error("it does not repeat its bits")
				}
			})
		}
	}
}

// Axes of operands may lie in any order, and apart. Choices of cuDNN were seen to compute
// something else then.
func TestConvolutionsOfViewsOnCard(t *testing.T) {
	x := cardRig(t, 0)
	defer SetTF32(TF32())
	SetTF32(true)
	wide := sameConv
	wide.Pad, wide.Dilation = [2]int{0, 0}, [2]int{2, 2}
	all := convCalls(wide, [4]int{1, 1, 5, 8}, [4]int{2, 1, 2, 3})
	all = append(all, convCalls(sameConv, [4]int{2, 6, 7, 5}, [4]int{10, 6, 3, 3})...)
	all = append(all, convCalls(sameConv, [4]int{32, 64, 24, 24}, [4]int{64, 64, 3, 3})...)
	for _, dt := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float16} {
		bound := map[dtype.DType]float64{dtype.Float32: 3e-3, dtype.BFloat16: 0x1p-7, dtype.Float16: 0x1p-10}[dt]
		for _, s := range all {
			t.Run(fmt.Sprintf("%s/%s/%v", s.id, dt, s.in), func(t *testing.T) {
				x := &rig{t, x.d, x.pool}
				plain, _ := s.calls(x, dt)
				x.ok(x.d.Run(plain))
				want := x.inLine(plain.Out)
				for _, order := range [][]int{{3, 2, 1, 0}, {0, 3, 2, 1}, {0, 1, 3, 2}, {1, 0, 2, 3}, {2, 3, 0, 1}, {0, 2, 3, 1}} { // outermost first
					for which := 1; which < 4; which++ { // bits: the operands that lie so
						for _, gap := range []int{0, 1} {
							call := *plain
							call.In = slices.Clone(plain.In)
							for i := range call.In {
								if which>>i&1 == 1 {
									call.In[i] = x.permuted(plain.In[i], order, gap)
								}
							}
							x.fill(call.Out, 9)
							x.ok(x.d.Run(&call))
							if e := off(want, x.inLine(call.Out)); !(e <= bound) {
								t.Errorf("axes %v, gap %d, operands %b: off by %.2g of its size", order, gap, which, e)
							}
						}
					}
				}
			})
		}
	}
}

// permuted returns a copy of an image whose axes lie in the given order, the outermost first,
// and whose elements lie gap elements apart.
func (x *rig) permuted(v backend.View, order []int, gap int) backend.View {
	shape := make([]int, 5)
	for i, a := range order {
		shape[i] = v.Shape[a]
	}
	shape[4] = 1 + gap
	room := x.view(v.DType, shape)
	to := room
	to.Shape, to.Strides = v.Shape, make([]int, 4)
	for i, a := range order {
		to.Strides[a] = room.Strides[i]
	}
	// Copies write in order, so the axes of both sides stand as they lie in room.
	from := v
	from.Shape, from.Strides = shape, make([]int, 5)
	for i, a := range order {
		from.Strides[i] = v.Strides[a]
	}
	x.ok(x.d.Run(&backend.Call{Op: op.Copy, In: []backend.View{from}, Out: room}))
	return to
}

// Operands may be some of the channels of images.
func TestChannelsLastPartsOnCard(t *testing.T) {
	x := cardRig(t, 0)
	for _, c := range []int{8, 6} {
		n := []int{3, c, 9, 11}
		wide := x.last(dtype.Float32, n, 4)
		whole := wide
		whole.Shape, whole.Strides = []int{3 * 9 * 11 * (c + 4)}, []int{1}
		x.fill(whole, 5)
		wide.Offset = 4 // the first channels are left out
		plain := x.view(dtype.Float32, n)
		x.ok(x.d.Run(&backend.Call{Op: op.Copy, In: []backend.View{wide}, Out: plain}))
		norm := op.Normalize{Eps: 1e-5}
		stats := func() (l []backend.View) {
			for range 4 {
				l = append(l, x.view(dtype.Float32, []int{c}))
			}
			return l
		}
		a := &backend.Call{Op: op.BatchNorm, Attrs: norm, In: []backend.View{plain}, Out: x.view(dtype.Float32, n), More: stats()}
		b := &backend.Call{Op: op.BatchNorm, Attrs: norm, In: []backend.View{wide}, Out: x.last(dtype.Float32, n, 0), More: stats()}
		x.ok(x.d.Run(a))
		x.ok(x.d.Run(b))
		if e := off(x.inLine(a.Out), x.inLine(b.Out)); !(e < 2e-5) {
			t.Errorf("%d of %d channels: off by %.2g of its size", c, c+4, e)
		}
	}
}

// Filters change their layout in lists.
func TestCastAllTurnsOnCard(t *testing.T) {
	x := cardRig(t, 0)
	for _, types := range [][2]dtype.DType{{dtype.Float32, dtype.Float32}, {dtype.Float32, dtype.BFloat16}, {dtype.BFloat16, dtype.Float32}, {dtype.Float16, dtype.Float16}} {
		call := &backend.Call{Op: op.CastAll, Attrs: op.Cast{To: types[1]}}
		var want [][]float64
		for i, n := range [][]int{{64, 3, 7, 7}, {5, 6, 3, 3}, {512, 512, 3, 3}, {7, 4, 1, 1}, {1, 9, 2, 5}} {
			v := x.view(types[0], n)
			x.fill(v, uint64(i+1))
			if i%2 == 1 { // the other way
				v = x.toLast(v)
			} else {
				v = turned(v)
			}
			one := x.view(types[1], v.Shape)
			x.ok(x.d.Run(&backend.Call{Op: op.CastTo, Attrs: op.Cast{To: types[1]}, In: []backend.View{v}, Out: one}))
			want = append(want, x.values(one))
			call.In = append(call.In, v)
			if out := x.view(types[1], v.Shape); i == 0 {
				call.Out = out
			} else {
				call.More = append(call.More, out)
			}
		}
		x.ok(x.d.Run(call))
		for i := range want {
			if !slices.Equal(want[i], x.values(*resultOf(call, i))) {
				t.Errorf("%s to %s: tensor %d differs", types[0], types[1], i)
			}
		}
	}
}

// What both layouts take in a step of ResNet-18, and which of cuDNN's ways was chosen: a
// table for people.
func TestChannelsLastTimesOnCard(t *testing.T) {
	x := cardRig(t, 0)
	defer SetTF32(TF32())
	SetTF32(true)
	conv := func(k, stride int) op.Conv {
		return op.Conv{Stride: [2]int{stride, stride}, Pad: [2]int{k / 2, k / 2}, Dilation: [2]int{1, 1}, Groups: 1}
	}
	type layer struct {
		times int
		calls []imageCall
	}
	layers := []layer{{1, convCalls(conv(7, 2), [4]int{128, 3, 96, 96}, [4]int{64, 3, 7, 7})}}
	for i, c := range []int{64, 128, 256, 512} {
		h := 24 >> i
		if i > 0 {
			layers = append(layers, layer{1, convCalls(conv(3, 2), [4]int{128, c / 2, 2 * h, 2 * h}, [4]int{c, c / 2, 3, 3})},
				layer{1, convCalls(conv(1, 2), [4]int{128, c / 2, 2 * h, 2 * h}, [4]int{c, c / 2, 1, 1})})
		}
		layers = append(layers, layer{4 - min(i, 1), convCalls(conv(3, 1), [4]int{128, c, h, h}, [4]int{c, c, 3, 3})})
		bn := batchNormCalls(128, c, h, h)
		layers = append(layers, layer{4 + min(i, 1), []imageCall{bn[1], bn[3]}})
	}
	bn, pool := batchNormCalls(128, 64, 48, 48), poolCalls(128, 64, 48, 48)
	layers = append(layers, layer{1, []imageCall{bn[1], bn[3], pool[0], pool[2]}})
	depth := conv(3, 1)
	depth.Groups = 144
	mobile := batchNormCalls(128, 144, 24, 24)
	layers = append(layers, layer{0, convCalls(depth, [4]int{128, 144, 24, 24}, [4]int{144, 1, 3, 3})}, layer{0, convCalls(conv(1, 1), [4]int{128, 24, 24, 24}, [4]int{144, 24, 1, 1})},
		layer{0, convCalls(conv(1, 1), [4]int{128, 144, 24, 24}, [4]int{24, 144, 1, 1})}, layer{0, []imageCall{mobile[1], mobile[3]}}) // of MobileNetV2
	for _, dt := range []dtype.DType{dtype.Float32, dtype.BFloat16} {
		var sums [2]time.Duration
		for _, l := range layers {
			for _, s := range l.calls {
				x := &rig{t, x.d, x.pool}
				plain, last := s.calls(x, dt)
				var took [2]time.Duration
				var by [2]string
				for k, c := range []*backend.Call{plain, last} {
					for range 3 {
						x.ok(x.d.Run(c))
					}
					took[k] = time.Hour
					for range 3 {
						x.ok(x.d.Synchronize())
						start := time.Now()
						for range 20 {
							x.ok(x.d.Run(c))
						}
						x.ok(x.d.Synchronize())
						took[k] = min(took[k], time.Since(start)/20)
					}
					sums[k] += took[k] * time.Duration(l.times)
					if _, ok := c.Attrs.(op.Conv); ok && x.d.libs.dnn != nil && x.d.libs.dnn.plans != nil {
						by[k] = "our own"
						if p := x.d.libs.dnn.plans[convKeyOf(c)]; p != nil && len(p.choices) > 0 {
							by[k] = p.choices[0].String()
						}
					}
				}
				t.Logf("%-20s %-8s %v ×%d: %v, channels last %v  (%s; %s)", s.id, dt, s.in[:1], l.times, took[0].Round(100), took[1].Round(100), by[0], by[1])
			}
		}
		t.Logf("all of %s: %v, channels last %v", dt, sums[0], sums[1])
	}
}

// A batch normalization that ends with a sum and an activation, and its gradient, have the
// bits of single ops.
func TestEndedNormOnCard(t *testing.T) {
	x := cardRig(t, 0)
	for _, dt := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float16, dtype.Float64} {
		for _, n := range [][]int{{2, 8, 5, 7}, {3, 6, 9, 4}, {16, 64, 24, 24}, {8, 320, 6, 6}} {
			for _, act := range []op.ID{op.Invalid, op.Relu, op.Relu6} {
				for _, add := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%v/%s/%t", dt, n, act, add), func(t *testing.T) {
						x := &rig{t, x.d, x.pool}
						calls := batchNormCalls(n[0], n[1], n[2], n[3])
						run := func(id op.ID, in ...backend.View) backend.View {
							out := x.last(dt, n, 0)
							for i := range in {
								in[i] = turned(in[i])
							}
							x.ok(x.d.Run(&backend.Call{Op: id, In: in, Out: turned(out)}))
							return out
						}
						_, c := calls[1].calls(x, dt)
						res := x.last(dt, n, 0)
						x.fill(res, 7)
						x.ok(x.d.Run(c))
						want := c.Out
						if add {
							want = run(op.Add, want, res)
						}
						if act != op.Invalid {
							want = run(act, want)
						}
						e := *c
						a := c.Attrs.(op.Normalize)
						e.Attrs, e.Out = op.NormEpilogue{Normalize: a, Act: act, Add: add}, x.last(dt, n, 0)
						if add {
							e.In = append(slices.Clone(c.In), res)
						}
						x.ok(x.d.Run(&e))
						if !slices.Equal(x.inLine(want), x.inLine(e.Out)) {
							t.Errorf("off by %.2g of its size", off(x.inLine(want), x.inLine(e.Out)))
						}
						if add || act == op.Invalid {
							return
						}
						// The gradient, with the same x, weight, bias and statistics.
						g := x.last(dt, n, 0)
						x.fill(g, 8)
						slope := op.ReluGrad
						if act == op.Relu6 {
							slope = op.Relu6Grad
						}
						_, b := calls[3].calls(x, dt)
						b.In = []backend.View{run(slope, g, want), c.In[0], c.In[1], c.More[0], c.More[1]}
						x.ok(x.d.Run(b))
						eb := *b
						eb.Attrs, eb.Out = op.NormEpilogue{Normalize: b.Attrs.(op.Normalize), Act: act}, x.last(dt, n, 0)
						eb.In = []backend.View{g, c.In[0], c.In[1], c.In[2], c.More[0], c.More[1]}
						eb.More = []backend.View{x.view(dt, n[1:2]), x.view(dt, n[1:2])}
						x.ok(x.d.Run(&eb))
						if !slices.Equal(x.inLine(b.Out), x.inLine(eb.Out)) {
							t.Errorf("the gradient is off by %.2g of its size", off(x.inLine(b.Out), x.inLine(eb.Out)))
						}
						for i := range b.More {
							if !slices.Equal(x.values(b.More[i]), x.values(eb.More[i])) {
								t.Errorf("gradient %d differs", i+1)
							}
						}
					})
				}
			}
		}
	}
}
