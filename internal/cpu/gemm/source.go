package gemm

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/vec"
)

const (
	bfloat16 = dtype.BFloat16
	float16  = dtype.Float16
)

// A source is an input matrix: native elements, or 16-bit ones (format != 0)
// that packing converts.
type source[T Float] struct {
	data     []T
	bits     []uint16
	format   dtype.DType
	row, col int
	pairs    pairing // of bfloat16: packing joins neighbors along k; then
	k        int     // is the matrix's depth, in elements
	starts   *Starts // of a B's columns, instead of col; such a B is always packed
}

// line is where line l of a matrix begins that is packed by lines.
func (s *source[T]) line(l int) int {
	if s.starts != nil {
		return s.starts.at[l]
	}
	return l * s.row
}

func nativeSource[T Float](m Mat[T]) source[T] {
	return source[T]{data: m.Data, row: m.RowStride, col: m.ColStride}
}

func halfSource(m Mat[uint16], f dtype.DType) source[float32] {
	return source[float32]{bits: m.Data, format: f, row: m.RowStride, col: m.ColStride}
}

func (s source[T]) transposed() source[T] {
	s.row, s.col = s.col, s.row
	return s
}

func widen(dst []float32, src []uint16, f dtype.DType) { vec.Widen(f, dst, src) }
