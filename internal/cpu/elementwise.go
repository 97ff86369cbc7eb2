package cpu

import (
	"sync"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Kernels of the elementwise families are loops over contiguous elements,
// func(dst, a, b []T). Where all operands are contiguous such a loop runs on the
// tensors' own memory. Otherwise the iterator below cuts the result, which is
// always contiguous, into pieces and gives the loop for each a contiguous piece
// of every operand: of the operand itself where its rows are contiguous, else
// gathered into a buffer that stays in the first-level cache.

const (
	// chunk is the length of the buffers, in elements.
	chunk = 1024
	// rowMin is the row length below which calls per row cost more than gathering.
	rowMin = 48
	// grainCheap and grainDear are how many elements of cheap (add) and dear
	// (exp) loops are worth handing to another thread.
	grainCheap = 32 << 10
	grainDear  = 4 << 10

	maxOperands = 3
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

// Panels are of so many rows and columns. Of float32, a column is a cache line.
const (
	panelRows    = 16
	panelColumns = 512
)

// transposed reports whether an operand's columns are contiguous where its rows
// are not, so that going through the result row by row would use a cache line
// for each of its elements.
func (it *iterator) transposed() bool {
	if it.rank < 2 || it.shape[it.rank-1] < panelRows || it.shape[it.rank-2] < 4 {
		return false
	}
	for k := range it.count {
		if o := &it.operands[k]; it.turned(o) {
			return true
		}
	}
	return false
}

func (it *iterator) turned(o *operand) bool {
	return !o.uniform && o.strides[it.rank-2] == 1 && distance(o.strides[it.rank-1]) >= 4 && o.strides[it.rank-1] != 0
}

// runPanels is run over the whole space in panels of some rows and columns, into
// which transposed operands are transposed first.
func (it *iterator) runPanels(grain int, body func(at, n int, p pieces)) {
	last := it.rank - 1
	rows, inner := it.shape[last-1], it.shape[last]
	panels := (rows-1)/panelRows + 1
	pool.For(it.n/(rows*inner)*panels, max(1, grain/(panelRows*inner)), func(lo, hi int) {
		s := borrow(maxOperands * panelRows * panelColumns * 8)
		var index [op.MaxRank]int
		var p pieces
		for t := lo; t < hi; t++ {
			r0 := t % panels * panelRows
			height := min(panelRows, rows-r0)
			first := (t/panels*rows + r0) * inner
			it.at(first, &index)
			for c0 := 0; c0 < inner; c0 += panelColumns {
				n := min(panelColumns, inner-c0)
				for k := range it.count {
					if o := &it.operands[k]; it.turned(o) {
						p[k] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.mem)), k*panelRows*panelColumns*8)
						it.transpose(p[k], o, o.first+dot(&index, &o.strides, it.rank)+c0*o.strides[last], height, n)
					}
				}
				for r := range height {
					q := p
					for k := range it.count {
						o := &it.operands[k]
						if it.turned(o) {
							q[k] = unsafe.Add(p[k], r*panelColumns*o.width)
							continue
						}
						buffer := unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.mem)), k*panelRows*panelColumns*8)
						at, stride := o.first+dot(&index, &o.strides, it.rank)+r*o.strides[last-1]+c0*o.strides[last], o.strides[last]
						switch stride {
						case 1:
							q[k] = unsafe.Add(o.data, at*o.width)
						case 0:
							fill(buffer, o, at, n)
							q[k] = buffer
						default:
							gatherRow(buffer, o, at, stride, n)
							q[k] = buffer
						}
					}
					body(first+r*inner+c0, n, q)
				}
			}
		}
		s.free()
	})
}

// transpose fills a panel from place at of the operand on.
func (it *iterator) transpose(dst unsafe.Pointer, o *operand, at, height, n int) {
	const room = panelRows * panelColumns
	from := o.strides[it.rank-1]
	switch o.width {
	case 1:
		transpose(buf[uint8](dst, room), panelColumns, words[uint8](o), at, from, height, n)
	case 2:
		transpose(buf[uint16](dst, room), panelColumns, words[uint16](o), at, from, height, n)
	case 4:
		transpose(buf[uint32](dst, room), panelColumns, words[uint32](o), at, from, height, n)
	default:
		transpose(buf[uint64](dst, room), panelColumns, words[uint64](o), at, from, height, n)
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

// The drivers: from a loop to a kernel.

type loop1[R, A any] func(dst []R, a []A)
type loop2[R, A any] func(dst []R, a, b []A)

func unary[R, A any](grain int, loop loop1[R, A]) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		if !c.In[0].Contiguous() {
			unaryStrided(c, n, grain, loop)
			return nil
		}
		dst, a := elements[R](&c.Out, n), elements[A](&c.In[0], n)
		if n <= grain {
			loop(dst, a)
			return nil
		}
		pool.For(n, grain, func(lo, hi int) { loop(dst[lo:hi], a[lo:hi]) })
		return nil
	}
}

