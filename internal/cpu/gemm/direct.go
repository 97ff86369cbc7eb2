package gemm

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
)

// small reports whether packing would cost more than it saves. The kernels
// read A through broadcasts, which take any strides, but B by vectors.
func (p *problem[T]) small() bool {
	return p.a.format == 0 && p.b.format == 0 && (p.b.col == 1 || p.n == 1) &&
		(p.m <= p.ks.mr || p.m*p.n*p.k <= smallProduct) && (!p.ks.packs || p.m == 1)
}

// smallProduct is the size m·n·k up to which A is not packed.
const smallProduct = 160 * 160 * 160

// directK is the depth of one pass of the direct path. It keeps the panel of B
// in use in the caches, and sums short. A flat B is walked in flat slices instead, a few rows at a time
// over all columns, which is the order the prefetchers follow.
func (p *problem[T]) directK() int {
	if p.slice || p.flat() {
		return 32
	}
	return 512
}

// direct runs the kernels on A and B where they lie.
func (p *problem[T]) direct() {
	g := p.grid()
	if g.rows >= p.m && g.cols >= p.n { // one task: no closure, no allocation
		s := scratches[T]().Get().(*scratch[T])
		p.directBlock(s, 0, p.m, 0, p.n)
		s.release()
		return
	}
	p.each(g, p.directBlock)
}

func (p *problem[T]) directBlock(s *scratch[T], i0, i1, j0, j1 int) {
	es := int(unsafe.Sizeof(T(0)))
	nr := p.ks.nr()
	depth := p.directK()
	for pc := 0; pc < p.k; pc += depth {
		kc := min(depth, p.k-pc)
		p.begin(&s.t, pc, kc)
		a := unsafe.Pointer(&p.a.data[i0*p.a.row+pc*p.a.col])
		for j := j0; j < j1; j += nr {
			b := unsafe.Pointer(&p.b.data[pc*p.b.row+j*p.b.col])
			p.column(&s.t, operands{a: a, b: b, rowA: p.a.row * es, colA: p.a.col * es, stepA: p.ks.mr * p.a.row * es, rowB: p.b.row * es},
				i0, i1, j, min(nr, j1-j), pc, kc)
		}
	}
	p.activate(i0, i1, j0, j1)
}

// smallAlongK reports whether a product is small but B lies along k, so that
// vectors of it cannot be read in place.
func (p *problem[T]) smallAlongK() bool {
	return p.a.format == 0 && p.b.format == 0 && p.b.row == 1 && p.m*p.n*p.k <= smallProduct && p.k <= 512 && !p.ks.packs
}

// halfDirect packs panels of B where they are used and reads A where it lies.
func (p *problem[T]) halfDirect() {
	p.each(p.panelGrid(), func(s *scratch[T], i0, i1, j0, j1 int) {
		es := int(unsafe.Sizeof(T(0)))
		nr := p.ks.nr()
		b := grow(&s.a, nr*p.k+packSlack)
		bt := p.b.transposed()
		p.begin(&s.t, 0, p.k)
		a := unsafe.Pointer(&p.a.data[i0*p.a.row])
		for j := j0; j < j1; j += nr {
			w := min(nr, j1-j)
			pack(b, bt, j, w, 0, p.k, nr)
			p.column(&s.t, operands{a: a, b: unsafe.Pointer(&b[0]), rowA: p.a.row * es, colA: p.a.col * es, stepA: p.ks.mr * p.a.row * es, rowB: nr * es},
				i0, i1, j, w, 0, p.k)
		}
		p.activate(i0, i1, j0, j1)
	})
}

// panelGrid is grid for halfDirect: panels of B are divided first, since each row of
// blocks packs them again.
func (p *problem[T]) panelGrid() grid {
	mr, nr := p.ks.mr, p.ks.nr()
	tasks := min(3*p.threads, 2*p.m*p.n*p.k/flopsPerTask)
	if tasks <= 1 || p.threads == 1 {
		return grid{p.m, p.n}
	}
	ti, tj := (p.m+mr-1)/mr, (p.n+nr-1)/nr
	gj := min(tj, tasks)
	gi := min((ti+3)/4, tasks/gj)
	return grid{(ti + gi - 1) / gi * mr, (tj + gj - 1) / gj * nr}
}

// A grid divides C into blocks of rows × columns elements.
type grid struct{ rows, cols int }

// flopsPerTask is the least work worth handing to another thread: some 2 µs.
const flopsPerTask = 200_000

// thinPerTask is the same for products that wait for memory.
const thinPerTask = 50_000

// grid picks blocks of whole tiles: about three per thread where the product
// is large enough to pay for handing them out. The division has no influence
// on the results.
func (p *problem[T]) grid() grid {
	mr, nr := p.ks.mr, p.ks.nr()
	tasks := min(3*p.threads, 2*p.m*p.n*p.k/flopsPerTask)
	ti, tj := (p.m+mr-1)/mr, (p.n+nr-1)/nr
	if tasks <= 1 || p.threads == 1 {
		return grid{p.m, p.n}
	}
	gi := min(ti, tasks)
	gj := min(tj, (tasks+gi-1)/gi)
	return grid{(ti + gi - 1) / gi * mr, (tj + gj - 1) / gj * nr}
}

// each calls f for the blocks of a grid over C, in parallel.
func (p *problem[T]) each(g grid, f func(s *scratch[T], i0, i1, j0, j1 int)) {
	gi, gj := (p.m+g.rows-1)/g.rows, (p.n+g.cols-1)/g.cols
	p.loop(gi*gj, 1, func(lo, hi int) {
		s := scratches[T]().Get().(*scratch[T])
		for q := lo; q < hi; q++ {
			i, j := q/gj*g.rows, q%gj*g.cols
			f(s, i, min(i+g.rows, p.m), j, min(j+g.cols, p.n))
		}
		s.release()
	})
}

// loop is pool.For, or a plain loop for a product that must stay on one thread
// because its caller runs many side by side.
func (p *problem[T]) loop(n, grain int, f func(lo, hi int)) {
	if p.threads > 1 {
		pool.For(n, grain, f)
		return
	}
	f(0, n)
}
