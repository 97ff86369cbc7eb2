package locus

import (
	"fmt"
	"math"
	"reflect"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
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
	switch v := y.(type) { // without reflection where it is common
	case int:
		f, i = float64(v), int64(v)
	case float64:
		f, i, whole = v, int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<63
	case interface{ Float32() float32 }: // dtype.F16 and dtype.BF16
		f = float64(v.Float32())
		i, whole = int64(f), f == math.Trunc(f)
	default:
		n := reflect.ValueOf(y)
		switch k := n.Kind(); {
		case k == reflect.Bool:
			if t.dtype != Bool {
				failf(name, ErrDType, []*Tensor{t}, "a Go bool does not mix with %s", t.dtype)
			}
			if n.Bool() {
				c.bits = 1
			}
			return c
		case n.CanInt():
			f, i = float64(n.Int()), n.Int()
		case n.CanUint():
			f, i = float64(n.Uint()), int64(n.Uint())
			if i < 0 && !t.dtype.IsFloat() {
				failf(name, ErrDType, []*Tensor{t}, "%v does not fit %s", y, t.dtype)
			}
		case n.CanFloat():
			f = n.Float()
			i, whole = int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<63
		default:
			failf(name, ErrArgument, []*Tensor{t}, "the other operand is a %T; want a *Tensor or a Go number", y)
		}
	}
	if !t.dtype.IsFloat() && !whole {
		fail(name, &op.Problem{Kind: ErrDType, Msg: fmt.Sprintf("%v is not an integer, but the tensor's elements are %s", y, t.dtype),
			Fix: "convert the tensor first: .Cast(locus.Float32)"}, t)
	}
	bits, ok := encode(t.dtype, f, i)
	if !ok {
		failf(name, ErrDType, []*Tensor{t}, "%v does not fit %s", y, t.dtype)
	}
	c.bits = bits
	return c
}

// encode returns a number's bits as an element of type dt.
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
	}
	return elem.Bits(dt, f), true
}

// Add returns t + y.
func (t *Tensor) Add(y any) *Tensor { return t.binary(op.Add, y) }

// Sub returns t - y.
func (t *Tensor) Sub(y any) *Tensor { return t.binary(op.Sub, y) }

// Mul returns t · y, element by element.
func (t *Tensor) Mul(y any) *Tensor { return t.binary(op.Mul, y) }

// Div returns t / y for floating-point tensors; for integers there is [Tensor.FloorDiv].
func (t *Tensor) Div(y any) *Tensor { return t.binary(op.Div, y) }

// Pow returns t to the power y.
func (t *Tensor) Pow(y any) *Tensor { return t.binary(op.Pow, y) }

// Maximum returns the larger of t and y; NaN if either is NaN.
func (t *Tensor) Maximum(y any) *Tensor { return t.binary(op.Maximum, y) }

// Minimum returns the smaller of t and y; NaN if either is NaN.
func (t *Tensor) Minimum(y any) *Tensor { return t.binary(op.Minimum, y) }

// FloorDiv returns t / y rounded down; integers divided by zero are 0. It is
// exact, so it goes with [Tensor.Mod]: 1 // 0.1 is 9, since the number nearest to
// 0.1 is a little larger. It is NaN for an infinite t.
func (t *Tensor) FloorDiv(y any) *Tensor { return t.binary(op.FloorDiv, y) }

// Mod returns the remainder of [Tensor.FloorDiv]: it has y's sign unless it is 0.
// It is PyTorch's remainder; [Tensor.Fmod] is Go's math.Mod.
func (t *Tensor) Mod(y any) *Tensor { return t.binary(op.Mod, y) }

// Fmod returns the remainder of t divided by y, with the quotient rounded towards
// 0: it has t's sign. Whole numbers modulo zero are 0.
func (t *Tensor) Fmod(y any) *Tensor { return t.binary(op.Fmod, y) }

// LogAddExp returns log(eᵗ + eʸ), without overflow.
func (t *Tensor) LogAddExp(y any) *Tensor { return t.binary(op.LogAddExp, y) }

// Atan2 returns the angle of the point with ordinate t and abscissa y.
func (t *Tensor) Atan2(y any) *Tensor { return t.binary(op.Atan2, y) }

