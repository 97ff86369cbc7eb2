//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Biases with activations, and the gradients of both, have the bits of single ops.
func TestBiasOnCard(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	checkBias(t, d, [][]int{{128, 6, 28, 28}, {128, 16, 10, 10}, {8192, 3072}, {16, 512, 2048}, {32, 64, 56, 56}, {2, 3, 1000, 1001}})
}

func TestEmulatedBias(t *testing.T) {
	run := emulation(t, "bias", "binary", "unary", "reduce", "index", "create")
	f, devices := openFake(t, 1)
	f.emulate = run
	checkBias(t, devices[0], nil)
}

// checkBias compares on d, for small shapes and others.
func checkBias(t *testing.T, d *Device, shapes [][]int) {
	pool := memory.NewPool(d)
	defer pool.Trim()
	shapes = append(shapes, [][]int{
		{40, 8}, {100, 3}, {300, 33}, {7, 9, 5}, {6, 20, 64}, {4, 5, 3, 3}, {2, 40, 4, 4}, {3, 2, 33, 40}, {1, 1, 64, 64}, {9, 16, 1, 1}, {65, 1},
	}...)
	for _, dt := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float16, dtype.Float64} {
		for _, shape := range shapes {
			if op.Elements(shape) > 1<<25 && dt == dtype.Float64 {
				continue
			}
			t.Run(fmt.Sprint(dt, shape), func(t *testing.T) {
				x := &rig{t, d, pool}
				r := len(shape)
				axes, channels := op.AxisSet(1<<(r-1)-1), shape[r-1]
				if r == 4 {
					axes, channels = op.AxesOf(0, 2, 3), shape[1]
				}
				g, y := x.numbers(dt, 1, shape...), x.numbers(dt, 2, shape...)
				kept := make([]int, r)
				for i := range kept {
					if kept[i] = shape[i]; axes.Has(i) {
						kept[i] = 1
					}
				}
				for _, grad := range op.ActivationGrads {
					want, wantSums := x.view(dt, shape), x.view(dt, kept)
					got, gotSums := x.view(dt, shape), x.view(dt, []int{channels})
					x.ok(d.Run(&backend.Call{Op: grad, In: []backend.View{g, y}, Out: want}))
					x.ok(d.Run(&backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: axes}, In: []backend.View{want}, Out: wantSums}))
					x.ok(d.Run(&backend.Call{Op: op.ActivationGradSum, Attrs: op.GradSum{Grad: grad, Axes: axes}, In: []backend.View{g, y}, Out: got, More: []backend.View{gotSums}}))
					x.same(grad.String(), got, want)
					x.same("sums of "+grad.String(), gotSums, wantSums)
					if !differs(shape) {
						continue
					}
					a, b, out := x.toLast(g), x.toLast(y), x.last(dt, shape, 0)
					x.ok(d.Run(&backend.Call{Op: op.ActivationGradSum, Attrs: op.GradSum{Grad: grad, Axes: axes}, In: []backend.View{a, b}, Out: out, More: []backend.View{gotSums}}))
					x.ok(d.Run(&backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: axes}, In: []backend.View{out}, Out: wantSums}))
					x.ok(d.Run(&backend.Call{Op: op.Copy, In: []backend.View{out}, Out: got}))
					x.same(grad.String()+", channels last", got, want)
					x.same("sums of "+grad.String()+", channels last", gotSums, wantSums)
				}
				if r != 4 && r != 2 {
					return
				}
				bias := x.numbers(dt, 4, shape[1])
				wide := bias
				wide.Shape, wide.Strides = shape, make([]int, r)
				wide.Strides[1] = 1
				for _, act := range append([]op.ID{op.Invalid}, op.Activations...) {
					want := x.view(dt, shape)
					x.ok(d.Run(&backend.Call{Op: op.Add, In: []backend.View{g, wide}, Out: want}))
					if act != op.Invalid {
						x.ok(d.Run(&backend.Call{Op: act, In: []backend.View{want}, Out: want}))
					}
					for _, image := range []bool{false, true} {
						got := x.view(dt, shape)
						if image {
							if !differs(shape) {
								continue
							}
							got = x.toLast(g)
						} else {
							x.ok(d.Run(&backend.Call{Op: op.Copy, In: []backend.View{g}, Out: got}))
						}
						x.ok(d.Run(&backend.Call{Op: op.BiasActivate, Attrs: op.Epilogue{Act: act}, In: []backend.View{got, bias}, Out: got}))
						if image {
							line := x.view(dt, shape)
							x.ok(d.Run(&backend.Call{Op: op.Copy, In: []backend.View{got}, Out: line}))
							got = line
						}
						x.same(fmt.Sprintf("bias and %v, channels last: %v", act, image), got, want)
					}
				}
			})
		}
	}
}

// numbers returns a tensor of numbers that are made on the host.
func (x *rig) numbers(dt dtype.DType, key uint64, shape ...int) backend.View {
	v, r := x.view(dt, shape), rand.New(rand.NewPCG(key, 1))
	raw := make([]uint64, op.Elements(shape)*dt.Size()/8+1)
	host := unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), op.Elements(shape)*dt.Size())
	for i := range op.Elements(shape) {
		elem.PutBits(dt, host[i*dt.Size():], elem.Bits(dt, 3*r.NormFloat64()))
	}
	x.ok(x.d.CopyIn(v.Block, host, func() {}))
	return v
}