func unaryStrided[R, A any](c *backend.Call, n, grain int, loop loop1[R, A]) {
	dst := elements[R](&c.Out, n)
	forPieces(c, n, grain, 0, func(at, n int, p pieces) {
		loop(dst[at:at+n], unsafe.Slice((*A)(p[0]), n))
	})
}

func binary[R, A any](grain int, loop loop2[R, A]) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		x, y := &c.In[0], &c.In[1]
		if x.Const() || y.Const() || !x.Contiguous() || !y.Contiguous() {
			binaryStrided(c, n, grain, loop)
			return nil
		}
		dst, a, b := elements[R](&c.Out, n), elements[A](x, n), elements[A](y, n)
		if n <= grain {
			loop(dst, a, b)
			return nil
		}
		pool.For(n, grain, func(lo, hi int) { loop(dst[lo:hi], a[lo:hi], b[lo:hi]) })
		return nil
	}
}

// binaryConst serves a contiguous operand and a constant, n elements: the
// commonest of the small calls. It reports false for others.
func binaryConst[R, A any](c *backend.Call, n int, loop loop2[R, A]) bool {
	x, y := &c.In[0], &c.In[1]
	if x.Const() == y.Const() || !(x.Const() || x.Contiguous()) || !(y.Const() || y.Contiguous()) {
		return false
	}
	dst := elements[R](&c.Out, n)
	s, konst := scratchOf[A](min(n, chunk))
	v := x
	if y.Const() {
		v = y
	}
	fillWords(konst, *(*A)(unsafe.Pointer(&v.Bits)))
	for lo := 0; lo < n; lo += chunk {
		m := min(chunk, n-lo)
		if x.Const() {
			loop(dst[lo:lo+m], konst[:m], elements[A](y, n)[lo:lo+m])
		} else {
			loop(dst[lo:lo+m], elements[A](x, n)[lo:lo+m], konst[:m])
		}
	}
	s.free()
	return true
}

func binaryStrided[R, A any](c *backend.Call, n, grain int, loop loop2[R, A]) {
	if n <= grain && binaryConst(c, n, loop) {
		return
	}
	dst := elements[R](&c.Out, n)
	it := newIterator(c)
	if n <= grain && !it.transposed() { // apart, because a function that other threads may run is allocated
		it.run(0, n, func(at, n int, p pieces) {
			loop(dst[at:at+n], unsafe.Slice((*A)(p[0]), n), unsafe.Slice((*A)(p[1]), n))
		})
		it.free()
		return
	}
	it.free()
	forPieces(c, n, grain, 0, func(at, n int, p pieces) {
		loop(dst[at:at+n], unsafe.Slice((*A)(p[0]), n), unsafe.Slice((*A)(p[1]), n))
	})
}

// forPieces runs body over the whole of c's result, in parallel where that is
// worth it; most, if not 0, is the longest piece that body can take.
func forPieces(c *backend.Call, n, grain, most int, body func(at, n int, p pieces)) {
	it := newIterator(c)
	it.most = most
	if it.transposed() { // panels are no longer than most can be
		it.runPanels(grain, body)
	} else if n <= grain {
		it.run(0, n, body)
	} else {
		pool.For(n, grain, func(lo, hi int) { it.run(lo, hi, body) })
	}
	it.free()
}

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

// registerUnary registers an op from float32 and float64 loops, and from those the halves.
func registerUnary(id op.ID, grain int, f32 loop1[float32, float32], f64 loop1[float64, float64]) {
	dear[id] = grain == grainDear
	direct1s(id, f32, f64)
	register(id, dtype.Float32, unary(grain, f32))
	register(id, dtype.Float64, unary(grain, f64))
	register(id, dtype.Float16, unaryHalf[dtype.F16](grain, f32))
	register(id, dtype.BFloat16, unaryHalf[dtype.BF16](grain, f32))
}

// registerUnaryInts registers the integer types of an op.
func registerUnaryInts(id op.ID, u8 loop1[uint8, uint8], i32 loop1[int32, int32], i64 loop1[int64, int64]) {
	register(id, dtype.Uint8, unary(grainCheap, u8))
	register(id, dtype.Int32, unary(grainCheap, i32))
	register(id, dtype.Int64, unary(grainCheap, i64))
}

func registerBinary(id op.ID, grain int, f32 loop2[float32, float32], f64 loop2[float64, float64]) {
	dear[id] = grain == grainDear
	direct2s(id, f32, f64)
	register(id, dtype.Float32, binary(grain, f32))
	register(id, dtype.Float64, binary(grain, f64))
	register(id, dtype.Float16, binaryHalf[dtype.F16](grain, f32))
	register(id, dtype.BFloat16, binaryHalf[dtype.BF16](grain, f32))
}

func registerBinaryInts(id op.ID, u8 loop2[uint8, uint8], i32 loop2[int32, int32], i64 loop2[int64, int64]) {
	register(id, dtype.Uint8, binary(grainCheap, u8))
	register(id, dtype.Int32, binary(grainCheap, i32))
	register(id, dtype.Int64, binary(grainCheap, i64))
}
