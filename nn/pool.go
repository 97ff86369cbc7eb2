package nn

import "github.com/locusml/locus"

// MaxPool2D takes the largest element of each window.
func MaxPool2D(window locus.Pair, o locus.PoolOptions) Module {
	return named("MaxPool2D", func(x *locus.Tensor) *locus.Tensor { return locus.MaxPool2D(x, window, o) })
}

// AvgPool2D takes the mean of each window.
func AvgPool2D(window locus.Pair, o locus.PoolOptions) Module {
	return named("AvgPool2D", func(x *locus.Tensor) *locus.Tensor { return locus.AvgPool2D(x, window, o) })
}

// AdaptiveAvgPool2D averages windows so that the result has the given size.
func AdaptiveAvgPool2D(size locus.Pair) Module {
	return named("AdaptiveAvgPool2D", func(x *locus.Tensor) *locus.Tensor { return locus.AdaptiveAvgPool2D(x, size) })
}

// GlobalAvgPool takes the mean of each channel.
func GlobalAvgPool() Module { return named("GlobalAvgPool", locus.GlobalAvgPool) }

// MaxPool1D takes the largest element of each window of a sequence (N, C, L).
func MaxPool1D(window int, o locus.PoolOptions) Module {
	return named("MaxPool1D", func(x *locus.Tensor) *locus.Tensor { return locus.MaxPool1D(x, window, o) })
}

// AvgPool1D takes the mean of each window of a sequence (N, C, L).
func AvgPool1D(window int, o locus.PoolOptions) Module {
	return named("AvgPool1D", func(x *locus.Tensor) *locus.Tensor { return locus.AvgPool1D(x, window, o) })
}

// AdaptiveAvgPool1D averages windows so that the result has the given size.
func AdaptiveAvgPool1D(size int) Module {
	return named("AdaptiveAvgPool1D", func(x *locus.Tensor) *locus.Tensor { return locus.AdaptiveAvgPool1D(x, size) })
}

// AdaptiveMaxPool1D takes the largest elements of windows so that the result has the given
// size.
func AdaptiveMaxPool1D(size int) Module {
	return named("AdaptiveMaxPool1D", func(x *locus.Tensor) *locus.Tensor { return locus.AdaptiveMaxPool1D(x, size) })
}

// AdaptiveMaxPool2D takes the largest elements of windows so that the result has the given
// size.
func AdaptiveMaxPool2D(size locus.Pair) Module {
	return named("AdaptiveMaxPool2D", func(x *locus.Tensor) *locus.Tensor { return locus.AdaptiveMaxPool2D(x, size) })
}

// GlobalMaxPool takes the largest element of each channel.
func GlobalMaxPool() Module { return named("GlobalMaxPool", locus.GlobalMaxPool) }
