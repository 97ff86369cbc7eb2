// Command cpu times Locus on the CPU, case by case, for bench/cpu.py, which runs
// the same cases in PyTorch beside it:
//
//	go run ./bench/cpu -case matmul_1024 -threads 2
//
// It prints one JSON line: the median seconds of one repetition. And beside a
// plain copy of memory, those that wait for memory:
//
//	go run ./bench/cpu -bandwidth -threads 1,2
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// A case prepares its data and returns what is timed.
var cases = map[string]func() func(){
	"add_2x3": func() func() {
		x, y := locus.Rand(2, 3), locus.Rand(2, 3)
		return func() {
			for range 1000 {
				x.Add(y)
			}
		}
	},
	"add_16m":     binary16m((*locus.Tensor).Add),
	"mul_add_16m": unary16m(func(x *locus.Tensor) *locus.Tensor { return x.Mul(2).Add(1) }),
	"exp_16m":     unary16m((*locus.Tensor).Exp),
	"tanh_16m":    unary16m((*locus.Tensor).Tanh),
	"sigmoid_16m": unary16m((*locus.Tensor).Sigmoid),
	"gelu_16m":    unary16m((*locus.Tensor).Gelu),
	"log_16m":     unary16m((*locus.Tensor).Log),
	"relu_16m":    unary16m((*locus.Tensor).Relu),
	"sum_16m":     unary16m(func(x *locus.Tensor) *locus.Tensor { return x.Sum() }),
	"max_16m":     unary16m(func(x *locus.Tensor) *locus.Tensor { return x.Max() }),
	"row_sum_16m": unary16m(func(x *locus.Tensor) *locus.Tensor { return x.Reshape(4096, 4096).Sum(1) }),
	"col_sum_16m": unary16m(func(x *locus.Tensor) *locus.Tensor { return x.Reshape(4096, 4096).Sum(0) }),
	"softmax_16m": unary16m(func(x *locus.Tensor) *locus.Tensor { return x.Reshape(4096, 4096).Softmax(1) }),
	"layernorm_16m": unary16m(func(x *locus.Tensor) *locus.Tensor {
		return locus.LayerNorm(x.Reshape(4096, 4096), []int{4096}, nil, nil, 1e-5)
	}),
	"transpose_16m": unary16m(func(x *locus.Tensor) *locus.Tensor { return x.Reshape(4096, 4096).T().Copy() }),
	"matmul_100":    matmul(100, 100),
	"matmul_1024":   matmul(1024, 1),
	"matmul_2048":   matmul(2048, 1),
	"matmul_norm_100": func() func() { // with the norm read each time
		a, b := locus.Randn(100, 100), locus.Randn(100, 100)
		return func() {
			for range 1000 {
				locus.Scoped(func(s *locus.Scope) { s.Use(a).MatMul(b).Norm().Item() })
			}
		}
	},
	"matvec_4096": func() func() {
		a, x := locus.Rand(4096, 4096), locus.Rand(4096)
		return func() { a.MatMul(x).Free() }
	},
	"rand_16m":  func() func() { return func() { locus.Rand(16 << 20).Free() } },
	"randn_16m": func() func() { return func() { locus.Randn(16 << 20).Free() } },
	"cast_u8": func() func() {
		x := locus.CPU().As(locus.Uint8).Randint(0, 256, 16<<20)
		return func() { x.Cast(locus.Float32).Free() }
	},
	"embedding":      embedding(false),
	"embedding_grad": embedding(true),
	"index_add": func() func() {
		x, ids, y := locus.Randn(32000, 256), locus.Randint(0, 32000, 8192), locus.Randn(8192, 256)
		return func() { x.IndexAdd(0, ids, y).Free() }
	},
	"attention":                      attention(locus.Float32, 8, 8, 256, false),
	"attention_bf16":                 attention(locus.BFloat16, 8, 8, 256, false),
	"attention_grad":                 attention(locus.Float32, 8, 8, 256, true),
	"attention_causal":               attentionCausal,
	"conv_lenet1":                    conv(locus.Float32, 128, 1, 28, 6, 5, 2, 1),
	"conv_lenet2":                    conv(locus.Float32, 128, 6, 14, 16, 5, 0, 1),
	"conv_resnet_a":                  conv(locus.Float32, 16, 64, 24, 64, 3, 1, 1),
	"conv_resnet_a_bf16":             conv(locus.BFloat16, 16, 64, 24, 64, 3, 1, 1),
	"conv_resnet_b":                  conv(locus.Float32, 16, 128, 12, 128, 3, 1, 1),
	"conv_resnet_c":                  conv(locus.Float32, 16, 3, 96, 64, 7, 3, 2),
	"conv_1x1":                       conv(locus.Float32, 16, 64, 24, 128, 1, 0, 1),
	"attention_bf16_grad":            attention(locus.BFloat16, 8, 8, 256, true),
	"attention_bf16_2048":            attention(locus.BFloat16, 1, 8, 2048, false),
	"conv_resnet_b_bf16":             conv(locus.BFloat16, 16, 128, 12, 128, 3, 1, 1),
	"conv_resnet_c_bf16":             conv(locus.BFloat16, 16, 3, 96, 64, 7, 3, 2),
	"conv_1x1_bf16":                  conv(locus.BFloat16, 16, 64, 28, 128, 1, 0, 1),
	"conv_stride2_bf16":              conv(locus.BFloat16, 16, 64, 28, 128, 3, 1, 2),
	"conv_resnet_a_bf16_input_grad":  convGrad(locus.BFloat16, 16, 64, 24, 64, 3, 1, 1, input),
	"conv_resnet_a_bf16_weight_grad": convGrad(locus.BFloat16, 16, 64, 24, 64, 3, 1, 1, weight),
	"conv_resnet_b_bf16_input_grad":  convGrad(locus.BFloat16, 16, 128, 12, 128, 3, 1, 1, input),
	"conv_resnet_b_bf16_weight_grad": convGrad(locus.BFloat16, 16, 128, 12, 128, 3, 1, 1, weight),
	"conv_stride2_bf16_input_grad":   convGrad(locus.BFloat16, 16, 64, 28, 128, 3, 1, 2, input),
	"conv_stride2_bf16_weight_grad":  convGrad(locus.BFloat16, 16, 64, 28, 128, 3, 1, 2, weight),

	"conv_1x1_stride2":          conv(locus.Float32, 16, 64, 24, 128, 1, 0, 2),
	"conv_depthwise":            depthwise(16, 64, 24, 3, 1, 1),
	"conv_depthwise_stride2":    depthwise(16, 64, 24, 3, 1, 2),
	"conv_lenet1_bias":          convBias(128, 1, 28, 6, 5, 2, 1),
	"conv_lenet1_weight_grad":   convGrad(locus.Float32, 128, 1, 28, 6, 5, 2, 1, weight),
	"conv_lenet2_input_grad":    convGrad(locus.Float32, 128, 6, 14, 16, 5, 0, 1, input),
	"conv_lenet2_weight_grad":   convGrad(locus.Float32, 128, 6, 14, 16, 5, 0, 1, weight),
	"conv_resnet_a_input_grad":  convGrad(locus.Float32, 16, 64, 24, 64, 3, 1, 1, input),
	"conv_resnet_a_weight_grad": convGrad(locus.Float32, 16, 64, 24, 64, 3, 1, 1, weight),
	"conv_resnet_b_input_grad":  convGrad(locus.Float32, 16, 128, 12, 128, 3, 1, 1, input),
	"conv_resnet_b_weight_grad": convGrad(locus.Float32, 16, 128, 12, 128, 3, 1, 1, weight),
	"conv_resnet_c_weight_grad": convGrad(locus.Float32, 16, 3, 96, 64, 7, 3, 2, weight),
	"avg_pool":                  pooling(locus.AvgPool2D, lenetPool, false),
	"avg_pool_grad":             pooling(locus.AvgPool2D, lenetPool, true),
	"max_pool":                  pooling(locus.MaxPool2D, lenetPool, false),
	"max_pool_grad":             pooling(locus.MaxPool2D, lenetPool, true),
	"avg_pool_3":                pooling(locus.AvgPool2D, resnetPool, false),
	"avg_pool_3_grad":           pooling(locus.AvgPool2D, resnetPool, true),
	"max_pool_3":                pooling(locus.MaxPool2D, resnetPool, false),
	"max_pool_3_grad":           pooling(locus.MaxPool2D, resnetPool, true),

	"mlp_step":            step(256, []int{784}, mlp, false),
	"mlp_step_compiled":   step(256, []int{784}, mlp, true),
	"lenet_step":          step(128, []int{1, 28, 28}, leNet, false),
	"lenet_step_compiled": step(128, []int{1, 28, 28}, leNet, true),
	"expression_16m":      expression(false),
	"expression_compiled": expression(true),

	"matmul_100_nt":       product(locus.Float32, "nt", 100, 100, 100, 100, 0),
	"matmul_100_tn":       product(locus.Float32, "tn", 100, 100, 100, 100, 0),
	"matmul_100_tt":       product(locus.Float32, "tt", 100, 100, 100, 100, 0),
	"matmul_1024_nt":      product(locus.Float32, "nt", 1024, 1024, 1024, 1, 0),
	"matmul_1024_tn":      product(locus.Float32, "tn", 1024, 1024, 1024, 1, 0),
	"matmul_1024_tt":      product(locus.Float32, "tt", 1024, 1024, 1024, 1, 0),
	"matmul_f64_100":      product(locus.Float64, "nn", 100, 100, 100, 100, 0),
	"matmul_f64_1024":     product(locus.Float64, "nn", 1024, 1024, 1024, 1, 0),
	"matmul_bf16_1024":    product(locus.BFloat16, "nn", 1024, 1024, 1024, 1, 0),
	"matmul_f16_1024":     product(locus.Float16, "nn", 1024, 1024, 1024, 1, 0),
	"matmul_bf16_100":     product(locus.BFloat16, "nn", 100, 100, 100, 10, 0),
	"matmul_8_rows":       product(locus.Float32, "nn", 8, 1024, 1024, 10, 0),
	"matmul_8_rows_nt":    product(locus.Float32, "nt", 8, 1024, 1024, 10, 0),
	"matmul_8_columns":    product(locus.Float32, "nn", 1024, 8, 1024, 10, 0),
	"matmul_8_columns_tn": product(locus.Float32, "tn", 1024, 8, 1024, 10, 0),
	"matmul_8_deep":       product(locus.Float32, "nn", 1024, 1024, 8, 10, 0),
	"matmul_3_rows":       product(locus.Float32, "nn", 3, 1024, 1024, 10, 0),
	"matmul_3_columns":    product(locus.Float32, "nn", 1024, 3, 1024, 10, 0),
	"matvec_1024":         product(locus.Float32, "nn", 1024, 1, 1024, 10, 0),
	"matvec_1024_t":       product(locus.Float32, "tn", 1024, 1, 1024, 10, 0),
	"matmul_batch_64":     product(locus.Float32, "nn", 64, 64, 64, 1, 64),
	"matmul_batch_64_nt":  product(locus.Float32, "nt", 64, 64, 64, 1, 64),
	"matmul_batch_f64_64": product(locus.Float64, "nn", 64, 64, 64, 1, 64),
}

