package locus

// Clipping of gradients. All of it stays on the device: nothing waits.

// ClipByValue gives t with every element moved into [-limit, limit].
func ClipByValue(t *Tensor, limit float64) *Tensor {
	t.check("ClipByValue")
	if !(limit >= 0) {
		failf("ClipByValue", ErrArgument, []*Tensor{t}, "the limit is %v; it must not be negative", limit)
	}
	return t.Clamp(-limit, limit)
}

// ClipByNorm gives t, scaled down so that its Euclidean norm is at most limit.
func ClipByNorm(t *Tensor, limit float64) *Tensor {
	clipped, _ := ClipGlobalNorm([]*Tensor{t}, limit)
	return clipped[0]
}

// ClipGlobalNorm gives the tensors, all scaled by one factor so that the
// Euclidean norm of all their elements together is at most limit, and the norm
// that they had, as a tensor: reading it waits, using it does not. Entries that
// are nil, the gradients of what took no part, stay nil.
func ClipGlobalNorm(ts []*Tensor, limit float64) (clipped []*Tensor, norm *Tensor) {
	const name = "ClipGlobalNorm"
	in := given(0, ts...)
	if len(in) == 0 {
		failf(name, ErrArgument, nil, "needs at least one tensor that is not nil")
	}
	checkOperands(name, in)
	if !(limit > 0) {
		failf(name, ErrArgument, in, "the limit is %v; it must be positive", limit)
	}
	norm = globalNorm(name, in)
	// The small number keeps the division defined; PyTorch has the same one.
	factor := norm.Add(1e-6).Reciprocal().Mul(limit).Minimum(1)
	clipped = make([]*Tensor, len(ts))
	for i, t := range ts {
		if t != nil {
			clipped[i] = t.Mul(factor.Cast(t.dtype))
		}
	}
	return clipped, norm
}

// GlobalNorm gives the Euclidean norm of all elements of the tensors together,
// without waiting for it.
func GlobalNorm(ts []*Tensor) *Tensor {
	in := given(0, ts...)
	if len(in) == 0 {
		failf("GlobalNorm", ErrArgument, nil, "needs at least one tensor that is not nil")
	}
	checkOperands("GlobalNorm", in)
	return globalNorm("GlobalNorm", in)
}

// globalNorm sums in float32, or in float64 if all tensors are float64.
func globalNorm(name string, ts []*Tensor) *Tensor {
	dt := Float64
	for _, t := range ts {
		t.wantFloat(name)
		if t.dtype != Float64 {
			dt = Float32
		}
	}
	var sum *Tensor
	for _, t := range ts {
		s := t.wide().Square().Sum().Cast(dt)
		if sum == nil {
			sum = s
		} else {
			sum = sum.Add(s)
		}
	}
	return sum.root(2)
}
