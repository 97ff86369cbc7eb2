package gemm

import "unsafe"

// blocked packs A and B and runs the kernels on the packed panels. A span of k
// is taken at a time, as several blocks of the depth kc. Blocks of C are
// computed for the whole span, so that they stay in a core's L2 cache while the
// products of one depth after the other are added to them, a panel of B (kc×nr,
// in L1) at a time. Panels are packed by the first to need them, so that there
// is one loop over the threads for each span.
func (p *problem[T]) blocked() {
	ks := p.ks
	depth := p.depth()
	passes := p.passes(depth)
	rows := p.rowsAtOnce(passes)
	a, b := inPlace(p.a, ks.mr, depth), inPlace(p.b.transposed(), ks.nr(), depth)
	placeA, placeB := p.placed(passes * depth)
	switch {
	case placeA:
	case ks.liesInTiles(&p.a, p.m):
		a = inTiles(p.a, ks.mr, depth)
	default:
		a = newPanels(p.a, ks.mr, depth, packSlack, min(rows, p.m), passes, p.threads)
	}
	if !placeB {
		b = newPanels(p.b.transposed(), ks.nr(), depth, 0, min(ks.nc, p.n), passes, p.threads)
	}
	for jc := 0; jc < p.n; jc += ks.nc {
		for pc := 0; pc < p.k; pc += passes * depth {
			k := min(passes*depth, p.k-pc)
			b.move(jc, min(ks.nc, p.n-jc), pc, k)
			for ic := 0; ic < p.m; ic += rows {
				a.move(ic, min(rows, p.m-ic), pc, k)
				p.tasks(a, b)
			}
		}
	}
	a.free()
	b.free()
}

// passes is how many blocks of k make a span. One thread alone has nobody to
// wait for and takes one at a time, unless C is to be rounded.
func (p *problem[T]) passes(depth int) int {
	blocks := (p.k + depth - 1) / depth
	most := p.ks.span
	if p.threads == 1 && p.out == nil {
		most = 1
	}
	spans := (blocks + most - 1) / most
	return (blocks + spans - 1) / spans
}

// rowsAtOnce is how many rows of A are packed at a time: with one thread what
// stays in its L2 cache until it is used, else enough for all.
func (p *problem[T]) rowsAtOnce(passes int) int {
	if p.threads > 1 {
		return p.ks.nc
	}
	most := p.ks.mc
	if passes > 1 {
		most /= 2
	}
	blocks := (p.m + most - 1) / most
	return ((p.m+blocks-1)/blocks + p.ks.mr - 1) / p.ks.mr * p.ks.mr
}

// oneSpan reports whether all of k is packed at a time.
func (p *problem[T]) oneSpan() bool {
	depth := p.depth()
	return p.passes(depth)*depth >= p.k
}

// tasks multiplies packed panels of A and B. The tiles of C are divided into a
// rectangle for each thread, and that into tasks, the last of which others
// take that have finished their own.
func (p *problem[T]) tasks(a, b *panels[T]) {
	d := p.divide(a.count(), b.count(), b.k)
	p.loop(d.tasks(), 1, func(lo, hi int) {
		s := scratches[T]().Get().(*scratch[T])
		for q := lo; q < hi; q++ {
			i0, i1, j0, j1 := d.task(q)
			if i0 < i1 && j0 < j1 {
				// Those that need the same panels at the same time begin with different ones.
				a.need(i0, i1, float32(j0)/float32(d.cols))
				b.need(j0, j1, float32(i0)/float32(d.rows))
				p.block(s, a, b, i0, i1, j0, j1)
			}
		}
		s.release()
	})
}

// block multiplies panels [i0, i1) of A with panels [j0, j1) of B.
func (p *problem[T]) block(s *scratch[T], a, b *panels[T], i0, i1, j0, j1 int) {
	if p.c == nil {
		p.roundedBlock(s, a, b, i0, i1, j0, j1)
		return
	}
	r0, r1 := a.first+i0*a.width, a.first+min(i1*a.width, a.lines)
	c0, c1 := b.first+j0*b.width, b.first+min(j1*b.width, b.lines)
	p.multiply(&s.t, a, b, i0, j0, j1, r0, r1, c0, c1)
	if b.from+b.k == p.k {
		p.done(r0, r1, c0, c1)
	}
}

// multiply adds the products of panels from i0 on of A and [j0, j1) of B to
// rows [r0, r1) and columns [c0, c1) of C.
func (p *problem[T]) multiply(t *tile, a, b *panels[T], i0, j0, j1, r0, r1, c0, c1 int) {
	es := int(unsafe.Sizeof(T(0)))
	nr := p.ks.nr()
	packed := (a.packs() || a.pairs == pairLines) && b.packs()
	for d := range b.blocks() {
		pc := b.from + d*b.depth
		kc := min(b.depth, b.from+b.k-pc)
		p.begin(t, pc, kc)
		for q := j0; q < j1; q++ {
			j := c0 + (q-j0)*nr
			p.column(t, operands{a: a.at(d, i0), b: b.at(d, q), rowA: a.line * es, colA: a.next * es, stepA: a.step * es, rowB: b.next * es, packed: packed},
				r0, r1, j, min(nr, c1-j), pc, kc)
		}
	}
}