func binary16m(f func(x *locus.Tensor, y any) *locus.Tensor) func() func() {
	return func() func() {
		x, y := locus.Rand(16<<20), locus.Rand(16<<20)
		return func() { f(x, y).Free() }
	}
}

func unary16m(f func(x *locus.Tensor) *locus.Tensor) func() func() {
	return func() func() {
		x := locus.Rand(16 << 20)
		return func() { locus.Scoped(func(s *locus.Scope) { f(s.Use(x)) }) }
	}
}

func matmul(n, times int) func() func() {
	return func() func() {
		a, b := locus.Randn(n, n), locus.Randn(n, n)
		return func() {
			for range times {
				a.MatMul(b).Free()
			}
		}
	}
}

// product multiplies m×k by k×n matrices, or stacks of batch of them. A t in
// layout means that the operand lies transposed.
func product(d locus.DType, layout string, m, n, k, times, batch int) func() func() {
	operand := func(t byte, rows, cols int) *locus.Tensor {
		if t == 't' {
			rows, cols = cols, rows
		}
		shape := []int{rows, cols}
		if batch > 0 {
			shape = []int{batch, rows, cols}
		}
		x := locus.Randn(shape...).Cast(d)
		if t == 't' {
			x = x.Transpose(-2, -1)
		}
		return x
	}
	return func() func() {
		a, b := operand(layout[0], m, k), operand(layout[1], k, n)
		return func() {
			for range times {
				a.MatMul(b).Free()
			}
		}
	}
}

