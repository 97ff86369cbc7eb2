package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.MatMul, dtype.Float32, matmul(multiply32))
	register(op.MatMul, dtype.Float64, matmul(multiply64))
	for _, h := range halfTypes {
		register(op.MatMul, h.dtype, h.matmul)
	}
	register(op.MatMul, dtype.Uint8, matmul(multiplyInts[uint8]))
	register(op.MatMul, dtype.Int32, matmul(multiplyInts[int32]))
	register(op.MatMul, dtype.Int64, matmul(multiplyInts[int64]))
}

// serialProduct is the size m·n·k below which one product is not worth
// dividing between threads, so that a batch is divided instead.
const serialProduct = 1 << 18

// multiplier multiplies stacks of matrices; c is contiguous.
type multiplier[T any] func(bt gemm.Batch, m, n, k int, a, b gemm.Mat[T], c []T)

// matmul makes a kernel.
func matmul[T any](multiply multiplier[T]) kernel {
	return func(c *backend.Call) error {
		size := c.Out.Elements()
		if size == 0 {
			return nil
		}
		if x, y := &c.In[0], &c.In[1]; len(x.Shape) == 2 && plain(x) && plain(y) {
			multiply(gemm.Batch{Count: 1}, x.Shape[0], y.Shape[1], x.Shape[1], matrix[T](x), matrix[T](y), elements[T](&c.Out, size))
			return nil
		}
		multiplyBatch(c, size, multiply)
		return nil
	}
}

// plain reports whether gemm can read v as it is.
func plain(v *backend.View) bool {
	r := len(v.Shape)
	return v.Strides[r-2] >= 0 && v.Strides[r-1] >= 0 && v.Shape[r-2] > 0 && v.Shape[r-1] > 0
}

// matrix views two axes as a matrix.
func matrix[T any](v *backend.View) gemm.Mat[T] {
	return gemm.Mat[T]{Data: whole[T](v)[v.Offset:], RowStride: v.Strides[0], ColStride: v.Strides[1]}
}

func multiplyBatch[T any](c *backend.Call, size int, multiply multiplier[T]) {
	a, freeA := matrices[T](&c.In[0])
	b, freeB := matrices[T](&c.In[1])
	defer release(freeA)
	defer release(freeB)
	r := len(c.Out.Shape)
	m, n, k := c.Out.Shape[r-2], c.Out.Shape[r-1], c.In[0].Shape[r-1]
	dst := elements[T](&c.Out, size)
	bt := gemm.Batch{Count: size / (m * n), C: m * n}
	strideA, uniformA := a.uniform()
	strideB, uniformB := b.uniform()
	switch {
	case bt.Count == 1:
		multiply(bt, m, n, k, a.mat(0), b.mat(0), dst)
	case uniformB && strideB == 0 && uniformA && strideA == m*a.rowStride: // one tall product
		multiply(gemm.Batch{Count: 1}, m*bt.Count, n, k, a.mat(0), b.mat(0), dst)
	case uniformA && uniformB && strideA >= 0 && strideB >= 0:
		bt.A, bt.B = strideA, strideB
		multiply(bt, m, n, k, a.mat(0), b.mat(0), dst)
	default:
		pool.For(bt.Count, max(1, serialProduct/(m*n*max(k, 1))), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				multiply(gemm.Batch{Count: 1}, m, n, k, a.mat(i), b.mat(i), dst[i*m*n:(i+1)*m*n])
			}
		})
	}
}

// batch is an operand of a matrix product: matrices at strides of their own.
type batch[T any] struct {
	dims                 // of the leading axes
	strides              [op.MaxRank]int
	data                 []T
	first                int // where in data the first matrix begins
	rowStride, colStride int
}

// matrices views v as a batch of matrices; what gemm cannot read, negative
// strides within a matrix, is copied.
func matrices[T any](v *backend.View) (*batch[T], *scratch) {
	if r := len(v.Shape); v.Elements() > 0 && (v.Strides[r-2] < 0 || v.Strides[r-1] < 0) {
		data, s := denseOf[T](v)
		return contiguousMatrices(data, v.Shape), s
	}
	return matricesAt[T](v), nil
}

