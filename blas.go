package locus

import (
	"fmt"

	"github.com/locusml/locus/internal/cpu"
)

// UseBLAS lets a BLAS library multiply large float32 and float64 matrices on
// the CPU and on virtual GPUs: "openblas" or "mkl" is searched in the usual
// places, "" is the first of the two that is found, and anything else is the
// path of a library with the C interface (cblas_sgemm). "off" goes back to
// Locus' own products, which need no library and are the default; no library is
// ever looked for unless a program calls this or LOCUS_BLAS is set, which does
// the same for a program that does not.
//
// The library works on Locus' threads, as many as there are, and starts none of
// its own where it can be told so (OpenBLAS, MKL). Results are then the same
// for the same number of threads, but not for every number as they are without.
// Details().Libraries of the CPU names the library file.
//
// The error says what was tried and how to fix it; then nothing has changed.
func UseBLAS(name string) error {
	if err := cpu.UseBLAS(name); err != nil {
		return fmt.Errorf("locus: UseBLAS(%q): %w", name, err)
	}
	return nil
}

// blasLibraries returns the library that is used, if any.
func blasLibraries() []Library {
	l := cpu.BLAS()
	if l == nil {
		return nil
	}
	return []Library{{Name: "BLAS", Path: l.Path, Serves: "large matrix products: " + l.String()}}
}
