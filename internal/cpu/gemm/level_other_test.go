//go:build !amd64 && !arm64

package gemm

import "github.com/locusml/locus/internal/cpu/vec"

func pickF32(vec.Level) *kernels[float32] { return &genericF32 }
func pickF64(vec.Level) *kernels[float64] { return &genericF64 }