// matricesAt views v as it is.
func matricesAt[T any](v *backend.View) *batch[T] {
	b := newBatch[T](v.Shape, v.Strides)
	if v.Elements() > 0 {
		b.data, b.first = whole[T](v), v.Offset
	}
	return b
}

func contiguousMatrices[T any](data []T, shape []int) *batch[T] {
	b := newBatch[T](shape, op.Strides(shape))
	b.data = data
	return b
}

func newBatch[T any](shape, strides []int) *batch[T] {
	r := len(shape)
	b := &batch[T]{dims: dims{rank: r - 2}, rowStride: strides[r-2], colStride: strides[r-1]}
	copy(b.shape[:], shape[:r-2])
	copy(b.strides[:], strides[:r-2])
	return b
}

// place is where matrix number i begins.
func (b *batch[T]) place(i int) int {
	var index [op.MaxRank]int
	b.at(i, &index)
	return b.first + dot(&index, &b.strides, b.rank)
}

// mat is matrix number i.
func (b *batch[T]) mat(i int) gemm.Mat[T] {
	if len(b.data) == 0 { // k = 0
		return gemm.Mat[T]{}
	}
	return gemm.Mat[T]{Data: b.data[b.place(i):], RowStride: b.rowStride, ColStride: b.colStride}
}

// uniform reports whether one stride leads from each matrix to the next, and which.
func (b *batch[T]) uniform() (stride int, ok bool) {
	want, first := 0, true
	for i := b.rank - 1; i >= 0; i-- {
		switch {
		case b.shape[i] == 1:
			continue
		case first:
			stride, first = b.strides[i], false
			want = stride
		case b.strides[i] != want:
			return 0, false
		}
		want *= b.shape[i]
	}
	return stride, true
}

func multiply32(bt gemm.Batch, m, n, k int, a, b gemm.Mat[float32], c []float32) {
	if bt.Count == 1 {
		gemm.F32(m, n, k, a, b, c, n, nil)
	} else {
		gemm.BatchF32(bt, m, n, k, a, b, c, n, nil)
	}
}

func multiply64(bt gemm.Batch, m, n, k int, a, b gemm.Mat[float64], c []float64) {
	if bt.Count == 1 {
		gemm.F64(m, n, k, a, b, c, n, nil)
	} else {
		gemm.BatchF64(bt, m, n, k, a, b, c, n, nil)
	}
}

// multiplyHalf sums in float32 and rounds once.
func multiplyHalf[H half](d dtype.DType) multiplier[H] {
	return func(bt gemm.Batch, m, n, k int, a, b gemm.Mat[H], c []H) {
		gemm.BatchHalf(d, bt, m, n, k, bitsOf(a), bitsOf(b), convert[uint16](c), n, nil)
	}
}

// bitsOf returns a matrix's elements as their bits.
func bitsOf[H half](m gemm.Mat[H]) gemm.Mat[uint16] {
	return gemm.Mat[uint16]{Data: convert[uint16](m.Data), RowStride: m.RowStride, ColStride: m.ColStride}
}

// multiplyInts is a plain product; integers wrap.
func multiplyInts[T integer](bt gemm.Batch, m, n, k int, a, b gemm.Mat[T], c []T) {
	pool.For(bt.Count*m, max(1, grainCheap/(n*max(k, 1))), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := c[r*n : (r+1)*n]
			clear(row)
			i := r % m
			for p := range k {
				x := a.Data[r/m*bt.A+i*a.RowStride+p*a.ColStride]
				at := r/m*bt.B + p*b.RowStride
				if b.ColStride == 1 {
					for j, y := range b.Data[at : at+n] {
						row[j] += x * y
					}
					continue
				}
				for j := range row {
					row[j] += x * b.Data[at]
					at += b.ColStride
				}
			}
		}
	})
}
