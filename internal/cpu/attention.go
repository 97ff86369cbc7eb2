package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.Attend, dtype.Float32, attend[float32])
	register(op.Attend, dtype.Float64, attend[float64])
}

// The block of scores that is in memory at a time: queries by keys.
const (
	queryBlock = 64
	keyBlock   = 256
)

// attention is one call: q (…, L, D), k (…, S, D), v (…, S, E).
type attention[T float] struct {
	op.Attention
	queries, keys, depth, width int
	q, k, v                     *batch[T]
	mask                        *batch[T]     // nil if there is none
	shown                       *batch[uint8] // a mask of bools
	dst                         []T
	lse                         []T // ln Σe^score of each query, +Inf if it sees nothing; nil if it is not wanted
}

func attend[T float](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	a, s := newAttention[T](c.Attrs.(op.Attention), c.In, matrices[T])
	a.dst, a.lse = elements[T](&c.Out, n), savedBy[T](c)
	a.run(n)
	release(s...)
	return nil
}

// savedBy is where a call puts what it saves, or nil.
func savedBy[T float](c *backend.Call) []T {
	if c.Save.Block == nil {
		return nil
	}
	return elements[T](&c.Save, c.Save.Elements())
}

// narrowed writes a result that was computed in float32.
func narrowed[H half](v *backend.View, x []float32, down func([]H, []float32)) {
	out := elements[H](v, len(x))
	pool.For(len(x), grainCheap, func(lo, hi int) { down(out[lo:hi], x[lo:hi]) })
}

// newAttention reads q, k, v and perhaps a mask.
func newAttention[T float](attrs op.Attention, in []backend.View, read func(*backend.View) (*batch[T], *scratch)) (*attention[T], []*scratch) {
	q, v := in[0].Shape, in[2].Shape
	r := len(q)
	a := &attention[T]{Attention: attrs, queries: q[r-2], depth: q[r-1], keys: v[r-2], width: v[r-1]}
	s := make([]*scratch, 4)
	a.q, s[0] = read(&in[0])
	a.k, s[1] = read(&in[1])
	a.v, s[2] = read(&in[2])
	if len(in) == 4 && in[3].DType == dtype.Bool {
		a.shown = matricesAt[uint8](&in[3])
	} else if len(in) == 4 {
		a.mask, s[3] = read(&in[3])
	}
	return a, s
}

func (a *attention[T]) run(n int) {
	blocks := (a.queries-1)/queryBlock + 1
	pool.For(n/(a.queries*a.width)*blocks, 1, func(lo, hi int) {
		s, buf := scratchOf[T](queryBlock * (keyBlock + 2))
		for t := lo; t < hi; t++ {
			a.block(t/blocks, t%blocks*queryBlock, buf)
		}
		s.free()
	})
}

// block computes the result of up to queryBlock queries from number i0 on. It
// goes over the keys once: a row's result so far, the largest score m it is relative to and
// the sum of weights l are rescaled when a larger score turns up.
func (a *attention[T]) block(b, i0 int, buf []T) {
	rows := min(queryBlock, a.queries-i0)
	scores, m, l := buf[:queryBlock*keyBlock], buf[queryBlock*keyBlock:][:rows], buf[queryBlock*(keyBlock+1):][:rows]
	dst := a.dst[(b*a.queries+i0)*a.width:][:rows*a.width]
	clear(dst)
	clear(l)
	fillWords(m, T(math.Inf(-1)))
	keys := a.keys
	if a.Causal {
		keys = min(keys, i0+rows) // none of the others is seen
	}
	q, k, v := a.q.mat(b), a.k.mat(b).T(), a.v.mat(b)
	q.Data = sub0(q.Data, i0*q.RowStride)
	for j0 := 0; j0 < keys; j0 += keyBlock {
		n := min(keyBlock, keys-j0)
		kj, vj := k, v
		kj.Data, vj.Data = sub0(k.Data, j0*k.ColStride), sub0(v.Data, j0*v.RowStride)
		product(rows, n, a.depth, q, kj, scores, n, false)
		for r := range rows {
			s := scores[r*n : (r+1)*n]
			scale(s, s, T(a.Scale))
			a.hide(s, b, i0+r, j0)
			top := max(m[r], largestOf(s))
			if math.IsInf(float64(top), -1) { // nothing seen yet
				clear(s)
				continue
			}
			sum := T(expSub(s, s, top))
			if top != m[r] {
				shrink := T(math.Exp(float64(m[r] - top)))
				l[r] *= shrink
				scale(dst[r*a.width:(r+1)*a.width], dst[r*a.width:(r+1)*a.width], shrink)
				m[r] = top
			}
			l[r] += sum
		}
		product(rows, a.width, n, gemm.RowMajor(scores, n), vj, dst, a.width, true)
	}
	for r := range rows {
		row := dst[r*a.width : (r+1)*a.width]
		if l[r] == 0 { // fully hidden
			clear(row)
		} else {
			scale(row, row, 1/l[r])
		}
	}
	if a.lse == nil {
		return
	}
	for r := range rows {
		lse := math.Inf(1)
		if l[r] != 0 {
			lse = float64(m[r]) + math.Log(float64(l[r]))
		}
		a.lse[b*a.queries+i0+r] = T(lse)
	}
}

// hide applies the mask and causality to scores of query i from key j on.
func (a *attention[T]) hide(s []T, b, i, j int) {
	hidden := T(math.Inf(-1))
	if a.mask != nil {
		m := a.mask.mat(b)
		at := i*m.RowStride + j*m.ColStride
		for t := range s {
			s[t] += m.Data[at]
			at += m.ColStride
		}
	}
	if a.shown != nil {
		at := a.shown.place(b) + i*a.shown.rowStride + j*a.shown.colStride
		for t := range s {
			if a.shown.data[at] == 0 {
				s[t] = hidden
			}
			at += a.shown.colStride
		}
	}
	if a.Causal {
		for t := max(0, i-j+1); t < len(s); t++ {
			s[t] = hidden
		}
	}
}
