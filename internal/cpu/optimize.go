package cpu

import (
	"math"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// The updates of optimizers. Each piece stays in the nearest cache while several
// vector functions pass over it: memory is read and written once.
func init() {
	register(op.Blend, dtype.Float32, blend(blend32))
	register(op.Blend, dtype.Float64, blend(blend64))
	register(op.BlendSquare, dtype.Float32, blend(blendSquare32))
	register(op.BlendSquare, dtype.Float64, blend(blendSquare64))
	register(op.AdamStep, dtype.Float32, adamStep(adam32))
	register(op.AdamStep, dtype.Float64, adamStep(adam64))
}

// piece is the number of elements that loops of several passes take at a time.
const piece = 1 << 10

func blend[T float](loop func(dst, a, b []T, s op.Scales)) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		s := c.Attrs.(op.Scales)
		dst := elements[T](&c.Out, n)
		forPieces(c, n, grainCheap, 0, func(at, n int, p pieces) {
			a, b := unsafe.Slice((*T)(p[0]), n), unsafe.Slice((*T)(p[1]), n)
			for lo := 0; lo < n; lo += piece {
				hi := min(lo+piece, n)
				loop(dst[at+lo:at+hi], a[lo:hi], b[lo:hi], s)
			}
		})
		return nil
	}
}

func blend32(dst, a, b []float32, s op.Scales) {
	vec.BlendF32(dst, a, float32(s.A), b, float32(s.B))
}

func blend64(dst, a, b []float64, s op.Scales) {
	vec.BlendF64(dst, a, s.A, b, s.B)
}

func blendSquare32(dst, a, b []float32, s op.Scales) {
	var square [piece]float32
	q := square[:len(dst)]
	vec.MulF32(q, b, b)
	blend32(dst, a, q, s)
}

func blendSquare64(dst, a, b []float64, s op.Scales) {
	for i := range dst {
		dst[i] = s.A*a[i] + s.B*b[i]*b[i]
	}
}

func adamStep[T float](loop func(dst, p, m, v []T, a op.Adam)) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		a := c.Attrs.(op.Adam)
		dst := elements[T](&c.Out, n)
		forPieces(c, n, grainCheap, 0, func(at, n int, p pieces) {
			x, m, v := unsafe.Slice((*T)(p[0]), n), unsafe.Slice((*T)(p[1]), n), unsafe.Slice((*T)(p[2]), n)
			for lo := 0; lo < n; lo += piece {
				hi := min(lo+piece, n)
				loop(dst[at+lo:at+hi], x[lo:hi], m[lo:hi], v[lo:hi], a)
			}
		})
		return nil
	}
}

func adam32(dst, p, m, v []float32, a op.Adam) {
	var room [piece]float32
	d := room[:len(dst)]
	vec.SqrtF32(d, v)
	vec.MulSF32(d, d, float32(a.Root))
	vec.AddSF32(d, d, float32(a.Eps))
	vec.DivF32(d, m, d)
	blend32(dst, p, d, op.Scales{A: a.Keep, B: -a.Rate})
}

func adam64(dst, p, m, v []float64, a op.Adam) {
	for i := range dst {
		dst[i] = a.Keep*p[i] - a.Rate*m[i]/(math.Sqrt(v[i])*a.Root+a.Eps)
	}
}
