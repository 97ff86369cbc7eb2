// Command gpu times Locus on the first GPU, case by case, for bench/gpu.py, which
// runs the same cases in PyTorch beside it:
//
//	go run ./bench/gpu -cases add_64m,softmax
//
// It prints one JSON object: seconds by case.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

var gpu locus.Device

// kase prepares its data and returns what is timed: repeated so often, then waited for.
type kase struct {
	times int
	make  func() func()
}

func each(times int, f func(x *locus.Tensor) *locus.Tensor, shape ...int) kase {
	return kase{times, func() func() {
		x := gpu.Rand(shape...)
		return func() { locus.Scoped(func(s *locus.Scope) { f(s.Use(x)) }) }
	}}
}

func matmul(n, times int, dt locus.DType, tf32 bool) kase {
	return kase{times, func() func() {
		locus.AllowTF32(tf32)
		a, b := gpu.Randn(n, n).Cast(dt), gpu.Randn(n, n).Cast(dt)
		return func() { a.MatMul(b).Free() }
	}}
}

func linear(n, times int, dt locus.DType) kase {
	return kase{times, func() func() {
		x, w, b := gpu.Randn(n, n).Cast(dt), gpu.Randn(n, n).Cast(dt), gpu.Randn(n).Cast(dt)
		return func() { locus.Linear(x, w, b, locus.GeluActivation).Free() }
	}}
}

// convShape is a convolution: batch, channels and size of the image, channels of
// the result, size of the kernel, padding, stride.
type convShape struct{ batch, in, size, out, kernel, pad, stride int }

// The convolutions of ResNet-18, for images of 224², and three for images of 96².
var convs = map[string]convShape{
	"conv_a": {128, 64, 24, 64, 3, 1, 1}, "conv_b": {128, 128, 12, 128, 3, 1, 1}, "conv_c": {128, 3, 96, 64, 7, 3, 2},
	"resnet_stem": {32, 3, 224, 64, 7, 3, 2}, "resnet_1": {32, 64, 56, 64, 3, 1, 1},
	"resnet_2_down": {32, 64, 56, 128, 3, 1, 2}, "resnet_2_1x1": {32, 64, 56, 128, 1, 0, 2}, "resnet_2": {32, 128, 28, 128, 3, 1, 1},
	"resnet_3_down": {32, 128, 28, 256, 3, 1, 2}, "resnet_3_1x1": {32, 128, 28, 256, 1, 0, 2}, "resnet_3": {32, 256, 14, 256, 3, 1, 1},
	"resnet_4_down": {32, 256, 14, 512, 3, 1, 2}, "resnet_4_1x1": {32, 256, 14, 512, 1, 0, 2}, "resnet_4": {32, 512, 7, 512, 3, 1, 1},
}

// tensors returns an image, a weight and the convolution of both.
func (c convShape) tensors() (x, w *locus.Tensor, of func(x, w *locus.Tensor) *locus.Tensor) {
	locus.AllowTF32(false)
	o := locus.ConvOptions{Padding: locus.Pair(c.pad), Stride: locus.Pair(c.stride)}
	return gpu.Randn(c.batch, c.in, c.size, c.size), gpu.Randn(c.out, c.in, c.kernel, c.kernel),
		func(x, w *locus.Tensor) *locus.Tensor { return locus.Conv2D(x, w, nil, o) }
}

func (c convShape) forward() kase {
	return kase{20, func() func() {
		x, w, of := c.tensors()
		return func() { of(x, w).Free() }
	}}
}

// gradient is the gradient of the weight or of the image alone.
func (c convShape) gradient(weight bool) kase {
	return kase{20, func() func() {
		x, w, of := c.tensors()
		arg, f := x, func(in ...*locus.Tensor) *locus.Tensor { return of(in[0], w) }
		if weight {
			arg, f = w, func(in ...*locus.Tensor) *locus.Tensor { return of(x, in[0]) }
		}
		y, vjp := locus.VJP(f, arg)
		g := gpu.Randn(y.Shape()...)
		return func() { vjp(g)[0].Free() }
	}}
}

