package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerNormalize(op.Normalized, normalize32, normalize64)
	registerNormalize(op.NormalizeGrad, normalizeGrad32, normalizeGrad64)
}

func registerNormalize(id op.ID, f32 func(dst, a, b []float32, eps float64), f64 func(dst, a, b []float64, eps float64)) {
	register(id, dtype.Float32, normalizeLines(nativeLines[float32](), f32))
	register(id, dtype.Float64, normalizeLines(nativeLines[float64](), f64))
	register(id, dtype.Float16, normalizeLines(halfLines[dtype.F16](), f32))
	register(id, dtype.BFloat16, normalizeLines(halfLines[dtype.BF16](), f32))
}

func normalizeLines[S, T any](io lineIO[S, T], f func(dst, a, b []T, eps float64)) kernel {
	return func(c *backend.Call) error {
		a := c.Attrs.(op.Normalize)
		alongLines(c, a.Axes, io, func(dst, x, y []T) { f(dst, x, y, a.Eps) })
		return nil
	}
}

// moments32 gives the mean and 1/√(variance + eps), the variance from the
// deviations, which do not cancel.
func moments32(x []float32, eps float64) (mean, rstd float64) {
	n := float64(len(x))
	mean = vec.SumF32(x) / n
	return mean, 1 / math.Sqrt(vec.SumSqDevF32(x, mean)/n+eps)
}

func moments64(x []float64, eps float64) (mean, rstd float64) {
	n := float64(len(x))
	mean = vec.SumF64(x) / n
	return mean, 1 / math.Sqrt(vec.SumSqDevF64(x, mean)/n+eps)
}

func normalize32(dst, x, _ []float32, eps float64) {
	mean, rstd := moments32(x, eps)
	vec.SubSF32(dst, x, float32(mean))
	vec.MulSF32(dst, dst, float32(rstd))
}

func normalize64(dst, x, _ []float64, eps float64) {
	mean, rstd := moments64(x, eps)
	vec.SubSF64(dst, x, mean)
	vec.MulSF64(dst, dst, rstd)
}

// The transpose is rstd·(g - mean(g) - x̂·mean(g·x̂)), with x̂ the normalized x.

func normalizeGrad32(dst, g, x []float32, eps float64) {
	n := float64(len(x))
	mean, rstd := moments32(x, eps)
	vec.SubSF32(dst, x, float32(mean))
	vec.MulSF32(dst, dst, float32(rstd))
	meanG, meanGX := vec.SumF32(g)/n, vec.DotF32(g, dst)/n
	vec.AffineF32(dst, dst, float32(-meanGX), float32(-meanG))
	vec.AddF32(dst, g, dst)
	vec.MulSF32(dst, dst, float32(rstd))
}

func normalizeGrad64(dst, g, x []float64, eps float64) {
	n := float64(len(x))
	mean, rstd := moments64(x, eps)
	vec.SubSF64(dst, x, mean)
	vec.MulSF64(dst, dst, rstd)
	meanG, meanGX := vec.SumF64(g)/n, vec.DotF64(g, dst)/n
	vec.AffineF64(dst, dst, -meanGX, -meanG)
	vec.AddF64(dst, g, dst)
	vec.MulSF64(dst, dst, rstd)
}
