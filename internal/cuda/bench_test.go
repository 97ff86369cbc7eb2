//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// bench is a device with a pool and shorthands.
type bench struct {
	b    *testing.B
	d    *Device
	pool *memory.Pool
}

func newBench(b *testing.B) *bench {
	d := gpu(b)
	x := &bench{b, d, memory.NewPool(d)}
	b.Cleanup(func() { x.pool.Trim() })
	return x
}

func (x *bench) ok(err error) {
	x.b.Helper()
	if err != nil {
		x.b.Fatal(err)
	}
}

func (x *bench) empty(t dtype.DType, shape ...int) backend.View {
	b, err := x.pool.Allocate(op.Elements(shape)*t.Size(), func() memory.Label { return memory.Label{} })
	x.ok(err)
	x.b.Cleanup(func() { b.Free() })
	return backend.View{Block: b, Shape: shape, Strides: op.Strides(shape), DType: t}
}

func (x *bench) random(t dtype.DType, shape ...int) backend.View {
	v := x.empty(t, shape...)
	x.ok(x.d.Run(&backend.Call{Op: op.RandNormal, Attrs: op.Random{DType: t, Shape: op.DimsOf(shape), Key: 7}, Out: v}))
	return v
}

// time runs a call in batches of about 20 ms and reports its rate: amount per
// call in units of 1e9, or 1e12 for TFLOP/s.
func (x *bench) time(c *backend.Call, amount float64, unit string) {
	x.timeAll([]*backend.Call{c}, amount, unit)
}

// timeAll does so with several calls, one after the other.
func (x *bench) timeAll(calls []*backend.Call, amount float64, unit string) {
	batch := func(n int) time.Duration {
		start := x.d.Record()
		for range n {
			for _, c := range calls {
				if err := x.d.Run(c); err != nil {
					x.b.Fatal(err)
				}
			}
		}
		end := x.d.Record()
		x.ok(x.d.Synchronize())
		return end.Since(start)
	}
	batch(3)
	reps := int(20*time.Millisecond/max(batch(1), time.Microsecond)) + 1
	var gpu time.Duration
	batches := 0
	for x.b.Loop() {
		gpu += batch(reps)
		batches++
	}
	each := gpu.Seconds() / float64(batches*reps)
	x.b.ReportMetric(0, "ns/op") // of a batch: no use
	x.b.ReportMetric(each*1e6, "µs/call")
	if unit != "" {
		scale := 1e9
		if unit == "TFLOP/s" {
			scale = 1e12
		}
		x.b.ReportMetric(amount/each/scale, unit)
	}
}

func BenchmarkAddSmall(b *testing.B) {
	x := newBench(b)
	v := x.random(dtype.Float32, 2, 3)
	x.time(&backend.Call{Op: op.Add, In: []backend.View{v, v}, Out: x.empty(dtype.Float32, 2, 3)}, 0, "")
}

func BenchmarkElementwise(b *testing.B) {
	const n = 64 << 20
	for _, c := range []struct {
		id op.ID
		in int
	}{{op.Add, 2}, {op.Gelu, 1}, {op.Exp, 1}, {op.Tanh, 1}, {op.Sin, 1}, {op.Copy, 1}} {
		for _, t := range []dtype.DType{dtype.Float32, dtype.BFloat16} {
			b.Run(fmt.Sprintf("%s/%s", c.id, t), func(b *testing.B) {
				x := newBench(b)
				call := &backend.Call{Op: c.id, Out: x.empty(t, n)}
				for range c.in {
					call.In = append(call.In, x.random(t, n))
				}
				x.time(call, float64(n*t.Size()*(c.in+1)), "GB/s")
			})
		}
	}
	b.Run("add row", func(b *testing.B) { // a bias
		x := newBench(b)
		bias := x.random(dtype.Float32, 4096)
		bias.Shape, bias.Strides = []int{16384, 4096}, []int{0, 1}
		x.time(&backend.Call{Op: op.Add, In: []backend.View{x.random(dtype.Float32, 16384, 4096), bias}, Out: x.empty(dtype.Float32, 16384, 4096)}, 2*4*n, "GB/s")
	})
	b.Run("transposed copy", func(b *testing.B) {
		x := newBench(b)
		v := x.random(dtype.Float32, 4096, 16384)
		v.Shape, v.Strides = []int{16384, 4096}, []int{1, 16384}
		x.time(&backend.Call{Op: op.Copy, In: []backend.View{v}, Out: x.empty(dtype.Float32, 16384, 4096)}, 2*4*n, "GB/s")
	})
}

