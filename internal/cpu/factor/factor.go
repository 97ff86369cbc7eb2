// Package factor factors matrices of float64, row by row in memory, with gonum's LAPACK.
// What mathematics leaves open, such as the signs of eigenvectors, it makes definite:
// see package op.
package factor

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
)

var la gonum.Implementation

// Cholesky makes a, of which it reads the mean of both triangles, the lower triangular
// factor. If the matrix is not positive definite it returns the size of the smallest
// leading part that is not, else 0.
func Cholesky(n int, a []float64) int {
	Symmetrize(n, a)
	if !la.Dpotrf(blas.Lower, n, a, n) {
		return failedMinor(n, a)
	}
	for i := range n {
		clear(a[i*n+i+1 : (i+1)*n])
		if a[i*n+i] != a[i*n+i] { // comparisons with NaN are false: the library goes on
			return i + 1
		}
	}
	return 0
}

// failedMinor finds where a factorization has stopped: the library leaves the pivot
// that it could not take the root of.
func failedMinor(n int, a []float64) int {
	for i := range n {
		if d := a[i*n+i]; !(d > 0) {
			return i + 1
		}
	}
	return n
}

// Symmetrize makes a the mean of itself and its transpose.
func Symmetrize(n int, a []float64) {
	for i := range n {
		for j := range i {
			m := a[i*n+j]/2 + a[j*n+i]/2
			a[i*n+j], a[j*n+i] = m, m
		}
	}
}

// Solve replaces b, n rows of k, by the solution of a·x = b, and a by its factors. It
// reports false if a is singular.
func Solve(n, k int, a, b []float64) bool {
	pivots := make([]int, n)
	if !la.Dgetrf(n, n, a, n, pivots) {
		return false
	}
	la.Dgetrs(blas.NoTrans, n, k, a, n, pivots, b, max(k, 1))
	return true
}

// SolveTriangular replaces b by the solution of a·x = b for a triangular a. A zero on the
// diagonal divides as numbers do.
func SolveTriangular(n, k int, a, b []float64, upper, unit bool) {
	for step := range n {
		i := step
		if upper {
			i = n - 1 - step
		}
		row := b[i*k:][:k]
		from, to := 0, i
		if upper {
			from, to = i+1, n
		}
		for j := from; j < to; j++ {
			if c := a[i*n+j]; c != 0 {
				for q, x := range b[j*k:][:k] {
					row[q] -= c * x
				}
			}
		}
		if !unit {
			d := a[i*n+i]
			for q := range row {
				row[q] /= d
			}
		}
	}
}

// factors replaces a by its factors and returns the sign of the exchanges.
func factors(n int, a []float64) float64 {
	if n == 0 {
		return 1
	}
	pivots := make([]int, n)
	la.Dgetrf(n, n, a, n, pivots)
	sign := 1.0
	for i, p := range pivots {
		if p != i {
			sign = -sign
		}
	}
	return sign
}

// Det returns the determinant. a is overwritten.
func Det(n int, a []float64) float64 {
	if !Finite(a) {
		return math.NaN()
	}
	// The product of mantissas and exponents apart: it may overflow on the way only.
	m, e := factors(n, a), 0
	for i := range n {
		f, x := math.Frexp(a[i*n+i])
		m *= f
		e += x
		f, x = math.Frexp(m)
		m = f
		e += x
	}
	return math.Ldexp(m, e)
}

// SlogDet returns the determinant's sign and the logarithm of its absolute value. a is
// overwritten.
func SlogDet(n int, a []float64) (sign, log float64) {
	if !Finite(a) {
		return math.NaN(), math.NaN()
	}
	sign = factors(n, a)
	for i := range n {
		d := a[i*n+i]
		switch {
		case d == 0:
			return 0, math.Inf(-1)
		case d < 0:
			sign = -sign
		}
		log += math.Log(math.Abs(d))
	}
	return sign, log
}

