package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/backend"
)

// Half precision: each piece is converted to float32, computed and rounded.

func unaryHalf[H half](grain int, loop loop1[float32, float32]) kernel {
	up, down := conversions[H]()
	return func(c *backend.Call) error {
		if n := c.Out.Elements(); n > 0 {
			dst := elements[H](&c.Out, n)
			forPieces(c, n, grain, chunk, func(at, n int, p pieces) {
				s, f := scratchOf[float32](chunk)
				a := f[:n]
				up(a, unsafe.Slice((*H)(p[0]), n))
				loop(a, a)
				down(dst[at:at+n], a)
				s.free()
			})
		}
		return nil
	}
}

func binaryHalf[H half](grain int, loop loop2[float32, float32]) kernel {
	up, down := conversions[H]()
	return func(c *backend.Call) error {
		if n := c.Out.Elements(); n > 0 {
			dst := elements[H](&c.Out, n)
			forPieces(c, n, grain, chunk, func(at, n int, p pieces) {
				s, f := scratchOf[float32](2 * chunk)
				a, b := f[:n], f[chunk:chunk+n]
				up(a, unsafe.Slice((*H)(p[0]), n))
				up(b, unsafe.Slice((*H)(p[1]), n))
				loop(a, a, b)
				down(dst[at:at+n], a)
				s.free()
			})
		}
		return nil
	}
}

// testHalf and compareHalf are for results that are bools.

func testHalf[H half](grain int, loop loop1[uint8, float32]) kernel {
	up, _ := conversions[H]()
	return func(c *backend.Call) error {
		if n := c.Out.Elements(); n > 0 {
			dst := elements[uint8](&c.Out, n)
			forPieces(c, n, grain, chunk, func(at, n int, p pieces) {
				s, f := scratchOf[float32](chunk)
				up(f[:n], unsafe.Slice((*H)(p[0]), n))
				loop(dst[at:at+n], f[:n])
				s.free()
			})
		}
		return nil
	}
}

func compareHalf[H half](grain int, loop loop2[uint8, float32]) kernel {
	up, _ := conversions[H]()
	return func(c *backend.Call) error {
		if n := c.Out.Elements(); n > 0 {
			dst := elements[uint8](&c.Out, n)
			forPieces(c, n, grain, chunk, func(at, n int, p pieces) {
				s, f := scratchOf[float32](2 * chunk)
				a, b := f[:n], f[chunk:chunk+n]
				up(a, unsafe.Slice((*H)(p[0]), n))
				up(b, unsafe.Slice((*H)(p[1]), n))
				loop(dst[at:at+n], a, b)
				s.free()
			})
		}
		return nil
	}
}
