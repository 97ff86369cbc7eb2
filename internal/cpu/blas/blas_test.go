package blas

import (
	"errors"
	"strings"
	"testing"
	"unsafe"
)

// plain is a library in Go.
func plain() *Library { return &Library{sgemm: loops[float32], dgemm: loops[float64]} }

func loops[T float32 | float64](ta, tb bool, m, n, k int, alpha T, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta T, c unsafe.Pointer, ldc int) {
	at := func(x unsafe.Pointer, ld, i, j int, t bool) T {
		if t {
			i, j = j, i
		}
		return unsafe.Slice((*T)(x), i*ld+j+1)[i*ld+j]
	}
	for i := range m {
		for j := range n {
			var s T
			for p := range k {
				s += at(a, lda, i, p, ta) * at(b, ldb, p, j, tb)
			}
			to := &unsafe.Slice((*T)(c), i*ldc+j+1)[i*ldc+j]
			*to = alpha*s + beta**to
		}
	}
}

func TestTry(t *testing.T) {
	if err := plain().try(); err != nil {
		t.Fatal(err)
	}
	mistakes := map[string]func(l *Library, was gemm[float32]){
		"does nothing": func(l *Library, _ gemm[float32]) {
			l.sgemm = func(ta, tb bool, m, n, k int, alpha float32, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta float32, c unsafe.Pointer, ldc int) {
			}
		},
		"float32 for float64": func(l *Library, _ gemm[float32]) {
			l.dgemm = func(ta, tb bool, m, n, k int, alpha float64, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta float64, c unsafe.Pointer, ldc int) {
				loops(ta, tb, m, n, k, float32(alpha), a, lda, b, ldb, float32(beta), c, ldc)
			}
		},
		"ignores transposes": func(l *Library, was gemm[float32]) {
			l.sgemm = func(_, tb bool, m, n, k int, alpha float32, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta float32, c unsafe.Pointer, ldc int) {
				was(false, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
			}
		},
		"ignores beta": func(l *Library, was gemm[float32]) {
			l.sgemm = func(ta, tb bool, m, n, k int, alpha float32, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta float32, c unsafe.Pointer, ldc int) {
				was(ta, tb, m, n, k, alpha, a, lda, b, ldb, 0, c, ldc)
			}
		},
		"writes between rows": func(l *Library, was gemm[float32]) {
			l.sgemm = func(ta, tb bool, m, n, k int, alpha float32, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta float32, c unsafe.Pointer, ldc int) {
				was(ta, tb, m, n+1, k, alpha, a, lda, b, ldb, beta, c, ldc)
			}
		},
		"columns first": func(l *Library, was gemm[float32]) {
			l.sgemm = func(ta, tb bool, m, n, k int, alpha float32, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int, beta float32, c unsafe.Pointer, ldc int) {
				was(!ta, !tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
			}
		},
	}
	for name, make := range mistakes {
		l := plain()
		make(l, l.sgemm)
		if err := l.try(); !errors.Is(err, errWrong) {
			t.Errorf("a library that %s: %v", name, err)
		}
	}
}

func TestString(t *testing.T) {
	for want, l := range map[string]*Library{
		"OpenBLAS 0.3.34, Zen kernels": {Name: "OpenBLAS 0.3.34", Kernels: "Zen"},
		"MKL 2026.2":                   {Name: "MKL 2026.2"},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestErrorsSayHowToFix(t *testing.T) {
	for _, name := range []string{"", "openblas", "mkl"} {
		if _, err := Open(name); err != nil && !strings.Contains(err.Error(), "no BLAS library") {
			t.Errorf("Open(%q): %v", name, err)
		}
	}
}
