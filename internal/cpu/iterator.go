package cpu

import (
	"sync"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// operand is one operand of an iterator.
type operand struct {
	data    unsafe.Pointer // the first element of the block
	size    int            // elements in the block
	first   int            // where the view begins
	width   int            // bytes of an element
	flat    bool           // contiguous as a whole
	uniform bool           // all strides are 0: one element
	strides [op.MaxRank]int
	konst   uint64
}

// iterator walks over several operands of one shape.
type iterator struct {
	dims
	n        int
	count    int
	most     int // longest piece
	operands [maxOperands]operand
}

// pieces are the operands' elements for one piece of the result.
type pieces [maxOperands]unsafe.Pointer

var iterators = sync.Pool{New: func() any { return new(iterator) }}

// newIterator returns an iterator over the operands of an elementwise call.
func newIterator(c *backend.Call) *iterator {
	it := iterators.Get().(*iterator)
	it.most = 0
	it.reset(c.Out.Shape, c.In)
	return it
}

// free puts it back for the next call.
func (it *iterator) free() {
	for k := range it.count {
		it.operands[k].data = nil // let the collector have it
	}
	iterators.Put(it)
}

// reset prepares it for the operands in, dropping axes of size 1 and merging those that
// lie in every operand as one.
func (it *iterator) reset(shape []int, in []backend.View) {
	it.rank, it.count, it.n = 0, len(in), op.Elements(shape)
	for k := range in {
		v, o := &in[k], &it.operands[k]
		o.width, o.flat, o.uniform = v.DType.Size(), true, true
		if v.Const() {
			o.konst = v.Bits
			o.data, o.size, o.first, o.flat = unsafe.Pointer(&o.konst), 1, 0, false
			continue
		}
		o.data, o.size, o.first = v.Block.Ptr, v.Block.Size/o.width, v.Offset
	}
	for i, n := range shape {
		if n == 1 {
			continue
		}
		last := it.rank - 1
		merge := last >= 0
		for k := 0; merge && k < len(in); k++ {
			merge = in[k].Const() || it.operands[k].strides[last] == n*in[k].Strides[i]
		}
		if merge {
			it.shape[last] *= n
		} else {
			last = it.rank
			it.rank++
			it.shape[last] = n
		}
		for k := range in {
			if in[k].Const() {
				it.operands[k].strides[last] = 0
			} else {
				it.operands[k].strides[last] = in[k].Strides[i]
			}
		}
	}
	if it.rank == 0 {
		it.rank, it.shape[0] = 1, 1
		for k := range in {
			it.operands[k].strides[0] = 1
		}
	}
	for k := range in {
		o := &it.operands[k]
		if o.data == unsafe.Pointer(&o.konst) {
			o.strides[0] = 0
			continue
		}
		want := 1
		for i := it.rank - 1; i >= 0; i-- {
			o.flat = o.flat && o.strides[i] == want
			o.uniform = o.uniform && o.strides[i] == 0
			want *= it.shape[i]
		}
	}
}

// run calls body for consecutive pieces of [lo, hi): body(at, n, p) computes
// elements at … at+n-1 of the result from n elements of every operand.
func (it *iterator) run(lo, hi int, body func(at, n int, p pieces)) {
	var p pieces
	var s *scratch
	var buffer [maxOperands]unsafe.Pointer
	direct := true // no operand needs a buffer
	inner := it.shape[it.rank-1]
	rows := inner >= rowMin
	for k := range it.count {
		o := &it.operands[k]
		if o.flat || rows && o.strides[it.rank-1] == 1 {
			continue
		}
		if direct {
			direct = false
			s = borrow(maxOperands * chunk * 8)
		}
		buffer[k] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.mem)), k*chunk*8)
		if o.uniform {
			fill(buffer[k], o, o.first, min(chunk, hi-lo))
			p[k] = buffer[k]
		}
	}
	most := it.most
	if most == 0 {
		most = hi - lo
	}
	if !direct {
		most = min(most, chunk)
	}
	if rows {
		it.runRows(lo, hi, most, &buffer, p, body)
	} else {
		for at := lo; at < hi; {
			n := min(most, hi-at)
			for k := range it.count {
				switch o := &it.operands[k]; {
				case o.flat:
					p[k] = unsafe.Add(o.data, (o.first+at)*o.width)
				case !o.uniform:
					it.gather(buffer[k], o, at, n)
					p[k] = buffer[k]
				}
			}
			body(at, n, p)
			at += n
		}
	}
	if s != nil {
		s.free()
	}
}