func attention(d locus.DType, batch, heads, length int, grad bool) func() func() {
	return func() func() {
		operand := func() *locus.Tensor { return locus.Randn(batch, heads, length, 64).Cast(d) }
		q, k, v := operand(), operand(), operand()
		if grad {
			return backward(func(a ...*locus.Tensor) *locus.Tensor {
				return locus.Attention(a[0], a[1], a[2], locus.AttentionOptions{})
			}, q, k, v)
		}
		return func() { locus.Attention(q, k, v, locus.AttentionOptions{}).Free() }
	}
}

// attentionCausal is of one long text.
func attentionCausal() func() {
	q, k, v := locus.Randn(1, 8, 1024, 64), locus.Randn(1, 8, 1024, 64), locus.Randn(1, 8, 1024, 64)
	return func() { locus.Attention(q, k, v, locus.AttentionOptions{Causal: true}).Free() }
}

func conv(d locus.DType, batch, in, size, out, kernel, pad, stride int) func() func() {
	return func() func() {
		x, w := locus.Randn(batch, in, size, size).Cast(d), locus.Randn(out, in, kernel, kernel).Cast(d)
		o := locus.ConvOptions{Padding: locus.Pair(pad), Stride: locus.Pair(stride)}
		return func() { locus.Conv2D(x, w, nil, o).Free() }
	}
}

