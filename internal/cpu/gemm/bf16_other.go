//go:build !amd64

package gemm

// bf16Kernels: packing converts.
func bf16Kernels() *kernels[float32] { return kernelsF32 }
