package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerLines(op.Softmax, softmax[float32], softmax[float64])
	registerLines(op.LogSoftmax, logSoftmax[float32], logSoftmax[float64])
	registerLines(op.SoftmaxGrad, softmaxGrad[float32], softmaxGrad[float64])
	registerLines(op.LogSoftmaxGrad, logSoftmaxGrad[float32], logSoftmaxGrad[float64])
}

// registerLines registers an op along one axis.
func registerLines(id op.ID, f32 func(dst, a, b []float32), f64 func(dst, a, b []float64)) {
	axis := func(c *backend.Call) op.AxisSet { return op.AxesOf(c.Attrs.(op.Axis).Axis) }
	register(id, dtype.Float32, func(c *backend.Call) error { alongLines(c, axis(c), nativeLines[float32](), f32); return nil })
	register(id, dtype.Float64, func(c *backend.Call) error { alongLines(c, axis(c), nativeLines[float64](), f64); return nil })
	register(id, dtype.Float16, func(c *backend.Call) error { alongLines(c, axis(c), halfLines[dtype.F16](), f32); return nil })
	register(id, dtype.BFloat16, func(c *backend.Call) error { alongLines(c, axis(c), halfLines[dtype.BF16](), f32); return nil })
}

func softmax[T float](dst, x, _ []T) {
	if len(x) >= longLine {
		softmaxLong(dst, x)
		return
	}
	s := expSub(dst, x, largestOf(x))
	scale(dst, dst, T(1/s))
}

// x - max first, which is small where it matters, then the logarithm: their sum
// would be rounded to the precision of max.
func logSoftmax[T float](dst, x, _ []T) {
	if len(x) >= longLine {
		logSoftmaxLong(dst, x)
		return
	}
	m := largestOf(x)
	l := T(math.Log(sumExpSub(x, m)))
	shift(dst, x, m)
	shift(dst, dst, l)
}

func softmaxGrad[T float](dst, g, y []T) {
	if len(g) >= longLine {
		softmaxGradLong(dst, g, y)
		return
	}
	shift(dst, g, dotOf(g, y))
	times(dst, dst, y)
}

func logSoftmaxGrad[T float](dst, g, y []T) {
	if len(g) >= longLine {
		logSoftmaxGradLong(dst, g, y)
		return
	}
	logSoftmaxGradOf(dst, g, y, T(sumOf(g)))
}

// logSoftmaxGradOf is g - exp(y)·s, s the sum of the whole line's g.
func logSoftmaxGradOf[T float](dst, g, y []T, s T) {
	expOf(dst, y)
	scale(dst, dst, s)
	minus(dst, g, dst)
}