func BenchmarkReduce(b *testing.B) {
	b.Run("norm/100x100", func(b *testing.B) {
		x := newBench(b)
		x.time(&backend.Call{Op: op.Norm, Attrs: op.Reduce{Axes: op.AxesOf(0, 1)}, In: []backend.View{x.random(dtype.Float32, 100, 100)}, Out: x.empty(dtype.Float32, 1, 1)}, 0, "")
	})
	for _, id := range []op.ID{op.Sum, op.Max, op.LogSumExp, op.ArgMax} {
		for _, axes := range []op.AxisSet{op.AxesOf(1), op.AxesOf(0), op.AxesOf(0, 1)} {
			b.Run(fmt.Sprintf("%s/axes%v", id, axes.List()), func(b *testing.B) {
				x := newBench(b)
				out := x.empty(dtype.Int64, 16384)
				var attrs op.Attrs = op.Reduce{Axes: axes}
				if id == op.ArgMax {
					if axes.Len() > 1 {
						b.Skip("takes one axis")
					}
					attrs = op.Axis{Axis: axes.List()[0]}
				}
				x.time(&backend.Call{Op: id, Attrs: attrs, In: []backend.View{x.random(dtype.Float32, 16384, 4096)}, Out: out}, 16384*4096*4, "GB/s")
			})
		}
	}
}

func BenchmarkFused(b *testing.B) {
	for _, t := range []dtype.DType{dtype.Float32, dtype.BFloat16} {
		for _, id := range []op.ID{op.Softmax, op.SoftmaxGrad, op.LogSoftmax} {
			b.Run(fmt.Sprintf("%s/%s", id, t), func(b *testing.B) {
				x := newBench(b)
				if !x.d.Supports(id, t) {
					b.Skip("no kernel")
				}
				v := x.random(t, 16384, 4096)
				call := &backend.Call{Op: id, Attrs: op.Axis{Axis: 1}, In: []backend.View{v}, Out: x.empty(t, 16384, 4096)}
				if op.Get(id).Arity == 2 {
					call.In = append(call.In, x.random(t, 16384, 4096))
				}
				x.time(call, float64(16384*4096*t.Size()*(len(call.In)+1)), "GB/s")
			})
		}
	}
}

// Layers of a transformer and channels of images, and their gradients, with weight
// and bias.
func BenchmarkNormalize(b *testing.B) {
	for _, t := range []dtype.DType{dtype.Float32, dtype.BFloat16} {
		for _, n := range []struct {
			id, grad op.ID
			attrs    op.Normalize
			shape    []int
		}{
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 1, Params: [2]int{1, 2}}, []int{8192, 768}},
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 1, Params: [2]int{1, 2}}, []int{16384, 4096}},
			{op.Normalized, op.NormalizeGrad, op.Normalize{From: 2, Params: [2]int{1, 3}}, []int{16, 32, 4, 4096}},
			{op.BatchNorm, op.BatchNormGrad, op.Normalize{}, []int{128, 64, 32, 32}},
			{op.BatchNorm, op.BatchNormGrad, op.Normalize{}, []int{128, 512, 4, 4}},
			{op.BatchNorm, op.BatchNormGrad, op.Normalize{}, []int{4096, 512}},
		} {
			a := n.attrs
			a.Eps, a.Weight, a.Bias = 1e-5, true, true
			x := newBench(b)
			in := x.random(t, n.shape...)
			w := x.random(t, a.ParamShape(n.id, n.shape)...)
			run := func(call *backend.Call) {
				var specs []op.Spec
				for _, v := range call.In {
					specs = append(specs, op.Spec{DType: v.DType, Shape: v.Shape})
				}
				call.Out = x.empty(t, n.shape...)
				for _, m := range op.Get(call.Op).More(call.Attrs, specs) {
					call.More = append(call.More, x.empty(m.DType, m.Shape...))
				}
				b.Run(fmt.Sprintf("%s/%s%s", call.Op, t, op.ShapeString(n.shape)), func(b *testing.B) {
					of := *x
					of.b = b
					of.time(call, float64(op.Elements(n.shape)*t.Size()*(len(call.In)/3+2)), "GB/s")
				})
			}
			forward := &backend.Call{Op: n.id, Attrs: a, In: []backend.View{in, w, w}}
			run(forward)
			a.GradWeight, a.GradBias = true, true
			run(&backend.Call{Op: n.grad, Attrs: a, In: []backend.View{x.random(t, n.shape...), in, w, forward.More[0], forward.More[1]}})
		}
	}
}