// runRows is run for spaces whose last axis is long.
func (it *iterator) runRows(lo, hi, most int, buffer *[maxOperands]unsafe.Pointer, p pieces, body func(at, n int, p pieces)) {
	var index [op.MaxRank]int
	it.at(lo, &index)
	last := it.rank - 1
	inner := it.shape[last]
	var start [maxOperands]int // of the row
	column := index[last]
	index[last] = 0
	for at := lo; at < hi; {
		for k := range it.count {
			o := &it.operands[k]
			start[k] = o.first + dot(&index, &o.strides, it.rank)
		}
		for column < inner && at < hi {
			n := min(most, inner-column, hi-at)
			for k := range it.count {
				o := &it.operands[k]
				stride := o.strides[last]
				switch {
				case o.uniform:
				case stride == 1:
					p[k] = unsafe.Add(o.data, (start[k]+column)*o.width)
				case stride == 0:
					fill(buffer[k], o, start[k], n)
					p[k] = buffer[k]
				default:
					gatherRow(buffer[k], o, start[k]+column*stride, stride, n)
					p[k] = buffer[k]
				}
			}
			body(at, n, p)
			at += n
			column += n
		}
		column = 0
		it.step(&index, 1)
	}
}

// words returns the operand's memory as elements.
func words[W word](o *operand) []W { return unsafe.Slice((*W)(o.data), o.size) }

func buf[W word](p unsafe.Pointer, n int) []W { return unsafe.Slice((*W)(p), n) }

// fill repeats one element.
func fill(dst unsafe.Pointer, o *operand, from, n int) {
	switch o.width {
	case 1:
		fillWords(buf[uint8](dst, n), words[uint8](o)[from])
	case 2:
		fillWords(buf[uint16](dst, n), words[uint16](o)[from])
	case 4:
		fillWords(buf[uint32](dst, n), words[uint32](o)[from])
	default:
		fillWords(buf[uint64](dst, n), words[uint64](o)[from])
	}
}

// fillWords fills the beginning and copies that, which goes by vectors.
func fillWords[W any](dst []W, w W) {
	n := min(len(dst), 64)
	for i := range dst[:n] {
		dst[i] = w
	}
	for n < len(dst) {
		n += copy(dst[n:], dst[:min(n, 1024)])
	}
}

// gatherRow copies n elements that are stride apart.
func gatherRow(dst unsafe.Pointer, o *operand, from, stride, n int) {
	switch o.width {
	case 1:
		gatherRowWords(buf[uint8](dst, n), words[uint8](o), from, stride)
	case 2:
		gatherRowWords(buf[uint16](dst, n), words[uint16](o), from, stride)
	case 4:
		gatherRowWords(buf[uint32](dst, n), words[uint32](o), from, stride)
	default:
		gatherRowWords(buf[uint64](dst, n), words[uint64](o), from, stride)
	}
}

func gatherRowWords[W any](dst, src []W, from, stride int) {
	for i := range dst {
		dst[i] = src[from]
		from += stride
	}
}

// gather copies the n elements from number at on.
func (it *iterator) gather(dst unsafe.Pointer, o *operand, at, n int) {
	switch o.width {
	case 1:
		gatherWords(buf[uint8](dst, n), words[uint8](o), it, o, at)
	case 2:
		gatherWords(buf[uint16](dst, n), words[uint16](o), it, o, at)
	case 4:
		gatherWords(buf[uint32](dst, n), words[uint32](o), it, o, at)
	default:
		gatherWords(buf[uint64](dst, n), words[uint64](o), it, o, at)
	}
}

func gatherWords[W any](dst, src []W, it *iterator, o *operand, at int) {
	var index [op.MaxRank]int
	it.at(at, &index)
	last := it.rank - 1
	from := o.first + dot(&index, &o.strides, it.rank)
	stride, inner := o.strides[last], it.shape[last]
	n := min(inner-index[last], len(dst)) // the rest of the first row
	for {
		row := dst[:n]
		f := from
		for i := range row {
			row[i] = src[f]
			f += stride
		}
		dst = dst[n:]
		if len(dst) == 0 {
			return
		}
		from -= index[last] * stride
		index[last] = 0
		for i := last - 1; ; i-- {
			from += o.strides[i]
			if index[i]++; index[i] < it.shape[i] {
				break
			}
			from -= it.shape[i] * o.strides[i]
			index[i] = 0
		}
		n = min(inner, len(dst))
	}
}
