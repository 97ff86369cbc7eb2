package cpu

// A sum before a normalization, or behind its gradient, is computed a row or a piece at a
// time, while that is in the caches. Results are rounded as the ops alone would round
// them.

// addUp makes x of pieces of a row, if it is a sum. x may lie where a summand does.
func (j *norm[S, T]) addUp(r, lo, hi int, b *[4][]T) {
	if j.a == nil {
		return
	}
	p, q := j.a, j.b
	if &q[0] == &j.x[0] {
		p, q = q, p
	}
	for i := lo; i < hi; i++ {
		off, n, _ := j.at(r, i)
		if j.io.load == nil {
			x := convert[T](j.x[off : off+n])
			copy(x, convert[T](p[off:off+n]))
			addTo(x, convert[T](q[off:off+n]))
			continue
		}
		x := j.get(b[0], p, off, n)
		addTo(x, j.get(b[1], q, off, n))
		j.io.store(j.x[off:off+n], x)
	}
}

// finish stores the gradient of a piece with what is added to it, which may lie where the
// result does. grad and buf are buffers.
func (j *norm[S, T]) finish(final, grad, buf []T, off int) {
	n := len(grad)
	if j.io.load == nil {
		addTo(grad, convert[T](j.added[off:off+n]))
		copy(final, grad)
		return
	}
	j.io.load(buf, j.added[off:off+n])
	j.io.store(j.out[off:off+n], grad)
	j.io.load(grad, j.out[off:off+n])
	addTo(grad, buf)
	j.io.store(j.out[off:off+n], grad)
}
