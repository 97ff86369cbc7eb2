package cpu

import (
	"slices"

	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/vec"
)

// frame is how the image of a group is laid out for a convolution, some rows
// of the result at a time: for each distance of a place of the kernel from a
// multiple of the stride a plane of every stride-th element, its rows as long
// as the result's and the kernel's reach.
type frame struct {
	v             *convolution
	rows, blocks  int // rows of the result in a block, and blocks
	height, width int // of a plane
	tail          int // elements of padding that a row shares with the next
	phases        [2][]int
}

// canvas is a frame filled with elements. Row r of the patches begins at start r.
type canvas[T float] struct {
	frame
	size   int // of all planes, and room for whole vectors
	at     []int
	starts *gemm.Starts
}

// canvasBytes is the size of a block of planes and of what is computed for it.
const canvasBytes = 192 << 10

// newCanvas divides the result so that what belongs to a block, with `lines` for each
// of its pixels, stays in the cache, and so that there are `tasks` blocks of
// all images if that leaves them a few rows. With no lines an image is one block.
func newCanvas[T float](v *convolution, lines, tasks int) *canvas[T] {
	l := &canvas[T]{frame: newFrame(v)}
	if lines > 0 {
		l.divide(canvasBytes/(max(lines, v.cg*l.planes())*widthOf[T]()), tasks)
	}
	area := l.height * l.width
	l.size = v.cg*l.planes()*area + l.tail + gemm.Whole[T](1)
	l.at = make([]int, v.k)
	for r := range l.at {
		plane, at := l.place(r % (v.kh * v.kw))
		l.at[r] = (plane*v.cg+r/(v.kh*v.kw))*area + at
	}
	l.starts = gemm.NewStarts[T](l.at)
	return l
}

// newFrame makes one of whole images.
func newFrame(v *convolution) frame {
	l := frame{v: v}
	reach := v.reach()
	for axis, k := range [2]int{v.kh, v.kw} {
		for i := range k {
			if p := i * v.Dilation[axis] % v.Stride[axis]; !slices.Contains(l.phases[axis], p) {
				l.phases[axis] = append(l.phases[axis], p)
			}
		}
	}
	l.width = v.ow + reach[1]
	if tail := l.width - v.w - v.Pad[1]; v.Stride[1] == 1 && tail >= 0 && tail <= v.Pad[1] && l.width-tail >= v.ow {
		// The padding left of the next row is also the padding right of this one.
		l.tail = tail
		l.width -= l.tail
	}
	l.rows, l.blocks, l.height = v.oh, 1, v.oh+reach[0]
	return l
}

// reach is how far the last place of the kernel is from the first, in each plane.
func (v *convolution) reach() (reach [2]int) {
	for axis, k := range [2]int{v.kh, v.kw} {
		reach[axis] = (k - 1) * v.Dilation[axis] / v.Stride[axis]
	}
	return reach
}

// divide makes blocks of so many pixels at most, and `tasks` of them of all images if that
// leaves them a few rows.
func (l *frame) divide(pixels, tasks int) {
	v, reach := l.v, l.v.reach()
	l.rows = min(v.oh, max(1, pixels/l.width))
	if want := (tasks-1)/(v.n*v.Groups) + 1; (v.oh-1)/l.rows+1 < want {
		l.rows = min(l.rows, max((v.oh-1)/want+1, min(reach[0]+1, v.oh), 64/l.width))
	}
	l.blocks = (v.oh-1)/l.rows + 1
	l.rows = (v.oh-1)/l.blocks + 1
	l.height = l.rows + reach[0]
}

// stacked is how far an image is from the one above it where several share planes: the padding
// below one is also the padding above the next.
func (l *frame) stacked() int {
	shared := 0
	if below := l.height - l.v.Pad[0] - l.v.h; l.v.Stride[0] == 1 && below >= 0 {
		shared = max(0, min(below, l.v.Pad[0]))
	}
	return (l.height - shared) * l.width
}

// planes is the number of planes per channel.
func (l *frame) planes() int { return len(l.phases[0]) * len(l.phases[1]) }

// place says in which of a channel's planes, and where, a tap of the kernel begins.
func (l *frame) place(tap int) (plane, at int) {
	v := l.v
	y, x := tap/v.kw*v.Dilation[0], tap%v.kw*v.Dilation[1]
	py, px := slices.Index(l.phases[0], y%v.Stride[0]), slices.Index(l.phases[1], x%v.Stride[1])
	return py*len(l.phases[1]) + px, y/v.Stride[0]*l.width + x/v.Stride[1]
}