// The same as below where sums need no fixed order.
func BenchmarkEmbeddingVarying(b *testing.B) {
	defer SetVarying(Varying())
	SetVarying(true)
	BenchmarkEmbedding(b)
}

// Rows of a table, and their gradient; and numbers, each with an index of its own.
func BenchmarkEmbedding(b *testing.B) {
	b.Run("scatter_add", func(b *testing.B) {
		x := newBench(b)
		const rows, width, from = 4096, 1024, 512
		out, index, src := x.random(dtype.Float32, rows, width), x.empty(dtype.Int64, rows, from), x.random(dtype.Float32, rows, from)
		x.ok(x.d.Run(&backend.Call{Op: op.RandInt, Attrs: op.Random{DType: dtype.Int64, Shape: op.DimsOf([]int{rows, from}), Key: 3, Low: 0, Span: width}, Out: index}))
		x.time(&backend.Call{Op: op.ScatterAdd, Attrs: op.Axis{Axis: 1}, In: []backend.View{out, index, src}, Out: x.empty(dtype.Float32, rows, width)}, 4*rows*(2*width+3*from), "GB/s")
	})
	for _, width := range []int{16, 64, 512, 4096} {
		rows := 32768 * 512 / width
		x := newBench(b)
		table, index := x.random(dtype.Float32, 50000, width), x.empty(dtype.Int64, rows)
		x.ok(x.d.Run(&backend.Call{Op: op.RandInt, Attrs: op.Random{DType: dtype.Int64, Shape: op.DimsOf([]int{rows}), Key: 3, Low: 0, Span: 50000}, Out: index}))
		out := x.empty(dtype.Float32, rows, width)
		b.Run(fmt.Sprintf("take/%d", width), func(b *testing.B) {
			x.b = b
			x.time(&backend.Call{Op: op.Take, Attrs: op.Axis{Axis: 0}, In: []backend.View{table, index}, Out: out}, float64(2*4*rows*width), "GB/s")
		})
		b.Run(fmt.Sprintf("index_add/%d", width), func(b *testing.B) {
			x.b = b
			x.time(&backend.Call{Op: op.IndexAdd, Attrs: op.Axis{Axis: 0}, In: []backend.View{table, index, out}, Out: x.empty(dtype.Float32, 50000, width)}, float64(4*(rows+2*50000)*width), "GB/s")
		})
		b.Run(fmt.Sprintf("gradient/%d", width), func(b *testing.B) { // to zeros that take no memory
			x.b = b
			zeros := table
			zeros.Strides = []int{0, 0}
			x.time(&backend.Call{Op: op.IndexAdd, Attrs: op.Axis{Axis: 0}, In: []backend.View{zeros, index, out}, Out: x.empty(dtype.Float32, 50000, width)}, float64(4*(rows+50000)*width), "GB/s")
		})
	}
}

