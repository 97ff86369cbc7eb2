package gemm

import "github.com/locusml/locus/internal/cpu/vec"

// runHalf is run for a C in the format of A.
func runHalf(ks *kernels[float32], m, n, k int, a, b source[float32], c []uint16, ldc int, ep *Epilogue[float32], threads int) {
	p := newProblem(ks, m, n, k, a, b, len(c), ldc, ep, threads)
	if p == nil {
		return
	}
	if p.ep.Beta != 0 {
		panic("gemm: Beta for a C in half precision")
	}
	p.out, p.ldo, p.format = c, ldc, a.format
	if p.k > 0 && !p.wide() && p.oneSpan() {
		p.blocked() // which sums each block apart
	} else {
		buf := buffers32.Get().(*[]float32)
		p.c, p.ldc = grow(buf, m*n), n
		p.compute()
		buffers32.Put(buf)
	}
	p.release()
}

// done finishes a part of C once its sums are computed.
func (p *problem[T]) done(i0, i1, j0, j1 int) {
	p.activate(i0, i1, j0, j1)
	if p.out == nil {
		return
	}
	for i := i0; i < i1; i++ {
		p.round(i, j0, p.c[i*p.ldc+j0:i*p.ldc+j1])
	}
}

// round stores a piece of row i of C, from column j on.
func (p *problem[T]) round(i, j int, sums []T) {
	to, from := p.out[i*p.ldo+j:][:len(sums)], any(sums).([]float32)
	vec.Narrow(p.format, to, from)
}

// roundedBlock is block for a C in half precision: the sums are in a buffer
// that stays in the cache.
func (p *problem[T]) roundedBlock(s *scratch[T], a, b *panels[T], i0, i1, j0, j1 int) {
	nr := p.ks.nr()
	row, col := a.first+i0*a.width, b.first+j0*nr
	rows, cols := min(i1*a.width, a.lines)-i0*a.width, min(j1*nr, b.lines)-j0*nr
	q := problems[T]().Get().(*problem[T])
	*q = *p
	q.ldc = (j1 - j0) * nr
	q.c = grow(&s.a, rows*q.ldc)
	if q.ep.Bias != nil {
		q.ep.Bias = q.ep.Bias[col:]
	}
	if q.ep.RowBias != nil {
		q.ep.RowBias = q.ep.RowBias[row:]
	}
	q.multiply(&s.t, a, b, i0, j0, j1, 0, rows, 0, cols)
	q.activate(0, rows, 0, cols)
	for i := range rows {
		p.round(row+i, col, q.c[i*q.ldc:][:cols])
	}
	q.release()
}
