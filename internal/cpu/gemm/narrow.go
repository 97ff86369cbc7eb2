package gemm

// narrow reports whether the product has few columns and an A that lies along
// them: its transpose has few rows and a row-major B, which kernels read in
// place.
func (p *problem[T]) narrow() bool {
	return p.a.format == 0 && p.b.format == 0 && p.a.row == 1 && p.n <= 2*p.ks.mr && p.m >= 4*p.n && p.m*p.k >= 1<<14 && !p.ks.packs
}

// turned computes Cᵀ = Bᵀ·Aᵀ beside C and stores it from there.
func (p *problem[T]) turned() {
	buf := buffers[T]().Get().(*[]T)
	sums := grow(buf, p.m*p.n)
	q := problems[T]().Get().(*problem[T])
	*q = problem[T]{ks: p.ks, m: p.n, n: p.m, k: p.k, a: p.b.transposed(), b: p.a.transposed(), c: sums, ldc: p.m, ep: Epilogue[T]{Alpha: 1}, threads: p.threads}
	q.compute()
	q.release()
	p.loop(p.m, max(64, (1<<14)/p.n), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j := range p.n {
				p.put(i, j, sums[j*p.m+i])
			}
		}
		p.activate(lo, hi, 0, p.n)
	})
	buffers[T]().Put(buf)
}