func products(read bool) kase {
	return kase{1, func() func() {
		a, b := gpu.Randn(100, 100), gpu.Randn(100, 100)
		return func() {
			locus.Scoped(func(s *locus.Scope) {
				x := s.Use(a)
				var norms []*locus.Tensor
				for range 1000 {
					n := x.MatMul(b).Norm()
					if read {
						n.Item()
					} else {
						norms = append(norms, n)
					}
				}
				if !read {
					locus.ToSlice[float32](locus.Stack(0, norms...))
				}
			})
		}
	}}
}

func step(batch int, shape []int, build func() nn.Module) kase {
	return kase{50, func() func() {
		net := nn.To(build(), gpu)
		o := optim.SGD(nn.Parameters(net), 0.01, optim.SGDOptions{})
		x, y := gpu.Rand(append([]int{batch}, shape...)...), gpu.Randint(0, 10, batch)
		return func() {
			locus.Scoped(func(s *locus.Scope) {
				loss := locus.CrossEntropy(net.Forward(s.Use(x)), y, locus.CrossEntropyOptions{})
				o.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(o.Params()), locus.FreeGraph))
			})
		}
	}}
}

// fed is a training step whose batch comes from page-locked memory each time, so
// many batches ahead.
func fed(ahead int) kase {
	return kase{20, func() func() {
		locus.AllowTF32(false)
		pool := nn.MaxPool2D(2, locus.PoolOptions{})
		net := nn.To(nn.Module(nn.Sequential(nn.Conv2D(3, 16, 3, locus.ConvOptions{Padding: 1}), nn.ReLU(), pool,
			nn.Conv2D(16, 32, 3, locus.ConvOptions{Padding: 1}), nn.ReLU(), pool, nn.Flatten(), nn.Linear(32*24*24, 10))), gpu)
		o := optim.SGD(nn.Parameters(net), 0.01, optim.SGDOptions{})
		x, y := locus.CPU().Rand(256, 3, 96, 96).Pin(), gpu.Randint(0, 10, 256)
		var next []*locus.Tensor
		for range ahead {
			next = append(next, x.To(gpu))
		}
		return func() {
			next = append(next, x.To(gpu))
			locus.Scoped(func(s *locus.Scope) {
				loss := locus.CrossEntropy(net.Forward(s.Adopt(next[0])), y, locus.CrossEntropyOptions{})
				o.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(o.Params()), locus.FreeGraph))
			})
			next = next[1:]
		}
	}}
}

func leNet() nn.Module {
	pool := nn.AvgPool2D(2, locus.PoolOptions{})
	return nn.Sequential(
		nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), pool,
		nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.Sigmoid(), pool,
		nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))
}

// attention is forward only, or with the gradients of q, k and v.
func attention(dt locus.DType, causal, grad bool, shape ...int) kase {
	return kase{10, func() func() {
		locus.AllowTF32(false)
		q, k, v := gpu.Randn(shape...).Cast(dt), gpu.Randn(shape...).Cast(dt), gpu.Randn(shape...).Cast(dt)
		o := locus.AttentionOptions{Causal: causal}
		if !grad {
			return func() { locus.Attention(q, k, v, o).Free() }
		}
		g := gpu.Randn(shape...).Cast(dt)
		return func() {
			locus.Scoped(func(s *locus.Scope) {
				_, vjp := locus.VJP(func(in ...*locus.Tensor) *locus.Tensor { return locus.Attention(in[0], in[1], in[2], o) }, s.Use(q), k, v)
				vjp(g)
			})
		}
	}}
}

const copied = 64 << 20 // elements

