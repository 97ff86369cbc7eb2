package gemm

import (
	"runtime"
	"unsafe"
)

// packLinesFast packs 16 words from word p on of h lines, all of them in the
// matrix, with vector code if there is some for the layout.
func packLinesFast(block []uint32, s source[float32], l0, h, p int) bool {
	switch {
	case s.col == 1:
		o := l0*s.row + 2*p
		_, _ = block[16*h-1], s.bits[o+(h-1)*s.row+31]
		packCopy64((*byte)(unsafe.Pointer(&block[0])), (*byte)(unsafe.Pointer(&s.bits[o])), 2*s.row, h, 1, 0, 64)
	case s.row == 1 && h == 32:
		packTurned(block, s, l0, p)
	default:
		return false
	}
	return true
}

// packTurned packs 16 words of 32 lines that lie side by side: it joins pairs
// of rows and turns the result.
func packTurned(block []uint32, s source[float32], l0, p int) {
	var joined [16 * 32]uint32
	o := l0 + 2*p*s.col
	_ = s.bits[o+31*s.col+31]
	packPairs32((*byte)(unsafe.Pointer(&joined)), (*byte)(unsafe.Pointer(&s.bits[o])), 2*s.col, 16)
	var rows [8]uintptr
	for half := range 2 {
		for i := range rows {
			rows[i] = uintptr(unsafe.Pointer(&joined[32*(8*half+i)]))
		}
		packTranspose8((*byte)(unsafe.Pointer(&block[8*half])), &rows[0], 64, 32)
	}
	runtime.KeepAlive(&joined)
}

// packPairsFast packs the first words of a panel with vector code if there is
// some for its layout, and says how many.
func packPairsFast(d []float32, s source[float32], l0, h, p0, whole, width int) int {
	switch {
	case whole == 0:
	case s.row == 1 && h == width && (width == 12 || width == 32):
		f := packPairs12
		if width == 32 {
			f = packPairs32
		}
		o := l0 + 2*p0*s.col
		_, _ = d[width*whole-1], s.bits[o+(2*whole-1)*s.col+width-1]
		f(bytePtr(d), (*byte)(unsafe.Pointer(&s.bits[o])), 2*s.col, whole)
		return whole
	case s.col == 1 && whole >= 4:
		var rows [8]uintptr
		body := whole &^ 3
		for g := 0; g < h; {
			room := width - g
			size, f := 4, packTranspose4
			if room > 4 {
				size, f = 8, packTranspose8
				_ = d[width*body+max(0, 8-room)-1] // room for the overhang
			}
			for i := range rows[:size] {
				o := (l0+min(g+i, h-1))*s.row + 2*p0
				_ = s.bits[o+2*body-1]
				rows[i] = uintptr(unsafe.Pointer(&s.bits[o]))
			}
			f((*byte)(unsafe.Pointer(&d[g])), &rows[0], 4*width, body)
			g += size
		}
		runtime.KeepAlive(s.bits)
		return body
	}
	return 0
}