func embedding(grad bool) func() func() {
	return func() func() {
		w, ids := locus.Randn(32000, 256), locus.Randint(0, 32000, 64, 128)
		if grad {
			w = w.RequireGrad()
		}
		return func() {
			locus.Scoped(func(s *locus.Scope) {
				y := locus.Embedding(w, s.Use(ids))
				if grad {
					locus.Grad([]*locus.Tensor{y.Sum()}, []*locus.Tensor{w})
				}
			})
		}
	}
}

func convBias(batch, in, size, out, kernel, pad, stride int) func() func() {
	return func() func() {
		x, w, b := locus.Randn(batch, in, size, size), locus.Randn(out, in, kernel, kernel), locus.Randn(out)
		o := locus.ConvOptions{Padding: locus.Pair(pad), Stride: locus.Pair(stride)}
		return func() { locus.Conv2D(x, w, b, o).Free() }
	}
}

func depthwise(batch, channels, size, kernel, pad, stride int) func() func() {
	return func() func() {
		x, w := locus.Randn(batch, channels, size, size), locus.Randn(channels, 1, kernel, kernel)
		o := locus.ConvOptions{Padding: locus.Pair(pad), Stride: locus.Pair(stride), Groups: channels}
		return func() { locus.Conv2D(x, w, nil, o).Free() }
	}
}

// The operands whose gradient is timed.
const (
	input = iota
	weight
)

func convGrad(d locus.DType, batch, in, size, out, kernel, pad, stride, which int) func() func() {
	return func() func() {
		operands := []*locus.Tensor{locus.Randn(batch, in, size, size).Cast(d), locus.Randn(out, in, kernel, kernel).Cast(d)}
		o := locus.ConvOptions{Padding: locus.Pair(pad), Stride: locus.Pair(stride)}
		return backward(func(a ...*locus.Tensor) *locus.Tensor {
			operands[which] = a[0]
			return locus.Conv2D(operands[input], operands[weight], nil, o)
		}, operands[which])
	}
}

// backward returns the gradient of f alone.
func backward(f func(...*locus.Tensor) *locus.Tensor, x ...*locus.Tensor) func() {
	y, grad := locus.VJP(f, x...)
	g := y.Device().Randn(y.Shape()...).Cast(y.DType())
	return func() {
		for _, d := range grad(g) {
			d.Free()
		}
	}
}

// poolShape is what is pooled, and how.
type poolShape struct {
	shape               []int
	window, stride, pad int
}

var (
	lenetPool  = poolShape{[]int{128, 6, 28, 28}, 2, 2, 0}
	resnetPool = poolShape{[]int{16, 64, 112, 112}, 3, 2, 1} // behind ResNet's first convolution
)

