package gemm

import "unsafe"

// blocked packs A and B and runs the kernels on the packed panels. A span of k
// is packed at a time, as several blocks of the depth kc; then blocks of C are
// computed, each for the whole span, so that it stays in a core's L2 cache
// while the products of one depth after the other are added to it, a panel of
// B (kc×nr, in L1) at a time. That takes two loops over all threads for each
// span, and nobody waits in between.
func (p *problem[T]) blocked() {
	ks := p.ks
	nr, mr := ks.nr(), ks.mr
	depth := p.depth()
	passes := p.passes(depth)
	a := newPanels(p.a, mr, mr*depth+packSlack, min(p.rowsAtOnce(), p.m), passes)
	b := newPanels(p.b.transposed(), nr, nr*depth, min(ks.nc, p.n), passes)
	for jc := 0; jc < p.n; jc += ks.nc {
		for pc := 0; pc < p.k; pc += passes * depth {
			b.move(jc, min(ks.nc, p.n-jc), pc, min(passes*depth, p.k-pc), depth)
			for ic := 0; ic < p.m; ic += p.rowsAtOnce() {
				a.move(ic, min(p.rowsAtOnce(), p.m-ic), pc, b.k, depth)
				fresh := b.items()
				if ic > 0 {
					fresh = 0
				}
				p.loop(a.items()+fresh, max(1, 8192/(nr*depth)), func(lo, hi int) {
					a.pack(lo, min(hi, a.items()))
					b.pack(max(lo-a.items(), 0), hi-a.items())
				})
				p.tasks(&a, &b)
			}
		}
	}
	a.free()
	b.free()
}

// rowsAtOnce is how many rows of A are packed at a time: with one thread what
// stays in its L2 cache until it is used, else enough for all.
func (p *problem[T]) rowsAtOnce() int {
	if p.threads > 1 {
		return p.ks.nc
	}
	blocks := (p.m + p.ks.mc - 1) / p.ks.mc
	return ((p.m+blocks-1)/blocks + p.ks.mr - 1) / p.ks.mr * p.ks.mr
}

// passes is how many blocks of k are packed at a time.
func (p *problem[T]) passes(depth int) int {
	blocks := (p.k + depth - 1) / depth
	spans := (blocks + p.ks.span - 1) / p.ks.span
	return (blocks + spans - 1) / spans
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
			p.block(&s.t, a, b, i0, i1, j0, j1)
		}
		s.release()
	})
}

// block multiplies panels [i0, i1) of A with panels [j0, j1) of B.
func (p *problem[T]) block(t *tile, a, b *panels[T], i0, i1, j0, j1 int) {
	es := int(unsafe.Sizeof(T(0)))
	nr, mr := p.ks.nr(), p.ks.mr
	r0, r1 := a.first+i0*mr, min(a.first+i1*mr, a.first+a.lines)
	end := b.first + b.lines
	for d := range b.blocks() {
		pc := b.from + d*b.depth
		kc := min(b.depth, b.from+b.k-pc)
		p.begin(t, pc, kc)
		for q := j0; q < j1; q++ {
			j := b.first + q*nr
			p.column(t, a.at(d, i0), b.at(d, q), es, mr*es, a.step*es, nr*es, true, r0, r1, j, min(nr, end-j), pc, kc)
		}
	}
	if b.from+b.k == p.k {
		p.activate(r0, r1, b.first+j0*nr, min(b.first+j1*nr, end))
	}
}

// panels are lines of a matrix, packed for some blocks of k.
type panels[T Float] struct {
	source[T]
	width    int // lines of a panel
	step     int // elements from one panel to the next
	first    int // line
	lines    int
	from     int // column
	k, depth int // columns, and how many of them a block has
	buf      *[]T
	data     []T
}

// newPanels makes room for lines and blocks of k.
func newPanels[T Float](s source[T], width, step, lines, blocks int) panels[T] {
	x := panels[T]{source: s, width: width, step: step, buf: buffers[T]().Get().(*[]T)}
	x.data = grow(x.buf, (lines+width-1)/width*step*blocks+packSlack)
	return x
}

func (x *panels[T]) free() { buffers[T]().Put(x.buf) }

// move says which lines and columns are next.
func (x *panels[T]) move(first, lines, from, k, depth int) {
	x.first, x.lines, x.from, x.k, x.depth = first, lines, from, k, depth
}

func (x *panels[T]) count() int  { return (x.lines + x.width - 1) / x.width }
func (x *panels[T]) blocks() int { return (x.k + x.depth - 1) / x.depth }
func (x *panels[T]) items() int  { return x.count() * x.blocks() }

func (x *panels[T]) at(block, panel int) unsafe.Pointer {
	return unsafe.Pointer(&x.data[(block*x.count()+panel)*x.step])
}

// pack packs items lo to hi: panel after panel of one block after the other.
func (x *panels[T]) pack(lo, hi int) {
	for ; lo < hi; lo++ {
		block, panel := lo/x.count(), lo%x.count()
		pc, l := block*x.depth, panel*x.width
		pack(x.data[lo*x.step:], x.source, x.first+l, min(x.width, x.lines-l), x.from+pc, min(x.depth, x.k-pc), x.width)
	}
}
