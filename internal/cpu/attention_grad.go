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
	queries, keys := blocksOf(a.queries, queryBlock), blocksOf(a.keys, keyBlock)
	each := func(tasks int, f func(t int, buf []T)) {
		pool.For(tasks, 1, func(lo, hi int) {
			s, buf := scratchOf[T](2 * queryBlock * keyBlock)
			for t := lo; t < hi; t++ {
				f(t, buf)
			}
			s.free()
		})
	}
	if a.batches >= manyBatches {
		each(a.batches, func(b int, buf []T) {
			for i := range queries {
				a.sums(b, i*queryBlock)
				for j := range keys {
					a.block(b, i*queryBlock, j*keyBlock, true, true, buf)
				}
			}
		})
		return
	}
	each(a.batches*queries, func(t int, buf []T) {
		b, i := t/queries, t%queries*queryBlock
		a.sums(b, i)
		for j := range keys {
			a.block(b, i, j*keyBlock, true, false, buf)
		}
	})
	each(a.batches*keys, func(t int, buf []T) {
		for i := range queries {
			a.block(t/keys, i*queryBlock, t%keys*keyBlock, false, true, buf)
		}
	})
}

func blocksOf(n, size int) int { return (n + size - 1) / size }

// scores computes those of rows queries from i0 on with n keys from j0 on.
func (a *attentionGrad[T]) scores(b, i0, rows, j0, n int, s []T) {
	product(rows, n, a.depth, from(a.q.mat(b), i0), from(a.k.mat(b), j0).T(), s, n, false)
	for r := range rows {
		row := s[r*n : (r+1)*n]
		scale(row, row, T(a.Scale))
		a.hide(row, b, i0+r, j0)
	}
}

// from is the matrix without its first rows.
func from[T any](m gemm.Mat[T], rows int) gemm.Mat[T] {
	m.Data = sub0(m.Data, rows*m.RowStride)
	return m
}

// sums computes less of up to queryBlock queries from i0 on.
func (a *attentionGrad[T]) sums(b, i0 int) {
	g, y := from(a.g.mat(b), i0), from(a.y.mat(b), i0)
	for r := range min(queryBlock, a.queries-i0) {
		less := 0.0
		for e := range a.width {
			less += float64(g.Data[r*g.RowStride+e*g.ColStride]) * float64(y.Data[r*y.RowStride+e*y.ColStride])
		}
		a.less[b*a.queries+i0+r] = T(less)
	}
}

// block adds what queryBlock queries from i0 on and keyBlock keys from j0 on have
// to say to dq, and to dk and dv.
func (a *attentionGrad[T]) block(b, i0, j0 int, dq, dkv bool, buf []T) {
	rows, n := min(queryBlock, a.queries-i0), min(keyBlock, a.keys-j0)
	if a.Causal && j0 >= i0+rows {
		return // nothing is seen
	}
	weights, t := buf[:rows*n], buf[queryBlock*keyBlock:][:rows*n]
	q, k, v, g := from(a.q.mat(b), i0), from(a.k.mat(b), j0), from(a.v.mat(b), j0), from(a.g.mat(b), i0)
	a.scores(b, i0, rows, j0, n, weights)
	product(rows, n, a.width, g, v.T(), t, n, false)
	for r := range rows {
		at := b*a.queries + i0 + r
		w, d := weights[r*n:(r+1)*n], t[r*n:(r+1)*n]
		expSub(w, w, a.lse[at])
		affine(d, d, T(a.Scale), -a.less[at]*T(a.Scale))
		times(d, d, w)
	}
	if dq {
		product(rows, a.depth, n, gemm.RowMajor(t, n), k, a.dq[(b*a.queries+i0)*a.depth:], a.depth, true)
	}
	if dkv {
		product(n, a.depth, rows, gemm.RowMajor(t, n).T(), q, a.dk[(b*a.keys+j0)*a.depth:], a.depth, true)
		product(n, a.width, rows, gemm.RowMajor(weights, n).T(), g, a.dv[(b*a.keys+j0)*a.width:], a.width, true)
	}
}
