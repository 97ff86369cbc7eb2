package locus

import (
	"math"

	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
)

// gradients holds the gradient rule of each differentiable primitive.
var gradients [op.NumOps]gradient

// sumTo adds a gradient up to the shape of the operand that was broadcast.
func sumTo(g *Tensor, shape []int) *Tensor {
	if sameShape(g.shape, shape) {
		return g
	}
	lead := len(g.shape) - len(shape)
	var axes []int
	for i := range g.shape {
		if i < lead || shape[i-lead] == 1 && g.shape[i] != 1 {
			axes = append(axes, i)
		}
	}
	if len(axes) > 0 {
		g = g.SumKeep(axes...)
	}
	return g.reshape(shape)
}

// unaryRule makes a rule from g, the operand x and the result y.
func unaryRule(f func(g, x, y *Tensor) *Tensor) gradient {
	return func(n *node, g *Tensor) []*Tensor { return []*Tensor{f(g, n.inputs[0], n.out)} }
}

// binaryRule makes a rule from one function per operand, each of g, the operands
// a and b and the result y. What was broadcast is summed up.
func binaryRule(fa, fb func(g, a, b, y *Tensor) *Tensor) gradient {
	return func(n *node, g *Tensor) []*Tensor {
		a, b := n.inputs[0], n.inputs[1]
		grads := make([]*Tensor, 2)
		if n.needs(0) {
			grads[0] = sumTo(fa(g, a, b, n.out), a.shape)
		}
		if n.needs(1) {
			grads[1] = sumTo(fb(g, a, b, n.out), b.shape)
		}
		return grads
	}
}

