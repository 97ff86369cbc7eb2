package cpu

import (
	"sync"

	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
)

// blockConv is a convolution of images. Its result has parts, each of which is every n-th
// element of it.
type blockConv struct {
	*convolution
	frame
	images, tasks int // of a task, and how many there are
	words         int // planes of words of a group, in whole steps
	pitch         int // from one of them to the next, in words
	canvas        int // elements of all planes of a task
	ldc           int // of the sums of a task
	parts         []blockPart
	plane         int // of the result
	stepY, stepX  int // from one of a part's rows, and elements, to the next
	mu            sync.Mutex
	idle          []*blockWork
}

// blockPart is a part of the result.
type blockPart struct {
	taps          []blockTap
	first, oh, ow int // where it begins in a plane of the result, and its size
	steps, depth  int // of the sum, and those that are made at once
	starts        gemm.BlockStart
	a             []uint16 // the weights, see weights
	room          *scratch
}

// blockTap is a place of a kernel: its index among the weights, and where in which plane of an
// image its patches begin.
type blockTap struct{ weight, plane, at int }

// blockWork is what a task needs. Its canvas has zeros where there is no image.
type blockWork struct {
	s      [3]*scratch
	canvas []uint16
	sums   []float32
	half   []uint16
}

// Sizes for a core's second cache.
const (
	blockBytes   = 512 << 10 // of a canvas and its sums
	blockColumns = 256       // so many at least, of several images, while there are tasks enough
	blockDepth   = 36        // steps of a sum that are made at once, for which 32 rows of weights have 72 KB
)

func newBlockConv(v *convolution) *blockConv {
	q := &blockConv{convolution: v, frame: newFrame(v), images: 1}
	q.words = roundUp(v.cg, blockChannels) / 2
	// The division has no influence on the results: it may depend on the threads.
	threads := pool.Threads()
	q.divide(blockBytes/(4*(q.words*q.planes()+roundUp(v.og, blockRows))), 4*threads)
	area := q.stacked()
	if q.blocks == 1 {
		q.images = max(1, min((blockColumns+area-1)/area, v.n*v.Groups/(2*threads), v.n))
	}
	q.tasks = (v.n + q.images - 1) / q.images * v.Groups * q.blocks
	// An odd number of cache lines, so that a step's lines do not compete for the same places.
	q.pitch = roundUp((q.images-1)*area+q.height*q.width+q.tail, 16)
	if q.pitch%32 == 0 {
		q.pitch += 16
	}
	q.ldc = roundUp((q.images-1)*area+q.frame.columns(0), gemm.BlockSide)
	if q.ldc%256 == 0 {
		q.ldc += 16
	}
	q.canvas = 2 * (q.planes()*q.words*q.pitch + q.ldc)
	return q
}

// add adds a part.
func (q *blockConv) add(p blockPart) {
	var at []int
	for group := range q.words / 16 {
		for _, t := range p.taps {
			at = append(at, 2*((t.plane*q.words+16*group)*q.pitch+t.at))
		}
	}
	p.starts, p.steps = gemm.NewBlockStart(at), len(at)
	p.depth = (p.steps-1)/((p.steps-1)/blockDepth+1) + 1
	q.parts = append(q.parts, p)
}

// weights lays out the weights of each part: for every 32 rows of a group, and for every step, 32 elements of each
// row. Element (row, channel) of a group begins at group·g + row·r + channel·c of w, with one for each tap.
func (q *blockConv) weights(w []uint16, g, r, c int) {
	rows := roundUp(q.og, blockRows)
	for i := range q.parts {
		p := &q.parts[i]
		p.room, p.a = scratchOf[uint16](q.Groups * rows * p.steps * blockChannels)
	}
	pool.For(q.Groups*rows, max(1, grainExpensive/(q.cg*q.kh*q.kw)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for k := range q.parts {
				q.weightRow(&q.parts[k], i/rows, i%rows, rows, w[i/rows*g:], i%rows*r, c)
			}
		}
	})
}

