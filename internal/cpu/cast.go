package cpu

import (
	"math"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// casts has the kernels by source and destination type.
var casts [numDTypes][numDTypes]kernel

func init() {
	castInt(dtype.Bool, vec.U8ToF32)
	castInt(dtype.Uint8, vec.U8ToF32)
	castInt(dtype.Int32, vec.I32ToF32)
	castInt(dtype.Int64, vec.I64ToF32)
	castFloat[float32](dtype.Float32, round32)
	castFloat[float64](dtype.Float64, roundOdd)
	for _, h := range halfTypes {
		h.casts()
		for _, to := range halfTypes {
			casts[h.dtype][to.dtype] = h.castTo(to)
		}
	}
	for _, d := range dtype.All {
		casts[d][d] = map[int]kernel{1: copyKernel[uint8], 2: copyKernel[uint16], 4: copyKernel[uint32], 8: copyKernel[uint64]}[d.Size()]
		register(op.CastTo, d, func(c *backend.Call) error { return casts[c.In[0].DType][c.Out.DType](c) })
	}
}

func castInt[A integer](d dtype.DType, toF32 loop1[float32, A]) {
	casts[d][dtype.Bool] = unary(grainCheap, nonZero[A])
	casts[d][dtype.Uint8] = unary(grainCheap, converted[uint8, A])
	casts[d][dtype.Int32] = unary(grainCheap, converted[int32, A])
	casts[d][dtype.Int64] = unary(grainCheap, converted[int64, A])
	casts[d][dtype.Float32] = unary(grainCheap, toF32)
	casts[d][dtype.Float64] = unary(grainCheap, converted[float64, A])
	for _, h := range halfTypes {
		casts[d][h.dtype] = castDown(h, toF32)
	}
}

func castFloat[A float](d dtype.DType, narrow loop1[float32, A]) {
	casts[d][dtype.Bool] = unary(grainCheap, nonZero[A])
	casts[d][dtype.Uint8] = unary(grainCheap, saturated[uint8, A](0, math.MaxUint8))
	casts[d][dtype.Int32] = unary(grainCheap, saturated[int32, A](math.MinInt32, math.MaxInt32))
	casts[d][dtype.Int64] = unary(grainCheap, saturated[int64, A](math.MinInt64, math.MaxInt64))
	casts[d][dtype.Float32] = unary(grainCheap, converted[float32, A])
	casts[d][dtype.Float64] = unary(grainCheap, converted[float64, A])
	for _, h := range halfTypes {
		casts[d][h.dtype] = castDown(h, narrow)
	}
}

// castDown is a cast to half precision, through float32.
func castDown[A any](h halfType, narrow loop1[float32, A]) kernel {
	return func(c *backend.Call) error {
		if n := c.Out.Elements(); n > 0 {
			dst := elements[uint16](&c.Out, n)
			forPieces(c, n, grainCheap, chunk, func(at, n int, p pieces) {
				s, f := scratchOf[float32](n)
				narrow(f, unsafe.Slice((*A)(p[0]), n))
				h.narrow(dst[at:at+n], f)
				s.free()
			})
		}
		return nil
	}
}

func castHalf[H half](d dtype.DType) {
	casts[d][dtype.Bool] = castUp[H](nonZero[float32])
	casts[d][dtype.Uint8] = castUp[H](saturated[uint8, float32](0, math.MaxUint8))
	casts[d][dtype.Int32] = castUp[H](saturated[int32, float32](math.MinInt32, math.MaxInt32))
	casts[d][dtype.Int64] = castUp[H](saturated[int64, float32](math.MinInt64, math.MaxInt64))
	casts[d][dtype.Float32] = castUp[H](round32)
	casts[d][dtype.Float64] = castUp[H](converted[float64, float32])
}

func castUp[H half, R any](loop loop1[R, float32]) kernel {
	up, _ := conversions[H]()
	return func(c *backend.Call) error {
		if n := c.Out.Elements(); n > 0 {
			dst := elements[R](&c.Out, n)
			forPieces(c, n, grainCheap, chunk, func(at, n int, p pieces) {
				s, f := scratchOf[float32](n)
				up(f, unsafe.Slice((*H)(p[0]), n))
				loop(dst[at:at+n], f)
				s.free()
			})
		}
		return nil
	}
}

// converted is Go's conversion: integers wrap.
func converted[R, A number](dst []R, a []A) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = R(x)
	}
}

func nonZero[A number](dst []uint8, a []A) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = b2u(x != 0)
	}
}

// saturated makes the loop from floats to an integer type with the given bounds.
func saturated[R integer, A float](low, high R) loop1[R, A] {
	lo, hi := A(low), A(high) // hi may be rounded up to high+1
	return func(dst []R, a []A) {
		a = a[:len(dst)]
		for i, x := range a {
			var r R
			switch {
			case x != x:
			case x >= hi:
				r = high
			case x <= lo:
				r = low
			default:
				r = R(x)
			}
			dst[i] = r
		}
	}
}

func round32(dst, a []float32) { copy(dst, a) }

// roundOdd rounds towards zero and sets the last bit where that was not exact: a
// second rounding to half precision then has the result of one rounding.
func roundOdd(dst []float32, a []float64) {
	a = a[:len(dst)]
	for i, x := range a {
		f := float32(x)
		if d := float64(f); d != x && x == x {
			b := math.Float32bits(f)
			if math.Abs(d) > math.Abs(x) {
				b-- // away from zero: step back
			}
			f = math.Float32frombits(b | 1)
		}
		dst[i] = f
	}
}
