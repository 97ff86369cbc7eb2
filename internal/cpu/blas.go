package cpu

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/locusml/locus/internal/cpu/blas"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/dynlib"
)

// library is the BLAS in use, or nil.
var library atomic.Pointer[blas.Library]

// BLAS returns the library that multiplies matrices, or nil where Locus does it
// itself.
func BLAS() *blas.Library { return library.Load() }

// UseBLAS lets a library multiply large float32 and float64 matrices; see [blas.Open]
// for what name may be. "off" returns to Locus' own kernels. An error changes
// nothing.
func UseBLAS(name string) error {
	if dynlib.IsOff(name) {
		gemm.Use(nil)
		library.Store(nil)
		return nil
	}
	l, err := blas.Open(name)
	if err != nil {
		return err
	}
	gemm.Use(&gemm.External{F32: l.F32, F64: l.F64, Divisible: l.Divisible})
	library.Store(l)
	return nil
}

// LOCUS_BLAS asks for a library as UseBLAS does. It is read at the start, so
// that every product of a program is computed by the same code.
func init() {
	name := strings.TrimSpace(os.Getenv("LOCUS_BLAS"))
	if name == "" {
		return
	}
	if err := UseBLAS(name); err != nil {
		fmt.Fprintf(os.Stderr, "locus: LOCUS_BLAS=%s: %v\nlocus: products are computed without it\n", name, err)
	}
}

// SlowBLAS says what is wrong with the code that the library has chosen, "" if
// nothing is known to be: OpenBLAS takes its oldest code for a processor that
// it does not know, and then is far slower than Locus.
func SlowBLAS() string {
	l := library.Load()
	if l == nil || !strings.HasPrefix(l.Name, "OpenBLAS") || vec.CPU() == vec.Generic || vec.CPU() == vec.NEON {
		return ""
	}
	switch strings.ToLower(l.Kernels) {
	case "prescott", "core2", "nehalem", "penryn", "dunnington", "atom", "nano", "opteron", "opteron_sse3", "barcelona", "bobcat", "generic", "katmai", "coppermine", "northwood", "banias":
		core := "HASWELL"
		if vec.CPU() == vec.AVX512 {
			core = "SKYLAKEX"
		}
		return fmt.Sprintf("OpenBLAS runs its code for %s here, which is slow; start the program with OPENBLAS_CORETYPE=%s", l.Kernels, core)
	}
	return ""
}
