package gemm

import (
	"runtime"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

// packFast packs a panel with vector code if there is some for its layout.
func packFast[T Float](d []T, s source[T], l0, h, p0, k, width int) bool {
	if vec.CPU() < vec.AVX2 {
		return false
	}
	switch {
	case s.row == 1 && s.starts == nil && h == width:
		return packSide(d, s, l0, 1, p0, k, width, 0)
	case s.col == 1 && k >= 4:
		packTransposed(d, s, l0, h, p0, k, width)
		return true
	}
	return false
}

// packSide packs several panels of lines that lie side by side, step elements
// apart, if there is vector code for their width.
func packSide[T Float](d []T, s source[T], l0, panels, p0, k, width, step int) bool {
	var f func(dst, src *byte, stride, k, panels, step, ahead int)
	es := int(unsafe.Sizeof(d[0]))
	switch width * es {
	case 24:
		f = packCopy24
	case 48:
		f = packCopy48
	case 64:
		f = packCopy64
	case 96:
		f = packCopy96
	case 128:
		f = packCopy128
	default:
		return false
	}
	if vec.CPU() < vec.AVX2 {
		return false
	}
	o := l0 + p0*s.col
	_, _ = d[(panels-1)*step+width*k-1], s.data[o+(k-1)*s.col+panels*width-1]
	ahead := 8 * s.col // columns
	if panels == 1 {
		ahead = width // the next panel
	}
	f(bytePtr(d), (*byte)(unsafe.Pointer(&s.data[o])), s.col*es, k, panels, step*es, ahead*es)
	return true
}

// packTransposed packs lines that each lie adjacent in memory, a group of
// lines at a time. A group of 5 to 8 32-bit lines is written 8 wide: what that
// puts past the group is overwritten by the next column's values, or by the
// next panel's.
func packTransposed[T Float](d []T, s source[T], l0, h, p0, k, width int) {
	es := int(unsafe.Sizeof(d[0]))
	var rows [8]uintptr
	step := 16 / es
	body := k / step * step
	for g := 0; g < h; {
		p := (*byte)(unsafe.Add(unsafe.Pointer(&d[0]), g*es))
		left := min(width-g, h-g)
		room := width - g
		var size int
		switch {
		case es == 4 && room > 4:
			size = 8
			_ = d[width*k+max(0, 8-room)-1] // room for the overhang
			lines(rows[:8], s, l0+g, left, p0)
			packTranspose8(p, &rows[0], width*es, body)
		case es == 4:
			size = 4
			lines(rows[:4], s, l0+g, left, p0)
			packTranspose4(p, &rows[0], width*es, body)
		case room > 2:
			size = 4
			lines(rows[:4], s, l0+g, left, p0)
			packTranspose4x64(p, &rows[0], width*es, body)
		default:
			size = 2
			lines(rows[:2], s, l0+g, left, p0)
			packTranspose2x64(p, &rows[0], width*es, body)
		}
		g += size
	}
	runtime.KeepAlive(s.data)
	if body < k {
		packStrided(d[body*width:], s, l0, h, p0+body, k-body, width)
	}
}

// turnFast copies lines of k elements that lie side by side, each to adjacent
// places, with vector code if there is some for them.
func turnFast[T Float](dst []T, s source[T], lines, k int) bool {
	if vec.CPU() < vec.AVX2 || unsafe.Sizeof(dst[0]) != 4 || s.row != 1 || s.starts != nil || lines%4 != 0 {
		return false
	}
	var rows [8]uintptr
	body := k &^ 7
	for p := 0; p < body; p += 8 {
		for i := range rows {
			o := (p + i) * s.col
			_ = s.data[o+lines-1]
			rows[i] = uintptr(unsafe.Pointer(&s.data[o]))
		}
		packTranspose8((*byte)(unsafe.Pointer(&dst[p])), &rows[0], k*4, lines)
	}
	runtime.KeepAlive(s.data)
	for p := body; p < k; p++ {
		for l := range lines {
			dst[l*k+p] = s.data[l+p*s.col]
		}
	}
	return true
}

// turnPixelsFast is turnPixels with vector code; it says for how many pixels.
func turnPixelsFast[T Float](dst []T, plane int, sums []T, w, pixels, n int) int {
	if vec.CPU() < vec.AVX2 || unsafe.Sizeof(dst[0]) != 4 || n%4 != 0 || pixels < 8 {
		return 0
	}
	var rows [8]uintptr
	_, _ = sums[pixels*w-1], dst[(n-1)*plane+pixels-1]
	for p := 0; p < pixels; p += 8 {
		at := min(p, pixels-8)
		for i := range rows {
			rows[i] = uintptr(unsafe.Pointer(&sums[(at+i)*w]))
		}
		packTranspose8((*byte)(unsafe.Pointer(&dst[at])), &rows[0], plane*4, n)
	}
	runtime.KeepAlive(sums)
	return pixels
}

// lines fills rows with the addresses of up to len(rows) lines from l, the last
// of h repeated.
func lines[T Float](rows []uintptr, s source[T], l, h, p0 int) {
	for i := range rows {
		rows[i] = uintptr(unsafe.Pointer(&s.data[s.line(l+min(i, h-1))+p0]))
	}
}
