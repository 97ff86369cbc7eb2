//go:build !amd64

package gemm

var (
	kernelsF32 = &genericF32
	kernelsF64 = &genericF64
)
