//go:build !amd64

package gemm

func packFast[T Float](d []T, s source[T], l0, h, p0, k, width int) bool { return false }
