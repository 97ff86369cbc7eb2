//go:build !amd64 && !arm64

package gemm

func packFast[T Float](d []T, s source[T], l0, h, p0, k, width int) bool { return false }

func packSide[T Float](d []T, s source[T], l0, panels, p0, k, width, step int) bool { return false }

func turnFast[T Float](dst []T, s source[T], lines, k int) bool { return false }

func turnPixelsFast[T Float](dst []T, plane int, sums []T, w, pixels, n int) int { return 0 }
