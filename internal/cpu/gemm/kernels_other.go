//go:build !amd64 && !arm64

package gemm

var (
	kernelsF32 = &genericF32
	kernelsF64 = &genericF64
)
