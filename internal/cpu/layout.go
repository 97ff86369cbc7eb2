package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Arranges reports that images may lie channels last, and that nothing is gained: kernels
// compute such results in order and copy them. So programs do it only in tests, which
// then need no GPU.
func (*Device) Arranges(c *backend.Call) (can bool, saves int) { return op.Get(c.Op).Images(), 0 }

// inEitherLayout makes a kernel whose first result may lie channels last from one that
// writes it in order.
func inEitherLayout(k kernel) kernel {
	return func(c *backend.Call) error {
		if !c.Out.ChannelsLast() {
			return k(c)
		}
		n := c.Out.Elements()
		room := borrow(n * c.Out.DType.Size())
		defer room.free()
		plain := *c
		plain.Out.Block = &memory.Block{Region: memory.Region{Ptr: unsafe.Pointer(unsafe.SliceData(room.mem)), Size: n * c.Out.DType.Size()}}
		plain.Out.Strides = op.Strides(c.Out.Shape)
		if err := k(&plain); err != nil {
			return err
		}
		from, to := &plain.Out, &c.Out
		from.Shape, from.Strides = pixels(from.Shape), pixels(from.Strides)
		copyElements(to, from)
		return nil
	}
}

// copyElements copies from, a view, to the result to.
func copyElements(to, from *backend.View) {
	n := to.Elements()
	switch to.DType.Size() {
	case 1:
		copyView(elements[uint8](to, n), from)
	case 2:
		copyView(elements[uint16](to, n), from)
	case 4:
		copyView(elements[uint32](to, n), from)
	case 8:
		copyView(elements[uint64](to, n), from)
	}
}

// pixels puts the channels of (N, C, H, W) last.
func pixels(s []int) []int { return []int{s[0], s[2], s[3], s[1]} }
