package locus

import (
	"fmt"
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// Binary ops take a *Tensor or a Go number. A Go number takes the tensor's
// element type, as an untyped constant does in Go; a fraction does not fit an
// integer tensor. Shapes broadcast.

// binary applies a binary op to t and a tensor or number.
func (t *Tensor) binary(id op.ID, y any) *Tensor {
	if u, ok := y.(*Tensor); ok {
		return apply(id, nil, t, u)
	}
	t.check(op.Get(id).Name)
	return apply(id, nil, t, constant(op.Get(id).Name, t, y))
}

// operandOf returns y, a tensor or a Go number, as an operand of an op with t.
func operandOf(name string, t *Tensor, y any) *Tensor {
	if u, ok := y.(*Tensor); ok {
		u.check(name)
		return u
	}
	return constant(name, t, y)
}

// constant makes an operand of a Go number for an op with t.
func constant(name string, t *Tensor, y any) *Tensor {
	c := &Tensor{dtype: t.dtype, constant: true}
	var f float64
	var i int64
	whole := true
	switch v := y.(type) {
	case int:
		f, i = float64(v), int64(v)
	case float64:
		f, i, whole = v, int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<63
	case float32:
		w := float64(v)
		f, i, whole = w, int64(w), w == math.Trunc(w) && math.Abs(w) < 1<<63
	case int64:
		f, i = float64(v), v
	case int32:
		f, i = float64(v), int64(v)
	case uint8:
		f, i = float64(v), int64(v)
	case bool:
		if t.dtype != Bool {
			failf(name, ErrDType, []*Tensor{t}, "a Go bool does not mix with %s", t.dtype)
		}
		if v {
			c.bits = 1
		}
		return c
	default:
		failf(name, ErrArgument, []*Tensor{t}, "the other operand is a %T; want a *Tensor or a Go number", y)
	}
	if !t.dtype.IsFloat() && !whole {
		fail(name, &op.Problem{Kind: ErrDType, Msg: fmt.Sprintf("%v is not whole, but the tensor's elements are %s", y, t.dtype),
			Fix: "convert the tensor first: .Cast(locus.Float32)"}, t)
	}
	bits, ok := encode(t.dtype, f, i)
	if !ok {
		failf(name, ErrDType, []*Tensor{t}, "%v does not fit %s", y, t.dtype)
	}
	c.bits = bits
	return c
}

// encode gives a number's bits as an element of type dt.
func encode(dt DType, f float64, i int64) (uint64, bool) {
	switch dt {
	case Bool:
		return uint64(i), i == 0 || i == 1
	case Uint8:
		return uint64(uint8(i)), i >= 0 && i <= 255
	case Int32:
		return uint64(uint32(i)), int64(int32(i)) == i
	case Int64:
		return uint64(i), true
	case Float16:
		return uint64(dtype.ToF16(float32(f))), true
	case BFloat16:
		return uint64(dtype.ToBF16(float32(f))), true
	case Float32:
		return uint64(math.Float32bits(float32(f))), true
	}
	return math.Float64bits(f), true
}

// Add gives t + y.
func (t *Tensor) Add(y any) *Tensor { return t.binary(op.Add, y) }

// Sub gives t - y.
func (t *Tensor) Sub(y any) *Tensor { return t.binary(op.Sub, y) }

// Mul gives t · y, element by element.
func (t *Tensor) Mul(y any) *Tensor { return t.binary(op.Mul, y) }

// Div gives t / y for floating-point tensors; for whole numbers there is [Tensor.FloorDiv].
func (t *Tensor) Div(y any) *Tensor { return t.binary(op.Div, y) }

// Pow gives t to the power y.
func (t *Tensor) Pow(y any) *Tensor { return t.binary(op.Pow, y) }

// Maximum gives the larger of t and y; NaN if either is NaN.
func (t *Tensor) Maximum(y any) *Tensor { return t.binary(op.Maximum, y) }

// Minimum gives the smaller of t and y; NaN if either is NaN.
func (t *Tensor) Minimum(y any) *Tensor { return t.binary(op.Minimum, y) }

// FloorDiv gives t / y rounded down; whole numbers divided by zero give 0. It is
// exact, so it goes with [Tensor.Mod]: 1 // 0.1 is 9, since the number nearest to
// 0.1 is a little larger. What is infinite cannot be divided: NaN.
func (t *Tensor) FloorDiv(y any) *Tensor { return t.binary(op.FloorDiv, y) }

// Mod gives the remainder of [Tensor.FloorDiv]: it has y's sign unless it is 0.
func (t *Tensor) Mod(y any) *Tensor { return t.binary(op.Mod, y) }

// Atan2 gives the angle of the point with ordinate t and abscissa y.
func (t *Tensor) Atan2(y any) *Tensor { return t.binary(op.Atan2, y) }

// And gives the logical and of bools, bitwise of whole numbers.
func (t *Tensor) And(y any) *Tensor { return t.binary(op.And, y) }

// Or gives the logical or of bools, bitwise of whole numbers.
func (t *Tensor) Or(y any) *Tensor { return t.binary(op.Or, y) }

// Xor gives the exclusive or of bools, bitwise of whole numbers.
func (t *Tensor) Xor(y any) *Tensor { return t.binary(op.Xor, y) }

// Eq gives t = y as bools; NaN equals nothing.
func (t *Tensor) Eq(y any) *Tensor { return t.binary(op.Equal, y) }

// Ne gives t ≠ y as bools.
func (t *Tensor) Ne(y any) *Tensor { return t.binary(op.NotEqual, y) }

// Lt gives t < y as bools.
func (t *Tensor) Lt(y any) *Tensor { return t.binary(op.Less, y) }

// Le gives t ≤ y as bools.
func (t *Tensor) Le(y any) *Tensor { return t.binary(op.LessEqual, y) }

// Gt gives t > y as bools.
func (t *Tensor) Gt(y any) *Tensor { return t.binary(op.Greater, y) }

// Ge gives t ≥ y as bools.
func (t *Tensor) Ge(y any) *Tensor { return t.binary(op.GreaterEqual, y) }

// Where gives x where t, a tensor of bools, is true, else y. One of x and y may
// be a Go number.
func (t *Tensor) Where(x, y any) *Tensor {
	t.check("where")
	a, aok := x.(*Tensor)
	b, bok := y.(*Tensor)
	switch {
	case !aok && !bok:
		failf("where", ErrArgument, []*Tensor{t}, "x is a %T and y a %T; one of them must be a *Tensor", x, y)
	case !aok:
		b.check("where")
		a = constant("where", b, x)
	case !bok:
		a.check("where")
		b = constant("where", a, y)
	}
	return apply(op.Where, nil, t, a, b)
}

// Where gives x where cond is true, else y.
func Where(cond *Tensor, x, y any) *Tensor { return cond.Where(x, y) }

// Clamp gives t with every element moved into [lo, hi], or to hi where lo is
// above it; NaN stays NaN. The gradient flows to t where it was not moved, the
// borders included, and to a border that is a tensor where t was moved there.
func (t *Tensor) Clamp(lo, hi any) *Tensor {
	t.check("Clamp")
	in := []*Tensor{t, operandOf("Clamp", t, lo), operandOf("Clamp", t, hi)}
	x, l, h := t.detach(), in[1].detach(), in[2].detach()
	raised := apply(op.Maximum, nil, x, l)
	y := apply(op.Minimum, nil, raised, h)
	raised.Free()
	if y.dtype.IsFloat() && tracked(in) {
		y.node = &node{def: op.Get(op.Minimum), own: &ownRule{name: "Clamp", back: clampGradient}, inputs: in, out: y}
	}
	return y
}

// Cast gives the elements as another type: t itself if they have it already.
// Floating-point to whole numbers truncates; anything to bool is ≠ 0.
func (t *Tensor) Cast(to DType) *Tensor {
	t.check("cast")
	if to == t.dtype {
		return t
	}
	return apply(op.CastTo, op.Cast{To: to}, t)
}

// Copy gives the same elements in new memory, in order without holes.
func (t *Tensor) Copy() *Tensor { return apply(op.Copy, nil, t) }

// Not gives the logical not of bools.
func (t *Tensor) Not() *Tensor { return apply(op.Not, nil, t) }

// IsNaN tells which elements are NaN.
func (t *Tensor) IsNaN() *Tensor { return apply(op.IsNaN, nil, t) }

// IsInf tells which elements are infinite.
func (t *Tensor) IsInf() *Tensor { return apply(op.IsInf, nil, t) }

// IsFinite tells which elements are neither infinite nor NaN.
func (t *Tensor) IsFinite() *Tensor { return apply(op.IsFinite, nil, t) }
