package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/locusml/locus/internal/cpu/vec"
)

// halves rounds a matrix to 16 bits and gives both the bits and the values.
func halves(m Mat[float32], to func([]uint16, []float32), from func([]float32, []uint16)) (Mat[uint16], Mat[float32]) {
	bits, vals := make([]uint16, len(m.Data)), make([]float32, len(m.Data))
	to(bits, m.Data)
	from(vals, bits)
	return Mat[uint16]{bits, m.RowStride, m.ColStride}, Mat[float32]{vals, m.RowStride, m.ColStride}
}

func TestHalfInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {40, 33, 300}, {1, 50, 64}, {50, 1, 64}, {129, 70, 90}} {
		m, n, k := s[0], s[1], s[2]
		for la := range 5 {
			for lb := range 5 {
				if raceEnabled && la != lb {
					continue
				}
				a, b := matrix[float32](r, m, k, la), matrix[float32](r, k, n, lb)
				c := make([]float32, m*n)
				ha, fa := halves(a, vec.F32ToBF16, vec.BF16ToF32)
				hb, fb := halves(b, vec.F32ToBF16, vec.BF16ToF32)
				BF16(m, n, k, ha, hb, c, n, nil)
				want, scale := reference(m, n, k, fa, fb, c, n, Epilogue[float32]{})
				compare(t, "bf16", m, n, k, want, scale, c, n, c)
				ha, fa = halves(a, vec.F32ToF16, vec.F16ToF32)
				hb, fb = halves(b, vec.F32ToF16, vec.F16ToF32)
				F16(m, n, k, ha, hb, c, n, nil)
				want, scale = reference(m, n, k, fa, fb, c, n, Epilogue[float32]{})
				compare(t, "f16", m, n, k, want, scale, c, n, c)
			}
		}
	}
}
