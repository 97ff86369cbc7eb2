package gemm

import "unsafe"

// wide reports whether a block of A, as deep as a panel of B, fits L2 and the columns alone are work
// enough for the threads.
func (p *problem[T]) wide() bool {
	return p.m <= p.ks.mc && (p.threads == 1 || (p.n+p.ks.nr()-1)/p.ks.nr() >= 3*p.threads)
}

// placedPanels is the number of panels of B up to which A is read where it lies: packing it
// would cost more than it saves.
const placedPanels = 16

// wideBlocked is blocked for such products: since a panel of B meets only one
// block of A, the thread that packs it uses it at once, from its L1 cache.
func (p *problem[T]) wideBlocked() {
	ks := p.ks
	nr := ks.nr()
	tiles := (p.m + ks.mr - 1) / ks.mr
	height := ks.mr
	if rest := p.m % height; tiles > 1 && tiles <= 4 && rest > 0 && rest < lowTile {
		height = (p.m + tiles - 1) / tiles // about the same for all; their panels are as wide as others
	}
	bt := p.b.transposed()
	ap := buffers[T]().Get().(*[]T)
	depth := p.depth()
	stride := ks.mr*depth + packSlack // panels of A are packed by several threads
	panels := (p.n + nr - 1) / nr
	placed := panels <= placedPanels && p.a.format == 0 && p.b.starts == nil && !p.ks.packs && !aliased[T](p.a.row)
	var abuf []T
	line, next := p.a.distances(ks.mr)
	step := stride
	if placed {
		line, next, step = p.a.row, p.a.col, ks.mr*p.a.row
	} else {
		abuf = grow(ap, tiles*stride)
	}
	for pc := 0; pc < p.k; pc += depth {
		kc := min(depth, p.k-pc)
		if !placed {
			p.loop(tiles, max(1, 16384/(height*kc)), func(lo, hi int) {
				for q := lo; q < hi; q++ {
					pack(abuf[q*stride:][:stride], p.a, q*height, min(height, p.m-q*height), pc, kc, ks.mr)
				}
			})
		}
		grain := 1
		if work := 2 * p.m * nr * kc; work < flopsPerTask {
			grain = flopsPerTask/work + 1
		}
		p.loop(panels, grain, func(lo, hi int) {
			s := scratches[T]().Get().(*scratch[T])
			es := int(unsafe.Sizeof(T(0)))
			b := grow(&s.a, nr*kc+packSlack)
			p.begin(&s.t, pc, kc)
			a := unsafe.Pointer(unsafe.SliceData(abuf))
			if placed {
				a = unsafe.Pointer(&p.a.data[pc*p.a.col])
			}
			for q := lo; q < hi; q++ {
				j, w := q*nr, min(nr, p.n-q*nr)
				pack(b, bt, j, w, pc, kc, nr)
				if placed || height == ks.mr {
					p.column(&s.t, operands{a: a, b: unsafe.Pointer(&b[0]), rowA: line * es, colA: next * es, stepA: step * es, rowB: nr * es, packed: !placed},
						0, p.m, j, w, pc, kc)
					continue
				}
				for i := 0; i < p.m; i += height {
					p.column(&s.t, operands{a: unsafe.Add(a, i/height*stride*es), b: unsafe.Pointer(&b[0]), rowA: line * es, colA: next * es, rowB: nr * es, packed: true},
						i, min(i+height, p.m), j, w, pc, kc)
				}
			}
			if pc+kc == p.k {
				p.done(0, p.m, lo*nr, min(hi*nr, p.n))
			}
			s.release()
		})
	}
	buffers[T]().Put(ap)
}
