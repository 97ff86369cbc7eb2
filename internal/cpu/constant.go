package cpu

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// 2·x, 1 - x, x > 0: where one operand is the same number everywhere, only the
// other is read.

// numberLoop is a loop over one operand beside a number.
type numberLoop[R, T any] func(dst []R, a []T, s T)

// numberLoops are an op's loops for a number as second operand and as first. The
// loops for results that do not fit the caches may be nil.
type numberLoops[R, T any] struct {
	second, first             numberLoop[R, T]
	secondStream, firstStream numberLoop[R, T]
}

type (
	arithmetic32 = numberLoops[float32, float32]
	arithmetic64 = numberLoops[float64, float64]
	compare32    = numberLoops[uint8, float32]
	compare64    = numberLoops[uint8, float64]
)

// registerNumbers follows the registration of the ops themselves.
func registerNumbers() {
	withNumber(op.Add, dtype.Float32, arithmetic32{vec.AddSF32, vec.AddSF32, vec.AddSStreamF32, vec.AddSStreamF32})
	withNumber(op.Add, dtype.Float64, arithmetic64{second: vec.AddSF64, first: vec.AddSF64})
	withNumber(op.Sub, dtype.Float32, arithmetic32{vec.SubSF32, vec.RSubSF32, vec.SubSStreamF32, vec.RSubSStreamF32})
	withNumber(op.Sub, dtype.Float64, arithmetic64{second: vec.SubSF64, first: vec.RSubSF64})
	withNumber(op.Mul, dtype.Float32, arithmetic32{vec.MulSF32, vec.MulSF32, vec.MulSStreamF32, vec.MulSStreamF32})
	withNumber(op.Mul, dtype.Float64, arithmetic64{second: vec.MulSF64, first: vec.MulSF64})
	withNumber(op.Div, dtype.Float32, arithmetic32{vec.DivSF32, vec.RDivSF32, vec.DivSStreamF32, vec.RDivSStreamF32})
	withNumber(op.Div, dtype.Float64, arithmetic64{second: vec.DivSF64, first: vec.RDivSF64})
	withNumber(op.Maximum, dtype.Float32, arithmetic32{vec.MaxSF32, vec.MaxSF32, vec.MaxSStreamF32, vec.MaxSStreamF32})
	withNumber(op.Maximum, dtype.Float64, arithmetic64{second: vec.MaxSF64, first: vec.MaxSF64})
	withNumber(op.Minimum, dtype.Float32, arithmetic32{vec.MinSF32, vec.MinSF32, vec.MinSStreamF32, vec.MinSStreamF32})
	withNumber(op.Minimum, dtype.Float64, arithmetic64{second: vec.MinSF64, first: vec.MinSF64})
	withNumber(op.Pow, dtype.Float32, arithmetic32{second: vec.PowSF32})
	withNumber(op.Equal, dtype.Float32, compare32{second: vec.EqSF32, first: vec.EqSF32})
	withNumber(op.Equal, dtype.Float64, compare64{second: vec.EqSF64, first: vec.EqSF64})
	withNumber(op.NotEqual, dtype.Float32, compare32{second: vec.NeSF32, first: vec.NeSF32})
	withNumber(op.NotEqual, dtype.Float64, compare64{second: vec.NeSF64, first: vec.NeSF64})
	withNumber(op.Less, dtype.Float32, compare32{second: vec.LtSF32, first: vec.GtSF32})
	withNumber(op.Less, dtype.Float64, compare64{second: vec.LtSF64, first: vec.GtSF64})
	withNumber(op.LessEqual, dtype.Float32, compare32{second: vec.LeSF32, first: vec.GeSF32})
	withNumber(op.LessEqual, dtype.Float64, compare64{second: vec.LeSF64, first: vec.GeSF64})
	withNumber(op.Greater, dtype.Float32, compare32{second: vec.GtSF32, first: vec.LtSF32})
	withNumber(op.Greater, dtype.Float64, compare64{second: vec.GtSF64, first: vec.LtSF64})
	withNumber(op.GreaterEqual, dtype.Float32, compare32{second: vec.GeSF32, first: vec.LeSF32})
	withNumber(op.GreaterEqual, dtype.Float64, compare64{second: vec.GeSF64, first: vec.LeSF64})
}

// withNumber puts loops before an op's kernel, which goes on to serve all other
// operands.
func withNumber[R, T any](id op.ID, d dtype.DType, l numberLoops[R, T]) {
	other := table[id][d]
	if other == nil {
		panic("cpu: no kernel yet for " + id.String() + " of " + d.String())
	}
	grain := grainCheap
	if id == op.Pow {
		grain = grainExpensive
	}
	directNumbers(id, d, l)
	table[id][d] = numbered(other, grain, l)
	if d == dtype.Float32 && streams[id] != nil && l.secondStream != nil {
		streams[id] = numbered(streams[id], grain, numberLoops[R, T]{second: l.secondStream, first: l.firstStream})
	}
}

// numbered serves a number and a contiguous operand by loops, all others by other.
func numbered[R, T any](other kernel, grain int, l numberLoops[R, T]) kernel {
	return func(c *backend.Call) error {
		x, y := &c.In[0], &c.In[1]
		if last := len(c.Out.Shape) - 1; !x.Const() && !y.Const() && (last < 0 || x.Strides[last] != 0 && y.Strides[last] != 0) {
			return other(c) // decided early, for the sake of small operands
		}
		if s, ok := numberOf[T](y); ok && l.second != nil && !x.Const() && x.Contiguous() {
			runNumber(c, grain, x, s, l.second, l.secondStream)
			return nil
		}
		if s, ok := numberOf[T](x); ok && l.first != nil && !y.Const() && y.Contiguous() {
			runNumber(c, grain, y, s, l.first, l.firstStream)
			return nil
		}
		return other(c)
	}
}

// numberOf returns the number that a view has everywhere.
func numberOf[T any](v *backend.View) (s T, ok bool) {
	if v.Const() {
		return *(*T)(unsafe.Pointer(&v.Bits)), true
	}
	for i, n := range v.Shape {
		if n != 1 && v.Strides[i] != 0 || n == 0 {
			return s, false
		}
	}
	return whole[T](v)[v.Offset], true
}

func runNumber[R, T any](c *backend.Call, grain int, v *backend.View, s T, loop, stream numberLoop[R, T]) {
	n := c.Out.Elements()
	if n == 0 {
		return
	}
	dst, a := elements[R](&c.Out, n), elements[T](v, n)
	if n <= grain {
		loop(dst, a, s)
		return
	}
	if stream != nil && n >= vec.StreamBytes/4 {
		loop = stream
	}
	pool.For(n, grain, func(lo, hi int) { loop(dst[lo:hi], a[lo:hi], s) })
}
