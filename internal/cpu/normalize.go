package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerNormalize(op.Normalized, normalize[float32], normalize[float64])
	table[op.Normalized][dtype.Float32] = byLines(func(c *backend.Call) op.AxisSet { return c.Attrs.(op.Normalize).Axes },
		table[op.Normalized][dtype.Float32], normalizeLines(nativeLines[float32](), normalizeStream))
	registerNormalize(op.NormalizeGrad, normalizeGrad[float32], normalizeGrad[float64])
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

// moments gives the mean and 1/√(variance + eps), the variance from the
// deviations, which do not cancel.
func moments[T float](x []T, eps float64) (mean, rstd float64) {
	n := float64(len(x))
	mean = sumOf(x) / n
	return mean, 1 / math.Sqrt(squareDev(x, mean)/n+eps)
}

func normalize[T float](dst, x, _ []T, eps float64) {
	if len(x) >= longLine {
		normalizeLong(dst, x, eps)
		return
	}
	mean, rstd := moments(x, eps)
	normalizeOf(dst, x, mean, rstd)
}

// normalizeOf is (x - mean)·rstd.
func normalizeOf[T float](dst, x []T, mean, rstd float64) {
	subMul(dst, x, T(mean), T(rstd))
}

// normalizeStream is normalize past the caches.
func normalizeStream(dst, x, _ []float32, eps float64) {
	if len(x) >= longLine {
		normalizeLong(dst, x, eps)
		return
	}
	mean, rstd := moments(x, eps)
	vec.SubMulStreamF32(dst, x, float32(mean), float32(rstd))
}

// normalizeGrad is the transpose: rstd·(g - mean(g) - x̂·mean(g·x̂)), with x̂ the
// normalized x.
func normalizeGrad[T float](dst, g, x []T, eps float64) {
	if len(x) >= longLine {
		normalizeGradLong(dst, g, x, eps)
		return
	}
	n := float64(len(x))
	mean, rstd := moments(x, eps)
	normalizeOf(dst, x, mean, rstd)
	normalizeGradOf(dst, g, sumOf(g)/n, dot64(g, dst)/n, rstd)
}

// normalizeGradOf is normalizeGrad from the means on; dst holds x̂.
func normalizeGradOf[T float](dst, g []T, meanG, meanGX, rstd float64) {
	affine(dst, dst, T(-meanGX), T(-meanG))
	addTo(dst, g)
	scale(dst, dst, T(rstd))
}
