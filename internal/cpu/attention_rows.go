package cpu

import (
	"slices"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// byRows returns a kernel of attention or its gradient that also lays results out by
// rows, by a copy: on a CPU that costs what a copy afterwards would.
func byRows(k kernel) kernel {
	return func(c *backend.Call) error {
		a := c.Attrs.(op.Attention)
		n := c.Out.Elements()
		if !a.Rows || n == 0 {
			return k(c)
		}
		a.Rows = false
		room := borrow(n * c.Out.DType.Size())
		defer room.free()
		plain := *c
		plain.Attrs = a
		plain.Out.Block = &memory.Block{Region: memory.Region{Ptr: unsafe.Pointer(unsafe.SliceData(room.mem)), Size: n * c.Out.DType.Size()}}
		r := len(c.Out.Shape)
		shape := slices.Clone(c.Out.Shape) // as the kernel makes it
		from := make([]int, r)             // the axes of the result, among those
		for i := range from {
			from[i] = i
		}
		if c.Op == op.Attend { // (…, H, L, E)
			shape[r-3], shape[r-2] = shape[r-2], shape[r-3]
			from[r-3], from[r-2] = r-2, r-3
		} else { // (3, …, H, L, D)
			shape = slices.Concat([]int{3}, shape[:r-4], []int{shape[r-2], shape[r-4], shape[r-1]})
			for i := range r - 4 {
				from[i] = i + 1
			}
			from[r-4], from[r-3], from[r-2] = r-2, 0, r-3
		}
		strides := op.Strides(shape)
		plain.Out.Shape, plain.Out.Strides = shape, strides
		if c.Op == op.AttendGrad {
			plain.Out.Shape, plain.Out.Strides = []int{n}, []int{1}
		}
		if err := k(&plain); err != nil {
			return err
		}
		v := plain.Out
		v.Shape, v.Strides = c.Out.Shape, make([]int, r)
		for i, at := range from {
			v.Strides[i] = strides[at]
		}
		copyElements(&c.Out, &v)
		return nil
	}
}
