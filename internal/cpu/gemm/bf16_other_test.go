//go:build !amd64

package gemm

import "github.com/locusml/locus/internal/cpu/vec"

func pickBF16(l vec.Level) *kernels[float32] { return pickF32(l) }
func tilesGranted() bool                     { return false }
