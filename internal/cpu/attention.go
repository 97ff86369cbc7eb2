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
	// scorePitch is from one query's scores to the next's. It is not a power of two,
	// so that rows do not compete for the same places in the cache.
	scorePitch = keyBlock + 16
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
	if len(c.More) == 0 {
		return nil
	}
	return elements[T](&c.More[0], c.More[0].Elements())
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

// attentionTasks is how many tasks are enough to keep every thread busy. More queries
// per task save preparing keys and values for each.
const attentionTasks = 64

// fewQueries is the number of queries below which keys and values are read
// where they lie.
const fewQueries = 16

// run computes n elements of the result. A task is a matrix, or if there are few
// of them, some of its queries.
func (a *attention[T]) run(n int) {
	batches, blocks := n/(a.queries*a.width), blocksOf(a.queries, queryBlock)
	span := blocksOf(blocks, blocksOf(attentionTasks, batches)) * queryBlock // queries of a task
	each := blocksOf(a.queries, span)
	pool.For(batches*each, 1, func(lo, hi int) {
		w := newAttentionWork[T](min(span, a.queries))
		for t := lo; t < hi; t++ {
			i := t % each * span
			a.task(t/each, i, min(i+span, a.queries), w)
		}
		w.free()
	})
}

// attentionWork is what a thread needs: prepared keys and values, a block of scores,
// and for each query the largest score m so far and the sum l of weights relative
// to it.
type attentionWork[T float] struct {
	k, v         gemm.Prepared[T]
	room         *scratch
	scores, m, l []T
}

func newAttentionWork[T float](queries int) *attentionWork[T] {
	w := &attentionWork[T]{}
	w.room, w.scores = scratchOf[T](queryBlock*scorePitch + 2*queries)
	w.m, w.l = w.scores[queryBlock*scorePitch:][:queries], w.scores[queryBlock*scorePitch+queries:]
	return w
}

func (w *attentionWork[T]) free() {
	w.k.Free()
	w.v.Free()
	w.room.free()
}

// task computes the result of queries i0 to i1 of matrix b. It goes over the
// keys once: a query's result so far is rescaled when a larger score turns up.
func (a *attention[T]) task(b, i0, i1 int, w *attentionWork[T]) {
	m, l := w.m[:i1-i0], w.l[:i1-i0]
	fillWords(m, T(math.Inf(-1)))
	clear(l)
	keys := a.keys
	if a.Causal {
		keys = min(keys, i1) // none of the others is seen
	}
	dst := a.dst[(b*a.queries+i0)*a.width:][:len(m)*a.width]
	if keys == 0 {
		clear(dst)
	}
	for j := 0; j < keys; j += keyBlock {
		n := min(keyBlock, keys-j)
		if len(m) >= fewQueries {
			w.k.Set(a.depth, n, from(a.k.mat(b), j).T())
			w.v.Set(n, a.width, from(a.v.mat(b), j))
		}
		for i := i0; i < i1; i += queryBlock {
			rows, seen := min(queryBlock, i1-i), n
			if a.Causal {
				seen = min(n, i+rows-j)
			}
			if seen > 0 {
				a.block(b, i, j, rows, seen, dst[(i-i0)*a.width:][:rows*a.width], m[i-i0:][:rows], l[i-i0:][:rows], w, len(m) >= fewQueries)
			}
		}
	}
	for r, sum := range l {
		row := dst[r*a.width : (r+1)*a.width]
		if sum == 0 { // fully hidden
			clear(row)
		} else {
			scale(row, row, 1/sum)
		}
	}
	if a.lse == nil {
		return
	}
	for r, sum := range l {
		lse := math.Inf(1)
		if sum != 0 {
			lse = float64(m[r]) + math.Log(float64(sum))
		}
		a.lse[b*a.queries+i0+r] = T(lse)
	}
}

// block adds the contribution of n keys from j on to queries from i on.
func (a *attention[T]) block(b, i, j, rows, n int, dst, m, l []T, w *attentionWork[T], prepared bool) {
	q := from(a.q.mat(b), i)
	if prepared {
		w.k.Times(rows, n, a.depth, q, w.scores, scorePitch, T(a.Scale), false)
	} else {
		product(rows, n, a.depth, q, from(a.k.mat(b), j).T(), w.scores, scorePitch, false)
	}
	for r := range rows {
		s := w.scores[r*scorePitch:][:n]
		if !prepared {
			scale(s, s, T(a.Scale))
		}
		a.hide(s, b, i+r, j)
		top := max(m[r], largestOf(s))
		if math.IsInf(float64(top), -1) { // nothing seen yet
			clear(s)
			continue
		}
		sum := T(expSub(s, s, top))
		if top != m[r] {
			if j > 0 {
				shrink := T(math.Exp(float64(m[r] - top)))
				l[r] *= shrink
				scale(dst[r*a.width:(r+1)*a.width], dst[r*a.width:(r+1)*a.width], shrink)
			}
			m[r] = top
		}
		l[r] += sum
	}
	if prepared {
		w.v.Times(rows, a.width, n, gemm.RowMajor(w.scores, scorePitch), dst, a.width, 1, j > 0)
	} else {
		product(rows, a.width, n, gemm.RowMajor(w.scores, scorePitch), from(a.v.mat(b), j), dst, a.width, j > 0)
	}
}

// hide applies the mask and causality to scores of query i from key j on.
func (a *attention[T]) hide(s []T, b, i, j int) { hideKeys(a.Attention, a.mask, a.shown, s, b, i, j) }

// hideKeys does that with either mask, or none.
func hideKeys[T float](a op.Attention, mask *batch[T], shown *batch[uint8], s []T, b, i, j int) {
	hidden := T(math.Inf(-1))
	if mask != nil {
		m := mask.mat(b)
		at := i*m.RowStride + j*m.ColStride
		for t := range s {
			s[t] += m.Data[at]
			at += m.ColStride
		}
	}
	if shown != nil {
		at := shown.place(b) + i*shown.rowStride + j*shown.colStride
		for t := range s {
			if shown.data[at] == 0 {
				s[t] = hidden
			}
			at += shown.colStride
		}
	}
	if a.Causal {
		for t := max(0, i-j+1); t < len(s); t++ {
			s[t] = hidden
		}
	}
}
