package gemm

import "github.com/locusml/locus/internal/op"

import "unsafe"

// dots is the argument of a dot kernel. The assembly knows the offsets;
// TestTileLayout guards them.
type dots struct {
	x, y       unsafe.Pointer
	rowX, rowY int // bytes
	k          int
	out        [96]byte // 3×4 elements
}

// thin reports whether the product is one of few rows (or columns) whose
// operands both lie along k, as in a linear layer at a small batch size: then
// dot products read each matrix once, where packing would copy the large one.
// A small matrix that lies otherwise is copied first.
func (p *problem[T]) thin() bool {
	if p.ks.dots == nil || p.a.format != 0 || p.b.format != 0 || p.k < 32 || min(p.m, p.n) > 32 || max(p.m, p.n) < 4 {
		return false
	}
	switch alongA, alongB := p.a.col == 1, p.b.row == 1; {
	case alongA && alongB:
		return true
	case alongA:
		return p.m >= 4*p.n
	default:
		return alongB && p.n >= 4*p.m
	}
}

// dotted computes a thin product. X is the smaller matrix, Y the larger.
func (p *problem[T]) dotted() {
	x, y := p.a, p.b.transposed()
	nx, ny := p.m, p.n
	swap := nx > ny
	if swap {
		x, y, nx, ny = y, x, ny, nx
	}
	es := int(unsafe.Sizeof(T(0)))
	if x.col != 1 {
		buf := buffers[T]().Get().(*[]T)
		defer buffers[T]().Put(buf)
		x = x.alongK(grow(buf, nx*p.k), nx, p.k)
	}
	// Each thread gets one share if there is work for it, so that it finds the
	// same part of Y again in its cache, and at most so many as are worth it.
	tasks := max(1, min(p.threads, 2*nx*ny*p.k/thinPerTask))
	grain := (ny + 4*tasks - 1) / (4 * tasks) * 4
	p.loop(ny, grain, func(lo, hi int) {
		s := scratches[T]().Get().(*scratch[T])
		d := &s.d
		d.rowX, d.rowY, d.k = x.row*es, y.row*es, p.k
		for j := lo; j < hi; j += 4 {
			// The last four overlap the ones before rather than run short.
			at := min(j, ny-4)
			d.y = unsafe.Pointer(&y.data[at*y.row])
			for i := 0; i < nx; i += 3 {
				h := min(3, nx-i)
				d.x = unsafe.Pointer(&x.data[i*x.row])
				p.ks.dots[h-1]((*byte)(unsafe.Pointer(d)))
				out := (*[12]T)(unsafe.Pointer(&d.out))
				for r := range h {
					for c := j - at; c < min(4, hi-at); c++ {
						if swap {
							p.put(at+c, i+r, out[r*4+c])
						} else {
							p.put(i+r, at+c, out[r*4+c])
						}
					}
				}
			}
		}
		s.release()
	})
	// Activations by rows; columns of one element would be slow.
	if p.ep.Act != op.Invalid && p.ep.Act != op.Relu {
		if p.n == 1 && p.ldc == 1 {
			Activate(p.ep.Act, p.c[:p.m])
		} else {
			p.activate(0, p.m, 0, p.n)
		}
	}
}

// alongK copies lines of k elements so that each is adjacent in memory.
func (s source[T]) alongK(dst []T, lines, k int) source[T] {
	if !turnFast(dst, s, lines, k) {
		for p := range k {
			for l := range lines {
				dst[l*k+p] = s.data[l*s.row+p*s.col]
			}
		}
	}
	return source[T]{data: dst, row: k, col: 1}
}

// putRow stores adjacent sums with the epilogue, except for slow activations.
func (p *problem[T]) putRow(i, j int, sums []T) {
	if p.ep.Alpha == 1 && p.ep.Beta == 0 && p.ep.Bias == nil && p.ep.RowBias == nil && p.ep.Act != op.Relu {
		copy(p.c[i*p.ldc+j:], sums)
		return
	}
	for q, v := range sums {
		p.put(i, j+q, v)
	}
}

// put stores one sum with the epilogue, except for slow activations.
func (p *problem[T]) put(i, j int, v T) {
	c := &p.c[i*p.ldc+j]
	v *= p.ep.Alpha
	if p.ep.Beta != 0 {
		v += p.ep.Beta * *c
	}
	if p.ep.Bias != nil {
		v += p.ep.Bias[j]
	}
	if p.ep.RowBias != nil {
		v += p.ep.RowBias[i]
	}
	if p.ep.Act == op.Relu && v < 0 {
		v = 0
	}
	*c = v
}
