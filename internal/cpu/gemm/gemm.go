// Package gemm multiplies matrices: C = act(alpha*A*B + beta*C + bias), for
// float32 and float64, and for bfloat16 and float16 inputs with float32
// accumulation. A and B are given with a stride for each dimension, so any
// transposition or slice works; C is row-major.
//
// Large products follow the BLIS scheme: panels of A and B are packed so that
// a register-blocked micro-kernel streams them from the caches. Small ones run
// the same kernels on the matrices in place. Every element of C is summed in
// an order that depends only on m, n and k, so results are bit-identical for
// any number of threads. Zeros are never skipped: NaN and Inf propagate.
package gemm

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Float is an element type with native kernels.
type Float interface{ float32 | float64 }

// Mat is a matrix whose element (i, j) is Data[i*RowStride+j*ColStride].
// Strides may be zero (broadcast) but not negative.
type Mat[T any] struct {
	Data                 []T
	RowStride, ColStride int
}

// RowMajor is a matrix stored by rows with ld elements from one row to the next.
func RowMajor[T any](data []T, ld int) Mat[T] { return Mat[T]{data, ld, 1} }

// T is the transpose of a matrix: the same data with the strides swapped.
func (m Mat[T]) T() Mat[T] { return Mat[T]{m.Data, m.ColStride, m.RowStride} }

// Epilogue says what happens to the product on its way into C. The nil and the
// zero Epilogue store it as it is.
type Epilogue[T Float] struct {
	Alpha   T     // scales the product; 0 means 1
	Beta    T     // scales the old C; with 0 the old C is never read
	Bias    []T   // one value per column of C, or nil
	RowBias []T   // one value per row of C, or nil
	Act     op.ID // one of op.Activations, applied to each element of C last, or op.Invalid
}

// F32 computes the m×n matrix C from A (m×k) and B (k×n). Row i of C begins at
// c[i*ldc]. C must not overlap A or B.
func F32(m, n, k int, a, b Mat[float32], c []float32, ldc int, ep *Epilogue[float32]) {
	run(kernelsF32, m, n, k, nativeSource(a), nativeSource(b), c, ldc, ep, pool.Threads())
}

// F64 is F32 for float64.
func F64(m, n, k int, a, b Mat[float64], c []float64, ldc int, ep *Epilogue[float64]) {
	run(kernelsF64, m, n, k, nativeSource(a), nativeSource(b), c, ldc, ep, pool.Threads())
}

// Half multiplies matrices of a half-precision type, given as their bits, summing in
// float32; each element of C is rounded once, at the end, and Beta must be 0.
// Where the CPU has instructions for products of bfloat16 (AVX512-BF16, AMX) they are
// used: these treat subnormal numbers, below 1.2e-38, as zeros, in the inputs
// and in the sums.
func Half(d dtype.DType, m, n, k int, a, b Mat[uint16], c []uint16, ldc int, ep *Epilogue[float32]) {
	runHalf(halfKernels(d), m, n, k, halfSource(a, d), halfSource(b, d), c, ldc, ep, pool.Threads())
}

// halfKernels are what multiplies a half-precision type best.
func halfKernels(d dtype.DType) *kernels[float32] {
	if d == bfloat16 {
		return bf16Kernels()
	}
	return kernelsF32
}
