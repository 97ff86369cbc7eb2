package cpu

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, d := range dtype.All {
		register(op.Where, d, where)
	}
}

func where(c *backend.Call) error {
	switch c.Out.DType.Size() {
	case 1:
		whereWords[uint8](c)
	case 2:
		whereWords[uint16](c)
	case 4:
		whereWords[uint32](c)
	default:
		whereWords[uint64](c)
	}
	return nil
}

func whereWords[W word](c *backend.Call) {
	n := c.Out.Elements()
	if n == 0 {
		return
	}
	dst := elements[W](&c.Out, n)
	forPieces(c, n, grainCheap, 0, func(at, n int, p pieces) {
		to := dst[at : at+n]
		choose(to, unsafe.Slice((*uint8)(p[0]), n), unsafe.Slice((*W)(p[1]), n), unsafe.Slice((*W)(p[2]), n))
	})
}

// choose takes a where mask is not 0, else b. The floats' functions move bits.
func choose[W word](dst []W, mask []uint8, a, b []W) {
	switch unsafe.Sizeof(dst[0]) {
	case 4:
		vec.SelectF32(convert[float32](dst), mask, convert[float32](a), convert[float32](b))
	case 8:
		vec.SelectF64(convert[float64](dst), mask, convert[float64](a), convert[float64](b))
	default:
		for i := range dst {
			// All ones where the mask is set: a branch would be mispredicted.
			m := -W(b2u(mask[i] != 0))
			dst[i] = a[i]&m | b[i]&^m
		}
	}
}