// span returns the rows of the result that a block has.
func (l *frame) span(block int) (y0, y1 int) {
	return block * l.rows, min((block+1)*l.rows, l.v.oh)
}

// columns is how many columns of a block's patches are used.
func (l *frame) columns(block int) int {
	y0, y1 := l.span(block)
	return (y1-y0-1)*l.width + l.v.ow
}

// inside returns the columns [j0, j1) of a plane that lie in the image: column j is the image's
// from + j·stride.
func (l *frame) inside(phase int) (j0, j1, from int) {
	from = phase - l.v.Pad[1]
	j0, j1 = within(from, l.v.Stride[1], l.v.w, l.width)
	return j0, j1, from
}

// insideRows returns the rows [i0, i1) of a plane that lie in the image, for a block whose first
// row of the result is y0: row i is the image's top + i·stride.
func (l *frame) insideRows(phase, y0 int) (i0, i1, top int) {
	top = y0*l.v.Stride[0] + phase - l.v.Pad[0]
	i0, i1 = within(top, l.v.Stride[0], l.v.h, l.height)
	return i0, i1, top
}

// within returns the numbers [lo, hi) below room for which from + i·stride lies in [0, size).
func within(from, stride, size, room int) (lo, hi int) {
	if from < 0 {
		lo = min(room, (-from+stride-1)/stride)
	}
	if size > from {
		hi = min(room, (size-from-1)/stride+1)
	}
	return lo, max(lo, hi)
}

// each calls f for every row of every plane that a block needs: where it begins, the row of
// x it comes from, which may be outside, and the columns: element j of the row is
// element from + j·stride of x's, which exists for j0 ≤ j < j1.
func (l *canvas[T]) each(block int, f func(at, c, iy, j0, j1, from int)) {
	v := l.v
	y0, y1 := l.span(block)
	height := y1 - y0 + l.height - l.rows
	at := 0
	for _, py := range l.phases[0] {
		for _, px := range l.phases[1] {
			j0, j1, from := l.inside(px)
			for c := range v.cg {
				for q := range height {
					f(at+q*l.width, c, (y0+q)*v.Stride[0]+py-v.Pad[0], j0, j1, from)
				}
				at += l.height * l.width
			}
		}
	}
}

// fill lays out a block of image x.
func (l *canvas[T]) fill(to, x []T, block int) {
	v := l.v
	clear(to[l.size-gemm.Whole[T](1)-l.tail : l.size])
	s := v.Stride[1]
	if v.Stride == [2]int{1, 1} && v.Pad == [2]int{} && l.width == v.w { // rows as they are
		y0, y1 := l.span(block)
		for c := range v.cg {
			copy(to[c*l.height*l.width:], x[(c*v.h+y0)*v.w:][:(y1-y0+l.height-l.rows)*v.w])
		}
		return
	}
	if v.Stride == [2]int{1, 1} {
		l.fillRows(to, x, block, false)
		return
	}
	l.each(block, func(at, c, iy, j0, j1, from int) {
		row := to[at:][:l.width]
		if iy < 0 || iy >= v.h || j0 == j1 {
			clear(row)
			return
		}
		line := x[(c*v.h+iy)*v.w:][:v.w]
		for j := range row[:j0] {
			row[j] = 0
		}
		if s == 1 {
			copy(row[j0:j1], line[from+j0:])
		} else {
			everyNth(row[j0:j1], line[from+j0*s:], s)
		}
		for j := j1; j < len(row); j++ {
			row[j] = 0
		}
	})
	// The last block may have fewer rows than there is room for: clear the padding that
	// its last row shares.
	if y0, y1 := l.span(block); y1-y0 < l.rows {
		area := l.height * l.width
		for at := (y1 - y0 + l.height - l.rows) * l.width; at < l.size-l.tail; at += area {
			clear(to[at : at+l.tail])
		}
	}
}

// fillRows is fill without strides: all but the padding are rows of x. With again the
// padding is there already.
func (l *canvas[T]) fillRows(to, x []T, block int, again bool) {
	v := l.v
	y0, _ := l.span(block)
	top := y0 - v.Pad[0] // the row of x that the first of a plane is
	q0, q1 := max(0, -top), max(0, min(l.height, v.h-top))
	j0, w := min(v.Pad[1], l.width), max(0, min(l.width-v.Pad[1], v.w))
	area := l.height * l.width
	for c := range v.cg {
		plane := to[c*area:][:area]
		if !again {
			clear(plane)
		}
		for q := q0; q < q1; q++ {
			copyShort(plane[q*l.width+j0:][:w], x[(c*v.h+top+q)*v.w:][:w])
		}
	}
}

