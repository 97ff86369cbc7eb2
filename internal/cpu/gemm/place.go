package gemm

import "unsafe"

// placedPart is how many elements of C a thread may have for its operands to be read where
// they lie: then a panel is used so few times that packing it costs more than it saves, and
// most of the panels would be packed by other threads, and be in the caches of their cores.
const placedPart = 36 << 10

// placed reports which operands of a product on several threads are read where they lie. It has
// no influence on the results.
func (p *problem[T]) placed(k int) (a, b bool) {
	if p.threads == 1 || p.ks.packs || p.a.format != 0 || p.b.format != 0 || p.a.starts != nil || p.b.starts != nil {
		return false, false
	}
	mr, nr := p.ks.mr, p.ks.nr()
	rows, cols := (p.m+mr-1)/mr, (p.n+nr-1)/nr
	d := p.divide(rows, cols, k)
	if (rows+d.gr-1)/d.gr*mr*((cols+d.gc-1)/d.gc*nr) > placedPart {
		return false, false
	}
	return !aliased[T](p.a.row), p.b.col == 1 && !aliased[T](p.b.row)
}

// aliased reports whether elements so far apart share a few places of an L1 cache.
func aliased[T Float](stride int) bool {
	return stride > 0 && stride*int(unsafe.Sizeof(T(0)))%4096 == 0
}
