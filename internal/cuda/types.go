//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
)

// typeName is a type's name in the kernels, and sizeName the name of the unsigned
// type of the same size, for kernels that only move elements.
func typeName(t dtype.DType) string { return elem.Short(t) }
func sizeName(t dtype.DType) string { return sizeNames[t.Size()] }

var sizeNames = [...]string{1: "u8", 2: "u16", 4: "u32", 8: "u64"}

// dnnTypes are cuDNN's numbers of the types.
var dnnTypes = map[dtype.DType]uintptr{dtype.Float32: 0, dtype.Float64: 1, dtype.Float16: 2, dtype.BFloat16: 9}

// blasTypes returns the type of elements, of the computation, and of the numbers
// that scale.
func blasTypes(t dtype.DType) (kind, compute, scale uintptr) {
	switch t {
	case dtype.Float64:
		return blas64F, computes64F, blas64F
	case dtype.Float16:
		return blas16F, computes32F, blas32F
	case dtype.BFloat16:
		return blas16BF, computes32F, blas32F
	}
	if tf32.Load() {
		return blas32F, computesTF32, blas32F
	}
	return blas32F, computes32F, blas32F
}
