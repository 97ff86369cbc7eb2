package cpu

import (
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// transposed swaps the last two axes of a view.
func transposed(v backend.View) backend.View {
	r := len(v.Shape)
	v.Shape, v.Strides = append([]int(nil), v.Shape...), append([]int(nil), v.Strides...)
	v.Shape[r-1], v.Shape[r-2] = v.Shape[r-2], v.Shape[r-1]
	v.Strides[r-1], v.Strides[r-2] = v.Strides[r-2], v.Strides[r-1]
	return v
}

func rowOf(v backend.View, n int) backend.View {
	v.Shape, v.Strides = []int{n, v.Shape[0]}, []int{0, 1}
	return v
}

// BenchmarkKernels measures the kernels that a training step lives on. GB/s
// counts each operand and the result once; cpu-ns is the processor time of all
// threads, which on a busy machine tells more than the clock.
func BenchmarkKernels(b *testing.B) {
	v := func(shape ...int) backend.View {
		return view32(b, shape, func(i int) float32 { return float32(i%97)/97 - 0.5 })
	}
	k := v(1)
	k.Block, k.Bits, k.Strides = nil, 0x40000000, []int{0}
	index := func(n, limit int) backend.View {
		x := backend.View{Block: block(b, n*8), Shape: []int{n}, Strides: []int{1}, DType: dtype.Int64}
		for i := range n {
			elements[int64](&x, n)[i] = int64(i * 7919 % limit)
		}
		return x
	}
	big, small, square := 16<<20, 6, 4096
	conv := op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	depth := conv
	depth.Groups = 64
	gradInput, gradWeight := conv, conv
	gradInput.Size, gradWeight.Size = [2]int{24, 24}, [2]int{3, 3}
	pool2 := op.Pool{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Dilation: [2]int{1, 1}}
	type views = []backend.View
	for _, c := range []struct {
		name  string
		op    op.ID
		attrs op.Attrs
		in    views
		out   backend.View
		flops float64
	}{
		{"add/2x3", op.Add, nil, views{v(2, 3), v(2, 3)}, v(2, 3), 0},
		{"addconst/6", op.Add, nil, views{v(small), k}, v(small), 0},
		{"sum/6", op.Sum, op.Reduce{Axes: 1}, views{v(small)}, v(1), 0},
		{"matmul/2x3x2", op.MatMul, nil, views{v(2, 3), v(3, 2)}, v(2, 2), 24},
		{"colsum/128x256", op.Sum, op.Reduce{Axes: 1}, views{v(128, 256)}, v(1, 256), 0},
		{"bias/128x256", op.Add, nil, views{v(128, 256), rowOf(v(256), 128)}, v(128, 256), 0},
		{"copy/16M", op.Copy, nil, views{v(big)}, v(big), 0},
		{"add/16M", op.Add, nil, views{v(big), v(big)}, v(big), 0},
		{"addconst/16M", op.Add, nil, views{v(big), k}, v(big), 0},
		{"exp/16M", op.Exp, nil, views{v(big)}, v(big), 0},
		{"gelu/16M", op.Gelu, nil, views{v(big)}, v(big), 0},
		{"gelugrad/4M", op.GeluGrad, nil, views{v(big / 4), v(big / 4)}, v(big / 4), 0},
		{"relugrad/16M", op.ReluGrad, nil, views{v(big), v(big)}, v(big), 0},
		{"sum/16M", op.Sum, op.Reduce{Axes: 1}, views{v(big)}, v(1), 0},
		{"rowsum/4096x4096", op.Sum, op.Reduce{Axes: 2}, views{v(square, square)}, v(square, 1), 0},
		{"rowsum/2Mx8", op.Sum, op.Reduce{Axes: 2}, views{v(2<<20, 8)}, v(2<<20, 1), 0},
		{"colsum/4096x4096", op.Sum, op.Reduce{Axes: 1}, views{v(square, square)}, v(1, square), 0},
		{"max/4096x4096", op.Max, op.Reduce{Axes: 2}, views{v(square, square)}, v(square, 1), 0},
		{"transpose/4096x4096", op.Copy, nil, views{transposed(v(square, square))}, v(square, square), 0},
		{"addtransposed/4096x4096", op.Add, nil, views{v(square, square), transposed(v(square, square))}, v(square, square), 0},
		{"rowbroadcast/4096x4096", op.Add, nil, views{v(square, square), rowOf(v(square), square)}, v(square, square), 0},
		{"softmax/4096x4096", op.Softmax, op.Axis{Axis: 1}, views{v(square, square)}, v(square, square), 0},
		{"softmax0/4096x4096", op.Softmax, op.Axis{Axis: 0}, views{v(square, square)}, v(square, square), 0},
		{"normalize/4096x4096", op.Normalized, op.Normalize{From: 1, Params: [2]int{1, 1}, Eps: 1e-5}, views{v(square, square)}, v(square, square), 0},
		{"layernorm/4096x4096", op.Normalized, op.Normalize{From: 1, Params: [2]int{1, 2}, Eps: 1e-5, Weight: true, Bias: true}, views{v(square, square), v(square), v(square)}, v(square, square), 0},
		{"layernormgrad/4096x4096", op.NormalizeGrad, op.Normalize{From: 1, Params: [2]int{1, 2}, Eps: 1e-5, Weight: true}, views{v(square, square), v(square, square), v(square), v(square), v(square)}, v(square, square), 0},
		{"batchnorm/128x64x24x24", op.BatchNorm, op.Normalize{Eps: 1e-5}, views{v(128, 64, 24, 24)}, v(128, 64, 24, 24), 0},
		{"uniform/16M", op.RandUniform, op.Random{DType: dtype.Float32, Key: 7}, nil, v(big), 0},
		{"normal/16M", op.RandNormal, op.Random{DType: dtype.Float32, Key: 7}, nil, v(big), 0},
		{"take/64Kx256", op.Take, op.Axis{}, views{v(10000, 256), index(64<<10, 10000)}, v(64<<10, 256), 0},
		{"indexadd/16Kx256", op.IndexAdd, op.Axis{}, views{v(10000, 256), index(16<<10, 10000), v(16<<10, 256)}, v(10000, 256), 0},
		{"argsort/1M", op.ArgSort, op.Axis{}, views{v(1 << 20)}, backend.View{Block: block(b, 8<<20), Shape: []int{1 << 20}, Strides: []int{1}, DType: dtype.Int64}, 0},
		{"cumsum/4096x4096", op.CumSum, op.Axis{Axis: 1}, views{v(square, square)}, v(square, square), 0},
		{"matmul/100", op.MatMul, nil, views{v(100, 100), v(100, 100)}, v(100, 100), 2e6},
		{"matmul/1024", op.MatMul, nil, views{v(1024, 1024), v(1024, 1024)}, v(1024, 1024), 2 * 1024 * 1024 * 1024},
		{"matmul/64x64batch512", op.MatMul, nil, views{v(512, 64, 64), v(512, 64, 64)}, v(512, 64, 64), 512 * 2 * 64 * 64 * 64},
		{"conv/16x64x24x24", op.Conv2D, conv, views{v(16, 64, 24, 24), v(64, 64, 3, 3)}, v(16, 64, 24, 24), 2 * 16 * 64 * 576 * 576},
		{"convgradinput/16x64x24x24", op.ConvGradInput, gradInput, views{v(16, 64, 24, 24), v(64, 64, 3, 3)}, v(16, 64, 24, 24), 2 * 16 * 64 * 576 * 576},
		{"convgradweight/16x64x24x24", op.ConvGradWeight, gradWeight, views{v(16, 64, 24, 24), v(16, 64, 24, 24)}, v(64, 64, 3, 3), 2 * 16 * 64 * 576 * 576},
		{"depthwise/16x64x24x24", op.Conv2D, depth, views{v(16, 64, 24, 24), v(64, 1, 3, 3)}, v(16, 64, 24, 24), 2 * 16 * 64 * 576 * 9},
		{"maxpool/16x64x24x24", op.MaxPool, pool2, views{v(16, 64, 24, 24)}, v(16, 64, 12, 12), 0},
		{"maxpoolgrad/16x64x24x24", op.MaxPoolGrad, pool2, views{v(16, 64, 12, 12), v(16, 64, 24, 24)}, v(16, 64, 24, 24), 0},
		{"attention/8x8x256x64", op.Attend, op.Attention{Scale: 0.125, Causal: true}, views{v(8, 8, 256, 64), v(8, 8, 256, 64), v(8, 8, 256, 64)}, v(8, 8, 256, 64), 64 * 4 * 256 * 256 * 64},
		{"attentiongrad/8x8x256x64", op.AttendGrad, op.Attention{Scale: 0.125, Causal: true}, views{v(8, 8, 256, 64), v(8, 8, 256, 64), v(8, 8, 256, 64), v(8, 8, 256, 64), v(8, 8, 256, 64), v(8, 8, 256)}, v(3 * 64 * 256 * 64), 64 * 10 * 256 * 256 * 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			call := &backend.Call{Op: c.op, Attrs: c.attrs, In: c.in, Out: c.out}
			n := c.out.Elements()
			for i := range c.in {
				if !c.in[i].Const() {
					n += c.in[i].Elements()
				}
			}
			d := Open()
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				if err := d.Run(call); err != nil {
					b.Fatal(err)
				}
			}
			per := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if used := cpuTime() - start; used > 0 {
				b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
			}
			if per > 10000 {
				b.ReportMetric(4*float64(n)/per, "GB/s")
			}
			if c.flops > 0 {
				b.ReportMetric(c.flops/per, "GFLOP/s")
			}
		})
	}
}
