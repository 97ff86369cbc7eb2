package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// elements returns the n > 0 elements of a contiguous view.
func elements[T any](v *backend.View, n int) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Add(v.Block.Ptr, v.Offset*int(unsafe.Sizeof(z)))), n)
}

// whole returns the memory of a view's block as elements: element (i, j, …) of the view is
// at Offset + i·Strides[0] + j·Strides[1] + ….
func whole[T any](v *backend.View) []T {
	var z T
	return unsafe.Slice((*T)(v.Block.Ptr), v.Block.Size/int(unsafe.Sizeof(z)))
}

// convert views a slice as one of another type of the same size.
func convert[To, From any](s []From) []To {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// dims is a space of up to MaxRank axes.
type dims struct {
	rank  int
	shape [op.MaxRank]int
}

// step advances an index over all axes but the last skip ones and tells which axis moved; the
// axes behind it went back to 0. At the end it returns -1.
func (d *dims) step(index *[op.MaxRank]int, skip int) int {
	for i := d.rank - 1 - skip; i >= 0; i-- {
		if index[i]++; index[i] < d.shape[i] {
			return i
		}
		index[i] = 0
	}
	return -1
}

// at sets index to that of element number n in row-major order.
func (d *dims) at(n int, index *[op.MaxRank]int) {
	for i := d.rank - 1; i >= 0; i-- {
		index[i] = n % d.shape[i]
		n /= d.shape[i]
	}
}

// dot is how far the element at index is from the first.
func dot(index, strides *[op.MaxRank]int, rank int) int {
	n := 0
	for i := range rank {
		n += index[i] * strides[i]
	}
	return n
}

// outerInner splits a shape at an axis: the product before it, its size, the product behind.
func outerInner(shape []int, axis int) (outer, n, inner int) {
	return op.Elements(shape[:axis]), shape[axis], op.Elements(shape[axis+1:])
}
