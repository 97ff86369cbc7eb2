package gemm

import (
	"fmt"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/pool"
)

// Batch describes a stack of products: how many, and how many elements lie
// between one matrix and the next of each operand. A stride of 0 uses the same
// matrix for all (not for C).
type Batch struct {
	Count   int
	A, B, C int
}

// BatchF32 computes Count products C[i] = A[i]*B[i] of the same shape. The
// Epilogue, biases included, is applied to each.
func BatchF32(bt Batch, m, n, k int, a, b Mat[float32], c []float32, ldc int, ep *Epilogue[float32]) {
	batch(run, kernelsF32, bt, m, n, k, nativeSource(a), nativeSource(b), c, ldc, ep)
}

// BatchF64 is BatchF32 for float64.
func BatchF64(bt Batch, m, n, k int, a, b Mat[float64], c []float64, ldc int, ep *Epilogue[float64]) {
	batch(run, kernelsF64, bt, m, n, k, nativeSource(a), nativeSource(b), c, ldc, ep)
}

// BatchHalf is BatchF32 for a half-precision type; see Half.
func BatchHalf(d dtype.DType, bt Batch, m, n, k int, a, b Mat[uint16], c []uint16, ldc int, ep *Epilogue[float32]) {
	batch(runHalf, halfKernels(d), bt, m, n, k, halfSource(a, d), halfSource(b, d), c, ldc, ep)
}

func (s source[T]) from(off int) source[T] {
	if s.format != 0 {
		s.bits = s.bits[off:]
	} else {
		s.data = s.data[off:]
	}
	return s
}

// runner is run or runHalf.
type runner[T Float, E any] func(ks *kernels[T], m, n, k int, a, b source[T], c []E, ldc int, ep *Epilogue[T], threads int)

func batch[T Float, E any](run runner[T, E], ks *kernels[T], bt Batch, m, n, k int, a, b source[T], c []E, ldc int, ep *Epilogue[T]) {
	if bt.Count < 0 || bt.A < 0 || bt.B < 0 || bt.C < 0 {
		panic(fmt.Sprintf("gemm: bad batch %+v", bt))
	}
	if bt.Count == 0 || m == 0 || n == 0 {
		return
	}
	if bt.Count > 1 && bt.C < (m-1)*ldc+n {
		panic(fmt.Sprintf("gemm: products of a batch overlap: %d elements apart, %d rows %d apart", bt.C, m, ldc))
	}
	// A stack of A's over one B is a single taller product.
	if bt.B == 0 && bt.A == m*a.row && bt.C == m*ldc && (ep == nil || ep.RowBias == nil) && k > 0 {
		run(ks, bt.Count*m, n, k, a, b, c, ldc, ep, pool.Threads())
		return
	}
	one := func(i, threads int) {
		x, y := a, b
		if k > 0 {
			x, y = a.from(i*bt.A), b.from(i*bt.B)
		}
		run(ks, m, n, k, x, y, c[i*bt.C:], ldc, ep, threads)
	}
	// Large products use the threads one after the other; small ones side by
	// side, several to a task.
	flops := 2 * m * n * max(k, 1)
	if threads := pool.Threads(); bt.Count < 2*threads && flops > 20*flopsPerTask {
		for i := range bt.Count {
			one(i, threads)
		}
		return
	}
	pool.For(bt.Count, max(1, flopsPerTask/flops), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			one(i, 1)
		}
	})
}
