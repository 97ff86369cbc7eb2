//go:build !amd64

package gemm

func packPairsFast(d []float32, s source[float32], l0, h, p0, whole, width int) int { return 0 }

func packLinesFast(block []uint32, s source[float32], l0, h, p int) bool { return false }
