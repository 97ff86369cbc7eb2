package backendtest

import (
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// matrix is rows of numbers.
type matrix [][]float64

func newMatrix(m, n int) matrix {
	a := make(matrix, m)
	for i := range a {
		a[i] = make([]float64, n)
	}
	return a
}

// matricesOf cuts an array into matrices of its last two axes.
func matricesOf(x *array) []matrix {
	r := len(x.shape)
	m, n := x.shape[r-2], x.shape[r-1]
	l := make([]matrix, op.Elements(x.shape[:r-2]))
	for b := range l {
		l[b] = newMatrix(m, n)
		for i := range m {
			copy(l[b][i], x.floats[(b*m+i)*n:])
		}
	}
	return l
}

func (a matrix) t() matrix {
	if len(a) == 0 {
		return nil
	}
	t := newMatrix(len(a[0]), len(a))
	for i := range a {
		for j := range a[i] {
			t[j][i] = a[i][j]
		}
	}
	return t
}

func (a matrix) symmetric() matrix {
	s, t := newMatrix(len(a), len(a)), a.t()
	for i := range a {
		for j := range a {
			s[i][j] = (a[i][j] + t[i][j]) / 2
		}
	}
	return s
}

// linalg computes the matrices of a batch one after the other. How large the largest
// element of a result is decides how near the others must come.
func linalg(id op.ID, attrs op.Attrs, e *expected, in []*array) {
	a := matricesOf(in[0])
	var b []matrix
	if len(in) > 1 {
		b = matricesOf(in[1])
	}
	if id == op.SlogDet {
		e.more = append(e.more, further(op.Spec{DType: e.dtype, Shape: e.shape}, 1))
	}
	e.scale = make([]float64, e.len())
	if len(a) == 0 {
		return
	}
	n := max(len(a[0]), in[0].shape[len(in[0].shape)-1])
	e.units = 16 * float64(4+n)
	each := e.len() / len(a)
	for i := range a {
		out := e.floats[i*each:][:each]
		put := func(rows ...[]float64) { copy(out, slices.Concat(rows...)) }
		switch id {
		case op.Cholesky:
			put(choleskyOf(a[i].symmetric())...)
		case op.Solve:
			x, _ := eliminated(a[i], b[i])
			put(x...)
		case op.SolveTriangular:
			put(substituted(a[i], b[i], attrs.(op.Triangle))...)
		case op.Det:
			_, out[0] = eliminated(a[i], nil)
		case op.SlogDet:
			_, det := eliminated(a[i], nil)
			out[0] = math.Log(math.Abs(det))
			e.more[0].floats[i] = math.Copysign(1, det)
		case op.Cofactor:
			put(cofactors(a[i])...)
		case op.QR:
			put(orthonormal(a[i].t()).t()...)
		case op.SVD:
			s, u, v := singular(a[i])
			put(append(append(matrix{s}, u...), v...)...)
		case op.Eigh:
			w, v := eigen(a[i].symmetric())
			put(append(matrix{w}, v...)...)
		}
		size := 0.0
		for _, x := range out {
			size = max(size, math.Abs(x))
		}
		for k := range each {
			e.scale[i*each+k] = size
		}
	}
}

func choleskyOf(a matrix) matrix {
	l := newMatrix(len(a), len(a))
	for i := range a {
		for j := range i + 1 {
			sum := a[i][j]
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			if i == j {
				l[i][i] = math.Sqrt(sum)
			} else {
				l[i][j] = sum / l[j][j]
			}
		}
	}
	return l
}

// eliminated returns the solution of a·x = b, and a's determinant.
func eliminated(a, b matrix) (x matrix, det float64) {
	n := len(a)
	rows := make(matrix, n)
	for i := range rows {
		rows[i] = slices.Clone(a[i])
		if b != nil {
			rows[i] = append(rows[i], b[i]...)
		}
	}
	det = 1
	for c := range n {
		best := c
		for i := c; i < n; i++ {
			if math.Abs(rows[i][c]) > math.Abs(rows[best][c]) {
				best = i
			}
		}
		if best != c {
			rows[best], rows[c] = rows[c], rows[best]
			det = -det
		}
		det *= rows[c][c]
		for i := range n {
			if i == c || b == nil && i < c {
				continue
			}
			f := rows[i][c] / rows[c][c]
			for j := c; j < len(rows[i]); j++ {
				rows[i][j] -= f * rows[c][j]
			}
		}
	}
	for i := range rows {
		for j := n; j < len(rows[i]); j++ {
			rows[i][j] /= rows[i][i]
		}
		x = append(x, rows[i][n:])
	}
	return x, det
}

func substituted(a, b matrix, t op.Triangle) matrix {
	x := make(matrix, len(a))
	for step := range a {
		i := step
		if t.Upper {
			i = len(a) - 1 - step
		}
		x[i] = slices.Clone(b[i])
		for q := range x[i] {
			for j := range a {
				if t.Upper && j > i || !t.Upper && j < i {
					x[i][q] -= a[i][j] * x[j][q]
				}
			}
			if !t.Unit {
				x[i][q] /= a[i][i]
			}
		}
	}
	return x
}

func cofactors(a matrix) matrix {
	n := len(a)
	c := newMatrix(n, n)
	for i := range n {
		for j := range n {
			var minor matrix
			for r := range n {
				if r != i {
					minor = append(minor, slices.Delete(slices.Clone(a[r]), j, j+1))
				}
			}
			_, det := eliminated(minor, nil)
			if (i+j)%2 == 1 {
				det = -det
			}
			c[i][j] = det
		}
	}
	return c
}

func inner(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// orthonormal makes the rows orthonormal: the ones before are projected out of each,
// twice, which makes up for rounding.
func orthonormal(rows matrix) matrix {
	var q matrix
	for _, r := range rows {
		r = slices.Clone(r)
		for range 2 {
			for _, p := range q {
				f := inner(p, r)
				for i := range r {
					r[i] -= f * p[i]
				}
			}
		}
		length := math.Sqrt(inner(r, r))
		for i := range r {
			r[i] /= length
		}
		q = append(q, r)
	}
	return q
}

// definite changes the signs of x, and of y with it, so that the first of x's largest
// components is positive.
func definite(x, y []float64) {
	largest := 0.0
	for _, v := range x {
		largest = max(largest, math.Abs(v))
	}
	for _, v := range x {
		if math.Abs(v) >= 0.999*largest {
			if v < 0 {
				for i := range x {
					x[i] = -x[i]
				}
				for i := range y {
					y[i] = -y[i]
				}
			}
			return
		}
	}
}

// singular rotates pairs of the columns of a until all are orthogonal: Jacobi's method.
func singular(a matrix) (s []float64, u, v matrix) {
	m := len(a)
	if m == 0 || len(a[0]) == 0 {
		return nil, nil, nil
	}
	if n := len(a[0]); m < n {
		s, v, u = singular(a.t())
		ut, vt := u.t(), v.t()
		for i := range ut {
			definite(ut[i], vt[i])
		}
		return s, ut.t(), vt.t()
	}
	cols := a.t()
	n := len(cols)
	turns := newMatrix(n, n)
	for i := range n {
		turns[i][i] = 1
	}
	for range 60 {
		off := 0.0
		for p := range n {
			for q := range p {
				x, y, z := inner(cols[p], cols[p]), inner(cols[q], cols[q]), inner(cols[p], cols[q])
				off = max(off, math.Abs(z)/math.Sqrt(x*y))
				rotate(x, y, z, cols[p], cols[q], turns[p], turns[q])
			}
		}
		if off < 1e-16 {
			break
		}
	}
	order := make([]int, n)
	lengths := make([]float64, n)
	for i := range n {
		order[i], lengths[i] = i, math.Sqrt(inner(cols[i], cols[i]))
	}
	slices.SortFunc(order, func(i, j int) int {
		if lengths[i] > lengths[j] {
			return -1
		}
		return 1
	})
	var ut, vt matrix
	for _, i := range order {
		for k := range cols[i] {
			cols[i][k] /= lengths[i]
		}
		definite(cols[i], turns[i])
		s, ut, vt = append(s, lengths[i]), append(ut, cols[i]), append(vt, turns[i])
	}
	return s, ut.t(), vt.t()
}

// rotate turns each pair of vectors by the angle that makes two vectors with squares x
// and y and inner product z orthogonal.
func rotate(x, y, z float64, pairs ...[]float64) {
	if z == 0 {
		return
	}
	zeta := (y - x) / (2 * z)
	t := math.Copysign(1, zeta) / (math.Abs(zeta) + math.Sqrt(1+zeta*zeta))
	c := 1 / math.Sqrt(1+t*t)
	s := c * t
	for i := 0; i < len(pairs); i += 2 {
		p, q := pairs[i], pairs[i+1]
		for k := range p {
			p[k], q[k] = c*p[k]-s*q[k], s*p[k]+c*q[k]
		}
	}
}

// eigen rotates a symmetric matrix until it is diagonal: Jacobi's method.
func eigen(a matrix) (w []float64, v matrix) {
	n := len(a)
	if n == 0 {
		return nil, nil
	}
	turns := newMatrix(n, n)
	for i := range n {
		turns[i][i] = 1
	}
	for range 60 {
		for p := range n {
			for q := range p {
				x, y, z := a[p][p], a[q][q], a[p][q]
				rotate(x, y, z, a[p], a[q], turns[p], turns[q])
				a = a.t()
				rotate(x, y, z, a[p], a[q])
				a = a.t()
			}
		}
	}
	order := make([]int, n)
	for i := range n {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		if a[i][i] < a[j][j] {
			return -1
		}
		return 1
	})
	var vt matrix
	for _, i := range order {
		definite(turns[i], nil)
		w, vt = append(w, a[i][i]), append(vt, turns[i])
	}
	return w, vt.t()
}

// fourier sums what the definition says.
func fourier(id op.ID, a op.Fourier, e *expected, x *array) {
	e.scale = make([]float64, e.len())
	if e.len() == 0 {
		return
	}
	r := len(x.shape)
	shape := x.shape // of the signal
	if id != op.RFFT {
		shape = x.shape[:r-1]
	}
	n := shape[a.Axis]
	sign := -1.0
	if a.Inverse || id == op.IRFFT {
		sign = 1
	}
	if id == op.IRFFT {
		n = a.N
	}
	e.units = 8 + 4*math.Log2(float64(n))
	outShape := e.shape
	if id != op.IRFFT {
		outShape = e.shape[:len(e.shape)-1]
	}
	from, to := alongAxis(shape, a.Axis), alongAxis(outShape, a.Axis)
	for i := range from {
		line := make([]complex128, n)
		size := 0.0
		for t := range from[i].n {
			at := from[i].at(t)
			v := complex(0, 0)
			if id == op.RFFT {
				v = complex(x.floats[at], 0)
			} else {
				v = complex(x.floats[2*at], x.floats[2*at+1])
			}
			line[t] = v
			if id == op.IRFFT {
				if t == 0 || 2*t == n {
					line[t] = complex(real(v), 0)
				} else {
					line[n-t] = complex(real(v), -imag(v))
				}
			}
		}
		for _, v := range line {
			size += real(v)*real(v) + imag(v)*imag(v)
		}
		size = math.Sqrt(size)
		for k := range to[i].n {
			sum := complex(0, 0)
			for t, v := range line {
				sin, cos := math.Sincos(2 * math.Pi * float64(k*t%n) / float64(n))
				sum += v * complex(cos, sign*sin)
			}
			at := to[i].at(k)
			if id == op.IRFFT {
				e.floats[at], e.scale[at] = real(sum), size
			} else {
				e.floats[2*at], e.floats[2*at+1] = real(sum), imag(sum)
				e.scale[2*at], e.scale[2*at+1] = size, size
			}
		}
	}
}