func pooling(f func(x *locus.Tensor, window locus.Pair, o locus.PoolOptions) *locus.Tensor, p poolShape, grad bool) func() func() {
	o := locus.PoolOptions{Stride: locus.Pair(p.stride), Padding: locus.Pair(p.pad)}
	return func() func() {
		x := locus.Randn(p.shape...)
		if grad {
			return backward(func(a ...*locus.Tensor) *locus.Tensor { return f(a[0], locus.Pair(p.window), o) }, x)
		}
		return func() { f(x, locus.Pair(p.window), o).Free() }
	}
}

func leNet() nn.Module {
	pool := nn.AvgPool2D(2, locus.PoolOptions{})
	return nn.Sequential(
		nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), pool,
		nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.Sigmoid(), pool,
		nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))
}

func mlp() nn.Module { return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)) }

// step is one training step: forward, cross-entropy, backward, SGD.
func step(batch int, shape []int, build func() nn.Module, compiled bool) func() func() {
	return func() func() {
		net := build()
		o := optim.SGD(nn.Parameters(net), 0.01, optim.SGDOptions{})
		x, y := locus.Rand(append([]int{batch}, shape...)...), locus.Randint(0, 10, batch)
		f := func(args ...*locus.Tensor) []*locus.Tensor {
			locus.Scoped(func(s *locus.Scope) {
				loss := locus.CrossEntropy(net.Forward(s.Use(args[0])), args[1], locus.CrossEntropyOptions{})
				o.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(o.Params())))
			})
			return nil
		}
		if !compiled {
			return func() { f(x, y) }
		}
		c := locus.Compile(f, nn.Cells(net)...)
		return func() { c.Call(x, y) }
	}
}

// expression is (z+2).exp()*y of 16M elements.
func expression(compiled bool) func() func() {
	return func() func() {
		z, y := locus.Rand(16<<20), locus.Rand(16<<20)
		f := func(args ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{args[0].Add(2).Exp().Mul(args[1])} }
		if compiled {
			c := locus.Compile(f)
			return func() { c.Call(z, y)[0].Free() }
		}
		return func() {
			locus.Scoped(func(s *locus.Scope) { f(s.Use(z), y) })
		}
	}
}

func main() {
	name := flag.String("case", "", "which case; without it, all are listed; with -bandwidth several, as in sum_16m,add_16m, or all")
	threads := flag.String("threads", "0", "number of threads; 0 means all; with -bandwidth several, as in 1,2")
	seconds := flag.Float64("seconds", 1, "how long to repeat")
	turns := flag.Bool("turns", false, "read lines of seconds from standard input, repeat for so long, and answer each with the median time")
	profile := flag.String("profile", "", "write a CPU profile to this file, for go tool pprof")
	compare := flag.Bool("bandwidth", false, "compare the cases of 16M elements with a plain copy")
	flag.Parse()
	if *compare {
		bandwidth(*name, *threads, *seconds)
		return
	}
	prepare, ok := cases[*name]
	if !ok {
		fmt.Fprintln(os.Stderr, "cases:", strings.Join(slices.Sorted(maps.Keys(cases)), " "))
		os.Exit(2)
	}
	setThreads(*threads)
	f := prepare()
	if *profile != "" {
		to, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(to)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "cpu:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if *turns {
		takeTurns(f)
		return
	}
	times := repeat(f, *seconds)
	json.NewEncoder(os.Stdout).Encode(map[string]any{"case": *name, "seconds": median(times), "repetitions": len(times)})
}

func setThreads(s string) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		fmt.Fprintf(os.Stderr, "%q is not a number of threads\n", s)
		os.Exit(2)
	}
	pool.SetThreads(n)
}

// takeTurns times f as long as each line of the input says.
func takeTurns(f func()) {
	for {
		var seconds float64
		if _, err := fmt.Scanln(&seconds); err != nil {
			return
		}
		fmt.Println(median(timed(f, seconds, 1)))
	}
}

// repeat times f for some seconds, and leaves the warm-up out.
func repeat(f func(), seconds float64) []float64 {
	times := timed(f, seconds, 7)
	return times[len(times)/5:]
}

// timed returns the times of f, repeated for some seconds and at least so often.
func timed(f func(), seconds float64, least int) (times []float64) {
	for start := time.Now(); len(times) < least || time.Since(start).Seconds() < seconds; {
		t := time.Now()
		f()
		times = append(times, time.Since(t).Seconds())
	}
	return times
}

func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}
