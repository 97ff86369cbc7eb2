package locus

import (
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// TriangularMask makes a matrix of bools that is true on and below a diagonal:
// offset 0 is the main one, positive offsets lie above it. As the mask of an
// attention it is causal.
func (d Device) TriangularMask(rows, columns, offset int) *Tensor {
	fits(d.open("TriangularMask"), "TriangularMask", Bool, []int{rows, columns})
	offset = max(-rows, min(offset, columns)) // beyond these the mask does not change
	return d.Arange(float64(columns)).Le(d.Arange(float64(offset), float64(offset+rows)).Reshape(rows, 1))
}

// TriangularMask makes a triangular matrix of bools on the default device: see
// [Device.TriangularMask].
func TriangularMask(rows, columns, offset int) *Tensor {
	return DefaultDevice().TriangularMask(rows, columns, offset)
}

func (t *Tensor) triangle(name string, offset int) *Tensor {
	t.check(name)
	if len(t.shape) < 2 {
		failf(name, ErrShape, []*Tensor{t}, "needs at least two axes")
	}
	return t.beside(t.place.device.TriangularMask(t.Dim(-2), t.Dim(-1), offset))
}

// Tril returns the last two axes' matrices with zeros above a diagonal: offset 0
// is the main one, positive offsets lie above it.
func (t *Tensor) Tril(offset int) *Tensor { return t.triangle("Tril", offset).Where(t, 0) }

// Triu returns the last two axes' matrices with zeros below a diagonal.
func (t *Tensor) Triu(offset int) *Tensor {
	return t.triangle("Triu", max(offset, math.MinInt+1)-1).Where(0, t)
}

// Trace returns the sum of the diagonal of the last two axes.
func (t *Tensor) Trace() *Tensor {
	t.check("Trace")
	if len(t.shape) < 2 {
		failf("Trace", ErrShape, []*Tensor{t}, "needs at least two axes")
	}
	return t.Diagonal(0, -2, -1).Sum(-1)
}

// DiagEmbed makes the last axis the diagonal of matrices that are zero
// elsewhere: result (…, n, n), larger by |offset|. offset > 0 is above the main
// diagonal.
func (t *Tensor) DiagEmbed(offset int) *Tensor {
	t.check("DiagEmbed")
	r := len(t.shape)
	if r == 0 {
		failf("DiagEmbed", ErrShape, []*Tensor{t}, "a scalar has no axis to be a diagonal")
	}
	n := t.shape[r-1] + max(offset, -offset)
	shape := append(slices.Clone(t.shape[:r-1]), n, n)
	if err := op.CheckShape(shape); err != nil {
		fail("DiagEmbed", err, t)
	}
	return undiagonal(t, shape, op.Diagonal{A: r - 1, B: r, Offset: offset})
}

// Diag returns the diagonal of a matrix, or the matrix with a vector as diagonal.
func (t *Tensor) Diag(offset int) *Tensor {
	t.check("Diag")
	switch len(t.shape) {
	case 1:
		return t.DiagEmbed(offset)
	case 2:
		return t.Diagonal(offset, 0, 1)
	}
	failf("Diag", ErrShape, []*Tensor{t}, "needs a vector or a matrix")
	return nil
}

// Outer returns the matrix of the products of two vectors' elements.
func (t *Tensor) Outer(y *Tensor) *Tensor {
	in := []*Tensor{t, y}
	checkOperands("Outer", in)
	if len(t.shape) != 1 || len(y.shape) != 1 {
		failf("Outer", ErrShape, in, "needs two vectors")
	}
	return t.Unsqueeze(1).Mul(y)
}

// Kron returns the Kronecker product: t with each element replaced by its product
// with the whole of y. The smaller rank gets axes of size 1 in front.
func (t *Tensor) Kron(y *Tensor) *Tensor {
	in := []*Tensor{t, y}
	checkOperands("Kron", in)
	r := max(len(t.shape), len(y.shape))
	if 2*r > MaxRank {
		failf("Kron", ErrShape, in, "at most %d axes are supported", MaxRank/2)
	}
	lead := func(s []int) []int { return append(slices.Repeat([]int{1}, r-len(s)), s...) }
	a, b := lead(t.shape), lead(y.shape)
	var as, bs, out []int
	for i := range r {
		as, bs, out = append(as, a[i], 1), append(bs, 1, b[i]), append(out, a[i]*b[i])
	}
	return t.reshape(as).Mul(y.reshape(bs)).reshape(out).owned()
}

// Cross returns the cross product of vectors with three elements along an axis.
func (t *Tensor) Cross(y *Tensor, axis int) *Tensor {
	in := []*Tensor{t, y}
	checkOperands("Cross", in)
	shape, err := op.Broadcast(t.shape, y.shape)
	if err != nil {
		fail("Cross", err, in...)
	}
	a, err := op.ResolveAxis(axis, len(shape))
	if err != nil {
		fail("Cross", err, in...)
	}
	if shape[a] != 3 {
		failf("Cross", ErrShape, in, "axis %d has size %d; want 3", a, shape[a])
	}
	x, z := t.expand(shape), y.expand(slices.Clone(shape))
	return x.Roll(-1, a).Mul(z.Roll(1, a)).Sub(x.Roll(1, a).Mul(z.Roll(-1, a)))
}

// Lerp returns t + weight·(end - t): t for a weight of 0, end for 1. The weight is
// a tensor or a Go number.
func (t *Tensor) Lerp(end *Tensor, weight any) *Tensor { return t.Add(end.Sub(t).Mul(weight)) }
