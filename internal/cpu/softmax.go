package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerLines(op.Softmax, softmax32, softmax64)
	registerLines(op.LogSoftmax, logSoftmax32, logSoftmax64)
	registerLines(op.SoftmaxGrad, softmaxGrad32, softmaxGrad64)
	registerLines(op.LogSoftmaxGrad, logSoftmaxGrad32, logSoftmaxGrad64)
}

// registerLines registers an op along one axis.
func registerLines(id op.ID, f32 func(dst, a, b []float32), f64 func(dst, a, b []float64)) {
	axis := func(c *backend.Call) op.AxisSet { return op.AxesOf(c.Attrs.(op.Axis).Axis) }
	register(id, dtype.Float32, func(c *backend.Call) error { alongLines(c, axis(c), nativeLines[float32](), f32); return nil })
	register(id, dtype.Float64, func(c *backend.Call) error { alongLines(c, axis(c), nativeLines[float64](), f64); return nil })
	register(id, dtype.Float16, func(c *backend.Call) error { alongLines(c, axis(c), halfLines[dtype.F16](), f32); return nil })
	register(id, dtype.BFloat16, func(c *backend.Call) error { alongLines(c, axis(c), halfLines[dtype.BF16](), f32); return nil })
}

func softmax32(dst, x, _ []float32) {
	s := vec.ExpSubF32(dst, x, vec.ReduceMaxF32(x))
	vec.MulSF32(dst, dst, float32(1/s))
}

func softmax64(dst, x, _ []float64) {
	s := vec.ExpSubF64(dst, x, vec.ReduceMaxF64(x))
	vec.MulSF64(dst, dst, 1/s)
}

// x - max first, which is small where it matters, then the logarithm: their sum
// would be rounded to the precision of max.

func logSoftmax32(dst, x, _ []float32) {
	m := vec.ReduceMaxF32(x)
	l := float32(math.Log(vec.SumExpSubF32(x, m)))
	vec.SubSF32(dst, x, m)
	vec.SubSF32(dst, dst, l)
}

func logSoftmax64(dst, x, _ []float64) {
	m := vec.ReduceMaxF64(x)
	l := math.Log(vec.SumExpSubF64(x, m))
	vec.SubSF64(dst, x, m)
	vec.SubSF64(dst, dst, l)
}

func softmaxGrad32(dst, g, y []float32) {
	s := float32(vec.DotF32(g, y))
	vec.SubSF32(dst, g, s)
	vec.MulF32(dst, dst, y)
}

func softmaxGrad64(dst, g, y []float64) {
	s := vec.DotF64(g, y)
	vec.SubSF64(dst, g, s)
	vec.MulF64(dst, dst, y)
}

func logSoftmaxGrad32(dst, g, y []float32) {
	s := float32(vec.SumF32(g))
	vec.ExpF32(dst, y)
	vec.MulSF32(dst, dst, s)
	vec.SubF32(dst, g, dst)
}

func logSoftmaxGrad64(dst, g, y []float64) {
	s := vec.SumF64(g)
	vec.ExpF64(dst, y)
	vec.MulSF64(dst, dst, s)
	vec.SubF64(dst, g, dst)
}
