package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// Attention of bfloat16 where the CPU has tensor cores. Keys and values of some matrices are
// packed as the tensor cores need them, then blocks of queries pass over them as in
// attention.go. Scores, sums and results are of float32; the weights, between 0 and 1, are
// rounded to bfloat16 for the product with the values, but not for their sum.

// Queries of a block, and keys that are scored at a time: a block of scores is in the first cache.
const (
	blockQueries = gemm.BlockSide
	blockKeys    = 256
)

// blockElements is how many elements of operands and result belong to what is packed at a time.
const blockElements = 16 << 20

// blockAttention is the part of a call that is computed at a time.
type blockAttention struct {
	op.Attention
	queries, keys, depth, width int
	q, k, v                     *batch[uint16]
	mask                        *batch[float32] // nil if there is none
	shown                       *batch[uint8]   // a mask of bools
	dst                         []uint16
	lse                         []float32

	wideDepth, wideWidth int // in whole steps, and in whole blocks
	sizeK, sizeV         int // of a packed matrix
	packedK, packedV     []uint16
	starts               gemm.BlockStart
}

// attendBlocks computes op.Attend; it reports false if another way is better.
func attendBlocks(c *backend.Call) bool {
	q, v := c.In[0].Shape, c.In[2].Shape
	r := len(q)
	batches := op.Elements(q[:r-2])
	if !fillsAttention(q[r-2], v[r-2], q[r-1], v[r-1], batches) {
		return false
	}
	attendStacks(c, blockElements, func(in []backend.View, out, saved *backend.View) {
		a := blockAttention{Attention: c.Attrs.(op.Attention), queries: q[r-2], depth: q[r-1], keys: v[r-2], width: v[r-1]}
		var s [4]*scratch
		a.q, s[0] = matrices[uint16](&in[0])
		a.k, s[1] = matrices[uint16](&in[1])
		a.v, s[2] = matrices[uint16](&in[2])
		if len(in) == 4 && in[3].DType == dtype.Bool {
			a.shown = matricesAt[uint8](&in[3])
		} else if len(in) == 4 {
			up, _ := conversions[dtype.BF16]()
			a.mask, s[3] = wideMatrices(up)(&in[3])
		}
		a.dst = elements[uint16](out, out.Elements())
		if saved != nil {
			a.lse = elements[float32](saved, saved.Elements())
		}
		a.run(op.Elements(in[0].Shape[:r-2]))
		release(s[:]...)
	})
	return true
}

// fillsAttention reports whether blocks are worth it.
func fillsAttention(queries, keys, depth, width, batches int) bool {
	return depth > 0 && width > 0 && 2*depth >= roundUp(depth, gemm.BlockDepth) && 2*width >= gemm.BlockSide && keys >= 16 && queries >= 8 &&
		batches*queries*keys*(depth+width) >= serialProduct
}

func (a *blockAttention) run(batches int) {
	a.wideDepth, a.wideWidth = roundUp(a.depth, gemm.BlockDepth), roundUp(a.width, gemm.BlockSide)
	a.sizeK = roundUp(a.keys, gemm.BlockSide) / gemm.BlockSide * gemm.PanelSize(a.depth)
	a.sizeV = a.wideWidth / gemm.BlockSide * gemm.PanelSize(a.keys)
	at := make([]int, (max(a.keys, a.depth)-1)/gemm.BlockDepth+1)
	for i := range at {
		at[i] = i * gemm.BlockPiece
	}
	a.starts = gemm.NewBlockStart(at)
	var s [2]*scratch
	s[0], a.packedK = scratchOf[uint16](batches * a.sizeK)
	s[1], a.packedV = scratchOf[uint16](batches * a.sizeV)
	pool.For(batches, max(1, grainCheap/(a.keys*(a.depth+a.width))), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			gemm.PackWords(a.packedK[b*a.sizeK:], a.depth, a.keys, a.k.mat(b).T())
			gemm.PackWords(a.packedV[b*a.sizeV:], a.keys, a.width, a.v.mat(b))
		}
	})
	blocks := blocksOf(a.queries, blockQueries)
	// The division has no influence on the results: it may depend on the threads.
	pool.For(batches*blocks, max(1, batches*blocks/(8*pool.Threads())), func(lo, hi int) {
		w := newBlockAttentionWork(a)
		for t := lo; t < hi; t++ {
			a.block(t/blocks, t%blocks*blockQueries, w)
		}
		w.free()
	})
	release(s[:]...)
}

// blockAttentionWork is what a block of queries needs.
type blockAttentionWork struct {
	s       [4]*scratch
	queries []uint16  // wideDepth each
	scores  []float32 // blockKeys for each query
	weights []uint16  // likewise
	sums    []float32 // wideWidth each
	scale   float32   // that scores are still to be multiplied with
	top     [blockQueries]float32
	m, l    [blockQueries]float32
}

func newBlockAttentionWork(a *blockAttention) *blockAttentionWork {
	w := new(blockAttentionWork)
	w.s[0], w.queries = scratchOf[uint16](blockQueries * a.wideDepth)
	w.s[1], w.scores = scratchOf[float32](blockQueries * blockKeys)
	w.s[2], w.weights = scratchOf[uint16](blockQueries * blockKeys)
	w.s[3], w.sums = scratchOf[float32](blockQueries * a.wideWidth)
	if a.depth < a.wideDepth {
		clear(w.queries)
	}
	return w
}

func (w *blockAttentionWork) free() { release(w.s[:]...) }