func init() {
	for id, f := range map[op.ID]func(g, x, y *Tensor) *Tensor{
		op.Copy:        func(g, _, _ *Tensor) *Tensor { return g },
		op.CastTo:      func(g, x, _ *Tensor) *Tensor { return g.Cast(x.dtype) },
		op.Neg:         func(g, _, _ *Tensor) *Tensor { return g.Neg() },
		op.Abs:         func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Sign()) },
		op.Square:      func(g, x, _ *Tensor) *Tensor { return g.Mul(x).Mul(2) },
		op.Sqrt:        func(g, _, y *Tensor) *Tensor { return g.Div(y).Mul(0.5) },
		op.Rsqrt:       func(g, x, y *Tensor) *Tensor { return g.Mul(y).Div(x).Mul(-0.5) },
		op.Reciprocal:  func(g, _, y *Tensor) *Tensor { return g.Mul(y.Square()).Neg() },
		op.Exp:         func(g, _, y *Tensor) *Tensor { return g.Mul(y) },
		op.Exp2:        func(g, _, y *Tensor) *Tensor { return g.Mul(y).Mul(math.Ln2) },
		op.Expm1:       func(g, _, y *Tensor) *Tensor { return g.Mul(y.Add(1)) },
		op.Log:         func(g, x, _ *Tensor) *Tensor { return g.Div(x) },
		op.Log2:        func(g, x, _ *Tensor) *Tensor { return g.Div(x.Mul(math.Ln2)) },
		op.Log10:       func(g, x, _ *Tensor) *Tensor { return g.Div(x.Mul(math.Ln10)) },
		op.Log1p:       func(g, x, _ *Tensor) *Tensor { return g.Div(x.Add(1)) },
		op.Sin:         func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Cos()) },
		op.Cos:         func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Sin()).Neg() },
		op.Tan:         func(g, _, y *Tensor) *Tensor { return g.Mul(y.Square().Add(1)) },
		op.Asin:        func(g, x, _ *Tensor) *Tensor { return g.Mul(oneMinusSquare(x).Rsqrt()) },
		op.Acos:        func(g, x, _ *Tensor) *Tensor { return g.Mul(oneMinusSquare(x).Rsqrt()).Neg() },
		op.Atan:        func(g, x, _ *Tensor) *Tensor { return g.Div(x.Square().Add(1)) },
		op.Sinh:        func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Cosh()) },
		op.Cosh:        func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Sinh()) },
		op.Tanh:        func(g, _, y *Tensor) *Tensor { return apply(op.TanhGrad, nil, g, y) },
		op.Asinh:       func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Square().Add(1).Rsqrt()) },
		op.Acosh:       func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Square().Sub(1).Rsqrt()) },
		op.Atanh:       func(g, x, _ *Tensor) *Tensor { return g.Div(oneMinusSquare(x)) },
		op.Sigmoid:     func(g, _, y *Tensor) *Tensor { return apply(op.SigmoidGrad, nil, g, y) },
		op.Softplus:    func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Sigmoid()) },
		op.Relu:        func(g, _, y *Tensor) *Tensor { return apply(op.ReluGrad, nil, g, y.detach()) },
		op.Gelu:        func(g, x, _ *Tensor) *Tensor { return apply(op.GeluGrad, nil, g, x) },
		op.GeluTanh:    func(g, x, _ *Tensor) *Tensor { return apply(op.GeluTanhGrad, nil, g, x) },
		op.Silu:        func(g, x, _ *Tensor) *Tensor { return apply(op.SiluGrad, nil, g, x) },
		op.Relu6:       func(g, _, y *Tensor) *Tensor { return apply(op.Relu6Grad, nil, g, y.detach()) },
		op.HardSigmoid: func(g, x, _ *Tensor) *Tensor { return apply(op.HardSigmoidGrad, nil, g, x.detach()) },
		op.HardSwish:   func(g, x, _ *Tensor) *Tensor { return apply(op.HardSwishGrad, nil, g, x) },
		op.Mish:        func(g, x, _ *Tensor) *Tensor { return apply(op.MishGrad, nil, g, x) },
		op.Erf:         func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Square().Neg().Exp()).Mul(2 / math.Sqrt(math.Pi)) },
		op.Erfc:        func(g, x, _ *Tensor) *Tensor { return g.Mul(x.Square().Neg().Exp()).Mul(-2 / math.Sqrt(math.Pi)) },
	} {
		gradients[id] = unaryRule(f)
	}
	for _, id := range []op.ID{op.Sign, op.Floor, op.Ceil, op.Round, op.Trunc} {
		gradients[id] = unaryRule(func(g, _, _ *Tensor) *Tensor { return noSlope(g) })
	}

	keep := func(g, _, _, _ *Tensor) *Tensor { return g }
	gradients[op.Add] = binaryRule(keep, keep)
	gradients[op.Sub] = binaryRule(keep, func(g, _, _, _ *Tensor) *Tensor { return g.Neg() })
	gradients[op.Mul] = binaryRule(
		func(g, _, b, _ *Tensor) *Tensor { return g.Mul(b) },
		func(g, a, _, _ *Tensor) *Tensor { return g.Mul(a) })
	gradients[op.Div] = binaryRule(
		func(g, _, b, _ *Tensor) *Tensor { return g.Div(b) },
		func(g, _, b, y *Tensor) *Tensor { return g.Mul(y).Div(b).Neg() })
	gradients[op.Pow] = binaryRule(
		func(g, a, b, _ *Tensor) *Tensor {
			if b.constant { // x^(b-1) keeps its meaning where x is 0 or negative
				c := elem.Get(b.dtype, bytesOf([]uint64{b.bits}))
				if c == 0 {
					return noSlope(g)
				}
				return g.Mul(a.Pow(c - 1)).Mul(c)
			}
			d := g.Mul(b).Mul(a.Pow(b.Sub(1)))
			return b.Eq(0).Where(0, d)
		},
		func(g, a, b, y *Tensor) *Tensor {
			d := g.Mul(y).Mul(a.Log())
			return a.Eq(0).And(b.Ge(0)).Where(0, d) // the limit, where log has none
		})
	// Ties share the gradient.
	half := func(g, y, x, other *Tensor) *Tensor {
		return x.Eq(other).Where(g.Mul(0.5), y.Eq(x).Where(g, 0))
	}
	extreme := binaryRule(
		func(g, a, b, y *Tensor) *Tensor { return half(g, y, a, b) },
		func(g, a, b, y *Tensor) *Tensor { return half(g, y, b, a) })
	gradients[op.Maximum] = extreme
	gradients[op.Minimum] = extreme
	gradients[op.FloorDiv] = binaryRule(
		func(g, _, _, _ *Tensor) *Tensor { return noSlope(g) },
		func(g, _, _, _ *Tensor) *Tensor { return noSlope(g) })
	gradients[op.Mod] = binaryRule(keep, func(g, a, b, _ *Tensor) *Tensor { return g.Mul(a.FloorDiv(b)).Neg() })
	gradients[op.Fmod] = binaryRule(keep, func(g, a, b, _ *Tensor) *Tensor { return g.Mul(a.Div(b).Trunc()).Neg() })
	// The parts that the operands have in the sum: eᵃ/(eᵃ+eᵇ). Two equal infinities
	// have no difference, and half each.
	part := func(g, x, other, y *Tensor) *Tensor {
		same := apply(op.Equal, nil, x, other).And(y.IsInf())
		return same.Where(0, apply(op.Sub, nil, x, other)).Sigmoid().Mul(g)
	}
	gradients[op.LogAddExp] = binaryRule(
		func(g, a, b, y *Tensor) *Tensor { return part(g, a, b, y) },
		func(g, a, b, y *Tensor) *Tensor { return part(g, b, a, y) })
	squares := func(a, b *Tensor) *Tensor { // b may be a Go number, which has no ops of its own
		var sum *Tensor
		if b.constant {
			c := elem.Get(b.dtype, bytesOf([]uint64{b.bits}))
			sum = a.Square().Add(c * c)
		} else {
			sum = a.Square().Add(b.Square())
		}
		return sum.Eq(0).Where(1, sum) // at the origin, where there is no angle, none flows
	}
	gradients[op.Atan2] = binaryRule(
		func(g, a, b, _ *Tensor) *Tensor { return g.Mul(b).Div(squares(a, b)) },
		func(g, a, b, _ *Tensor) *Tensor { return g.Mul(a).Div(squares(a, b)).Neg() })

	// The first operand of these is a gradient, in which they are linear.
	gradients[op.ReluGrad] = binaryRule(
		func(g, _, b, _ *Tensor) *Tensor { return apply(op.ReluGrad, nil, g, b) },
		func(g, _, _, _ *Tensor) *Tensor { return noSlope(g) })
	for _, id := range []op.ID{op.Relu6Grad, op.HardSigmoidGrad} { // steps in the second operand
		gradients[id] = binaryRule(
			func(g, _, b, _ *Tensor) *Tensor { return apply(id, nil, g, b) },
			func(g, _, _, _ *Tensor) *Tensor { return noSlope(g) })
	}
	gradients[op.HardSwishGrad] = binaryRule(
		func(g, _, b, _ *Tensor) *Tensor { return apply(op.HardSwishGrad, nil, g, b) },
		func(g, a, b, _ *Tensor) *Tensor { return apply(op.HardSigmoidGrad, nil, g.Mul(a).Mul(2), b.detach()) })
	gradients[op.MishGrad] = secondRule(op.MishGrad, func(x *Tensor) *Tensor {
		s, t := x.Sigmoid(), x.Softplus().Tanh()
		inner := s.Neg().Add(1).Sub(t.Mul(s).Mul(2)).Mul(x).Add(2)
		return oneMinusSquare(t).Mul(s).Mul(inner)
	})
	gradients[op.LeakyRelu] = binaryRule(
		func(g, a, b, _ *Tensor) *Tensor { return g.Mul(apply(op.LeakySlope, nil, a.detach(), b)) },
		func(g, a, _, _ *Tensor) *Tensor { return g.Mul(a.Minimum(0)) })
	gradients[op.LeakySlope] = binaryRule(
		func(g, _, _, _ *Tensor) *Tensor { return noSlope(g) },
		func(g, a, _, _ *Tensor) *Tensor { return a.detach().Gt(0).Where(0, g) })
	gradients[op.SigmoidGrad] = binaryRule(
		func(g, _, b, _ *Tensor) *Tensor { return apply(op.SigmoidGrad, nil, g, b) },
		func(g, a, b, _ *Tensor) *Tensor { return g.Mul(a).Mul(b.Mul(-2).Add(1)) })
	gradients[op.TanhGrad] = binaryRule(
		func(g, _, b, _ *Tensor) *Tensor { return apply(op.TanhGrad, nil, g, b) },
		func(g, a, b, _ *Tensor) *Tensor { return g.Mul(a).Mul(b).Mul(-2) })
	gradients[op.GeluGrad] = secondRule(op.GeluGrad, func(x *Tensor) *Tensor {
		density := x.Square().Mul(-0.5).Exp().Mul(1 / math.Sqrt(2*math.Pi))
		return density.Mul(x.Square().Neg().Add(2))
	})
	gradients[op.GeluTanhGrad] = secondRule(op.GeluTanhGrad, func(x *Tensor) *Tensor {
		const c = 0.044715
		k := math.Sqrt(2 / math.Pi)
		x2 := x.Square()
		t := x.Mul(x2.Mul(c).Add(1)).Mul(k).Tanh()
		u1 := x2.Mul(3 * c).Add(1).Mul(k) // the inner function's first and second derivative
		u2 := x.Mul(6 * k * c)
		inner := u2.Sub(t.Mul(u1.Square()).Mul(2)).Mul(x).Mul(0.5).Add(u1)
		return oneMinusSquare(t).Mul(inner)
	})
	gradients[op.SiluGrad] = secondRule(op.SiluGrad, func(x *Tensor) *Tensor {
		s := x.Sigmoid()
		return s.Mul(s.Neg().Add(1)).Mul(x.Mul(s.Mul(-2).Add(1)).Add(2))
	})

	gradients[op.Where] = func(n *node, g *Tensor) []*Tensor {
		cond := n.inputs[0]
		grads := make([]*Tensor, 3)
		if n.needs(1) {
			grads[1] = sumTo(cond.Where(g, 0), n.inputs[1].shape)
		}
		if n.needs(2) {
			grads[2] = sumTo(cond.Where(0, g), n.inputs[2].shape)
		}
		return grads
	}
}

