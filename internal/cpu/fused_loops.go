package cpu

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// The loops of ops beside the kernels that are made of them: for blocks that stay in
// the first-level cache, where a kernel's look at its operands takes as long as its
// work.

// directLoop is a loop over n contiguous elements; b is nil for unary ops.
type directLoop func(dst, a, b unsafe.Pointer, n int)

// directNumber is a loop over one operand beside a number.
type directNumber func(dst, a unsafe.Pointer, n int, bits uint64)

// direct are the loops of an op and an element type, as far as there are any. The loops
// for results that do not fit the caches are nil where there is no difference.
type direct struct {
	loop, stream              directLoop
	second, first             directNumber // the number is the second operand, or the first
	secondStream, firstStream directNumber
}

var directs [op.NumOps][numDTypes]direct

func direct1[R, A any](loop loop1[R, A]) directLoop {
	return func(dst, a, _ unsafe.Pointer, n int) {
		loop(unsafe.Slice((*R)(dst), n), unsafe.Slice((*A)(a), n))
	}
}

func direct2[R, A any](loop loop2[R, A]) directLoop {
	return func(dst, a, b unsafe.Pointer, n int) {
		loop(unsafe.Slice((*R)(dst), n), unsafe.Slice((*A)(a), n), unsafe.Slice((*A)(b), n))
	}
}

func directNumberOf[R, T any](loop numberLoop[R, T]) directNumber {
	if loop == nil {
		return nil
	}
	return func(dst, a unsafe.Pointer, n int, bits uint64) {
		loop(unsafe.Slice((*R)(dst), n), unsafe.Slice((*T)(a), n), *(*T)(unsafe.Pointer(&bits)))
	}
}

func direct1s(id op.ID, f32 loop1[float32, float32], f64 loop1[float64, float64]) {
	directs[id][dtype.Float32].loop, directs[id][dtype.Float64].loop = direct1(f32), direct1(f64)
}

func direct2s(id op.ID, f32 loop2[float32, float32], f64 loop2[float64, float64]) {
	directs[id][dtype.Float32].loop, directs[id][dtype.Float64].loop = direct2(f32), direct2(f64)
}

func directNumbers[R, T any](id op.ID, d dtype.DType, l numberLoops[R, T]) {
	x := &directs[id][d]
	x.second, x.first = directNumberOf(l.second), directNumberOf(l.first)
	x.secondStream, x.firstStream = directNumberOf(l.secondStream), directNumberOf(l.firstStream)
}
