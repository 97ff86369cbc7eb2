package gemm

import "unsafe"

// flat reports whether B comes from memory and is used only once.
func (p *problem[T]) flat() bool {
	return p.m <= p.ks.mr && p.n*p.k*int(unsafe.Sizeof(T(0))) > 1<<20
}

// slices picks the parts into which a flat product is divided along k, and how
// much of k each has. As results depend on it, it depends on the shape alone.
// They are few, since their sums travel from one core to another.
func (p *problem[T]) slices() (parts, depth int) {
	parts = min(4, p.n*p.k*int(unsafe.Sizeof(T(0)))>>18, p.k/(4*p.m))
	if parts < 2 {
		return 1, p.k
	}
	depth = ((p.k+parts-1)/parts + 31) &^ 31
	return (p.k + depth - 1) / depth, depth
}

// sliceColumns is the least number of columns of a slice worth a task: what is
// read of a row of B at a time.
const sliceColumns = 256

// pieces divides the columns for the threads that parts along k leave over. All
// pieces are wide enough for the kernels that a whole row takes.
func (p *problem[T]) pieces(parts int) (pieces, cols int) {
	nr := p.ks.nr()
	for pieces = max(1, min((p.threads+parts-1)/parts, p.n/sliceColumns)); ; pieces-- {
		cols = ((p.n+pieces-1)/pieces + nr - 1) / nr * nr
		if pieces == 1 || p.n-(pieces-1)*cols >= sliceColumns/2 {
			return pieces, cols
		}
	}
}

// sliced computes a flat product from parts along k, and of these some columns
// at a time where there are more threads: so each thread reads its part of B in
// about the order in which it lies in memory, the same part each time. The sums
// of the parts are added in their order.
func (p *problem[T]) sliced() {
	parts, depth := p.slices()
	size := p.m * p.n
	buf := buffers[T]().Get().(*[]T)
	sums := grow(buf, parts*size)
	pieces, cols := p.pieces(parts)
	p.loop(parts*pieces, 1, func(lo, hi int) {
		q := problems[T]().Get().(*problem[T])
		for t := lo; t < hi; t++ {
			i, j := t/pieces, t%pieces*cols
			k := i * depth
			*q = problem[T]{ks: p.ks, m: p.m, n: min(cols, p.n-j), k: min(depth, p.k-k), a: p.a.from(k * p.a.col), b: p.b.from(k*p.b.row + j),
				c: sums[i*size+j : (i+1)*size], ldc: p.n, ep: Epilogue[T]{Alpha: 1}, threads: 1, slice: true}
			if q.single() {
				q.row()
			} else {
				q.direct()
			}
		}
		q.release()
	})
	p.loop(size, 512, func(lo, hi int) {
		for i := 1; i < parts; i++ {
			axpy(sums[lo:hi], 1, sums[i*size+lo:i*size+hi])
		}
		for lo < hi {
			i, j := lo/p.n, lo%p.n
			n := min(hi-lo, p.n-j)
			p.putRow(i, j, sums[lo:lo+n])
			lo += n
		}
	})
	p.activate(0, p.m, 0, p.n)
	buffers[T]().Put(buf)
}
