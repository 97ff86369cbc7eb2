package cpu

import (
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.AttendGrad, dtype.Float32, attendGrad[float32])
	register(op.AttendGrad, dtype.Float64, attendGrad[float64])
}

// attentionGrad is one call of attention's gradient. Working memory is a block of
// weights for each thread, and Σ g·y of each query.
type attentionGrad[T float] struct {
	*attention[T]
	g, y       *batch[T]
	dq, dk, dv []T
	less       []T
	batches    int
}

func attendGrad[T float](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	attentionGrads(c, elements[T](&c.Out, n), matrices[T])
	return nil
}

func attentionGrads[T float](c *backend.Call, dst []T, read func(*backend.View) (*batch[T], *scratch)) {
	forward, s := newAttention(c.Attrs.(op.Attention), slices.Concat(c.In[1:4], c.In[6:]), read)
	a := &attentionGrad[T]{attention: forward, batches: op.Elements(c.In[1].Shape[:len(c.In[1].Shape)-2])}
	var sg, sy *scratch
	a.g, sg = read(&c.In[0])
	a.y, sy = read(&c.In[4])
	nq, nk := c.In[1].Elements(), c.In[2].Elements()
	a.dq, a.dk, a.dv = dst[:nq], dst[nq:nq+nk], dst[nq+nk:]
	rows := a.batches * a.queries
	a.lse = elements[T](&c.In[5], rows)
	var sums *scratch
	sums, a.less = scratchOf[T](rows)
	pool.For(len(dst), grainCheap, func(lo, hi int) { clear(dst[lo:hi]) })
	a.run()
	release(append(s, sg, sy, sums)...)
}

// manyBatches says how many matrices are enough to keep every thread busy.
const manyBatches = 16

// run divides the work so that each sum is one thread's: by matrices, or if there
// are few of them, first by queries for dq and then by keys for dk and dv, which
// computes the weights twice. The choice must not depend on the number of threads,
// or results would.
func (a *attentionGrad[T]) run() {
	queries := blocksOf(a.queries, queryBlock)
	each := func(tasks int, f func(t int, w *attentionGradWork[T])) {
		pool.For(tasks, 1, func(lo, hi int) {
			w := newAttentionGradWork[T]()
			for t := lo; t < hi; t++ {
				f(t, w)
			}
			w.free()
		})
	}
	keys := blocksOf(a.keys, keyBlock)
	if a.batches >= manyBatches {
		each(a.batches, func(b int, w *attentionGradWork[T]) {
			a.sums(b, 0, a.queries)
			for j := range keys {
				a.blocks(b, 0, a.queries, j*keyBlock, true, true, w)
			}
		})
		return
	}
	each(a.batches*queries, func(t int, w *attentionGradWork[T]) {
		b, i := t/queries, t%queries*queryBlock
		i1 := min(i+queryBlock, a.queries)
		a.sums(b, i, i1)
		for j := range keys {
			a.blocks(b, i, i1, j*keyBlock, true, false, w)
		}
	})
	each(a.batches*keys, func(t int, w *attentionGradWork[T]) {
		a.blocks(t/keys, 0, a.queries, t%keys*keyBlock, false, true, w)
	})
}

func blocksOf(n, size int) int { return (n + size - 1) / size }

// attentionGradWork is what a thread needs: keys and values prepared for the scores
// and for the gradients of the weights, and keys for the gradients of queries; blocks
// of weights and of their gradients.
type attentionGradWork[T float] struct {
	k, v, kq   gemm.Prepared[T]
	room       *scratch
	weights, d []T
}

func newAttentionGradWork[T float]() *attentionGradWork[T] {
	w := &attentionGradWork[T]{}
	w.room, w.weights = scratchOf[T](2 * queryBlock * scorePitch)
	w.weights, w.d = w.weights[:queryBlock*scorePitch], w.weights[queryBlock*scorePitch:]
	return w
}

func (w *attentionGradWork[T]) free() {
	w.k.Free()
	w.v.Free()
	w.kq.Free()
	w.room.free()
}

// from is the matrix without its first rows.
func from[T any](m gemm.Mat[T], rows int) gemm.Mat[T] {
	m.Data = sub0(m.Data, rows*m.RowStride)
	return m
}

// sums computes a.less for queries i0 to i1.
func (a *attentionGrad[T]) sums(b, i0, i1 int) {
	g, y := from(a.g.mat(b), i0), from(a.y.mat(b), i0)
	for r := range i1 - i0 {
		if g.ColStride == 1 && y.ColStride == 1 {
			a.less[b*a.queries+i0+r] = T(dot64(g.Data[r*g.RowStride:][:a.width], y.Data[r*y.RowStride:][:a.width]))
			continue
		}
		less := 0.0
		for e := range a.width {
			less += float64(g.Data[r*g.RowStride+e*g.ColStride]) * float64(y.Data[r*y.RowStride+e*y.ColStride])
		}
		a.less[b*a.queries+i0+r] = T(less)
	}
}

// blocks adds the contribution of queries i0 to i1 and keyBlock keys from j on to dq,
// and to dk and dv.
func (a *attentionGrad[T]) blocks(b, i0, i1, j int, dq, dkv bool, w *attentionGradWork[T]) {
	n := min(keyBlock, a.keys-j)
	k, v := from(a.k.mat(b), j), from(a.v.mat(b), j)
	w.k.Set(a.depth, n, k.T())
	w.v.Set(a.width, n, v.T())
	if dq {
		w.kq.Set(n, a.depth, k)
	}
	for i := i0; i < i1; i += queryBlock {
		rows := min(queryBlock, i1-i)
		if a.Causal && j >= i+rows {
			continue // nothing is seen
		}
		q, g := from(a.q.mat(b), i), from(a.g.mat(b), i)
		w.k.Times(rows, n, a.depth, q, w.weights, scorePitch, T(a.Scale), false)
		w.v.Times(rows, n, a.width, g, w.d, scorePitch, 1, false)
		for r := range rows {
			at := b*a.queries + i + r
			weights, d := w.weights[r*scorePitch:][:n], w.d[r*scorePitch:][:n]
			a.hide(weights, b, i+r, j)
			expSub(weights, weights, a.lse[at])
			affine(d, d, T(a.Scale), -a.less[at]*T(a.Scale))
			times(d, d, weights)
		}
		if dq {
			w.kq.Times(rows, a.depth, n, gemm.RowMajor(w.d, scorePitch), a.dq[(b*a.queries+i)*a.depth:], a.depth, 1, true)
		}
		if dkv {
			product(n, a.depth, rows, gemm.RowMajor(w.d, scorePitch).T(), q, a.dk[(b*a.keys+j)*a.depth:], a.depth, true)
			product(n, a.width, rows, gemm.RowMajor(w.weights, scorePitch).T(), g, a.dv[(b*a.keys+j)*a.width:], a.width, true)
		}
	}
}
