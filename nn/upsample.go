package nn

import "github.com/locusml/locus"

// Upsample enlarges images (N, C, H, W) by whole factors.
func Upsample(factor locus.Pair, mode locus.InterpolateMode) Module {
	return named("Upsample", func(x *locus.Tensor) *locus.Tensor {
		return locus.Interpolate(x, locus.HW(x.Dim(-2)*factor.Height(), x.Dim(-1)*factor.Width()), mode)
	})
}

// PixelShuffle turns channels into pixels: (N, C·r², H, W) becomes (N, C, H·r,
// W·r).
func PixelShuffle(r int) Module {
	return named("PixelShuffle", func(x *locus.Tensor) *locus.Tensor { return locus.PixelShuffle(x, r) })
}