var cases = map[string]kase{
	"add_2x3": {1000, func() func() {
		x, y := gpu.Rand(2, 3), gpu.Rand(2, 3)
		return func() { x.Add(y).Free() }
	}},
	"add_64m": {20, func() func() {
		x, y := gpu.Rand(64<<20), gpu.Rand(64<<20)
		return func() { x.Add(y).Free() }
	}},
	"softmax":   each(20, func(x *locus.Tensor) *locus.Tensor { return x.Softmax(1) }, 4096, 4096),
	"layernorm": each(20, func(x *locus.Tensor) *locus.Tensor { return locus.LayerNorm(x, []int{4096}, nil, nil, 1e-5) }, 4096, 4096),
	"sum":       each(20, func(x *locus.Tensor) *locus.Tensor { return x.Sum() }, 4096, 4096),
	"row_sum":   each(20, func(x *locus.Tensor) *locus.Tensor { return x.Sum(1) }, 4096, 4096),
	"col_sum":   each(20, func(x *locus.Tensor) *locus.Tensor { return x.Sum(0) }, 4096, 4096),
	"gelu":      each(20, func(x *locus.Tensor) *locus.Tensor { return x.Gelu() }, 4096, 4096),
	"cross_entropy": {20, func() func() {
		x, y := gpu.Randn(16384, 1024), gpu.Randint(0, 1024, 16384)
		return func() {
			locus.Scoped(func(s *locus.Scope) { locus.CrossEntropy(s.Use(x), y, locus.CrossEntropyOptions{}) })
		}
	}},
	"embedding": {20, func() func() {
		w, i := gpu.Rand(50000, 512), gpu.Randint(0, 50000, 32768)
		return func() { locus.Embedding(w, i).Free() }
	}},
	"matmul_1024_f32": matmul(1024, 100, locus.Float32, false), "matmul_4096_f32": matmul(4096, 10, locus.Float32, false), "matmul_8192_f32": matmul(8192, 3, locus.Float32, false),
	"matmul_1024_tf32": matmul(1024, 100, locus.Float32, true), "matmul_4096_tf32": matmul(4096, 20, locus.Float32, true), "matmul_8192_tf32": matmul(8192, 5, locus.Float32, true),
	"matmul_1024_bf16": matmul(1024, 100, locus.BFloat16, false), "matmul_4096_bf16": matmul(4096, 20, locus.BFloat16, false), "matmul_8192_bf16": matmul(8192, 5, locus.BFloat16, false),
	"linear_bias_gelu": linear(4096, 20, locus.BFloat16),
	"host_to_device": {3, func() func() {
		data := make([]float32, copied)
		return func() { gpu.From(data).Free() }
	}},
	"device_to_host": {3, func() func() {
		x, data := gpu.Rand(copied), make([]float32, copied)
		return func() { locus.CopyToSlice(data, x) }
	}},
	"host_to_device_pinned": {3, func() func() {
		x := locus.CPU().Zeros(copied).Pin()
		return func() { x.To(gpu).Free() }
	}},
	"device_to_host_pinned": {3, func() func() {
		x := gpu.Rand(copied)
		return func() { x.Pin().Free() }
	}},
	"fed_step":      fed(1),
	"products_read": products(true), "products_kept": products(false),
	"mlp_step":   step(256, []int{784}, func() nn.Module { return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)) }),
	"lenet_step": step(128, []int{1, 28, 28}, leNet),
}

func init() {
	for name, c := range convs {
		cases[name], cases[name+"_input_grad"], cases[name+"_weight_grad"] = c.forward(), c.gradient(false), c.gradient(true)
	}
	for name, dt := range map[string]locus.DType{"f32": locus.Float32, "bf16": locus.BFloat16} {
		for size, shape := range map[string][]int{"long": {4, 16, 2048, 64}, "wide": {4, 16, 2048, 128}, "short": {8, 8, 256, 64}} {
			for kind, causal := range map[string]bool{"": false, "_causal": true} {
				stem := "attention_" + size + kind + "_" + name
				cases[stem] = attention(dt, causal, false, shape...)
				cases[stem+"_grad"] = attention(dt, causal, true, shape...)
			}
		}
	}
}

func main() {
	list := flag.String("cases", "", "which cases; without it, all are listed")
	rounds := flag.Int("rounds", 7, "repetitions; the median counts")
	flag.Parse()
	if *list == "start" { // from nothing to a tensor on the GPU
		fmt.Println(locus.GPU().Ones(2, 3))
		return
	}
	names := strings.Split(*list, ",")
	out := map[string]float64{}
	gpu = locus.GPU()
	for _, n := range names {
		k, ok := cases[n]
		if !ok {
			var all []string
			for n := range cases {
				all = append(all, n)
			}
			slices.Sort(all)
			fmt.Fprintf(os.Stderr, "no case %q; there are %s\n", n, strings.Join(all, ","))
			os.Exit(2)
		}
		f := k.make()
		var times []float64
		for i := range *rounds + 2 {
			t := time.Now()
			for range k.times {
				f()
			}
			if err := gpu.Synchronize(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			if i >= 2 {
				times = append(times, time.Since(t).Seconds()/float64(k.times))
			}
		}
		slices.Sort(times)
		out[n] = times[len(times)/2]
		gpu.Collect()
		gpu.FreeCache()
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
