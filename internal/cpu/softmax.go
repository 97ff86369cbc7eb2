package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerLines(op.Softmax, softmax[float32], softmaxRows, softmax[float64], softmaxRows)
	table[op.Softmax][dtype.Float32] = byLines(func(c *backend.Call) op.AxisSet { return op.AxesOf(c.Attrs.(op.Axis).Axis) },
		table[op.Softmax][dtype.Float32], alongAxis(nativeLines[float32](), softmaxStream, softmaxRows))
	registerLines(op.LogSoftmax, logSoftmax[float32], logSoftmaxRows, logSoftmax[float64], logSoftmaxRows)
	registerLines(op.SoftmaxGrad, softmaxGrad[float32], softmaxGradRows, softmaxGrad[float64], softmaxGradRows)
	registerLines(op.LogSoftmaxGrad, logSoftmaxGrad[float32], logSoftmaxGradRows, logSoftmaxGrad[float64], logSoftmaxGradRows)
}

// registerLines registers an op along one axis, and what takes short rows.
func registerLines(id op.ID, f32 func(dst, a, b []float32), rows32 rowsFunc[float32], f64 func(dst, a, b []float64), rows64 rowsFunc[float64]) {
	registerEachFloat(id, alongAxis(nativeLines[float32](), f32, rows32), alongAxis(nativeLines[float64](), f64, rows64),
		func(h halfType) kernel { return h.alongAxis(f32, rows32) })
}

func alongAxis[S, T any](io lineIO[S, T], f func(dst, a, b []T), rows rowsFunc[T]) kernel {
	return func(c *backend.Call) error {
		if axis := c.Attrs.(op.Axis).Axis; !alongRows(c, axis, io, rows) {
			alongLines(c, op.AxesOf(axis), io, f)
		}
		return nil
	}
}

func softmax[T float](dst, x, _ []T) {
	if len(x) >= longLine {
		softmaxLong(dst, x)
		return
	}
	s := expSub(dst, x, largestOf(x))
	scale(dst, dst, T(1/s))
}

// softmaxStream is softmax past the caches: the exponentials wait in a buffer.
func softmaxStream(dst, x, _ []float32) {
	if len(x) >= longLine {
		softmaxLong(dst, x)
		return
	}
	b, e := scratchOf[float32](len(x))
	s := vec.ExpSubF32(e, x, vec.ReduceMaxF32(x))
	vec.MulSStreamF32(dst, e, float32(1/s))
	b.free()
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