// weightRow lays out a row of a group, whose elements begin at from, c apart.
func (q *blockConv) weightRow(p *blockPart, g, row, rows int, w []uint16, from, c int) {
	first := row / gemm.BlockSide * gemm.BlockSide // of the panel
	step := min(gemm.BlockSide, rows-first) * blockChannels
	to := p.a[(g*rows+first)*p.steps*blockChannels+(row-first)*blockChannels:]
	for ch := 0; ch < q.cg; ch += blockChannels {
		count := min(blockChannels, q.cg-ch)
		if row >= q.og {
			count = 0
		}
		for t, tap := range p.taps {
			line := (*[blockChannels]uint16)(to[(ch/blockChannels*len(p.taps)+t)*step:])
			if count == 0 {
				clear(line[:])
				continue
			}
			// Four at a time: there are many of them.
			source := w[from+ch*c+tap.weight:][:(count-1)*c+1]
			j := 0
			for ; j+4 <= count; j += 4 {
				at := source[j*c : j*c+3*c+1]
				line[j], line[j+1], line[j+2], line[j+3] = at[0], at[c], at[2*c], at[3*c]
			}
			for ; j < count; j++ {
				line[j] = source[j*c]
			}
			clear(line[count:])
		}
	}
}

func (q *blockConv) free() {
	for _, p := range q.parts {
		p.room.free()
	}
	for _, w := range q.idle {
		release(w.s[:]...)
	}
}

// work returns room for a task, from one that has ended if there is one.
func (q *blockConv) work() *blockWork {
	q.mu.Lock()
	if n := len(q.idle); n > 0 {
		w := q.idle[n-1]
		q.idle = q.idle[:n-1]
		q.mu.Unlock()
		return w
	}
	q.mu.Unlock()
	w := new(blockWork)
	w.s[0], w.canvas = scratchOf[uint16](q.canvas)
	w.s[1], w.sums = scratchOf[float32](roundUp(q.og, blockRows) * q.ldc)
	w.s[2], w.half = scratchOf[uint16](2 * roundUp(q.og, blockRows) * q.ldc)
	clear(w.canvas)
	return w
}

func (q *blockConv) done(w *blockWork) {
	q.mu.Lock()
	q.idle = append(q.idle, w)
	q.mu.Unlock()
}

// run computes the result.
func (q *blockConv) run(dst, x []uint16, f finish[float32]) {
	pool.For(q.tasks, max(1, serialProduct/max(1, q.og*q.k*q.ldc)), func(lo, hi int) {
		w := q.work()
		for i := lo; i < hi; i++ {
			n, g, block := i/q.blocks/q.Groups*q.images, i/q.blocks%q.Groups, i%q.blocks
			images := min(q.images, q.n-n)
			for k := range images {
				q.fill(w.canvas[2*k*q.stacked():], group(q.convolution, x, n+k, g, q.cg*q.h*q.w), block)
			}
			columns := (images-1)*q.stacked() + q.frame.columns(block)
			for p := 0; p < len(q.parts); {
				// Two parts of the same rows, whose elements alternate, are stored together.
				both := q.stepX == 2 && p+1 < len(q.parts) && q.parts[p+1].first == q.parts[p].first+1
				second := w.half[len(w.half)/2:]
				q.compute(w, w.half, &q.parts[p], g, columns, f)
				if both {
					q.compute(w, second, &q.parts[p+1], g, columns, f)
				}
				for r := range q.og {
					for k := range images {
						to, at := dst[((n+k)*q.o+g*q.og+r)*q.plane:][:q.plane], r*q.ldc+k*q.stacked()
						if both {
							q.join(to, w.half[at:], second[at:], &q.parts[p], &q.parts[p+1], block)
						} else {
							q.store(to, w.half[at:], &q.parts[p], block)
						}
					}
				}
				if p++; both {
					p++
				}
			}
		}
		q.done(w)
	})
}

// compute makes the rows of a part, with surplus columns, rounded.
func (q *blockConv) compute(w *blockWork, to []uint16, p *blockPart, g, columns int, f finish[float32]) {
	q.multiply(w, p, g, columns)
	for r := range q.og {
		row := w.sums[r*q.ldc:][:roundUp(columns, 16)]
		if f.bias != nil {
			shift(row, row, -f.bias[g*q.og+r])
		}
		gemm.Activate(f.act, row)
		vec.F32ToBF16(to[r*q.ldc:][:len(row)], row)
	}
}

