package cpu

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	// Operand 0 is always bool, so the result decides. It is registered for every
	// type, so that Supports can be asked by the operands' type, too.
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
		cond, b, c := unsafe.Slice((*uint8)(p[0]), n), unsafe.Slice((*W)(p[1]), n), unsafe.Slice((*W)(p[2]), n)
		for i := range to {
			v := c[i]
			if cond[i] != 0 {
				v = b[i]
			}
			to[i] = v
		}
	})
}
