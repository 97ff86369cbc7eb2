package op

// Over reports whether a kernel of the op may write result r, of which 0 is the first,
// where operand i lies, if both have one type and shape and lie in order without holes:
// no element of the operand is read after the result's element at its place is written.
func (d *Def) Over(a Attrs, r, i int) bool {
	switch d.ID {
	case Log, Pow:
		return false // kernels of float64 look again at operands that are subnormal
	}
	switch d.Family {
	case UnaryFamily, BinaryFamily, CompareFamily, TernaryFamily:
		return r == 0
	}
	switch d.ID {
	case Blend, BlendSquare, AdamStep:
		return r == 0
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
	}
	return false
}

// Plain reports whether the op cannot fail, whatever its operands hold, and needs no
// working memory: what is computed of one element depends on no other.
func (d *Def) Plain() bool {
	switch d.Family {
	case UnaryFamily, BinaryFamily, CompareFamily, TernaryFamily, CreateFamily:
		return true
	}
	switch d.ID {
	case Blend, BlendSquare, AdamStep, UpdateAll, ScaleAll, CastAll:
		return true
	}
	return false
}
