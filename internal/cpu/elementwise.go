package cpu

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Kernels of the elementwise families are loops over contiguous elements, func(dst,
// a, b []T). Where all operands are contiguous such a loop runs on the tensors' own
// memory. Otherwise the iterator (iterator.go) cuts the result, which is always
// contiguous, into pieces and hands the loop a contiguous piece of every operand for
// each of them: the operand's own memory where its rows are contiguous, else a copy
// gathered into a buffer that stays in the first-level cache.

const (
	// chunk is the length of the buffers, in elements.
	chunk = 1024
	// rowMin is the row length below which calls per row cost more than gathering.
	rowMin = 48
	// grainCheap and grainExpensive are how many elements of cheap (add) and expensive
	// (exp) loops are worth handing to another thread.
	grainCheap     = 32 << 10
	grainExpensive = 4 << 10

	maxOperands = 3
)

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
	if n <= grain && !it.transposed() { // separate, because a function that other threads may run is allocated
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

// registerUnary registers an op by its float32 and float64 loops, which half precision
// uses too.
func registerUnary(id op.ID, grain int, f32 loop1[float32, float32], f64 loop1[float64, float64]) {
	expensive[id] = grain == grainExpensive
	direct1s(id, f32, f64)
	registerEachFloat(id, unary(grain, f32), unary(grain, f64), func(h halfType) kernel { return h.unary(grain, f32) })
}

// registerUnaryInts registers the integer types of an op.
func registerUnaryInts(id op.ID, u8 loop1[uint8, uint8], i32 loop1[int32, int32], i64 loop1[int64, int64]) {
	register(id, dtype.Uint8, unary(grainCheap, u8))
	register(id, dtype.Int32, unary(grainCheap, i32))
	register(id, dtype.Int64, unary(grainCheap, i64))
}

func registerBinary(id op.ID, grain int, f32 loop2[float32, float32], f64 loop2[float64, float64]) {
	expensive[id] = grain == grainExpensive
	direct2s(id, f32, f64)
	registerEachFloat(id, binary(grain, f32), binary(grain, f64), func(h halfType) kernel { return h.binary(grain, f32) })
}

func registerBinaryInts(id op.ID, u8 loop2[uint8, uint8], i32 loop2[int32, int32], i64 loop2[int64, int64]) {
	register(id, dtype.Uint8, binary(grainCheap, u8))
	register(id, dtype.Int32, binary(grainCheap, i32))
	register(id, dtype.Int64, binary(grainCheap, i64))
}
