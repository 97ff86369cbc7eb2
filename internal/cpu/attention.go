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
	register(op.Attend, dtype.Float16, attendHalf[dtype.F16])
	register(op.Attend, dtype.BFloat16, attendHalf[dtype.BF16])
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
}

func attend[T float](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	a := newAttention[T](c)
	var s [4]*scratch
	a.q, s[0] = matrices[T](&c.In[0])
	a.k, s[1] = matrices[T](&c.In[1])
	a.v, s[2] = matrices[T](&c.In[2])
	if len(c.In) == 4 && c.In[3].DType != dtype.Bool {
		a.mask, s[3] = matrices[T](&c.In[3])
	}
	a.dst = elements[T](&c.Out, n)
	a.run(n)
	for _, s := range s {
		release(s)
	}
	return nil
}

// attendHalf converts the operands, which is little against the scores.
func attendHalf[H half](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	up, down := conversions[H]()
	a := newAttention[float32](c)
	var s [5]*scratch
	wide := func(i int) (b *batch[float32]) {
		var f []float32
		f, s[i] = widened(&c.In[i], up)
		return contiguousMatrices(f, c.In[i].Shape)
	}
	a.q, a.k, a.v = wide(0), wide(1), wide(2)
	if len(c.In) == 4 && c.In[3].DType != dtype.Bool {
		a.mask = wide(3)
	}
	s[4], a.dst = scratchOf[float32](n)
	a.run(n)
	out := elements[H](&c.Out, n)
	pool.For(n, grainCheap, func(lo, hi int) { down(out[lo:hi], a.dst[lo:hi]) })
	for _, s := range s {
		release(s)
	}
	return nil
}

func newAttention[T float](c *backend.Call) *attention[T] {
	r := len(c.Out.Shape)
	a := &attention[T]{Attention: c.Attrs.(op.Attention),
		queries: c.Out.Shape[r-2], width: c.Out.Shape[r-1], depth: c.In[0].Shape[r-1], keys: c.In[1].Shape[r-2]}
	if len(c.In) == 4 && c.In[3].DType == dtype.Bool {
		a.shown = matricesAt[uint8](&c.In[3])
	}
	return a
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
