package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// The gradient of a convolution's weights with blocks: for each place of the kernel a product of
// x, a row for each channel, with the gradient, a column for each, summed over pixels. Rows of x
// are read where they lie in a frame; the gradient's words, of two pixels, are packed.

// blockGrad is one such gradient.
type blockGrad struct {
	*convolution
	frame
	channels      int // of a group, in whole blocks
	filters       int // likewise
	images        int // in a canvas
	pitch         int // from one plane of x to the next
	sums          int // elements of all sums
	parts, chunks int // of images, and of channels
	chunk         int // channels of a chunk
	starts        gemm.BlockStart
	grad, x       []uint16
}

// Steps of a sum that are made for all places of the kernel in turn, while what they read is in the first
// cache, and the size of a canvas, for the second.
const (
	blockGradSteps = 10
	blockGradBytes = 1 << 20
	blockGradSums  = 32 << 20 // bytes of partial sums
	blockGradTasks = 16       // so many at least, if there are channels enough
)

// convGradWeightBlocks computes op.ConvGradWeight.
func convGradWeightBlocks(c *backend.Call) bool {
	v := newConvolution(c.Attrs.(op.Conv), c.In[1].Shape, c.Out.Shape, c.In[0].Shape)
	if !v.fillsBlocks() {
		return false
	}
	q := &blockGrad{convolution: v, frame: newFrame(v), channels: roundUp(v.cg, blockRows), filters: roundUp(v.og, gemm.BlockSide)}
	q.divide(blockGradBytes/(2*q.planes()*v.cg), 1)
	if area := q.stacked(); q.blocks == 1 {
		q.images = max(1, min(v.n, gemm.BlockDepth*blockGradSteps/area))
	} else {
		q.images = 1
	}
	q.pitch = roundUp((q.images-1)*q.stacked()+q.height*q.width+q.tail, 32)
	if q.pitch%64 == 0 {
		q.pitch += 32 // an odd number of cache lines
	}
	var free func()
	q.grad, q.x, free = bits2(c)
	defer free()
	taps := v.kh * v.kw
	q.sums = v.Groups * taps * q.channels * q.filters
	// Neither may depend on the threads.
	q.parts = max(1, min(v.n/q.images, gradParts, blockGradSums/(4*q.sums)))
	q.chunk = roundUp((q.channels-1)/((blockGradTasks-1)/q.parts+1)+1, gemm.BlockSide)
	q.chunks = (v.cg-1)/q.chunk + 1
	at := make([]int, (q.most()-1)/gemm.BlockDepth+1)
	for i := range at {
		at[i] = i * gemm.BlockPiece
	}
	q.starts = gemm.NewBlockStart(at)
	room, sums := scratchOf[float32](q.parts * q.sums)
	defer room.free()
	pool.For(q.parts*v.Groups*q.chunks, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			part, g, chunk := i/q.chunks/v.Groups, i/q.chunks%v.Groups, i%q.chunks
			q.add(sums[part*q.sums+g*(q.sums/v.Groups):], part, g, chunk*q.chunk)
		}
	})
	return q.finish(convert[uint16](elements[dtype.BF16](&c.Out, c.Out.Elements())), sums)
}

// most is the largest number of columns of a canvas.
func (q *blockGrad) most() int { return (q.images-1)*q.stacked() + q.frame.columns(0) }

// add sums over the images of a part for channels from c0 on of a group.
func (q *blockGrad) add(to []float32, part, g, c0 int) {
	v := q.convolution
	count := min(q.chunk, v.cg-c0)
	rows := roundUp(count, blockRows)
	area := q.stacked()
	deep := roundUp(q.most(), gemm.BlockDepth)
	sc, canvas := scratchOf[uint16](q.planes()*rows*q.pitch + q.pitch + deep)
	sw, wide := scratchOf[uint16](v.og * deep)
	sp, packed := scratchOf[uint16](q.filters / gemm.BlockSide * gemm.PanelSize(deep))
	clear(canvas)
	clear(wide)
	first, end := v.n*part/q.parts, v.n*(part+1)/q.parts
	for n := first; n < end; n += q.images {
		images := min(q.images, end-n)
		for block := range q.blocks {
			y0, y1 := q.frame.span(block)
			r := gemm.Rows16{Width: v.ow, Rows: y1 - y0, Every: 1, StepDst: q.width, StepSrc: v.ow}
			for k := range images {
				q.fill(canvas[k*area:], group(v, q.x, n+k, g, v.cg*v.h*v.w)[c0*v.h*v.w:], rows, count, block)
				grad := group(v, q.grad, n+k, g, v.og*v.p)
				for o := range v.og {
					r.Copy(wide[o*deep+k*area:], grad[o*v.p+y0*v.ow:])
				}
			}
			columns := (images-1)*area + q.frame.columns(block)
			gemm.PackWords(packed, columns, v.og, gemm.Mat[uint16]{Data: wide, RowStride: 1, ColStride: deep})
			q.multiply(to, canvas, packed, rows, c0, columns, n > first || block > 0)
		}
	}
	release(sc, sw, sp)
}

