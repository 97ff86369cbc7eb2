package gemm

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// External multiplies row-major matrices in place of the kernels here:
// C = alpha·op(A)·op(B) + beta·C, where op transposes if ta or tb say so.
type External struct {
	F32 func(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int)
	F64 func(ta, tb bool, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int)
	// Divisible means that a product runs on the calling thread and may run
	// beside others, so that large ones are divided. Otherwise it gets each as
	// a whole.
	Divisible bool
	// Side and Work say from which size it is used: the least of m, n and k,
	// and their product. Zeros mean what is worth the call.
	Side, Work int
}

const (
	// externalSide keeps thin products here: they wait for memory, and have
	// paths of their own.
	externalSide = 16
	// externalWork is where libraries draw level (OpenBLAS 0.3.34 and MKL 2026.2
	// on AVX2): the call alone takes 1.5 µs.
	externalWork = 192 * 192 * 192
)

var external atomic.Pointer[External]

// Use lets x multiply float32 and float64 matrices from now on; nil returns to the
// kernels here. Elements are then summed in an order that may depend on the number of
// threads.
func Use(x *External) {
	if x != nil {
		c := *x
		if c.Side == 0 {
			c.Side = externalSide
		}
		if c.Work == 0 {
			c.Work = externalWork
		}
		x = &c
	}
	external.Store(x)
}

// takes reports whether x is to compute this product.
func (x *External) takes(m, n, k int) bool {
	return min(m, n, k) >= x.Side && m*n*k >= x.Work
}

// flat returns a rows×cols matrix as BLAS wants it: one stride is 1, the other
// leads over a whole line.
func flat[T Float](s *source[T], rows, cols int) (ld int, transposed, ok bool) {
	if s.format != 0 || s.starts != nil {
		return 0, false, false
	}
	switch {
	case s.col == 1 && s.row >= cols && s.row <= math.MaxInt32:
		return s.row, false, true
	case s.row == 1 && s.col >= rows && s.col <= math.MaxInt32:
		return s.col, true, true
	}
	return 0, false, false
}

// external computes the product with x, and reports false, having done nothing,
// if the matrices do not lie as x needs them.
func (p *problem[T]) external(x *External) bool {
	lda, ta, oka := flat(&p.a, p.m, p.k)
	ldb, tb, okb := flat(&p.b, p.k, p.n)
	if !oka || !okb || max(p.m, p.n, p.k, p.ldc) > math.MaxInt32 {
		return false
	}
	block := func(i0, i1, j0, j1 int) {
		a, b, c := p.a.data[i0*p.a.row:], p.b.data[j0*p.b.col:], p.c[i0*p.ldc+j0:]
		switch a := any(a).(type) {
		case []float32:
			x.F32(ta, tb, i1-i0, j1-j0, p.k, float32(p.ep.Alpha), a, lda, any(b).([]float32), ldb, float32(p.ep.Beta), any(c).([]float32), p.ldc)
		case []float64:
			x.F64(ta, tb, i1-i0, j1-j0, p.k, float64(p.ep.Alpha), a, lda, any(b).([]float64), ldb, float64(p.ep.Beta), any(c).([]float64), p.ldc)
		}
		p.finish(i0, i1, j0, j1)
	}
	g := grid{p.m, p.n}
	if x.Divisible {
		g = p.externalGrid(x.Work)
	}
	gi, gj := (p.m+g.rows-1)/g.rows, (p.n+g.cols-1)/g.cols
	p.loop(gi*gj, 1, func(lo, hi int) {
		for q := lo; q < hi; q++ {
			i, j := q/gj*g.rows, q%gj*g.cols
			block(i, min(i+g.rows, p.m), j, min(j+g.cols, p.n))
		}
	})
	return true
}

// externalGrid divides C into one block for each thread, as square as can be:
// a block's rows of A and columns of B are packed for it alone. A block is
// worth the call too.
func (p *problem[T]) externalGrid(work int) grid {
	threads := min(p.threads, max(1, p.m*p.n*p.k/work))
	best, least := grid{p.m, p.n}, math.MaxInt
	for gi := 1; gi <= threads; gi++ {
		if threads%gi != 0 {
			continue
		}
		g := grid{even(p.m, gi), even(p.n, threads/gi)}
		if sum := g.rows + g.cols; sum < least {
			best, least = g, sum
		}
	}
	return best
}

// even is the length of n's parts, a multiple of what kernels take at once.
func even(n, parts int) int { return min(n, ((n+parts-1)/parts+15)&^15) }

// finish adds biases and applies the activation.
func (p *problem[T]) finish(i0, i1, j0, j1 int) {
	if p.ep.Bias == nil && p.ep.RowBias == nil && p.ep.Act == op.Invalid {
		return
	}
	for i := i0; i < i1; i++ {
		row := p.c[i*p.ldc+j0 : i*p.ldc+j1]
		if p.ep.Bias != nil {
			addRow(row, p.ep.Bias[j0:j1])
		}
		if p.ep.RowBias != nil {
			v := p.ep.RowBias[i]
			for j := range row {
				row[j] += v
			}
		}
		if p.ep.Act == op.Relu {
			for j, v := range row {
				if v < 0 {
					row[j] = 0
				}
			}
		}
	}
	p.activate(i0, i1, j0, j1)
}

func addRow[T Float](dst, x []T) {
	if unsafe.Sizeof(T(0)) == 4 {
		d := any(dst).([]float32)
		vec.AddF32(d, d, any(x).([]float32))
		return
	}
	d := any(dst).([]float64)
	vec.AddF64(d, d, any(x).([]float64))
}
