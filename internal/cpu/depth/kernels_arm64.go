package depth

import (
	"sync"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

// level is what tests change.
var level = vec.CPU()

// kernelFor returns the kernel for a stride and how many elements its vectors have.
func kernelFor(stride int) (kernel func(*byte), lanes int) {
	switch {
	case level == vec.NEON && stride == 1:
		return func(p *byte) { (*plane)(unsafe.Pointer(p)).convolve(1, stride1NEON) }, neonLanes
	case level == vec.NEON && stride == 2:
		return func(p *byte) { (*plane)(unsafe.Pointer(p)).convolve(2, stride2NEON) }, neonLanes
	}
	return nil, 0
}

const neonLanes = 4

// padded is the argument of NEON's kernels, which have no masks: a plane with its padding.
// The assembly knows the offsets; TestLayout guards them.
type padded struct {
	x, y, w       unsafe.Pointer
	rowX, rowY    int // bytes
	rows, columns int // of y
	data          []float32
}

var buffers = sync.Pool{New: func() any { return new(padded) }}

// convolve copies a plane to where it gets its padding, and convolves it there.
func (p *plane) convolve(stride int, kernel func(*byte)) {
	h, w, oh, ow := p.rows, p.rowX/4, p.last, p.rowY/4
	top, side := p.first+2, -p.offset/4
	if stride == 2 {
		top = 2*(p.first+1) - p.odd
	}
	b := buffers.Get().(*padded)
	// The last vector of a stride of 2 reads an element more than it needs.
	rows, pitch := (oh-1)*stride+3, max((ow-1)*stride+3, side+w)+1
	if need := rows * pitch; cap(b.data) < need {
		b.data = make([]float32, need)
	} else {
		b.data = b.data[:need]
	}
	x := unsafe.Slice((*float32)(p.x), h*w)
	for r := range rows {
		row := b.data[r*pitch:][:pitch]
		if i := r - top; i < 0 || i >= h {
			clear(row)
		} else {
			clear(row[:side])
			clear(row[side+copy(row[side:], x[i*w:(i+1)*w]):])
		}
	}
	b.x, b.y, b.w = unsafe.Pointer(&b.data[0]), p.y, p.w
	b.rowX, b.rowY, b.rows, b.columns = 4*pitch, p.rowY, oh, ow
	if ow >= neonLanes {
		kernel((*byte)(unsafe.Pointer(b)))
	} else {
		b.narrow(stride, pitch)
	}
	b.x, b.y, b.w = nil, nil, nil
	buffers.Put(b)
}

// narrow is for results with fewer columns than a vector has.
func (b *padded) narrow(stride, pitch int) {
	y, taps := unsafe.Slice((*float32)(b.y), b.rows*b.columns), unsafe.Slice((*float32)(b.w), 9)
	for i := range y {
		at := i/b.columns*stride*pitch + i%b.columns*stride
		var s float32
		for k, w := range taps {
			s += w * b.data[at+k/3*pitch+k%3]
		}
		y[i] = s
	}
}