// fill lays out a block of a group's image in a canvas.
func (q *blockConv) fill(to, x []uint16, block int) {
	v := q.convolution
	y0, _ := q.frame.span(block)
	at := 0
	for _, py := range q.phases[0] {
		for _, px := range q.phases[1] {
			j0, j1, from := q.inside(px)
			i0, i1, top := q.insideRows(py, y0)
			s := v.Stride[0]
			rows := gemm.Rows16{Width: j1 - j0, Rows: i1 - i0, Every: v.Stride[1], StepDst: 2 * q.width, StepSrc: s * v.w}
			for c := 0; c < v.cg; c += 2 {
				plane := to[at+c*q.pitch:]
				if q.blocks > 1 { // others have something there
					clear(plane[:2*i0*q.width])
					clear(plane[2*i1*q.width : 2*q.height*q.width])
				}
				if j0 == j1 || i0 == i1 {
					continue
				}
				first := (c*v.h+top+i0*s)*v.w + from + j0*v.Stride[1]
				var second []uint16
				if c+1 < v.cg {
					second = x[first+v.h*v.w:]
				}
				rows.Join(plane[2*(i0*q.width+j0):], x[first:], second)
			}
			at += 2 * q.words * q.pitch
		}
	}
}

// multiply computes the sums of a part.
func (q *blockConv) multiply(w *blockWork, p *blockPart, g, columns int) {
	rows := roundUp(q.og, blockRows)
	a := p.a[g*rows*p.steps*blockChannels:]
	for s := 0; s < p.steps; s += p.depth {
		x := gemm.Blocks{Steps: min(p.depth, p.steps-s), RowB: 2 * q.pitch, Starts: p.starts.Range(s, min(s+p.depth, p.steps)), RowA: blockChannels,
			LDC: q.ldc, NextB: 2 * gemm.BlockSide, NextC: gemm.BlockSide, Add: s > 0}
		for r := 0; r < rows; r += gemm.BlockSide {
			x.Rows = min(gemm.BlockSide, rows-r)
			x.StepA = x.Rows * blockChannels
			x.A = a[(r*p.steps+s*x.Rows)*blockChannels:]
			x.Cols, x.Count, x.B, x.C = gemm.BlockSide, (columns+15)/gemm.BlockSide, w.canvas, w.sums[r*q.ldc:]
			if x.Count > 0 {
				x.Run()
			}
			if done := x.Count * gemm.BlockSide; done < columns {
				x.Cols, x.Count, x.B, x.C = 16, 1, x.B[2*done:], x.C[done:]
				x.Run()
			}
		}
	}
}

// store copies the rows of a block of a part to their places in a plane of the result.
func (q *blockConv) store(dst, from []uint16, p *blockPart, block int) {
	y0, y1 := q.frame.span(block)
	y1 = min(y1, p.oh)
	if q.stepX == 1 {
		gemm.Rows16{Width: p.ow, Rows: y1 - y0, Every: 1, StepDst: q.stepY, StepSrc: q.width}.Copy(dst[min(len(dst), p.first+y0*q.stepY):], from)
		return
	}
	for y := y0; y < y1; y++ {
		row, at := from[(y-y0)*q.width:][:p.ow], p.first+y*q.stepY
		for _, e := range row {
			dst[at] = e
			at += q.stepX
		}
	}
}

// join is store for two parts whose elements alternate.
func (q *blockConv) join(dst, a, b []uint16, pa, pb *blockPart, block int) {
	y0, y1 := q.frame.span(block)
	y1 = min(y1, pa.oh)
	width := min(pa.ow, pb.ow)
	gemm.Rows16{Width: width, Rows: y1 - y0, Every: 1, StepDst: q.stepY, StepSrc: q.width}.Join(dst[min(len(dst), pa.first+y0*q.stepY):], a, b)
	if pa.ow > width {
		for y := y0; y < y1; y++ {
			dst[pa.first+y*q.stepY+2*width] = a[(y-y0)*q.width+width]
		}
	}
}
