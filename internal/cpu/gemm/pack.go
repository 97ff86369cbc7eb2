package gemm

// pack lays out lines [l0, l0+count) of s, each limited to the k columns from
// p0, as panels of width lines: panel q holds for each column the width values
// of lines q*width…, adjacent. Lines past the end of the last panel repeat its
// first line: their results are never stored. A is packed by rows (width mr),
// B as its transpose (width nr).
func pack[T Float](dst []T, s source[T], l0, count, p0, k, width int) {
	for q := 0; q*width < count; q++ {
		h := min(width, count-q*width)
		packPanel(dst[q*width*k:][:width*k], s, l0+q*width, h, p0, k, width)
	}
}

func packPanel[T Float](d []T, s source[T], l0, h, p0, k, width int) {
	if s.col == 1 || s.row != 1 {
		for r := range width {
			l := l0
			if r < h {
				l += r
			}
			o := l*s.row + p0*s.col
			for p := range k {
				d[p*width+r] = s.data[o]
				o += s.col
			}
		}
		return
	}
	for p := range k {
		o := l0 + (p0+p)*s.col
		x := d[p*width:][:width]
		n := copy(x, s.data[o:o+h])
		for ; n < width; n++ {
			x[n] = s.data[o]
		}
	}
}
