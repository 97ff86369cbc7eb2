package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.CumSum, dtype.Uint8, cumSum(runningSums[uint8, uint8]))
	register(op.CumSum, dtype.Int32, cumSum(runningSums[int32, int32]))
	register(op.CumSum, dtype.Int64, cumSum(runningSums[int64, int64]))
	register(op.CumSum, dtype.Float32, cumSum(runningSums[float32, float64]))
	register(op.CumSum, dtype.Float64, cumSum(runningSums[float64, float64]))
	for _, h := range halfTypes {
		register(op.CumSum, h.dtype, h.cumSum)
	}
}

func cumSum[T number](f func(dst, x []T, reverse bool)) kernel {
	return func(c *backend.Call) error {
		a := c.Attrs.(op.Axis)
		alongLines(c, op.AxesOf(a.Axis), nativeLines[T](), func(dst, x, _ []T) { f(dst, x, a.Reverse) })
		return nil
	}
}

func cumSumHalf[H half](c *backend.Call) error {
	a := c.Attrs.(op.Axis)
	alongLines(c, op.AxesOf(a.Axis), halfLines[H](), func(dst, x, _ []float32) {
		runningSums[float32, float64](dst, x, a.Reverse)
	})
	return nil
}

// runningSums adds in type A.
func runningSums[T, A number](dst, x []T, reverse bool) {
	if len(x) >= longLine {
		runningSumLong[T, A](dst, x, reverse)
		return
	}
	runningSum(dst, x, A(0), reverse)
}

// runningSum begins with s.
func runningSum[T, A number](dst, x []T, s A, reverse bool) {
	if reverse {
		for i := len(x) - 1; i >= 0; i-- {
			s += A(x[i])
			dst[i] = T(s)
		}
		return
	}
	for i, v := range x {
		s += A(v)
		dst[i] = T(s)
	}
}