// Cofactor replaces a by its matrix of cofactors: with A = U·S·Vᵀ it is U·C·Vᵀ times
// the determinants of U and V, where C has the products of all other singular values.
// That holds for singular matrices too.
func Cofactor(n int, a []float64) bool {
	u, s, v := make([]float64, n*n), make([]float64, n), make([]float64, n*n)
	if !SVD(n, n, a, u, s, v) {
		return false
	}
	sign := math.Copysign(1, Det(n, append([]float64(nil), u...))) * math.Copysign(1, Det(n, append([]float64(nil), v...)))
	c := make([]float64, n)
	before := 1.0
	for i := range n {
		c[i] = before
		before *= s[i]
	}
	behind := sign
	for i := n - 1; i >= 0; i-- {
		c[i] *= behind
		behind *= s[i]
	}
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n {
				sum += u[i*n+k] * c[k] * v[j*n+k]
			}
			a[i*n+j] = sum
		}
	}
	return true
}

// QR replaces a, m rows of n with m ≥ n, by the Q of its factorization, with which R's
// diagonal is not negative.
func QR(m, n int, a []float64) {
	tau := make([]float64, n)
	query := make([]float64, 1)
	la.Dgeqrf(m, n, a, n, tau, query, -1)
	size := int(query[0])
	la.Dorgqr(m, n, n, a, n, tau, query, -1)
	work := make([]float64, max(size, int(query[0]), n))
	la.Dgeqrf(m, n, a, n, tau, work, len(work))
	negative := make([]bool, n)
	for j := range n {
		negative[j] = a[j*n+j] < 0
	}
	la.Dorgqr(m, n, n, a, n, tau, work, len(work))
	for j := range n {
		if negative[j] {
			negate(a, j, n, m)
		}
	}
}

// negate changes the signs of column j, of so many rows that are width long.
func negate(a []float64, j, width, rows int) {
	for i := range rows {
		a[i*width+j] = -a[i*width+j]
	}
}

// same is how much smaller than the largest component one may be to count as large.
const same = 1 - 1e-3

// flip reports whether column j must be negated: whether the first of its largest
// components is negative.
func flip(a []float64, j, width, rows int) bool {
	largest := 0.0
	for i := range rows {
		largest = max(largest, math.Abs(a[i*width+j]))
	}
	for i := range rows {
		if x := a[i*width+j]; math.Abs(x) >= same*largest {
			return x < 0
		}
	}
	return false
}

// SVD computes a = u·diag(s)·vᵀ for a of m rows and n columns, with k = min(m, n): u has m
// rows and v n, both of k. a is overwritten. It reports false if the iteration does not end.
func SVD(m, n int, a, u, s, v []float64) bool {
	k := min(m, n)
	if k == 0 {
		return true
	}
	vt := make([]float64, k*n)
	query := make([]float64, 1)
	la.Dgesvd(lapack.SVDStore, lapack.SVDStore, m, n, a, n, s, u, k, vt, n, query, -1)
	work := make([]float64, int(query[0]))
	if !la.Dgesvd(lapack.SVDStore, lapack.SVDStore, m, n, a, n, s, u, k, vt, n, work, len(work)) {
		return false
	}
	for j := range k {
		sign := 1.0
		if flip(u, j, k, m) {
			negate(u, j, k, m)
			sign = -1
		}
		for i := range n {
			v[i*k+j] = sign * vt[j*n+i]
		}
	}
	return true
}

// Eigh replaces a by the eigenvectors of the mean of a and its transpose, and w by the
// eigenvalues in ascending order. It reports false if the iteration does not end.
func Eigh(n int, a, w []float64) bool {
	Symmetrize(n, a)
	query := make([]float64, 1)
	la.Dsyev(lapack.EVCompute, blas.Lower, n, a, n, w, query, -1)
	work := make([]float64, max(int(query[0]), 3*n))
	if !la.Dsyev(lapack.EVCompute, blas.Lower, n, a, n, w, work, len(work)) {
		return false
	}
	for j := range n {
		if flip(a, j, n, n) {
			negate(a, j, n, n)
		}
	}
	return true
}

// Finite reports whether all elements are finite.
func Finite(a []float64) bool {
	for _, x := range a {
		if x-x != 0 {
			return false
		}
	}
	return true
}
