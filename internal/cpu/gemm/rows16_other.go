//go:build !amd64

package gemm

func (r *Rows16) fast(dst, a, b []uint16) int { return 0 }
