package gemm

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

// packFast packs a panel with vector code if there is some for its layout.
func packFast[T Float](d []T, s source[T], l0, h, p0, k, width int) bool {
	switch {
	case vec.CPU() != vec.NEON || s.starts != nil || h != width:
		return false
	case s.row == 1:
		return packSide(d, s, l0, 1, p0, k, width, 0)
	case s.col == 1:
		transpose(d, width, s.data, l0*s.row+p0, s.row, k, width)
		return true
	}
	return false
}

// packSide packs several panels of lines that lie side by side, step elements
// apart, if they are as wide as the kernels' tiles.
func packSide[T Float](d []T, s source[T], l0, panels, p0, k, width, step int) bool {
	if width != 8 && width != 4 || vec.CPU() != vec.NEON {
		return false
	}
	for p := range k {
		o := l0 + (p0+p)*s.col
		from := s.data[o : o+panels*width]
		for q := range panels { // the compiler copies arrays by vectors
			x, y := from[q*width:], d[q*step+p*width:]
			if width == 8 {
				*(*[8]T)(y) = *(*[8]T)(x)
			} else {
				*(*[4]T)(y) = *(*[4]T)(x)
			}
		}
	}
	return true
}

// transpose is vec.Transpose for floating-point elements.
func transpose[T Float](dst []T, pitch int, src []T, at, from, rows, columns int) {
	if unsafe.Sizeof(dst[0]) == 4 {
		vec.Transpose(words[uint32](dst), pitch, words[uint32](src), at, from, rows, columns)
	} else {
		vec.Transpose(words[uint64](dst), pitch, words[uint64](src), at, from, rows, columns)
	}
}

func words[W vec.Word, T Float](x []T) []W {
	return unsafe.Slice((*W)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// turnFast copies lines of k elements that lie side by side, each to adjacent
// places, with vector code if there is some for them.
func turnFast[T Float](dst []T, s source[T], lines, k int) bool {
	if vec.CPU() != vec.NEON || s.row != 1 || s.starts != nil {
		return false
	}
	transpose(dst, k, s.data, 0, s.col, lines, k)
	return true
}

// turnPixelsFast is turnPixels with vector code; it says for how many pixels.
func turnPixelsFast[T Float](dst []T, plane int, sums []T, w, pixels, n int) int {
	if vec.CPU() != vec.NEON {
		return 0
	}
	transpose(dst, plane, sums, 0, w, n, pixels)
	return pixels
}