// And returns the logical and of bools, bitwise of integers.
func (t *Tensor) And(y any) *Tensor { return t.binary(op.And, y) }

// Or returns the logical or of bools, bitwise of integers.
func (t *Tensor) Or(y any) *Tensor { return t.binary(op.Or, y) }

// Xor returns the exclusive or of bools, bitwise of integers.
func (t *Tensor) Xor(y any) *Tensor { return t.binary(op.Xor, y) }

// Eq returns t == y as bools; NaN equals nothing.
func (t *Tensor) Eq(y any) *Tensor { return t.binary(op.Equal, y) }

// Ne returns t ≠ y as bools.
func (t *Tensor) Ne(y any) *Tensor { return t.binary(op.NotEqual, y) }

// Lt returns t < y as bools.
func (t *Tensor) Lt(y any) *Tensor { return t.binary(op.Less, y) }

// Le returns t ≤ y as bools.
func (t *Tensor) Le(y any) *Tensor { return t.binary(op.LessEqual, y) }

// Gt returns t > y as bools.
func (t *Tensor) Gt(y any) *Tensor { return t.binary(op.Greater, y) }

// Ge returns t ≥ y as bools.
func (t *Tensor) Ge(y any) *Tensor { return t.binary(op.GreaterEqual, y) }

// Where returns x where t, a tensor of bools, is true, else y. Each is a tensor
// or a Go number, which takes the other's element type. Two Go numbers make
// int64 if both are integers of Go, float32 if one is floating point, and
// bools of two bools.
func (t *Tensor) Where(x, y any) *Tensor {
	t.check("Where")
	a, aok := x.(*Tensor)
	b, bok := y.(*Tensor)
	switch {
	case !aok && !bok:
		like := &Tensor{dtype: typeOfNumbers("Where", t, x, y), constant: true}
		a, b = constant("Where", like, x), constant("Where", like, y)
	case !aok:
		b.check("Where")
		a = constant("Where", b, x)
	case !bok:
		a.check("Where")
		b = constant("Where", a, y)
	}
	return apply(op.Where, nil, t, a, b)
}

// typeOfNumbers is the element type of a tensor made of Go numbers alone.
func typeOfNumbers(name string, t *Tensor, numbers ...any) DType {
	dt := dtype.Invalid
	for _, x := range numbers {
		d := dtype.Invalid
		switch v := reflect.ValueOf(x); {
		case v.Kind() == reflect.Bool:
			d = Bool
		case isHalf(x):
			d = Float32
		case v.CanInt() || v.CanUint():
			d = Int64
		case v.CanFloat():
			d = Float32
		default:
			failf(name, ErrArgument, []*Tensor{t}, "an operand is a %T; want a *Tensor or a Go number", x)
		}
		dt = max(dt, d) // bool, int64, float32: in this order
	}
	return dt
}

func isHalf(x any) bool {
	_, ok := x.(interface{ Float32() float32 })
	return ok
}

// Where returns x where cond is true, else y: see [Tensor.Where].
func Where(cond *Tensor, x, y any) *Tensor { return cond.Where(x, y) }

// MaskedFill returns t with value, a Go number or a tensor, where mask is true.
// PyTorch's masked_fill; it is mask.Where(value, t).
func (t *Tensor) MaskedFill(mask *Tensor, value any) *Tensor {
	t.check("MaskedFill")
	mask.wantBool("MaskedFill")
	y := operandOf("MaskedFill", t, value)
	if s, err := op.Broadcast(t.shape, mask.shape, y.shape); err != nil || !sameShape(s, t.shape) {
		failf("MaskedFill", ErrShape, []*Tensor{t, mask, y}, "mask and value must broadcast to t's shape, %s", op.ShapeString(t.shape))
	}
	return apply(op.Where, nil, mask, y, t)
}

