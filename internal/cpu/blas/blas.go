// Package blas lends matrix products from a BLAS library that the program asks
// for: OpenBLAS, MKL, or any other with the C interface. Nothing here is needed,
// and nothing is looked for before [Open] is called.
//
// Threads stay Locus' own. A library that can be told to compute on the calling
// thread alone is told so, and callers divide large products between the threads
// of Locus' pool: a second set of threads would compete with it for the cores,
// and spin while other kernels want to run. A library that cannot be told is
// called with one whole product at a time.
package blas

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Library is an open BLAS library.
type Library struct {
	Name    string // "OpenBLAS 0.3.34"
	Path    string // the file
	Kernels string // the processor that its code is made for, "" where it does not say
	// Divisible means that products run on the calling thread and may run side
	// by side. Otherwise one runs at a time, on threads of the library's own.
	Divisible bool

	sgemm gemm[float32]
	dgemm gemm[float64]
}

// gemm is cblas_sgemm or cblas_dgemm of row-major matrices.
type gemm[T float32 | float64] func(ta, tb bool, m, n, k int, alpha T, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta T, c unsafe.Pointer, ldc int)

// String names the library and the code that it has chosen.
func (l *Library) String() string {
	if l.Kernels == "" {
		return l.Name
	}
	return l.Name + ", " + l.Kernels + " kernels"
}

// F32 computes C = alpha·op(A)·op(B) + beta·C with row-major matrices, where op
// transposes if ta or tb say so. All sizes are positive, and the distances from
// row to row at least the rows' lengths; no number exceeds [MaxSize].
func (l *Library) F32(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	l.sgemm(ta, tb, m, n, k, alpha, unsafe.Pointer(&a[0]), lda, unsafe.Pointer(&b[0]), ldb, beta, unsafe.Pointer(&c[0]), ldc)
}

// F64 is F32 for float64.
func (l *Library) F64(ta, tb bool, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	l.dgemm(ta, tb, m, n, k, alpha, unsafe.Pointer(&a[0]), lda, unsafe.Pointer(&b[0]), ldb, beta, unsafe.Pointer(&c[0]), ldc)
}

// MaxSize is the largest size or distance that every library takes.
const MaxSize = math.MaxInt32

// errWrong is the error of a library whose functions are not what their names say.
var errWrong = errors.New("it multiplies wrongly: its functions are not those of the C interface of BLAS, or its integers have another size than its names say")

// try multiplies small matrices in every arrangement. The sizes differ from
// each other, so that an argument in the wrong place shows.
func (l *Library) try() error {
	for _, ta := range []bool{false, true} {
		for _, tb := range []bool{false, true} {
			if err := tryOne(l.F32, ta, tb); err != nil {
				return fmt.Errorf("float32: %w", err)
			}
			if err := tryOne(l.F64, ta, tb); err != nil {
				return fmt.Errorf("float64: %w", err)
			}
		}
	}
	return nil
}

func tryOne[T float32 | float64](product func(ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int), ta, tb bool) error {
	const m, n, k, ldc = 5, 3, 4, 6
	lda, ldb := 7, 8
	a, b, c := make([]T, 64), make([]T, 64), make([]T, m*ldc)
	for i := range a {
		a[i], b[i] = T(i%11-5), T(i%7-2)
	}
	for i := range c {
		c[i] = T(i)
	}
	product(ta, tb, m, n, k, 2, a, lda, b, ldb, 3, c, ldc)
	at := func(x []T, ld, i, j int, t bool) T {
		if t {
			i, j = j, i
		}
		return x[i*ld+j]
	}
	for i := range m {
		for j := range ldc {
			want := T(i*ldc + j) // what lies between the rows stays
			if j < n {
				want *= 3
				for p := range k {
					want += 2 * at(a, lda, i, p, ta) * at(b, ldb, p, j, tb)
				}
			}
			if c[i*ldc+j] != want {
				return errWrong
			}
		}
	}
	return nil
}
