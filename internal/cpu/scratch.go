package cpu

import (
	"math/bits"
	"sync"
	"unsafe"
)

// scratch is memory that a kernel needs for a moment. It does not come from the
// device's allocator: it is small, or the price of a slow path.
type scratch struct {
	mem   []uint64
	class int
}

var scratches [64]sync.Pool

// borrow returns a scratch of at least n bytes; its contents are whatever was there.
func borrow(n int) *scratch {
	class := max(10, bits.Len(uint(max(n, 1)-1)))
	if s, ok := scratches[class].Get().(*scratch); ok {
		return s
	}
	return &scratch{make([]uint64, 1<<class/8), class}
}

// free returns it for reuse.
func (s *scratch) free() { scratches[s.class].Put(s) }

// scratchOf borrows room for n elements.
func scratchOf[T any](n int) (*scratch, []T) {
	var z T
	s := borrow(n * int(unsafe.Sizeof(z)))
	return s, unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s.mem))), n)
}
