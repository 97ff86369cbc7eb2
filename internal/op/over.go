package op

// overwrites are the elementwise ops whose kernels, on all devices, are done with an
// element of an operand when they write the result's element at its place: the
// conformance suite runs them that way. An op that is not here, such as a new one, is
// not written over its operands. Kernels of Log and Pow of float64 look again at
// operands that are subnormal; a copy may be done by a driver, which does not copy
// onto itself.
var overwrites = [NumOps]bool{
	CastTo: true, Neg: true, Abs: true, Sign: true, Square: true, Sqrt: true, Rsqrt: true,
	Reciprocal: true, Exp: true, Exp2: true, Expm1: true, Log2: true, Log10: true, Log1p: true, Sin: true,
	Cos: true, Tan: true, Asin: true, Acos: true, Atan: true, Sinh: true, Cosh: true, Tanh: true, Asinh: true,
	Acosh: true, Atanh: true, Sigmoid: true, Softplus: true, Relu: true, Gelu: true, GeluTanh: true,
	Silu: true, Erf: true, Floor: true, Ceil: true, Round: true, Trunc: true, Not: true, IsNaN: true,
	IsInf: true, IsFinite: true, Add: true, Sub: true, Mul: true, Div: true, Maximum: true, Minimum: true,
	FloorDiv: true, Mod: true, Atan2: true, And: true, Or: true, Xor: true, ReluGrad: true, SigmoidGrad: true,
	TanhGrad: true, GeluGrad: true, GeluTanhGrad: true, SiluGrad: true, Equal: true, NotEqual: true,
	Less: true, LessEqual: true, Greater: true, GreaterEqual: true, Where: true, Blend: true,
	BlendSquare: true, AdamStep: true,
	Relu6: true, HardSigmoid: true, HardSwish: true, Relu6Grad: true, HardSigmoidGrad: true, HardSwishGrad: true,
}

// Over reports whether a kernel of the op may write result r, of which 0 is the first,
// where operand i lies, if both have one type and shape and lie in order without holes:
// no element of the operand is read after the result's element at its place is written.
func (d *Def) Over(a Attrs, r, i int) bool {
	if overwrites[d.ID] {
		return r == 0
	}
	switch d.ID {
	case UpdateAll:
		u, ok := a.(Update)
		if !ok {
			return false
		}
		p, k := r/(1+u.Slots()), r%(1+u.Slots()) // result k of parameter p
		switch at := i - p*u.Each(); {
		case k == 0:
			return at == 0
		case u.First:
			return false
		default:
			return at == 1+k // behind the value and the gradient
		}
	case ScaleAll:
		return r == i
	case BatchNorm:
		// The running statistics: results 3 and 4, behind y and what the gradient needs.
		n, ok := a.(Normalize)
		if e, is := a.(NormEpilogue); is {
			n, ok = e.Normalize, true
		}
		return ok && n.Running && r >= 3 && i == r-2+Count(n.Weight, n.Bias)
	case FusedOps:
		e, ok := a.(*Expression)
		return ok && e.over(r, i)
	case Await: // the result stays where it is
		return r == 0 && i == 0
	case AddNormalize: // a row is added up before any of its results but the sum is written
		return i < 2 && r < 2
	case NormalizeGradAdd: // what is added is read last
		n, ok := a.(Normalize)
		return ok && r == 0 && i == 2+Count(n.Weight, !n.RMS, true)
	}
	return false
}

// Plain reports whether the op cannot fail, whatever its operands hold, and needs no
// working memory: an element of the result depends on one element of each operand.
func (d *Def) Plain() bool {
	switch d.ID {
	case AddNormalize, NormalizeGradAdd, ActivationGradSum, Begin, Await:
		return false
	}
	if d.Name == "" {
		return true // not in the table: an op that passes over programs make of such ops
	}
	switch d.Family {
	case UnaryFamily, BinaryFamily, CompareFamily, TernaryFamily, CreateFamily:
		return true
	}
	switch d.ID {
	case Blend, BlendSquare, AdamStep, UpdateAll, ScaleAll, CastAll, FusedOps:
		return true
	}
	return false
}