// The gradients below in no fixed order.
func BenchmarkAttentionVarying(b *testing.B) {
	defer SetVarying(Varying())
	SetVarying(true)
	BenchmarkAttention(b)
}

func BenchmarkAttention(b *testing.B) {
	for _, t := range []dtype.DType{dtype.Float32, dtype.BFloat16} {
		for _, shape := range [][]int{{4, 16, 2048, 64}, {4, 16, 2048, 128}, {8, 8, 256, 64}} {
			for _, causal := range []bool{false, true} {
				for _, id := range []op.ID{op.Attend, op.AttendGrad} {
					b.Run(fmt.Sprintf("%s/%s/%v/causal=%v", id, t, shape, causal), func(b *testing.B) {
						x := newBench(b)
						in := []backend.View{x.random(t, shape...), x.random(t, shape...), x.random(t, shape...)}
						out, products := shape, 2
						if id == op.AttendGrad {
							in = append([]backend.View{x.random(t, shape...)}, append(in, x.random(t, shape...), x.random(dtype.Float32, shape[:3]...))...)
							out, products = []int{3 * op.Elements(shape)}, 5
						}
						each := 2 * float64(op.Elements(shape)) * float64(shape[2]) // of a product
						if causal {
							each /= 2
						}
						x.time(&backend.Call{Op: id, Attrs: op.Attention{Scale: 0.125, Causal: causal}, In: in, Out: x.empty(t, out...)},
							float64(products)*each, "TFLOP/s")
					})
				}
			}
		}
	}
}

func BenchmarkMatMul(b *testing.B) {
	for _, own := range []bool{false, true} {
		for _, t := range []string{"float32", "tf32", "bfloat16", "float16", "float64"} {
			for _, n := range []int{100, 1024, 4096, 8192} {
				name := "library"
				if own {
					name = "own"
				}
				if own && n == 8192 || t == "float64" && n != 4096 {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/%d", name, t, n), func(b *testing.B) {
					x := newBench(b)
					d, err := dtype.Parse(t)
					if err != nil {
						d = dtype.Float32
						SetTF32(true)
						defer SetTF32(false)
					}
					if own {
						x.d = newDevice(x.d.card, 0, x.d.name)
						x.d.libs.blas = &blas{unavailable: true} // as if there were none
						x.pool = memory.NewPool(x.d)
					}
					x.time(&backend.Call{Op: op.MatMul, In: []backend.View{x.random(d, n, n), x.random(d, n, n)}, Out: x.empty(d, n, n)},
						2*float64(n)*float64(n)*float64(n), "TFLOP/s")
				})
			}
		}
	}
}

func BenchmarkConv(b *testing.B) {
	for _, c := range []struct {
		x, w        []int
		stride, pad int
	}{
		{[]int{128, 64, 24, 24}, []int{64, 64, 3, 3}, 1, 1},
		{[]int{128, 128, 12, 12}, []int{128, 128, 3, 3}, 1, 1},
		{[]int{128, 3, 96, 96}, []int{64, 3, 7, 7}, 2, 3},
	} {
		oh, ow := op.ConvOut(c.x[2], c.w[2], c.stride, c.pad, 1), op.ConvOut(c.x[3], c.w[3], c.stride, c.pad, 1)
		y := []int{c.x[0], c.w[0], oh, ow}
		flops := 2 * float64(op.Elements(y)) * float64(c.w[1]*c.w[2]*c.w[3])
		a := op.Conv{Stride: [2]int{c.stride, c.stride}, Pad: [2]int{c.pad, c.pad}, Dilation: [2]int{1, 1}, Groups: 1}
		for _, own := range []bool{false, true} {
			t, name := dtype.Float32, "library"
			if own {
				name = "own"
			}
			for _, id := range []op.ID{op.Conv2D, op.ConvGradInput, op.ConvGradWeight} {
				b.Run(fmt.Sprintf("%s/%s/%v", name, id, c.x), func(b *testing.B) {
					x := newBench(b)
					if own {
						x.d = newDevice(x.d.card, 0, x.d.name)
						x.d.libs.dnn = &dnn{unavailable: true} // as if there were none
						x.pool = memory.NewPool(x.d)
					}
					if !x.d.Supports(id, t) {
						b.Skip("no kernel")
					}
					call := &backend.Call{Op: id}
					switch id {
					case op.Conv2D:
						call.In, call.Out = []backend.View{x.random(t, c.x...), x.random(t, c.w...)}, x.empty(t, y...)
					case op.ConvGradInput:
						a.Size = [2]int{c.x[2], c.x[3]}
						call.In, call.Out = []backend.View{x.random(t, y...), x.random(t, c.w...)}, x.empty(t, c.x...)
					case op.ConvGradWeight:
						a.Size = [2]int{c.w[2], c.w[3]}
						call.In, call.Out = []backend.View{x.random(t, y...), x.random(t, c.x...)}, x.empty(t, c.w...)
					}
					call.Attrs = a
					x.time(call, flops, "TFLOP/s")
				})
			}
		}
	}
}

