package gemm

// A division of C's tiles, rows × cols of them, into tasks: first a rectangle
// for each thread, which then is divided further.
type division struct {
	rows, cols int
	gr, gc     int // rectangles
	tr, tc     int // tasks of a rectangle
}

// tasksPerThread is how many tasks a thread has: the more, the less is left to
// wait for at the end.
const tasksPerThread = 16

// flopsPerBlock is the least work of a task of a large product: some 10 µs.
const flopsPerBlock = 1_500_000

// divide picks a division for a span of k. It has no influence on the results.
func (p *problem[T]) divide(rows, cols, k int) division {
	d := division{rows: rows, cols: cols, gr: 1, gc: 1, tr: 1, tc: 1}
	mr, nr := p.ks.mr, p.ks.nr()
	if p.threads == 1 {
		d.tc = max(1, cols*nr/columnsAtOnce)
		return d
	}
	// What a thread reads is least if its rectangle is a square; its time is
	// that of the largest rectangle.
	least := 0
	for gr := 1; gr <= min(p.threads, rows); gr++ {
		gc := min(p.threads/gr, cols)
		h, w := (rows+gr-1)/gr*mr, (cols+gc-1)/gc*nr
		if cost := h*w + readCost*(h+w); least == 0 || cost < least {
			least, d.gr, d.gc = cost, gr, gc
		}
	}
	h, w := rows/d.gr, cols/d.gc
	tile := 2 * mr * nr * k
	n := min(tasksPerThread, h*w*tile/flopsPerBlock)
	for d.tr*d.tc < n {
		switch {
		case w/d.tc > 1 && (h/d.tr*mr <= w/d.tc*nr || h/d.tr <= 4):
			d.tc *= 2
		case h/d.tr > 1:
			d.tr *= 2
		default:
			return d
		}
	}
	return d
}

// columnsAtOnce is the width of C's blocks where there is one thread.
const columnsAtOnce = 256

// readCost is the time to read an element of A or B from the cache that cores
// share, in products.
const readCost = 40

func (d *division) tasks() int { return d.gr * d.gc * d.tr * d.tc }

// task returns the tiles of task q.
func (d *division) task(q int) (i0, i1, j0, j1 int) {
	per := d.tr * d.tc
	g, t := q/per, q%per
	i, n := g/d.gc*d.tr+t/d.tc, d.gr*d.tr
	j, m := g%d.gc*d.tc+t%d.tc, d.gc*d.tc
	return i * d.rows / n, (i + 1) * d.rows / n, j * d.cols / m, (j + 1) * d.cols / m
}
