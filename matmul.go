package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// MatMul returns the matrix product of the last two axes; leading axes broadcast.
// A vector on the left counts as a row, on the right as a column, and that axis
// is not in the result.
func (t *Tensor) MatMul(y *Tensor) *Tensor {
	in := []*Tensor{t, y}
	checkOperands("MatMul", in)
	a, b := t, y
	if len(a.shape) == 0 || len(b.shape) == 0 {
		failf("MatMul", ErrShape, in, "a scalar has no matrix product; use Mul")
	}
	if len(a.shape) == 1 {
		a = a.reshape([]int{1, a.shape[0]})
	}
	if len(b.shape) == 1 {
		b = b.reshape([]int{b.shape[0], 1})
	}
	batchA, batchB := a.shape[:len(a.shape)-2], b.shape[:len(b.shape)-2]
	if !sameShape(batchA, batchB) {
		batch, err := op.Broadcast(batchA, batchB)
		if err != nil {
			fail("MatMul", err, in...)
		}
		a = a.expand(append(slices.Clone(batch), a.shape[len(a.shape)-2:]...))
		b = b.expand(append(slices.Clone(batch), b.shape[len(b.shape)-2:]...))
	}
	out := apply(op.MatMul, nil, a, b)
	if len(t.shape) > 1 && len(y.shape) > 1 {
		return out
	}
	to := slices.Clone(out.shape[:len(out.shape)-2])
	if len(t.shape) > 1 {
		to = append(to, out.shape[len(out.shape)-2])
	}
	if len(y.shape) > 1 {
		to = append(to, out.shape[len(out.shape)-1])
	}
	return out.reshape(to).owned()
}

// Dot returns the inner product of two vectors.
func (t *Tensor) Dot(y *Tensor) *Tensor {
	t.check("Dot")
	y.check("Dot")
	if len(t.shape) != 1 || len(y.shape) != 1 {
		failf("Dot", ErrShape, []*Tensor{t, y}, "needs two vectors")
	}
	return t.MatMul(y)
}