// noSlope returns the gradient through a step, which is flat almost everywhere:
// 0, also of a gradient that is infinite, with its history.
func noSlope(g *Tensor) *Tensor { return apply(op.ReluGrad, nil, g, g.zerosView(g.shape)) }

// clampGradient is the rule of [Tensor.Clamp] with a lower border, an upper one or
// both: the borders count as inside, and where they are the wrong way round all
// goes to hi.
func clampGradient(low, high bool) gradient {
	is := func(id op.ID, a, b *Tensor) *Tensor { return apply(id, nil, a, b) }
	return func(n *node, g *Tensor) []*Tensor {
		x := n.inputs[0]
		var lo, hi *Tensor
		if low {
			lo = n.inputs[1]
		}
		if high {
			hi = n.inputs[len(n.inputs)-1]
		}
		both := func(a, b *Tensor) *Tensor {
			switch {
			case a == nil:
				return b
			case b == nil:
				return a
			}
			return a.And(b)
		}
		var above, below *Tensor // of the lower border and of the upper, or on them
		grads := make([]*Tensor, len(n.inputs))
		if n.needs(0) {
			if low {
				above = is(op.GreaterEqual, x, lo)
			}
			if high {
				below = is(op.LessEqual, x, hi)
			}
			grads[0] = sumTo(both(above, below).Where(g, 0), x.shape)
		}
		if low && n.needs(1) {
			moved := is(op.Less, x, lo)
			if high {
				moved = moved.And(is(op.Less, lo, hi))
			}
			grads[1] = sumTo(moved.Where(g, 0), lo.shape)
		}
		if last := len(n.inputs) - 1; high && n.needs(last) {
			moved := is(op.Greater, x, hi)
			if low {
				moved = moved.Or(is(op.Less, hi, lo))
			}
			grads[last] = sumTo(moved.Where(g, 0), hi.shape)
		}
		return grads
	}
}

// oneMinusSquare returns 1-x² as (1-x)(1+x), which stays exact near ±1.
func oneMinusSquare(x *Tensor) *Tensor { return x.Neg().Add(1).Mul(x.Add(1)) }

// secondRule is the rule of an op a·f'(b), which is linear in a; second is f".
func secondRule(id op.ID, second func(*Tensor) *Tensor) gradient {
	return binaryRule(
		func(g, _, b, _ *Tensor) *Tensor { return apply(id, nil, g, b) },
		func(g, a, b, _ *Tensor) *Tensor { return g.Mul(a).Mul(second(b)) })
}
