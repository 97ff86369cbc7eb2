package gemm

import (
	"fmt"
	"unsafe"
)

// Prepared is a k×n matrix laid out as the right operand of several products,
// each on the calling goroutine. The zero value is ready for Set.
type Prepared[T Float] struct {
	ks   *kernels[T]
	k, n int
	buf  *[]T
}

// Set makes p the matrix b. Free releases its memory.
func (p *Prepared[T]) Set(k, n int, b Mat[T]) { p.set(kernelsOf[T](), k, n, b) }

func (p *Prepared[T]) set(ks *kernels[T], k, n int, b Mat[T]) {
	src := nativeSource(b)
	if k > 0 && n > 0 {
		src.check("B", k, n)
	}
	p.ks, p.k, p.n = ks, k, n
	if p.buf == nil {
		p.buf = buffers[T]().Get().(*[]T)
	}
	nr := ks.nr()
	pack(grow(p.buf, (n+nr-1)/nr*nr*k+packSlack), src.transposed(), 0, n, 0, k, nr)
}

// Free ends the use of p, until it is Set again.
func (p *Prepared[T]) Free() {
	if p.buf != nil {
		buffers[T]().Put(p.buf)
		p.buf = nil
	}
}

// Times computes C = alpha·A·B, or adds it to C, for the first k rows and n
// columns of B, and an A of m rows.
func (p *Prepared[T]) Times(m, n, k int, a Mat[T], c []T, ldc int, alpha T, add bool) {
	switch {
	case n > p.n || k > p.k:
		panic(fmt.Sprintf("gemm: %d×%d of a matrix of %d×%d", k, n, p.k, p.n))
	case m == 0 || n == 0:
		return
	case m > 1 && ldc < n || len(c) < (m-1)*ldc+n:
		panic(fmt.Sprintf("gemm: C of %d elements with row stride %d cannot hold %d×%d", len(c), ldc, m, n))
	}
	q := problems[T]().Get().(*problem[T])
	*q = problem[T]{ks: p.ks, m: m, n: n, k: k, a: nativeSource(a), c: c, ldc: ldc, ep: Epilogue[T]{Alpha: alpha}, threads: 1}
	if add {
		q.ep.Beta = 1
	}
	if k == 0 {
		q.empty()
	} else {
		q.a.check("A", m, k)
		q.prepared(p)
	}
	q.release()
}

// preparedDepth is how much of k one pass takes: a panel of B stays in L1.
const preparedDepth = 512

func (q *problem[T]) prepared(p *Prepared[T]) {
	ks, es := q.ks, int(unsafe.Sizeof(T(0)))
	nr := ks.nr()
	s := scratches[T]().Get().(*scratch[T])
	for pc := 0; pc < q.k; pc += preparedDepth {
		kc := min(preparedDepth, q.k-pc)
		o := operands{a: unsafe.Pointer(&q.a.data[pc*q.a.col]), rowA: q.a.row * es, colA: q.a.col * es, stepA: ks.mr * q.a.row * es, rowB: nr * es, packed: ks.packs}
		if ks.packs {
			to := grow(&s.a, (q.m+ks.mr-1)/ks.mr*ks.mr*kc+packSlack)
			pack(to, q.a, 0, q.m, pc, kc, ks.mr)
			o.a = unsafe.Pointer(&to[0])
			o.rowA, o.colA, o.stepA = es, ks.mr*es, ks.mr*kc*es
		}
		q.begin(&s.t, pc, kc)
		for j := 0; j < q.n; j += nr {
			o.b = unsafe.Pointer(&(*p.buf)[:cap(*p.buf)][j*p.k+pc*nr])
			q.column(&s.t, o, 0, q.m, j, min(nr, q.n-j), pc, kc)
		}
	}
	s.release()
}
