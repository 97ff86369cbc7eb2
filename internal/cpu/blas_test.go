package cpu_test

import (
	"path/filepath"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/backend/backendtest"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/cpu/blas/blastest"
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/op"
)

// Every op that multiplies matrices, with a library doing it from the smallest
// size on.
func TestConformanceWithBLAS(t *testing.T) {
	l := blastest.Open(t)
	gemm.Use(&gemm.External{F32: l.F32, F64: l.F64, Divisible: l.Divisible, Side: 1, Work: 1})
	defer gemm.Use(nil)
	backendtest.Run(t, func() backend.Device { return cpu.Open() }, backendtest.Only(op.MatMul, op.Conv2D, op.ConvGradInput, op.ConvGradWeight, op.Attend))
}

func TestUseBLAS(t *testing.T) {
	l := blastest.Open(t)
	defer cpu.UseBLAS("off")
	if err := cpu.UseBLAS(l.Path); err != nil {
		t.Fatal(err)
	}
	if got := cpu.BLAS(); got == nil || got.Path != l.Path {
		t.Fatalf("%+v serves, not %s", got, l.Path)
	}
	if err := cpu.UseBLAS(filepath.Join(t.TempDir(), "none.so")); err == nil || cpu.BLAS() == nil {
		t.Errorf("a file that is not there: error %v, library %v", err, cpu.BLAS())
	}
	if err := cpu.UseBLAS("off"); err != nil || cpu.BLAS() != nil {
		t.Errorf("off: %v, %v", err, cpu.BLAS())
	}
}