func BenchmarkCopies(b *testing.B) {
	for _, n := range []int{4, 4 << 10, 1 << 20, 256 << 20} {
		b.Run(fmt.Sprintf("in/%d", n), func(b *testing.B) {
			x := newBench(b)
			v, host := x.empty(dtype.Uint8, n), bytes.Repeat([]byte{1}, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				x.ok(x.d.CopyIn(v.Block, host, nil))
			}
			x.ok(x.d.Synchronize())
		})
		b.Run(fmt.Sprintf("out/%d", n), func(b *testing.B) {
			x := newBench(b)
			v, host := x.empty(dtype.Uint8, n), bytes.Repeat([]byte{1}, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				x.ok(x.d.CopyOut(host, v.Block, 0))
			}
		})
	}
}

// by makes the device compute products in one way only.
func (x *bench) by(way string) {
	x.d = newDevice(x.d.card, 0, way)
	switch way {
	case "cuBLAS":
		x.d.libs.lt = &lt{unavailable: true}
	case "own":
		x.d.libs.blas = &blas{unavailable: true}
	}
}

// Linear maps by each way that they can be computed, beside the plain product
// from both libraries.
func BenchmarkLinear(b *testing.B) {
	for _, t := range []dtype.DType{dtype.BFloat16, dtype.Float32} {
		for _, n := range []int{1024, 4096, 8192} {
			if n == 8192 && t == dtype.Float32 {
				continue
			}
			flops := 2 * float64(n) * float64(n) * float64(n)
			call := func(x *bench, act op.ID) *backend.Call {
				in := []backend.View{x.random(t, n, n), x.random(t, n, n), x.random(t, n)}
				return &backend.Call{Op: op.Linear, Attrs: op.Epilogue{Act: act}, In: in, Out: x.empty(t, n, n)}
			}
			for _, way := range []string{"cuBLASLt", "cuBLAS", "own"} {
				for _, act := range []op.ID{op.Invalid, op.Relu, op.Gelu, op.GeluTanh} {
					b.Run(fmt.Sprintf("%s/%d/%s/%s", t, n, way, act), func(b *testing.B) {
						x := newBench(b)
						x.by(way)
						x.time(call(x, act), flops, "TFLOP/s")
					})
				}
			}
			for _, layout := range []string{"nn", "nt"} {
				for _, way := range []string{"cuBLASLt", "cuBLAS"} {
					b.Run(fmt.Sprintf("%s/%d/%s/product %s", t, n, way, layout), func(b *testing.B) {
						x := newBench(b)
						x.by(way)
						a, w, c := x.random(t, n, n), x.random(t, n, n), x.empty(t, n, n)
						if layout == "nt" {
							w.Strides = []int{1, n}
						}
						x.time(&backend.Call{Op: op.MatMul, In: []backend.View{a, w}, Out: c}, flops, "TFLOP/s")
					})
				}
			}
		}
	}
}
