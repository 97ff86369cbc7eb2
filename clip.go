package locus

import "github.com/locusml/locus/internal/op"

// Clipping of gradients. All of it stays on the device: nothing waits.

// ClipByValue returns t with every element clamped to [-limit, limit].
func ClipByValue(t *Tensor, limit float64) *Tensor {
	t.check("ClipByValue")
	if !(limit >= 0) {
		failf("ClipByValue", ErrArgument, []*Tensor{t}, "the limit is %v; it must not be negative", limit)
	}
	return t.Clamp(-limit, limit)
}

// ClipByNorm returns t, scaled down so that its Euclidean norm is at most limit.
func ClipByNorm(t *Tensor, limit float64) *Tensor {
	clipped, _ := ClipGlobalNorm([]*Tensor{t}, limit)
	return clipped[0]
}

// ClipGlobalNorm returns the tensors, all scaled by one factor so that the
// Euclidean norm of all their elements together is at most limit, and the norm
// that they had, as a tensor: reading it waits, using it does not. Entries that are nil
// stay nil: the gradients of tensors that the loss does not depend on.
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
	return ScaleAll(ts, ClipFactor(norm, limit)), norm
}

// ClipFactor returns what tensors of a norm are multiplied by so that their norm is at
// most limit: 1 if it is already. To clip in an optimizer's step without a pass over
// the gradients of its own, pass it to StepScaled of package optim.
func ClipFactor(norm *Tensor, limit float64) *Tensor {
	norm.check("ClipFactor")
	if !(limit > 0) {
		failf("ClipFactor", ErrArgument, []*Tensor{norm}, "the limit is %v; it must be positive", limit)
	}
	// The small number keeps the division defined; PyTorch has the same one.
	return norm.Add(1e-6).Reciprocal().Mul(limit).Minimum(1)
}

// GlobalNorm returns the Euclidean norm of all elements of the tensors together,
// without waiting for it. Squares are added in float64, so it is finite if all elements
// are and the norm itself fits its type.
func GlobalNorm(ts []*Tensor) *Tensor {
	in := given(0, ts...)
	if len(in) == 0 {
		failf("GlobalNorm", ErrArgument, nil, "needs at least one tensor that is not nil")
	}
	checkOperands("GlobalNorm", in)
	return globalNorm("GlobalNorm", in)
}

// globalNorm is float32, or float64 if all tensors are. Tensors of one type are one op;
// the norm of several types is that of their norms.
func globalNorm(name string, ts []*Tensor) *Tensor {
	byType := map[DType][]*Tensor{}
	var types []DType
	for _, t := range ts {
		t.wantFloat(name)
		if byType[t.dtype] == nil {
			types = append(types, t.dtype)
		}
		byType[t.dtype] = append(byType[t.dtype], t)
	}
	if len(types) == 1 {
		return apply(op.GlobalNorm, nil, ts...)
	}
	var norms []*Tensor
	for _, d := range types {
		norms = append(norms, apply(op.GlobalNorm, nil, byType[d]...).Cast(Float32))
	}
	return apply(op.GlobalNorm, nil, norms...)
}