// fill lays out `count` channels of x, in planes of a canvas for `rows`.
func (q *blockGrad) fill(to, x []uint16, rows, count, block int) {
	v := q.convolution
	y0, _ := q.frame.span(block)
	at := 0
	for _, py := range q.phases[0] {
		for _, px := range q.phases[1] {
			j0, j1, from := q.inside(px)
			i0, i1, top := q.insideRows(py, y0)
			r := gemm.Rows16{Width: j1 - j0, Rows: i1 - i0, Every: v.Stride[1], StepDst: q.width, StepSrc: v.Stride[0] * v.w}
			for c := range count {
				plane := to[at+c*q.pitch:]
				if q.blocks > 1 { // others have something there
					clear(plane[:i0*q.width])
					clear(plane[i1*q.width : q.height*q.width])
				}
				if j0 < j1 && i0 < i1 {
					r.Copy(plane[i0*q.width+j0:], x[(c*v.h+top+i0*v.Stride[0])*v.w+from+j0*v.Stride[1]:])
				}
			}
			at += rows * q.pitch
		}
	}
}

// multiply computes the products of a canvas with a packed gradient, or adds them.
func (q *blockGrad) multiply(to []float32, canvas, packed []uint16, rows, c0, columns int, add bool) {
	v := q.convolution
	steps := (columns-1)/gemm.BlockDepth + 1
	x := gemm.Blocks{StepA: gemm.BlockDepth, RowA: q.pitch, RowB: 2 * gemm.BlockSide, LDC: q.filters, Cols: gemm.BlockSide,
		Count: q.filters / gemm.BlockSide, NextB: gemm.PanelSize(columns), NextC: gemm.BlockSide, B: packed}
	per := (steps-1)/((steps-1)/blockGradSteps+1) + 1
	for s := 0; s < steps; s += per {
		x.Add = add || s > 0
		x.Steps, x.Starts = min(per, steps-s), q.starts.Range(s, min(s+per, steps))
		for c := 0; c < rows; c += gemm.BlockSide {
			x.Rows = min(gemm.BlockSide, rows-c)
			for tap := range v.kh * v.kw {
				plane, at := q.place(tap)
				x.A = canvas[(plane*rows+c)*q.pitch+at+s*gemm.BlockDepth:]
				x.C = to[(tap*q.channels+c0+c)*q.filters:]
				x.Run()
			}
		}
	}
}

// finish adds the parts up and stores the gradient. It reports whether there is no NaN in it: if there is,
// zeros beside the gradient's rows may have made it of an x that is not finite, and the gradient is to be
// computed in another way.
func (q *blockGrad) finish(dst []uint16, sums []float32) bool {
	v := q.convolution
	pool.For(q.sums, grainCheap/q.parts+1, func(lo, hi int) {
		for part := 1; part < q.parts; part++ {
			addTo(sums[lo:hi], sums[part*q.sums:][lo:hi])
		}
	})
	const lanes = 16 // filters at a time
	taps := v.kh * v.kw
	per := q.filters / lanes
	bad := make([]bool, v.Groups*per)
	pool.For(len(bad), max(1, grainExpensive/(lanes*v.k)), func(lo, hi int) {
		s, rows := scratchOf[float32](lanes * v.k)
		for i := lo; i < hi; i++ {
			g, o := i/per, i%per*lanes
			count := min(lanes, v.og-o)
			for c := range v.cg {
				for tap := range taps {
					at := c*taps + tap
					for _, e := range sums[((g*taps+tap)*q.channels+c)*q.filters+o:][:max(0, count)] {
						rows[at] = e
						at += v.k
					}
				}
			}
			if count > 0 {
				all := rows[:count*v.k]
				m := vec.ReduceMaxF32(all)
				bad[i] = m != m // NaN is the largest
				vec.F32ToBF16(dst[(g*v.og+o)*v.k:][:len(all)], all)
			}
		}
		s.free()
	})
	for _, b := range bad {
		if b {
			return false
		}
	}
	return true
}
