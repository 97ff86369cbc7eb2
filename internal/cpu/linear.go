package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.Linear, dtype.Float32, linear(gemm.F32))
	register(op.Linear, dtype.Float64, linear(gemm.F64))
	for _, h := range halfTypes {
		register(op.Linear, h.dtype, h.linear)
	}
}

// gemmOf is a product of matrices of E that sums in T.
type gemmOf[E any, T gemm.Float] func(m, n, k int, a, b gemm.Mat[E], c []E, ldc int, ep *gemm.Epilogue[T])

// linear makes a kernel: bias and activation are part of the product's one pass over
// the result.
func linear[T gemm.Float](multiply gemmOf[T, T]) kernel {
	return func(c *backend.Call) error {
		size := c.Out.Elements()
		if size == 0 {
			return nil
		}
		l := newLinear[T](c)
		defer l.free()
		ep := gemm.Epilogue[T]{Bias: l.bias, Act: l.act}
		multiply(l.m, l.n, l.k, l.x, l.w, elements[T](&c.Out, size), l.n, &ep)
		return nil
	}
}

// linearHalf makes a kernel that computes in float32 and rounds once.
func linearHalf[H half](d dtype.DType) kernel {
	up, _ := conversions[H]()
	return func(c *backend.Call) error {
		size := c.Out.Elements()
		if size == 0 {
			return nil
		}
		l := newLinear[H](c)
		defer l.free()
		ep := gemm.Epilogue[float32]{Act: l.act}
		if l.bias != nil {
			room, bias := scratchOf[float32](l.n)
			defer room.free()
			up(bias, l.bias)
			ep.Bias = bias
		}
		gemm.Half(d, l.m, l.n, l.k, bitsOf(l.x), bitsOf(l.w), convert[uint16](elements[H](&c.Out, size)), l.n, &ep)
		return nil
	}
}

// linearCall is a call as a product of matrices: x is m×k, w k×n.
type linearCall[T any] struct {
	m, n, k int
	x, w    gemm.Mat[T]
	bias    []T // nil without
	act     op.ID
	copies  [3]*scratch
}

func newLinear[T any](c *backend.Call) *linearCall[T] {
	x, w := &c.In[0], &c.In[1]
	l := &linearCall[T]{n: w.Shape[0], k: w.Shape[1], act: c.Attrs.(op.Epilogue).Act}
	l.m = op.Elements(x.Shape[:len(x.Shape)-1])
	if l.k > 0 {
		step, ok := x.RowStep()
		if col := x.Strides[len(x.Shape)-1]; ok && step >= 0 && col >= 0 {
			l.x = gemm.Mat[T]{Data: whole[T](x)[x.Offset:], RowStride: step, ColStride: col}
		} else {
			l.x.Data, l.copies[0] = denseOf[T](x)
			l.x.RowStride, l.x.ColStride = l.k, 1
		}
		if plain(w) {
			l.w = matrix[T](w).T()
		} else {
			l.w.Data, l.copies[1] = denseOf[T](w)
			l.w.RowStride, l.w.ColStride = 1, l.k
		}
	}
	if len(c.In) == 3 {
		l.bias, l.copies[2] = denseOf[T](&c.In[2])
	}
	return l
}

func (l *linearCall[T]) free() {
	for _, s := range l.copies {
		release(s)
	}
}
