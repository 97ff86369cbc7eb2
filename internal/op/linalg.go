package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Triangle is the attribute of SolveTriangular.
type Triangle struct {
	Upper bool // the matrix is upper triangular; otherwise lower
	Unit  bool // its diagonal counts as ones
}

// Matrices are the last two axes; axes before them are a batch. Float32 and float64
// only, as in the libraries that compute them.
//
// Results that mathematics leaves open are made definite, so that every device returns
// the same: R's diagonal is not negative, and in each eigenvector and each column of U
// the first of the largest components is positive. Components count as equally large
// if they differ by less than one part in a thousand, so that rounding does not decide.
func init() {
	f := []dtype.Set{Wide}
	define(Def{ID: Cholesky, Name: "cholesky", Family: LinalgFamily, Arity: 1, DTypes: f,
		Doc:   "the lower triangular L with L·Lᵀ = (A + Aᵀ)/2; fails unless that is positive definite",
		Infer: func(_ Attrs, in []Spec) (Spec, error) { return in[0], square(in[0]) }})
	define(Def{ID: Solve, Name: "solve", Family: LinalgFamily, Arity: 2, DTypes: f,
		Doc:   "the X with A·X = B, for A (…, n, n) and B (…, n, k) of the same batch; fails if A is singular",
		Infer: func(_ Attrs, in []Spec) (Spec, error) { return in[1], checkSystem(in) }})
	define(Def{ID: SolveTriangular, Name: "solve_triangular", Attrs: Triangle{}, Family: LinalgFamily, Arity: 2, DTypes: f,
		Doc: "the X with A·X = B for a triangular A, of which the other triangle is not read; a zero on the diagonal divides",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if _, ok := a.(Triangle); !ok {
				return Spec{}, attrError("solve_triangular", a)
			}
			return in[1], checkSystem(in)
		}})
	define(Def{ID: Det, Name: "det", Family: LinalgFamily, Arity: 1, DTypes: f,
		Doc:   "the determinant; 1 of an empty matrix",
		Infer: inferDet})
	define(Def{ID: Cofactor, Name: "cofactor", Family: LinalgFamily, Arity: 1, DTypes: f,
		Doc:   "the matrix of cofactors, which is det's gradient: det(A)·A⁻ᵀ, for singular matrices too",
		Infer: func(_ Attrs, in []Spec) (Spec, error) { return in[0], square(in[0]) }})
	define(Def{ID: SlogDet, Name: "slogdet", Family: LinalgFamily, Arity: 1, DTypes: f,
		Doc:   "the logarithm of the determinant's absolute value, and as a second result its sign; -Inf and 0 of singular matrices",
		Infer: inferDet,
		More: func(_ Attrs, in []Spec) []Spec {
			return []Spec{{in[0].DType, in[0].Shape[:len(in[0].Shape)-2]}}
		}})
	define(Def{ID: QR, Name: "qr", Family: LinalgFamily, Arity: 1, DTypes: f,
		Doc: "the Q of A = Q·R for A (…, m, n) with m ≥ n: (…, m, n) with orthonormal columns; R is QᵀA, whose diagonal is not negative",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			m, n, err := matrix(in[0])
			if err == nil && m < n {
				err = Problemf(ErrShape, "shape %s has more columns than rows", ShapeString(in[0].Shape))
			}
			return in[0], err
		}})
	define(Def{ID: SVD, Name: "svd", Family: LinalgFamily, Arity: 1, DTypes: f,
		Doc: "A = U·diag(S)·Vᵀ of A (…, m, n), with k = min(m, n), as one (…, 1+m+n, k): the singular values in descending order, then U, then V",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			m, n, err := matrix(in[0])
			if err != nil {
				return Spec{}, err
			}
			s := batchOf(in[0], 1+m+n, min(m, n))
			return s, CheckShape(s.Shape)
		}})
	define(Def{ID: Eigh, Name: "eigh", Family: LinalgFamily, Arity: 1, DTypes: f,
		Doc: "the eigenvalues, in ascending order, and eigenvectors of (A + Aᵀ)/2, as one (…, 1+n, n): the values, then the matrix whose columns are the vectors",
		Infer: func(_ Attrs, in []Spec) (Spec, error) {
			if err := square(in[0]); err != nil {
				return Spec{}, err
			}
			n := in[0].Shape[len(in[0].Shape)-1]
			s := batchOf(in[0], 1+n, n)
			return s, CheckShape(s.Shape)
		}})
}

// Wide are the types of ops that are not computed in half precision.
const Wide dtype.Set = 1<<dtype.Float32 | 1<<dtype.Float64

func inferDet(_ Attrs, in []Spec) (Spec, error) {
	if err := square(in[0]); err != nil {
		return Spec{}, err
	}
	return Spec{in[0].DType, in[0].Shape[:len(in[0].Shape)-2]}, nil
}

// batchOf returns s with matrices of another size.
func batchOf(s Spec, rows, columns int) Spec {
	r := len(s.Shape)
	return Spec{s.DType, append(slices.Clone(s.Shape[:r-2]), rows, columns)}
}

// matrix returns the size of s's matrices.
func matrix(s Spec) (rows, columns int, err error) {
	r := len(s.Shape)
	if r < 2 {
		return 0, 0, &Problem{Kind: ErrShape, Msg: "shape " + ShapeString(s.Shape) + " has no matrices: the last two axes must be rows and columns",
			Fix: "give it the missing axes: .Reshape, or .Unsqueeze"}
	}
	return s.Shape[r-2], s.Shape[r-1], nil
}

func square(s Spec) error {
	m, n, err := matrix(s)
	if err == nil && m != n {
		err = Problemf(ErrShape, "shape %s is of matrices with %d rows and %d columns; want square ones", ShapeString(s.Shape), m, n)
	}
	return err
}

// checkSystem checks a system of linear equations.
func checkSystem(in []Spec) error {
	if err := square(in[0]); err != nil {
		return err
	}
	if err := sameDType(in, 0); err != nil {
		return err
	}
	a, b := in[0].Shape, in[1].Shape
	r := len(a)
	if len(b) != r || !slices.Equal(a[:r-1], b[:r-1]) {
		return Problemf(ErrShape, "a %s and b %s do not fit: want (…, n, n) and (…, n, k)", ShapeString(a), ShapeString(b))
	}
	return nil
}
