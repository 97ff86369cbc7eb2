package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Linear algebra. The last two axes are matrices; axes before them are a batch. Float32
// and float64 only: cast half precision first. On the CPU, float32 is computed in float64
// and rounded once. A matrix that does not suit, such as a singular one, is an
// [ErrMatrix] that names its place in the batch; on a GPU the next wait reports it.

// Cholesky returns the lower triangular L with L·Lᵀ = t, for symmetric positive
// definite matrices. Only the symmetric part (t + tᵀ)/2 counts, and so the gradient is
// symmetric. A matrix that is not positive definite is an [ErrMatrix].
func (t *Tensor) Cholesky() *Tensor {
	t.check("Cholesky")
	return apply(op.Cholesky, nil, t)
}

// Solve returns the X with t·X = b, for t (…, n, n) and b (…, n, k) or a vector b of n
// elements. Batches broadcast. A singular matrix is an [ErrMatrix].
func (t *Tensor) Solve(b *Tensor) *Tensor {
	return t.system("Solve", b, func(a, b *Tensor) *Tensor { return apply(op.Solve, nil, a, b) })
}

// TriangularOptions are the options of [Tensor.SolveTriangular].
type TriangularOptions struct {
	Upper bool // the matrix is upper triangular; otherwise lower
	Unit  bool // its diagonal counts as ones, whatever it holds
}

// SolveTriangular returns the X with t·X = b for a triangular t, of which the other
// triangle is not read. Shapes are those of [Tensor.Solve]. With a zero on the diagonal
// the result has infinities or NaN.
func (t *Tensor) SolveTriangular(b *Tensor, o TriangularOptions) *Tensor {
	return t.system("SolveTriangular", b, func(a, b *Tensor) *Tensor { return triangular(a, b, o.Upper, o.Unit) })
}

func triangular(a, b *Tensor, upper, unit bool) *Tensor {
	return apply(op.SolveTriangular, op.Triangle{Upper: upper, Unit: unit}, a, b)
}

// system broadcasts the batches of t and b and solves.
func (t *Tensor) system(name string, b *Tensor, solve func(a, b *Tensor) *Tensor) *Tensor {
	in := []*Tensor{t, b}
	checkOperands(name, in)
	if len(t.shape) < 2 || len(b.shape) < 1 {
		failf(name, ErrShape, in, "want matrices (…, n, n), and b (…, n, k) or a vector (n)")
	}
	vector := len(b.shape) == 1
	a, x := t, b
	if vector {
		x = b.reshape([]int{b.shape[0], 1})
	}
	batchA, batchB := a.shape[:len(a.shape)-2], x.shape[:len(x.shape)-2]
	if !sameShape(batchA, batchB) {
		batch, err := op.Broadcast(batchA, batchB)
		if err != nil {
			fail(name, err, in...)
		}
		a = a.expand(append(slices.Clone(batch), a.shape[len(a.shape)-2:]...))
		x = x.expand(append(slices.Clone(batch), x.shape[len(x.shape)-2:]...))
	}
	defer naming(name, in)
	y := solve(a, x)
	if vector {
		return y.reshape(y.shape[:len(y.shape)-1]).owned()
	}
	return y
}

// Inverse returns the inverse matrices. To solve equations, [Tensor.Solve] is faster and
// more accurate. A singular matrix is an [ErrMatrix].
func (t *Tensor) Inverse() *Tensor {
	const name = "Inverse"
	t.check(name)
	n := t.squareMatrices(name)
	defer naming(name, []*Tensor{t})
	return apply(op.Solve, nil, t, t.identity(n).expand(t.shape))
}

// squareMatrices checks that t's matrices are square, and returns their size.
func (t *Tensor) squareMatrices(name string) int {
	r := len(t.shape)
	if r < 2 || t.shape[r-1] != t.shape[r-2] {
		failf(name, ErrShape, []*Tensor{t}, "shape %s is not one of square matrices (…, n, n)", op.ShapeString(t.shape))
	}
	return t.shape[r-1]
}

// identity returns the identity matrix of t's size, type and device, in its scope.
func (t *Tensor) identity(n int) *Tensor {
	return t.beside(t.place.device.As(t.dtype).Eye(n))
}

// Det returns the determinants of square matrices, with the shape of the batch. Its
// gradient is right for singular matrices too; a gradient of that gradient is an
// [ErrMatrix] for singular matrices from 3×3 on. For large matrices, whose determinants
// overflow, use [Tensor.SlogDet].
func (t *Tensor) Det() *Tensor {
	t.check("Det")
	return apply(op.Det, nil, t)
}

// SlogDet returns the signs of the determinants and the logarithms of their absolute
// values; of a singular matrix 0 and -Inf. The gradient flows through the logarithm,
// and is an [ErrMatrix] for singular matrices.
func (t *Tensor) SlogDet() (sign, logAbs *Tensor) {
	t.check("SlogDet")
	all := applyAll(op.SlogDet, nil, t)
	return all[1], all[0]
}

