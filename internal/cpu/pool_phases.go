package cpu

import (
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// Windows that overlap are computed for a whole plane at once. An element of a window
// (ky, kx) is one `tap`: for windows side by side its elements lie a stride apart. So
// the plane is first split by the places of its rows and columns within a stride, into
// phases; in those, the taps of neighboring windows are neighbors, and from one row
// of windows to the next it is the same way, so that a tap of all windows is one slice.
// Windows that stick out of the plane are left to plain loops.

// phases is how one plane is pooled.
type phases struct {
	op.Pool
	h, w, oh, ow   int
	i0, i1, j0, j1 int // the windows that lie inside as a whole
	deep, pitch    int // rows and columns of a phase
}

// fewWindows is the number of windows inside below which plain loops do as well.
const fewWindows = 32

// newPhases reports whether it is a case for phases.
func newPhases(a *op.Pool, h, w, oh, ow int) (*phases, bool) {
	p := &phases{Pool: *a, h: h, w: w, oh: oh, ow: ow}
	for axis := range 2 {
		if a.Dilation[axis] != 1 || a.Stride[axis] > a.Kernel[axis] {
			return nil, false
		}
	}
	wy, wx := windows(a, h, w)
	p.i0, p.i1 = wy.inside(oh)
	p.j0, p.j1 = wx.inside(ow)
	if (p.i1-p.i0)*(p.j1-p.j0) < fewWindows || p.i1 <= p.i0 {
		return nil, false
	}
	p.deep = p.i1 - p.i0 + (a.Kernel[0]-1)/a.Stride[0]
	p.pitch = p.j1 - p.j0 + (a.Kernel[1]-1)/a.Stride[1]
	return p, true
}

// inside returns the first of n windows that lies inside the axis as a whole, and
// the first behind those.
func (w *window) inside(n int) (first, end int) {
	first = (w.pad + w.stride - 1) / w.stride
	if rest := w.size + w.pad - w.kernel; rest >= 0 {
		end = min(n, rest/w.stride+1)
	}
	return first, end
}

// size is the size of a phase, all the size of all phases.
func (p *phases) size() int { return p.deep * p.pitch }
func (p *phases) all() int  { return p.Stride[0] * p.Stride[1] * p.size() }

// span is the length of a tap: of all windows inside, with what lies between
// the rows of windows.
func (p *phases) span() int { return (p.i1-p.i0-1)*p.pitch + p.j1 - p.j0 }

// tap returns tap (ky, kx) of all windows.
func (p *phases) tap(x []float32, ky, kx int) []float32 {
	sy, sx := p.Stride[0], p.Stride[1]
	at := (ky%sy*sx+kx%sx)*p.size() + ky/sy*p.pitch + kx/sx
	return x[at:][:p.span()]
}

// taps calls f for all taps in order, the first with true.
func (p *phases) taps(f func(ky, kx int, first bool)) {
	for ky := range p.Kernel[0] {
		for kx := range p.Kernel[1] {
			f(ky, kx, ky == 0 && kx == 0)
		}
	}
}

// rows calls f for the rows of the plane that windows inside have: row is the part
// of it that they have, and at where its first phase is. n is the number of elements
// of the first phase there, others have as many or one less.
func (p *phases) rows(plane []float32, f func(row []float32, at, n int)) {
	sy, sx := p.Stride[0], p.Stride[1]
	y0, x0 := p.i0*sy-p.Pad[0], p.j0*sx-p.Pad[1]
	width := min(p.w-x0, p.pitch*sx)
	for y := y0; y < min(p.h, y0+p.deep*sy); y++ {
		f(plane[y*p.w+x0:][:width], (y-y0)%sy*sx*p.size()+(y-y0)/sy*p.pitch, (width+sx-1)/sx)
	}
}

// split stores a plane's phases in x.
func (p *phases) split(x, plane []float32) {
	p.rows(plane, func(row []float32, at, n int) {
		switch sx := p.Stride[1]; sx {
		case 1:
			copy(x[at:], row)
		case 2:
			even, odd := x[at:][:n], x[at+p.size():]
			vec.SplitPairsF32(even[:len(row)/2], odd, row)
			if len(row)%2 != 0 {
				even[n-1] = row[len(row)-1]
			}
		default:
			for i, v := range row {
				x[at+i%sx*p.size()+i/sx] = v
			}
		}
	})
}

// join is split's opposite. What no window inside has becomes 0.
func (p *phases) join(plane, x []float32) {
	clear(plane)
	p.rows(plane, func(row []float32, at, n int) {
		switch sx := p.Stride[1]; sx {
		case 1:
			copy(row, x[at:])
		case 2:
			even, odd := x[at:][:n], x[at+p.size():]
			vec.JoinPairsF32(row, even[:len(row)/2], odd)
			if len(row)%2 != 0 {
				row[len(row)-1] = even[n-1]
			}
		default:
			for i := range row {
				row[i] = x[at+i%sx*p.size()+i/sx]
			}
		}
	})
}

// put copies the results of windows inside to dst, get reads them, with zeros between
// the rows.
func (p *phases) put(dst, windows []float32) {
	for i := p.i0; i < p.i1; i++ {
		copy(dst[i*p.ow+p.j0:i*p.ow+p.j1], windows[(i-p.i0)*p.pitch:])
	}
}

func (p *phases) get(windows, src []float32) {
	clear(windows)
	for i := p.i0; i < p.i1; i++ {
		copy(windows[(i-p.i0)*p.pitch:], src[i*p.ow+p.j0:i*p.ow+p.j1])
	}
}

// borders calls f for the windows that stick out.
func (p *phases) borders(f func(i, j int)) {
	for i := range p.oh {
		for j := 0; j < p.ow; j++ {
			if j == p.j0 && i >= p.i0 && i < p.i1 {
				if j = p.j1; j >= p.ow {
					break
				}
			}
			f(i, j)
		}
	}
}

// largest stores the largest tap of each window in m.
func (p *phases) largest(m, x []float32) {
	var some [vec.Rows]*float32
	n := 0
	p.taps(func(ky, kx int, first bool) {
		t := p.tap(x, ky, kx)
		if first {
			copy(m, t)
			return
		}
		some[n] = &t[0]
		if n++; n == len(some) {
			vec.MaxRowsF32(m, &some, 0)
			n = 0
		}
	})
	if n > 0 {
		for i := n; i < len(some); i++ {
			some[i] = some[0]
		}
		vec.MaxRowsF32(m, &some, 0)
	}
}

// max pools a plane; x has room for all phases and m for one.
func (p *phases) max(dst, plane, x, m []float32) {
	p.split(x, plane)
	m = m[:p.span()]
	p.largest(m, x)
	p.put(dst, m)
	wy, wx := windows(&p.Pool, p.h, p.w)
	p.borders(func(i, j int) { dst[i*p.ow+j] = plane[largestAt(plane, p.w, i, j, &wy, &wx)] })
}

// maxGrad adds each window's gradient to the first of its largest elements; x and d
// have room for all phases, m and left for one.
func (p *phases) maxGrad(dst, g, plane, x, d, m, left []float32) {
	p.split(x, plane)
	m, left = m[:p.span()], left[:p.span()]
	p.largest(m, x)
	p.get(left, g)
	clear(d)
	p.taps(func(ky, kx int, _ bool) { vec.ClaimF32(p.tap(d, ky, kx), left, p.tap(x, ky, kx), m) })
	p.join(dst, d)
	wy, wx := windows(&p.Pool, p.h, p.w)
	p.borders(func(i, j int) { dst[largestAt(plane, p.w, i, j, &wy, &wx)] += g[i*p.ow+j] })
}

// average stores the averages of windows inside; x has room for all phases, m for one.
func (p *phases) average(dst, plane, x, m []float32) {
	p.split(x, plane)
	m = m[:p.span()]
	each := float32(1 / float64(p.Kernel[0]*p.Kernel[1]))
	p.taps(func(ky, kx int, first bool) {
		if t := p.tap(x, ky, kx); first {
			vec.MulSF32(m, t, each) // before they are added, so that no sum overflows
		} else {
			vec.AxpyF32(m, each, t)
		}
	})
	p.put(dst, m)
}

// spread adds to each element its share of the gradients of windows inside; d has
// room for all phases, m for one.
func (p *phases) spread(dst, g, d, m []float32) {
	m = m[:p.span()]
	p.get(m, g)
	vec.MulSF32(m, m, float32(1/float64(p.Kernel[0]*p.Kernel[1])))
	clear(d)
	p.taps(func(ky, kx int, _ bool) {
		t := p.tap(d, ky, kx)
		vec.AddF32(t, t, m)
	})
	p.join(dst, d)
}