// refill is fill where, with again, fill has laid out another image before: then nothing
// but the elements of the image has to be written.
func (l *canvas[T]) refill(to, x []T, block int, again bool) {
	if again && l.blocks == 1 && l.v.Stride == [2]int{1, 1} {
		l.fillRows(to, x, block, true)
	} else {
		l.fill(to, x, block)
	}
}

// everyNth copies every s-th element of x.
func everyNth[T float](dst, x []T, s int) {
	if s == 2 {
		if to, ok := any(dst).([]float32); ok && len(to) >= 24 {
			vec.EvensF32(to, any(x).([]float32))
			return
		}
		for len(dst) >= 4 && len(x) >= 8 {
			a, b := (*[4]T)(dst), (*[8]T)(x)
			a[0], a[1], a[2], a[3] = b[0], b[2], b[4], b[6]
			dst, x = dst[4:], x[8:]
		}
	}
	for j := range dst {
		dst[j] = x[j*s]
	}
}

// gather is fill's opposite, for planes of a whole image: x gets the sums.
func (l *canvas[T]) gather(x, from []T) {
	v := l.v
	s := v.Stride[1]
	// Elements that no place of the kernel ever meets.
	if len(l.phases[0])*len(l.phases[1]) < v.Stride[0]*s || (l.height-1)*v.Stride[0]-v.Pad[0]+1 < v.h || (l.width-1)*s-v.Pad[1]+1 < v.w {
		clear(x)
	}
	l.each(0, func(at, c, iy, j0, j1, first int) {
		if iy < 0 || iy >= v.h || j0 == j1 {
			return
		}
		line, row := x[(c*v.h+iy)*v.w:][:v.w], from[at:][:l.width]
		if s == 1 {
			copy(line[first+j0:], row[j0:j1])
			return
		}
		i := first + j0*s
		for _, e := range row[j0:j1] {
			line[i] = e
			i += s
		}
	})
}

// narrow copies a block of the result, lines pitch apart, without the surplus columns.
func (l *canvas[T]) narrow(dst, from []T, pitch, block int) {
	v := l.v
	y0, y1 := l.span(block)
	for o := range v.og {
		to, row := dst[o*v.p+y0*v.ow:], from[o*pitch:]
		for y := range y1 - y0 {
			copyShort(to[y*v.ow:][:v.ow], row[y*l.width:][:v.ow])
		}
	}
}

// widen copies a block of a gradient, with zeros in the surplus columns.
func (l *canvas[T]) widen(to, grad []T, pitch, block int) {
	v := l.v
	y0, y1 := l.span(block)
	n := l.columns(block)
	for o := range v.og {
		row, from := to[o*pitch:][:pitch], grad[o*v.p+y0*v.ow:]
		for y := range y1 - y0 {
			at := y * l.width
			copyShort(row[at:][:v.ow], from[y*v.ow:][:v.ow])
			for j := at + v.ow; j < min(at+l.width, n); j++ {
				row[j] = 0
			}
		}
		clear(row[n:])
	}
}

// turn is widen with the pixels as rows and the channels as columns. There must be room
// for gemm.Slack elements more.
func (l *canvas[T]) turn(to, grad []T, block int) {
	v := l.v
	y0, y1 := l.span(block)
	if l.width == v.ow {
		gemm.Interleave(to, grad[y0*v.ow:], v.og, v.p, (y1-y0)*v.ow)
		return
	}
	for y := y0; y < y1; y++ {
		row := to[(y-y0)*l.width*v.og:]
		gemm.Interleave(row, grad[y*v.ow:], v.og, v.p, v.ow)
		if y < y1-1 {
			clear(row[v.ow*v.og : l.width*v.og])
		}
	}
}

// copyShort is copy for rows so short that a call would cost more.
func copyShort[T float](to, from []T) {
	if len(to) > 32 {
		copy(to, from)
		return
	}
	from = from[:len(to)]
	for len(to) >= 4 {
		a, b := (*[4]T)(to), (*[4]T)(from)
		*a = *b
		to, from = to[4:], from[4:]
	}
	for i := range to {
		to[i] = from[i]
	}
}
