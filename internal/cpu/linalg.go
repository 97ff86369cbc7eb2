package cpu

import (
	"fmt"
	"math"
	"sync"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/factor"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Linear algebra. Float32 is computed in float64 and rounded once. The matrices of a
// batch are divided among threads; each matrix is computed by one.

func init() {
	registerMatrix(op.Cholesky, func(c *matrixCall) error {
		n := c.rows[0]
		a := c.in[0]
		if i := factor.Cholesky(n, a); i > 0 {
			return c.problem("is not positive definite: its leading part of size %d is not", i).
				fix("add a small multiple of the identity, or use Solve, which takes any invertible matrix")
		}
		copy(c.out[0], a)
		return nil
	})
	registerMatrix(op.Solve, func(c *matrixCall) error {
		n := c.rows[0]
		if !factor.Finite(c.in[0]) {
			return c.infinite()
		}
		if !factor.Solve(n, c.columns[1], c.in[0], c.in[1]) {
			return c.problem("is singular").fix("add a small multiple of the identity, or use LstSq")
		}
		copy(c.out[0], c.in[1])
		return nil
	})
	registerMatrix(op.SolveTriangular, func(c *matrixCall) error {
		t := c.Attrs.(op.Triangle)
		factor.SolveTriangular(c.rows[0], c.columns[1], c.in[0], c.in[1], t.Upper, t.Unit)
		copy(c.out[0], c.in[1])
		return nil
	})
	registerMatrix(op.Det, func(c *matrixCall) error {
		c.out[0][0] = factor.Det(c.rows[0], c.in[0])
		return nil
	})
	registerMatrix(op.SlogDet, func(c *matrixCall) error {
		c.out[1][0], c.out[0][0] = factor.SlogDet(c.rows[0], c.in[0])
		return nil
	})
	registerMatrix(op.Cofactor, func(c *matrixCall) error {
		if !factor.Finite(c.in[0]) {
			for i := range c.out[0] {
				c.out[0][i] = math.NaN()
			}
			return nil
		}
		if !factor.Cofactor(c.rows[0], c.in[0]) {
			return c.endless()
		}
		copy(c.out[0], c.in[0])
		return nil
	})
	registerMatrix(op.QR, func(c *matrixCall) error {
		if !factor.Finite(c.in[0]) {
			return c.infinite()
		}
		factor.QR(c.rows[0], c.columns[0], c.in[0])
		copy(c.out[0], c.in[0])
		return nil
	})
	registerMatrix(op.SVD, func(c *matrixCall) error {
		if !factor.Finite(c.in[0]) {
			return c.infinite()
		}
		m, n := c.rows[0], c.columns[0]
		k := min(m, n)
		out := c.out[0]
		if !factor.SVD(m, n, c.in[0], out[k:k+m*k], out[:k], out[k+m*k:]) {
			return c.endless()
		}
		return nil
	})
	registerMatrix(op.Eigh, func(c *matrixCall) error {
		if !factor.Finite(c.in[0]) {
			return c.infinite()
		}
		n := c.rows[0]
		if !factor.Eigh(n, c.in[0], c.out[0][:n]) {
			return c.endless()
		}
		copy(c.out[0][n:], c.in[0])
		return nil
	})
}

// matrixCall is what an op gets of one matrix of a batch: operands, which it may
// overwrite, and results, row by row. Results have any contents.
type matrixCall struct {
	*backend.Call
	batch         []int // the batch's axes
	at            int   // the number in the batch
	rows, columns []int // of the operands
	in, out       [][]float64
}

func registerMatrix(id op.ID, f func(*matrixCall) error) {
	register(id, dtype.Float32, overMatrices[float32](f))
	register(id, dtype.Float64, overMatrices[float64](f))
}

func overMatrices[T float](f func(*matrixCall) error) kernel {
	return func(c *backend.Call) error {
		a := &c.In[0]
		lead := len(a.Shape) - 2
		batch := op.Elements(a.Shape[:lead])
		if batch == 0 || c.Out.Elements() == 0 {
			return nil
		}
		m, n := a.Shape[lead], a.Shape[lead+1]
		var failed struct {
			sync.Mutex
			at  int
			err error
		}
		pool.For(batch, max(1, grainExpensive/max(1, 4*m*n*min(m, n))), func(lo, hi int) {
			w := newMatrixCall(c, lead)
			for b := lo; b < hi; b++ {
				w.at = b
				for i := range c.In {
					load[T](w.in[i], &c.In[i], b)
				}
				if err := f(w); err != nil {
					failed.Lock()
					if failed.err == nil || b < failed.at { // the first of the batch, whoever is faster
						failed.at, failed.err = b, err
					}
					failed.Unlock()
					break
				}
				store[T](&c.Out, w.out[0], b)
				for i := range c.More {
					store[T](&c.More[i], w.out[1+i], b)
				}
			}
		})
		return failed.err
	}
}

func newMatrixCall(c *backend.Call, lead int) *matrixCall {
	w := &matrixCall{Call: c, batch: c.In[0].Shape[:lead]}
	for i := range c.In {
		s := c.In[i].Shape
		w.rows, w.columns = append(w.rows, s[lead]), append(w.columns, s[lead+1])
		w.in = append(w.in, make([]float64, s[lead]*s[lead+1]))
	}
	for _, v := range append([]backend.View{c.Out}, c.More...) {
		w.out = append(w.out, make([]float64, op.Elements(v.Shape[lead:])))
	}
	return w
}

// load reads matrix b of a batch.
func load[T float](to []float64, v *backend.View, b int) {
	if len(to) == 0 {
		return
	}
	r := len(v.Shape)
	at := v.Offset
	for i := r - 3; i >= 0; i-- {
		at += b % v.Shape[i] * v.Strides[i]
		b /= v.Shape[i]
	}
	src := whole[T](v)
	rows, columns := v.Strides[r-2], v.Strides[r-1]
	n := v.Shape[r-1]
	for i := range v.Shape[r-2] {
		for j := range n {
			to[i*n+j] = float64(src[at+i*rows+j*columns])
		}
	}
}

// store writes the part of a result that belongs to matrix b.
func store[T float](v *backend.View, from []float64, b int) {
	if len(from) == 0 {
		return
	}
	dst := elements[T](v, v.Elements())[b*len(from):]
	for i, x := range from {
		dst[i] = T(x)
	}
}

// matrixProblem is an error that names the matrix.
type matrixProblem struct{ op.Problem }

func (p *matrixProblem) fix(text string) error {
	p.Fix = text
	return &p.Problem
}

func (c *matrixCall) problem(format string, args ...any) *matrixProblem {
	p := op.Problemf(op.ErrMatrix, format, args...)
	p.Msg = c.name() + " " + p.Msg
	return &matrixProblem{*p}
}

// name says which matrix of the batch it is.
func (c *matrixCall) name() string {
	if len(c.batch) == 0 {
		return "the matrix"
	}
	if len(c.batch) == 1 {
		return fmt.Sprintf("matrix %d of the batch", c.at)
	}
	index := make([]int, len(c.batch))
	at := c.at
	for i := len(index) - 1; i >= 0; i-- {
		index[i] = at % c.batch[i]
		at /= c.batch[i]
	}
	return "matrix " + op.ShapeString(index) + " of the batch"
}

func (c *matrixCall) infinite() error {
	return c.problem("has elements that are NaN or infinite").fix("find where they come from: .IsFinite()")
}

func (c *matrixCall) endless() error {
	return c.problem("is such that the iteration does not converge").fix("scale it, or compute in float64: .Cast(locus.Float64)")
}