// Clamp returns t with every element clamped to [lo, hi], or to hi where lo is
// above it; NaN stays NaN. Each bound is a Go number or a tensor, or nil where
// there is none. The gradient flows to t where it was not clamped, the bounds
// included, and to a bound that is a tensor where t was clamped to it.
func (t *Tensor) Clamp(lo, hi any) *Tensor {
	t.check("Clamp")
	border := func(y any) *Tensor {
		if y == nil {
			return nil
		}
		return operandOf("Clamp", t, y)
	}
	low, high := border(lo), border(hi)
	if low == nil && high == nil {
		fail("Clamp", &op.Problem{Kind: ErrArgument, Msg: "both bounds are nil", Fix: "pass a lower bound, an upper one, or both"}, t)
	}
	in, y := []*Tensor{t}, t.detach()
	var id op.ID
	move := func(to op.ID, border *Tensor) {
		if border == nil {
			return
		}
		moved := apply(to, nil, y, border.detach())
		if len(in) > 1 {
			y.Free()
		}
		in, y, id = append(in, border), moved, to
	}
	move(op.Maximum, low)
	move(op.Minimum, high)
	if y.dtype.IsFloat() && tracked(in) {
		y.node = &node{def: op.Get(id), own: &ownRule{name: "Clamp", back: clampGradient(low != nil, high != nil)}, inputs: in, out: y}
	}
	return y
}

// ClampMin returns t with every element below lo set to lo: Clamp(lo, nil).
func (t *Tensor) ClampMin(lo any) *Tensor { return t.Clamp(lo, nil) }

// ClampMax returns t with every element above hi set to hi: Clamp(nil, hi).
func (t *Tensor) ClampMax(hi any) *Tensor { return t.Clamp(nil, hi) }

// IsClose returns which elements of t and y, a tensor or a Go number, differ by at
// most atol + rtol·|y|. Infinities are close to themselves, NaN to nothing.
// PyTorch's defaults are rtol 1e-5 and atol 1e-8.
func (t *Tensor) IsClose(y any, rtol, atol float64) *Tensor {
	t.check("IsClose")
	if !(rtol >= 0 && atol >= 0) {
		failf("IsClose", ErrArgument, []*Tensor{t}, "rtol is %v and atol %v; neither may be negative", rtol, atol)
	}
	a, b := t.detach(), operandOf("IsClose", t, y).detach()
	same := apply(op.Equal, nil, a, b)
	if !t.dtype.IsFloat() { // wide enough for the difference and for the tolerances
		if b.constant {
			b = t.fullOf(elem.Get(b.dtype, bytesOf([]uint64{b.bits})), nil)
		}
		if a.dtype != b.dtype {
			fail("IsClose", op.Problemf(ErrDType, "elements are %s and %s", a.dtype, b.dtype), t, b)
		}
		a, b = a.Cast(Float64), b.Cast(Float64)
	}
	distance := apply(op.Sub, nil, a, b).Abs()
	var most any
	if b.constant {
		most = math.Abs(elem.Get(b.dtype, bytesOf([]uint64{b.bits})))*rtol + atol
	} else {
		most = b.Abs().Mul(rtol).Add(atol)
	}
	return same.Or(distance.IsFinite().And(distance.Le(most)))
}

// AllClose reports whether all elements of t and y are close as [Tensor.IsClose]
// defines it. It waits for the answer.
func (t *Tensor) AllClose(y any, rtol, atol float64) bool {
	all := t.IsClose(y, rtol, atol).All()
	all.single("AllClose")
	return all.Item() != 0
}

// Cast returns the elements as another type: t itself if they have it already.
// Floating-point to integers truncates; anything to bool is ≠ 0.
func (t *Tensor) Cast(to DType) *Tensor {
	t.check("Cast")
	if to == t.dtype {
		return t
	}
	return apply(op.CastTo, op.Cast{To: to}, t)
}

// Copy returns the same elements in new memory, in order without holes.
func (t *Tensor) Copy() *Tensor { return apply(op.Copy, nil, t) }

// Not returns the logical not of bools.
func (t *Tensor) Not() *Tensor { return apply(op.Not, nil, t) }

// IsNaN returns which elements are NaN.
func (t *Tensor) IsNaN() *Tensor { return apply(op.IsNaN, nil, t) }

// IsInf returns which elements are infinite.
func (t *Tensor) IsInf() *Tensor { return apply(op.IsInf, nil, t) }

// IsFinite returns which elements are neither infinite nor NaN.
func (t *Tensor) IsFinite() *Tensor { return apply(op.IsFinite, nil, t) }