// rowsOf copies rows of a matrix to adjacent places, pitch apart.
func rowsOf(dst []uint16, m gemm.Mat[uint16], rows, cols, pitch int) {
	if m.ColStride == 1 {
		gemm.Rows16{Width: cols, Rows: rows, Every: 1, StepDst: pitch, StepSrc: m.RowStride}.Copy(dst, m.Data)
		return
	}
	for r := range rows {
		at := r * m.RowStride
		for j := range cols {
			dst[r*pitch+j] = m.Data[at]
			at += m.ColStride
		}
	}
}

// block computes the result of up to blockQueries queries from number i0 on; see attention.block.
func (a *blockAttention) block(b, i0 int, w *blockAttentionWork) {
	rows := min(blockQueries, a.queries-i0)
	height := roundUp(rows, blockRows)
	queries, pitch := from(a.q.mat(b), i0), a.wideDepth
	if rows == height && a.depth == a.wideDepth && queries.ColStride == 1 { // as they lie
		pitch = queries.RowStride
	} else {
		rowsOf(w.queries, queries, rows, a.depth, a.wideDepth)
		queries.Data = w.queries
	}
	for r := range rows {
		w.m[r], w.l[r] = float32(math.Inf(-1)), 0
	}
	keys := a.keys
	if a.Causal {
		keys = min(keys, i0+rows) // none of the others is seen
	}
	for j0 := 0; j0 < keys; j0 += blockKeys {
		n := min(blockKeys, keys-j0)
		wide := roundUp(n, gemm.BlockSide)
		scores := gemm.Blocks{Rows: height, Cols: gemm.BlockSide, Steps: a.wideDepth / gemm.BlockDepth, Count: wide / gemm.BlockSide,
			A: queries.Data, RowA: pitch, StepA: gemm.BlockDepth,
			B: a.packedK[b*a.sizeK+j0/gemm.BlockSide*gemm.PanelSize(a.depth):], RowB: 2 * gemm.BlockSide, NextB: gemm.PanelSize(a.depth),
			C: w.scores, LDC: blockKeys, NextC: gemm.BlockSide}
		scores.Starts = a.starts.Range(0, scores.Steps)
		scores.Run()
		// One loop after the other: what a row waits for is hidden by the next ones.
		for r := range rows {
			a.top(w, b, i0, r, j0, n, wide)
		}
		for r := range rows {
			a.weigh(w, r, j0, wide)
		}
		sums := gemm.Blocks{Rows: height, Cols: gemm.BlockSide, Steps: wide / gemm.BlockDepth, Count: a.wideWidth / gemm.BlockSide,
			A: w.weights, RowA: blockKeys, StepA: gemm.BlockDepth,
			B: a.packedV[b*a.sizeV+j0/gemm.BlockDepth*gemm.BlockPiece:], RowB: 2 * gemm.BlockSide, NextB: gemm.PanelSize(a.keys),
			C: w.sums, LDC: a.wideWidth, NextC: gemm.BlockSide, Add: j0 > 0}
		sums.Starts = a.starts.Range(0, sums.Steps)
		sums.Run()
	}
	for r := range rows {
		to := a.dst[(b*a.queries+i0+r)*a.width:][:a.width]
		if l := w.l[r]; l == 0 { // fully hidden
			clear(to)
		} else {
			vec.MulSBF16(to, w.sums[r*a.wideWidth:], 1/l)
		}
		if a.lse != nil {
			lse := math.Inf(1)
			if l := w.l[r]; l != 0 {
				lse = float64(w.m[r]) + math.Log(float64(l))
			}
			a.lse[b*a.queries+i0+r] = float32(lse)
		}
	}
}

// top hides keys in row r of the scores of n keys from j0 on, hides the padding up to `wide`,
// and finds the largest score.
func (a *blockAttention) top(w *blockAttentionWork, b, i0, r, j0, n, wide int) {
	s := w.scores[r*blockKeys:][:wide]
	w.scale = scaleScores(a.Attention, a.mask, s[:n])
	hideKeys(a.Attention, a.mask, a.shown, s[:n], b, i0+r, j0)
	for j := n; j < wide; j++ {
		s[j] = float32(math.Inf(-1))
	}
	w.top[r] = w.scale * vec.ReduceMaxF32(s)
}

// weigh turns row r of the scores into weights, and rescales what was summed before if a larger score turned up.
func (a *blockAttention) weigh(w *blockAttentionWork, r, j0, wide int) {
	s, to := w.scores[r*blockKeys:][:wide], w.weights[r*blockKeys:][:wide]
	top := max(w.m[r], w.top[r])
	if math.IsInf(float64(top), -1) { // nothing seen yet
		clear(to)
		return
	}
	if top != w.m[r] && j0 > 0 {
		shrink := float32(math.Exp(float64(w.m[r] - top)))
		w.l[r] *= shrink
		row := w.sums[r*a.wideWidth:][:a.wideWidth]
		vec.MulSF32(row, row, shrink)
	}
	w.m[r] = top
	w.l[r] += vec.PowBF16(to, s, w.scale*math.Log2E, top*math.Log2E)
}

// scaleScores returns the factor of scores that is still to be applied once some are hidden, or applies it.
func scaleScores(a op.Attention, mask *batch[float32], s []float32) float32 {
	if mask == nil && a.Scale > 0 {
		return float32(a.Scale)
	}
	vec.MulSF32(s, s, float32(a.Scale)) // what is hidden must not be scaled
	return 1
}