// QR returns t = Q·R, for matrices of m rows and n columns with k = min(m, n): Q (…, m, k)
// has orthonormal columns, R (…, k, n) is upper triangular and its diagonal is not
// negative. The gradient needs the first k columns to be linearly independent.
func (t *Tensor) QR() (q, r *Tensor) {
	const name = "QR"
	t.check(name)
	rank := len(t.shape)
	if rank < 2 {
		failf(name, ErrShape, []*Tensor{t}, "shape %s has no matrices: the last two axes must be rows and columns", op.ShapeString(t.shape))
	}
	tall := t
	if m := t.shape[rank-2]; m < t.shape[rank-1] {
		tall = t.Narrow(rank-1, 0, m) // the other columns change nothing in Q
	}
	defer naming(name, []*Tensor{t})
	q = apply(op.QR, nil, tall)
	return q, q.T().MatMul(t).Triu(0)
}

// SVD returns the singular value decomposition t = U·diag(S)·Vᵀ, for matrices of m rows
// and n columns with k = min(m, n): U (…, m, k), the singular values S (…, k) in
// descending order, and Vᵀ (…, k, n). In each column of U the first of the largest
// components is positive.
//
// Gradients through U and V need distinct singular values, which for a matrix that is not
// square must not be zero either: the part of a vector that belongs to two equal singular
// values passes no gradient. The gradient through S alone is always right as long as they
// differ from zero; see [Tensor.SVDVals].
func (t *Tensor) SVD() (u, s, vt *Tensor) {
	t.check("SVD")
	p := apply(op.SVD, nil, t)
	r := len(t.shape)
	m, n := t.shape[r-2], t.shape[r-1]
	s = p.Narrow(r-2, 0, 1).Squeeze(r - 2).Copy()
	u = p.Narrow(r-2, 1, 1+m).Copy()
	vt = p.Narrow(r-2, 1+m, 1+m+n).T().Copy()
	p.freeUnlessRecorded([]*Tensor{u, s, vt})
	return u, s, vt
}

// SVDVals returns the singular values in descending order: see [Tensor.SVD].
func (t *Tensor) SVDVals() *Tensor {
	t.check("SVDVals")
	return t.firstRow(apply(op.SVD, nil, t))
}

// firstRow returns the first row of p's matrices, and frees the rest where it can.
func (t *Tensor) firstRow(p *Tensor) *Tensor {
	r := len(t.shape)
	y := p.Narrow(r-2, 0, 1).Squeeze(r - 2).Copy()
	p.freeUnlessRecorded([]*Tensor{y})
	return y
}

// Eigh returns the eigenvalues of symmetric matrices (…, n, n) in ascending order, and
// the matrices whose columns are the eigenvectors. Only the symmetric part (t + tᵀ)/2
// counts. In each vector the first of the largest components is positive.
//
// The gradient through the vectors needs distinct eigenvalues: the part of a vector that
// belongs to two equal ones passes none. The gradient through the values is always right.
func (t *Tensor) Eigh() (values, vectors *Tensor) {
	t.check("Eigh")
	p := apply(op.Eigh, nil, t)
	r := len(t.shape)
	n := t.shape[r-1]
	values = p.Narrow(r-2, 0, 1).Squeeze(r - 2).Copy()
	vectors = p.Narrow(r-2, 1, 1+n).Copy()
	p.freeUnlessRecorded([]*Tensor{values, vectors})
	return values, vectors
}

// Eigvalsh returns the eigenvalues of symmetric matrices in ascending order: see
// [Tensor.Eigh].
func (t *Tensor) Eigvalsh() *Tensor {
	t.check("Eigvalsh")
	return t.firstRow(apply(op.Eigh, nil, t))
}

// LstSq returns the X that makes t·X come nearest to b, for t (…, m, n) of full rank and b
// (…, m, k) or a vector of m elements: with more rows than columns the least squares
// solution, with fewer the smallest of all solutions. Batches broadcast. It is computed by
// a [Tensor.QR] factorization; for a matrix of lower rank the numbers are large or
// infinite.
func (t *Tensor) LstSq(b *Tensor) *Tensor {
	const name = "LstSq"
	in := []*Tensor{t, b}
	checkOperands(name, in)
	r := len(t.shape)
	if r < 2 || len(b.shape) < 1 || len(b.shape) == 1 && b.shape[0] != t.shape[r-2] || len(b.shape) > 1 && b.shape[len(b.shape)-2] != t.shape[r-2] {
		failf(name, ErrShape, in, "want matrices (…, m, n), and b (…, m, k) or a vector (m)")
	}
	defer naming(name, in)
	x := b
	if len(b.shape) == 1 {
		x = b.reshape([]int{b.shape[0], 1})
	}
	if t.shape[r-2] >= t.shape[r-1] {
		q, tri := t.QR()
		x = tri.SolveTriangular(q.T().MatMul(x), TriangularOptions{Upper: true})
	} else {
		q, tri := t.T().QR()
		x = q.MatMul(tri.T().SolveTriangular(x, TriangularOptions{}))
	}
	if len(b.shape) == 1 {
		return x.reshape(x.shape[:len(x.shape)-1]).owned()
	}
	return x
}