// same fails unless two views have the same bits, or NaN in the same places.
func (x *rig) same(what string, got, want backend.View) {
	x.t.Helper()
	a, b := x.values(got), x.values(want)
	bad := 0
	for i := range a {
		if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
			if bad == 0 {
				x.t.Errorf("%s: element %d is %v, want %v", what, i, a[i], b[i])
			}
			bad++
		}
	}
	if bad > 1 {
		x.t.Errorf("%s: %d of %d elements differ", what, bad, len(a))
	}
}

// One launch, but for sums of few elements and for float64.
func TestBiasLaunches(t *testing.T) {
	f, x := fakeRig(t)
	x.hold(64 << 20).Free() // working memory, so that nothing starts over
	x.ok(x.d.with(x.pool, op.Sum, func() error { _, err := x.d.counters(new(reduceParams), 1); return err }))
	for _, c := range []struct {
		t     dtype.DType
		shape []int
		want  string
	}{
		{dtype.Float32, []int{128, 6, 28, 28}, "act_grad_sum_row_f32"},
		{dtype.Float32, []int{128, 120}, "act_grad_sum_tile_f32"},
		{dtype.BFloat16, []int{8192, 3072}, "act_grad_sum_tile_bf16"},
		{dtype.Float32, []int{8, 120}, "sigmoid_grad_f32 sum_col_f32"},
		{dtype.Float64, []int{128, 120}, "sigmoid_grad_f64 sum_tile_f64"},
	} {
		axes := op.AxesOf(0)
		if len(c.shape) == 4 {
			axes = op.AxesOf(0, 2, 3)
		}
		v := func(shape ...int) backend.View { return x.view(c.t, shape) }
		seen(f)
		x.ok(x.d.Run(&backend.Call{Op: op.ActivationGradSum, Attrs: op.GradSum{Grad: op.SigmoidGrad, Axes: axes},
			In: []backend.View{v(c.shape...), v(c.shape...)}, Out: v(c.shape...), More: []backend.View{v(c.shape[1])}}))
		if got := strings.Join(names(f), " "); got != c.want {
			t.Errorf("%v %v: launched %s, want %s", c.t, c.shape, got, c.want)
		}
	}
}

// BenchmarkBias times a bias with an activation, and the gradients of both, as one launch
// and as two.
func BenchmarkBias(b *testing.B) {
	for _, c := range []struct {
		t     dtype.DType
		act   op.ID
		grad  op.ID
		shape []int
	}{
		{dtype.Float32, op.Sigmoid, op.SigmoidGrad, []int{128, 6, 28, 28}},
		{dtype.Float32, op.Relu, op.ReluGrad, []int{64, 64, 56, 56}},
		{dtype.Float32, op.Relu, op.ReluGrad, []int{256, 256}},
		{dtype.Float32, op.Gelu, op.GeluGrad, []int{2048, 2048}},
		{dtype.BFloat16, op.Gelu, op.GeluGrad, []int{8192, 3072}},
	} {
		axes, n := op.AxesOf(0), op.Elements(c.shape)
		kept := []int{1, c.shape[1]}
		if len(c.shape) == 4 {
			axes, kept = op.AxesOf(0, 2, 3), []int{1, c.shape[1], 1, 1}
		}
		for _, back := range []bool{false, true} {
			for launches := 2; launches > 0; launches-- {
				name := fmt.Sprintf("%v%v/%v/back=%v/launches=%d", c.t, strings.ReplaceAll(fmt.Sprint(c.shape), " ", ","), c.act, back, launches)
				b.Run(name, func(b *testing.B) {
					x := newBench(b)
					g, y, out := x.random(c.t, c.shape...), x.random(c.t, c.shape...), x.empty(c.t, c.shape...)
					bias, sums := x.random(c.t, c.shape[1]), x.empty(c.t, kept...)
					var calls []*backend.Call
					switch {
					case back && launches == 1:
						sums.Shape, sums.Strides = []int{c.shape[1]}, []int{1}
						calls = []*backend.Call{{Op: op.ActivationGradSum, Attrs: op.GradSum{Grad: c.grad, Axes: axes}, In: []backend.View{g, y}, Out: out, More: []backend.View{sums}}}
					case back:
						calls = []*backend.Call{{Op: c.grad, In: []backend.View{g, y}, Out: out}, {Op: op.Sum, Attrs: op.Reduce{Axes: axes}, In: []backend.View{out}, Out: sums}}
					case launches == 1:
						calls = []*backend.Call{{Op: op.BiasActivate, Attrs: op.Epilogue{Act: c.act}, In: []backend.View{g, bias}, Out: out}}
					default:
						wide := bias
						wide.Shape, wide.Strides = c.shape, make([]int, len(c.shape))
						wide.Strides[1] = 1
						calls = []*backend.Call{{Op: op.Add, In: []backend.View{g, wide}, Out: out}, {Op: c.act, In: []backend.View{out}, Out: out}}
					}
					x.timeAll(calls, float64((2+op.Count(back))*n*c.t.Size()), "GB/s")
				})
			}
		}
	}
}
