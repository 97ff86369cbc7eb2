//go:build !linux

package gemm

// requestTiles: AMX is used on Linux only, where it was tested.
func requestTiles() bool { return false }
