package gemm

// pack lays out lines [l0, l0+count) of s, each limited to the k columns from
// p0, as panels of width lines: panel q holds for each column the width values
// of lines q*width…, adjacent. Where the last panel has fewer lines the rest
// of it is left as it is: nothing computed from it is ever stored. A is packed
// by rows (width mr), B as its transpose (width nr).
//
// A panel may be written up to packSlack elements past its end, so panels must
// be packed in ascending order unless width is a multiple of 8. Lines are taken
// in groups of eight and four (two of float64), which are written whole: of
// other widths than the kernels have, columns would spoil each other.
func pack[T Float](dst []T, s source[T], l0, count, p0, k, width int) {
	if s.pairs != noPairs {
		packPairs(any(dst).([]float32), any(s).(source[float32]), l0, count, p0, k, width)
		return
	}
	if s.format != 0 {
		packHalf(any(dst).([]float32), any(s).(source[float32]), l0, count, p0, k, width)
		return
	}
	for q := 0; q*width < count; q++ {
		h := min(width, count-q*width)
		d := dst[q*width*k:]
		if !packFast(d, s, l0+q*width, h, p0, k, width) {
			packPanel(d[:width*k], s, l0+q*width, h, p0, k, width)
		}
	}
}

// packSlack is how many elements past its end a packed block must leave.
const packSlack = 16

func packPanel[T Float](d []T, s source[T], l0, h, p0, k, width int) {
	if s.row == 1 && s.starts == nil {
		for p := range k {
			o := l0 + (p0+p)*s.col
			x, y := d[p*width:][:h], s.data[o:o+h]
			for i := range x {
				x[i] = y[i]
			}
		}
		return
	}
	packStrided(d, s, l0, h, p0, k, width)
}

func packStrided[T Float](d []T, s source[T], l0, h, p0, k, width int) {
	for r := range h {
		o := s.line(l0+r) + p0*s.col
		for q := r; q < k*width; q += width {
			d[q] = s.data[o]
			o += s.col
		}
	}
}

// packHalf widens a panel's lines into a buffer in their own order and packs
// from there.
func packHalf(dst []float32, s source[float32], l0, count, p0, k, width int) {
	buf := buffers32.Get().(*[]float32)
	defer buffers32.Put(buf)
	wide := grow(buf, width*k)
	for q := 0; q*width < count; q++ {
		h := min(width, count-q*width)
		w := source[float32]{data: wide}
		l := l0 + q*width
		switch {
		case s.col == 1:
			w.row, w.col = k, 1
			for r := range h {
				o := (l+r)*s.row + p0
				widen(wide[r*k:][:k], s.bits[o:o+k], s.format)
			}
		case s.row == 1:
			w.row, w.col = 1, h
			for p := range k {
				o := l + (p0+p)*s.col
				widen(wide[p*h:][:h], s.bits[o:o+h], s.format)
			}
		default:
			w.row, w.col = k, 1
			for r := range h {
				for p := range k {
					o := (l+r)*s.row + (p0+p)*s.col
					widen(wide[r*k+p:][:1], s.bits[o:o+1], s.format)
				}
			}
		}
		d := dst[q*width*k:]
		if !packFast(d, w, 0, h, 0, k, width) {
			packPanel(d[:width*k], w, 0, h, 0, k, width)
		}
	}
}
