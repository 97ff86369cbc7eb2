package backendtest

import (
	"fmt"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// The reference evaluator: plain loops in float64 and int64, written from the
// lines of the op table and nothing else. Slow and obviously right.

// array is a tensor in order: floats of the floating-point types, ints of the
// integers and bools (0 and 1).
type array struct {
	dtype  dtype.DType
	shape  []int
	floats []float64
	ints   []int64
}

func newArray(s op.Spec) *array {
	a := &array{dtype: s.DType, shape: s.Shape}
	if s.DType.IsFloat() {
		a.floats = make([]float64, op.Elements(s.Shape))
	} else {
		a.ints = make([]int64, op.Elements(s.Shape))
	}
	return a
}

func arrays(tensors []sample.Tensor) []*array {
	l := make([]*array, len(tensors))
	for i, t := range tensors {
		l[i] = &array{dtype: t.DType, shape: t.Shape, floats: t.Floats, ints: t.Ints}
	}
	return l
}

func (a *array) len() int { return op.Elements(a.shape) }

// set copies element j of b, of the same type, to element i.
func (a *array) set(i int, b *array, j int) {
	if a.floats != nil {
		a.floats[i] = b.floats[j]
	} else {
		a.ints[i] = b.ints[j]
	}
}

// wrap reduces the integers to what their type holds.
func (a *array) wrap() {
	for i, x := range a.ints {
		a.ints[i] = wrap(a.dtype, x)
	}
}

func wrap(d dtype.DType, x int64) int64 {
	switch d {
	case dtype.Uint8:
		return int64(uint8(x))
	case dtype.Int32:
		return int64(int32(x))
	}
	return x
}

// expected is a result and how near to it a kernel must come.
type expected struct {
	*array

	// exact: floats must be the value rounded to their type; with signs, also the sign of zero
	// counts. Otherwise the error may be units steps of the type in which kernels compute
	// (float32 for the half-precision types) at the size of the value or of scale, whichever
	// is larger, and for half-precision types halves steps of that type.
	exact, signs  bool
	units, halves float64
	scale         []float64
	before        []float64 // the size at which half-precision types may round on the way, where it is known
	// bits: all bytes are compared.
	bits []byte
	// more are the results behind the first, if the op has several.
	more []*expected
}

// evaluate computes a sample.
func evaluate(s sample.Sample, tensors []sample.Tensor) *expected {
	in := arrays(tensors)
	e := &expected{array: newArray(s.Out), units: 4, halves: 1}
	switch f := op.Get(s.Op).Family; {
	case f == op.CreateFamily:
		create(s, e)
	case s.Op == op.CastTo:
		cast(e, in[0])
	case f == op.UnaryFamily:
		unary(s.Op, e, in[0])
	case f == op.BinaryFamily:
		binary(s.Op, e, in[0], in[1])
	case f == op.CompareFamily:
		compare(s.Op, e, in[0], in[1])
	case s.Op == op.Where:
		e.exact, e.signs = true, true
		for i, c := range in[0].ints {
			e.set(i, in[2-c], i)
		}
	case f == op.ReduceFamily:
		reduce(s.Op, s.Attrs, e, in[0])
	case s.Op == op.MatMul:
		matmul(e, in[0], in[1])
	case f == op.IndexFamily:
		index(s.Op, s.Attrs, e, in)
	case f == op.ConvFamily:
		convolve(s.Op, s.Attrs.(op.Conv), e, in[0], in[1])
	case f == op.PoolFamily || s.Op == op.MaxPool || s.Op == op.MaxPoolGrad:
		pool(s.Op, s.Attrs.(op.Pool), e, in)
	case f == op.LinalgFamily:
		linalg(s.Op, s.Attrs, e, in)
	case f == op.FourierFamily:
		fourier(s.Op, s.Attrs.(op.Fourier), e, in[0])
	case f == op.FusedFamily:
		fused(s.Op, s.Attrs, e, in)
	default:
		noReference(s.Op)
	}
	e.wrap()
	return e
}

// noReference stops the tests at an op that was forgotten here.
func noReference(id op.ID) {
	panic(fmt.Sprintf("backendtest: %s has no reference: add plain loops for it to internal/backend/backendtest, in the file of its family (%s)", id, op.Get(id).Family))
}

// coords returns the coordinates of element i of a shape, and position the
// element at coordinates.
func coords(shape []int, i int) []int {
	c := make([]int, len(shape))
	for ax := len(shape) - 1; ax >= 0; ax-- {
		c[ax] = i % shape[ax]
		i /= shape[ax]
	}
	return c
}

func position(shape, c []int) int {
	p := 0
	for ax, n := range shape {
		p = p*n + c[ax]
	}
	return p
}

// line is the elements that differ only on one axis.
type line struct{ start, step, n int }

func (l line) at(i int) int { return l.start + i*l.step }

// alongAxis returns all lines along an axis of a shape.
func alongAxis(shape []int, axis int) []line {
	inner, n := op.Elements(shape[axis+1:]), shape[axis]
	var l []line
	for o := range op.Elements(shape[:axis]) {
		for i := range inner {
			l = append(l, line{o*n*inner + i, inner, n})
		}
	}
	return l
}

// groups returns, for each element of a reduction's result, the elements of the
// operand that belong to it, in order.
func groups(shape []int, axes op.AxisSet) [][]int {
	out := make([]int, len(shape))
	for ax, n := range shape {
		out[ax] = n
		if axes.Has(ax) {
			out[ax] = 1
		}
	}
	g := make([][]int, op.Elements(out))
	for i := range op.Elements(shape) {
		c := coords(shape, i)
		for ax := range c {
			if axes.Has(ax) {
				c[ax] = 0
			}
		}
		p := position(out, c)
		g[p] = append(g[p], i)
	}
	return g
}
