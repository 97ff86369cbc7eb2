package cpu

import (
	"math"
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// The gradient of attention with blocks. The weights and the scores' gradients are rounded to
// bfloat16 for the products with g, q and k. The gradients of keys and values come out
// transposed: then it is the weights that have to be packed, whose rows need only be joined.

// gradSide is how many queries, and how many keys, a block has: the sums of a block are read and written
// for so many terms.
const gradSide = 4 * gemm.BlockSide

// gradElements is how many elements of operands belong to what is packed at a time.
const gradElements = 4 << 20

// blockAttentionGrad is the part of a call that is computed at a time. Sizes with a capital are in whole blocks.
type blockAttentionGrad struct {
	op.Attention
	queries, keys, depth, width int
	Q, D, E                     int
	g, q, k, v, y               *batch[uint16]
	mask                        *batch[float32]
	shown                       *batch[uint8]
	lse                         []float32
	dq, dk, dv                  []uint16

	// Of each matrix: rows of q and g and their transposes; the words of kᵀ, vᵀ and k; and Σ g·y of each query.
	rowsQ, rowsG, turnedQ, turnedG []uint16
	wordsK, wordsV, pairsK         []uint16
	less                           []float32
	sizeK, sizeV, sizeP            int
	starts                         gemm.BlockStart
}

// attendGradBlocks computes op.AttendGrad; it reports false if another way is better.
func attendGradBlocks(c *backend.Call) bool {
	q, v := c.In[1].Shape, c.In[3].Shape
	r := len(q)
	if !fillsAttention(q[r-2], v[r-2], q[r-1], v[r-1], op.Elements(q[:r-2])) {
		return false
	}
	stacks := slices.Clone(c.In)
	stacks[5] = asMatrices(stacks[5])
	out := elements[uint16](&c.Out, c.Out.Elements())
	nq, nk := c.In[1].Elements(), c.In[2].Elements()
	// Not so few that their number decides how they are divided.
	eachPart(stacks, gradElements, manyBatches, func(in []backend.View, first int) {
		a := blockAttentionGrad{Attention: c.Attrs.(op.Attention), queries: q[r-2], depth: q[r-1], keys: v[r-2], width: v[r-1]}
		var s [6]*scratch
		for i, m := range []**batch[uint16]{&a.g, &a.q, &a.k, &a.v, &a.y} {
			*m, s[i] = matrices[uint16](&in[i])
		}
		if len(in) == 7 && in[6].DType == dtype.Bool {
			a.shown = matricesAt[uint8](&in[6])
		} else if len(in) == 7 {
			up, _ := conversions[dtype.BF16]()
			a.mask, s[5] = wideMatrices(up)(&in[6])
		}
		a.lse = elements[float32](&in[5], in[5].Elements())
		batches := op.Elements(in[1].Shape[:r-2])
		part := func(begin, rows, cols int) []uint16 { return out[begin+first*rows*cols:][:batches*rows*cols] }
		a.dq, a.dk, a.dv = part(0, a.queries, a.depth), part(nq, a.keys, a.depth), part(nq+nk, a.keys, a.width)
		a.run(batches)
		release(s[:]...)
	})
	return true
}

// run divides the work as attentionGrad.run does; every sum is made in the same order either way.
func (a *blockAttentionGrad) run(batches int) {
	room := a.prepare(batches)
	each := func(tasks int, f func(t int, w *gradWork)) {
		pool.For(tasks, 1, func(lo, hi int) {
			w := newGradWork(a, batches >= manyBatches)
			for t := lo; t < hi; t++ {
				f(t, w)
			}
			release(w.s[:]...)
		})
	}
	if batches >= manyBatches {
		each(batches, func(b int, w *gradWork) {
			clear(w.dq)
			for j := 0; j < a.keys; j += gradSide {
				clear(w.dk)
				clear(w.dv)
				for i := 0; i < a.queries; i += gradSide {
					a.block(w, b, i, j, w.dq[i*a.D:], true)
				}
				a.storeKeys(w, b, j)
			}
			a.storeQueries(w, b, 0, a.queries)
		})
	} else {
		queries, keys := blocksOf(a.queries, gradSide), blocksOf(a.keys, gradSide)
		each(batches*queries, func(t int, w *gradWork) {
			clear(w.dq)
			b, i := t/queries, t%queries*gradSide
			for j := 0; j < a.keys; j += gradSide {
				a.block(w, b, i, j, w.dq, false)
			}
			a.storeQueries(w, b, i, min(gradSide, a.queries-i))
		})
		each(batches*keys, func(t int, w *gradWork) {
			clear(w.dk)
			clear(w.dv)
			for i := 0; i < a.queries; i += gradSide {
				a.block(w, t/keys, i, t%keys*gradSide, nil, true)
			}
			a.storeKeys(w, t/keys, t%keys*gradSide)
		})
	}
	release(room...)
}

// prepare lays out what the blocks read.
func (a *blockAttentionGrad) prepare(batches int) (room []*scratch) {
	a.Q, a.D, a.E = roundUp(a.queries, gradSide), roundUp(a.depth, gemm.BlockSide), roundUp(a.width, gemm.BlockSide)
	panels := roundUp(a.keys, gemm.BlockSide) / gemm.BlockSide
	a.sizeK, a.sizeV, a.sizeP = panels*gemm.PanelSize(a.depth), panels*gemm.PanelSize(a.width), a.D/gemm.BlockSide*gemm.PanelSize(a.keys)
	at := make([]int, max(gradSide, a.D, a.E)/gemm.BlockDepth)
	for i := range at {
		at[i] = i * gemm.BlockPiece
	}
	a.starts = gemm.NewBlockStart(at)
	for _, x := range []struct {
		to   *[]uint16
		size int
	}{{&a.rowsQ, a.Q * a.D}, {&a.rowsG, a.Q * a.E}, {&a.turnedQ, a.Q * a.D}, {&a.turnedG, a.Q * a.E}, {&a.wordsK, a.sizeK}, {&a.wordsV, a.sizeV}, {&a.pairsK, a.sizeP}} {
		s, m := scratchOf[uint16](batches * x.size)
		*x.to, room = m, append(room, s)
	}
	s, less := scratchOf[float32](batches * a.queries)
	a.less, room = less, append(room, s)
	pool.For(batches, 1, func(lo, hi int) {
		sy, rowsY := scratchOf[uint16](a.Q * a.E)
		sw, wide := scratchOf[float32](2 * a.Q * a.E)
		clear(rowsY)
		for b := lo; b < hi; b++ {
			q, g := a.rowsQ[b*a.Q*a.D:][:a.Q*a.D], a.rowsG[b*a.Q*a.E:][:a.Q*a.E]
			clear(q)
			clear(g)
			rowsOf(q, a.q.mat(b), a.queries, a.depth, a.D)
			rowsOf(g, a.g.mat(b), a.queries, a.width, a.E)
			vec.Transpose(a.turnedQ[b*a.Q*a.D:], a.Q, q, 0, a.D, a.D, a.Q)
			vec.Transpose(a.turnedG[b*a.Q*a.E:], a.Q, g, 0, a.E, a.E, a.Q)
			k, v := a.k.mat(b), a.v.mat(b)
			gemm.PackWords(a.wordsK[b*a.sizeK:], a.depth, a.keys, k.T())
			gemm.PackWords(a.wordsV[b*a.sizeV:], a.width, a.keys, v.T())
			gemm.PackWords(a.pairsK[b*a.sizeP:], a.keys, a.depth, k)
			rowsOf(rowsY, a.y.mat(b), a.queries, a.width, a.E)
			x, y := wide[:a.Q*a.E], wide[a.Q*a.E:]
			vec.BF16ToF32(x, g)
			vec.BF16ToF32(y, rowsY)
			for r := range a.queries {
				a.less[b*a.queries+r] = float32(vec.DotF32(x[r*a.E:(r+1)*a.E], y[r*a.E:(r+1)*a.E]))
			}
		}
		release(sy, sw)
	})
	return room
}

// gradWork is what a task needs.
type gradWork struct {
	s           [8]*scratch
	scores, t   []float32 // gradSide for each query; t is the weights' gradients
	weights, ds []uint16  // likewise
	words       []uint16  // of either of them
	dq          []float32 // D for each query
	dk, dv      []float32 // gradSide keys for each column
	turned      []float32
}

func newGradWork(a *blockAttentionGrad, all bool) *gradWork {
	w := new(gradWork)
	w.s[0], w.scores = scratchOf[float32](2 * gradSide * gradSide)
	w.scores, w.t = w.scores[:gradSide*gradSide], w.scores[gradSide*gradSide:]
	w.s[1], w.weights = scratchOf[uint16](gradSide * gradSide)
	w.s[2], w.ds = scratchOf[uint16](gradSide * gradSide)
	w.s[3], w.words = scratchOf[uint16](gradSide * gradSide)
	rows := gradSide
	if all {
		rows = a.Q
	}
	w.s[4], w.dq = scratchOf[float32](rows * a.D)
	w.s[5], w.dk = scratchOf[float32](a.D * gradSide)
	w.s[6], w.dv = scratchOf[float32](a.E * gradSide)
	w.s[7], w.turned = scratchOf[float32](max(a.D, a.E) * gradSide)
	return w
}

// block adds the contribution of gradSide queries from i0 on and gradSide keys from j0 on to dq,
// if there is one, and with dkv to w's dk and dv.
func (a *blockAttentionGrad) block(w *gradWork, b, i0, j0 int, dq []float32, dkv bool) {
	const side = gemm.BlockSide
	rows, n := min(gradSide, a.queries-i0), min(gradSide, a.keys-j0)
	if a.Causal && j0 >= i0+rows {
		return // nothing is seen
	}
	height, wide := roundUp(rows, side), roundUp(n, side)
	x := gemm.Blocks{Rows: side, Cols: side, StepA: side, RowB: 2 * side, NextC: side}
	product := func(m, n, k int, lhs []uint16, row int, rhs []uint16, next int, c []float32, ldc int, add bool) {
		x.Steps, x.Count, x.RowA, x.B, x.NextB, x.LDC, x.Add = k/side, n/side, row, rhs, next, ldc, add
		x.Starts = a.starts.Range(0, x.Steps)
		for r := 0; r < m; r += side {
			x.A, x.C = lhs[r*row:], c[r*ldc:]
			x.Run()
		}
	}
	sizeD, sizeE := gemm.PanelSize(a.depth), gemm.PanelSize(a.width)
	product(height, wide, a.D, a.rowsQ[(b*a.Q+i0)*a.D:], a.D, a.wordsK[b*a.sizeK+j0/side*sizeD:], sizeD, w.scores, gradSide, false)
	product(height, wide, a.E, a.rowsG[(b*a.Q+i0)*a.E:], a.E, a.wordsV[b*a.sizeV+j0/side*sizeE:], sizeE, w.t, gradSide, false)
	for r := range rows {
		a.weigh(w, b, i0, r, j0, n, wide)
	}
	for r := rows; r < height; r++ {
		clear(w.weights[r*gradSide:][:wide])
		clear(w.ds[r*gradSide:][:wide])
	}
	if dq != nil {
		product(height, a.D, wide, w.ds, gradSide, a.pairsK[b*a.sizeP+j0/side*gemm.BlockPiece:], gemm.PanelSize(a.keys), dq, a.D, true)
	}
	if dkv {
		size := gemm.PanelSize(height)
		gemm.PackWords(w.words, height, wide, gemm.RowMajor(w.ds, gradSide))
		product(a.D, wide, height, a.turnedQ[b*a.Q*a.D+i0:], a.Q, w.words, size, w.dk, gradSide, true)
		gemm.PackWords(w.words, height, wide, gemm.RowMajor(w.weights, gradSide))
		product(a.E, wide, height, a.turnedG[b*a.Q*a.E+i0:], a.Q, w.words, size, w.dv, gradSide, true)
	}
}

// weigh turns row r of the scores of n keys from j0 on, and of the weights' gradients, into weights and the scores'
// gradients, with zeros up to `wide`.
func (a *blockAttentionGrad) weigh(w *gradWork, b, i0, r, j0, n, wide int) {
	at := r * gradSide
	s, t := w.scores[at:][:wide], w.t[at:][:wide]
	scale := scaleScores(a.Attention, a.mask, s[:n])
	hideKeys(a.Attention, a.mask, a.shown, s[:n], b, i0+r, j0)
	for j := n; j < wide; j++ {
		s[j], t[j] = float32(math.Inf(-1)), 0
	}
	q := b*a.queries + i0 + r
	vec.PowGradBF16(w.weights[at:][:wide], w.ds[at:][:wide], s, t, scale*math.Log2E, a.lse[q]*math.Log2E, float32(a.Scale), a.less[q]*float32(a.Scale))
}

// storeQueries rounds the gradients of rows queries from i0 on.
func (a *blockAttentionGrad) storeQueries(w *gradWork, b, i0, rows int) {
	for r := range rows {
		vec.F32ToBF16(a.dq[(b*a.queries+i0+r)*a.depth:][:a.depth], w.dq[r*a.D:])
	}
}

// storeKeys turns and rounds the gradients of keys and values from j0 on.
func (a *blockAttentionGrad) storeKeys(w *gradWork, b, j0 int) {
	n := min(gradSide, a.keys-j0)
	for _, x := range []struct {
		to    []uint16
		from  []float32
		width int
	}{{a.dk, w.dk, a.depth}, {a.dv, w.dv, a.width}} {
		turned := w.turned[:n*x.width]
		vec.Transpose(convert[uint32](turned), x.width, convert[uint32](x.from), 0, gradSide, n, x.width)
		vec.F32ToBF16(x.to[(b*a.keys+j0)*x.width:][:n*x.width], turned)
	}
}
