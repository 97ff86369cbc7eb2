// Package depth convolves planes with one 3×3 filter each, as convolutions do whose
// channels are not summed. A plane is read and written once, as it lies: padding is
// what a vector load leaves out.
package depth

import (
	"fmt"
	"sync"
	"unsafe"
)

// Shape says how a filter moves over planes of H×W elements.
type Shape struct {
	H, W, OH, OW int
	Stride       int    // 1 or 2
	Pad          [2]int // at most 2
}

// plane is the argument of the kernels. The assembly knows the offsets; TestLayout guards them.
type plane struct {
	x          unsafe.Pointer
	offset     int // bytes to the filter's first place
	y, w       unsafe.Pointer
	rowX, rowY int // bytes
	rows       int // of x
	first      int // the row of y that row 0 of x is the last of
	last       int // rows of y
	odd        int // 1 if row 0 of x is in the middle of a filter that moves by 2
	vectors    int // in a row of y; 0 afterwards
	masks      unsafe.Pointer
	tail       int // elements of the last vector
	spread     [9 * 16]float32
}

// masks are the lanes that the loads for a vector of y may read.
type masks [4][16]uint32

// A Filter moves over planes of one shape.
type Filter struct {
	Shape
	kernel func(*byte)
	plane  plane
	masks  []masks
}

// New prepares a Filter. It returns nil if there is no kernel for this CPU or this
// shape.
func New(s Shape) *Filter {
	kernel, lanes := kernelFor(s.Stride)
	if kernel == nil || max(s.Pad[0], s.Pad[1]) > 2 || min(s.Pad[0], s.Pad[1]) < 0 || s.OH < 1 || s.OW < 1 {
		return nil
	}
	f := &Filter{Shape: s, kernel: kernel}
	vectors := (s.OW + lanes - 1) / lanes
	f.masks = make([]masks, vectors)
	for v := range f.masks {
		// The first elements of the loads, from the first place of the vector's filters on.
		from := [4]int{0, 1, 2, -1}
		if s.Stride == 2 {
			from = [4]int{0, lanes, 2, lanes + 2}
		}
		for i, at := range from {
			for l := range lanes {
				c := v*lanes*s.Stride - s.Pad[1] + at + l
				if at >= 0 && c >= 0 && c < s.W {
					f.masks[v][i][l] = ^uint32(0)
				}
			}
		}
	}
	f.plane = plane{
		offset: -4 * s.Pad[1], rowX: 4 * s.W, rowY: 4 * s.OW, rows: s.H, first: s.Pad[0] - 2, last: s.OH,
		masks: unsafe.Pointer(&f.masks[0]), tail: s.OW - (vectors-1)*lanes,
	}
	if s.Stride == 2 {
		f.plane.odd = s.Pad[0] % 2
		f.plane.first = (s.Pad[0]+1)/2 - 1
	}
	return f
}

var planes = sync.Pool{New: func() any { return new(plane) }}

// Convolve computes planes [i0, i1) of y from those of x, plane i with filter i modulo their
// number, of 9 taps each. Several goroutines may use a Filter.
func (f *Filter) Convolve(y, x, filters []float32, i0, i1 int) {
	if i0 < 0 || len(x) < i1*f.H*f.W || len(y) < i1*f.OH*f.OW || len(filters) < 9 || len(filters)%9 != 0 {
		panic(fmt.Sprintf("depth: %d, %d and %d elements for planes %d to %d", len(y), len(x), len(filters), i0, i1))
	}
	p := planes.Get().(*plane)
	*p = f.plane
	for i := i0; i < i1; i++ {
		p.x, p.y = unsafe.Pointer(&x[i*f.H*f.W]), unsafe.Pointer(&y[i*f.OH*f.OW])
		p.w = unsafe.Pointer(&filters[9*i%len(filters)])
		p.vectors = len(f.masks)
		f.kernel((*byte)(unsafe.Pointer(p)))
	}
	p.x, p.y, p.w, p.masks = nil, nil, nil, nil
	planes.Put(p)
}
