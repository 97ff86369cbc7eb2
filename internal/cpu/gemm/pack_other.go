//go:build !amd64

package gemm

func packFast[T Float](d []T, s source[T], l0, h, p0, k, width int) bool { return false }

func packSide[T Float](d []T, s source[T], l0, panels, p0, k, width, step int) bool { return false }

func packPairsFast(d []float32, s source[float32], l0, h, p0, whole, width int) int { return 0 }

func packLinesFast(block []uint32, s source[float32], l0, h, p int) bool { return false }

func turnFast[T Float](dst []T, s source[T], lines, k int) bool { return false }

func turnPixelsFast[T Float](dst []T, plane int, sums []T, w, pixels, n int) int { return 0 }
