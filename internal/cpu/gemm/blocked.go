package gemm

import (
	"math"
	"unsafe"
)

// blocked packs A and B and runs the kernels on the packed panels: for each
// depth kc of k, B's block (kc×nc, in the last-level cache) is packed once by
// all threads; then the threads take blocks of A's rows (mc×kc, in their L2
// caches), pack them and run down the columns, a panel of B (kc×nr, in L1) at
// a time. Where there are too few row blocks for the threads, the columns are
// divided too and A is packed beforehand.
func (p *problem[T]) blocked() {
	ks := p.ks
	nr, mr := ks.nr(), ks.mr
	bt := p.b.transposed()
	depth := p.depth()
	bp := buffers[T]().Get().(*[]T)
	buf := grow(bp, (min(ks.nc, p.n)+nr-1)/nr*nr*depth+packSlack)
	mc := p.rowBlock()
	gi := (p.m + mc - 1) / mc
	var ap *[]T // the packed A shared by column groups
	for jc := 0; jc < p.n; jc += ks.nc {
		nc := min(ks.nc, p.n-jc)
		panels := (nc + nr - 1) / nr
		group := p.columnGroup(gi, panels)
		gj := (panels + group - 1) / group
		for pc := 0; pc < p.k; pc += depth {
			kc := min(depth, p.k-pc)
			stride := mc*kc + packSlack
			var shared []T
			rows := 0 // blocks of A to pack along with B
			if gj > 1 {
				if ap == nil {
					ap = buffers[T]().Get().(*[]T)
				}
				shared, rows = grow(ap, gi*stride), gi
			}
			p.loop(rows+panels, max(1, 8192/(nr*kc)), func(lo, hi int) {
				for ; lo < min(hi, rows); lo++ {
					pack(shared[lo*stride:][:stride], p.a, lo*mc, min(mc, p.m-lo*mc), pc, kc, mr)
				}
				if lo < hi {
					lo, hi := lo-rows, hi-rows
					pack(buf[lo*nr*kc:], bt, jc+lo*nr, min(hi*nr, nc)-lo*nr, pc, kc, nr)
				}
			})
			p.loop(gi*gj, 1, func(lo, hi int) {
				s := scratches[T]().Get().(*scratch[T])
				for q := lo; q < hi; q++ {
					i, g := q/gj, q%gj
					i0, i1 := i*mc, min(i*mc+mc, p.m)
					var a []T
					if gj > 1 {
						a = shared[i*stride:][:stride]
					} else {
						a = grow(&s.a, stride)
						pack(a, p.a, i0, i1-i0, pc, kc, mr)
					}
					p.block(&s.t, a, buf, i0, i1, jc, nc, g*group, min(g*group+group, panels), pc, kc)
				}
				s.release()
			})
		}
	}
	buffers[T]().Put(bp)
	if ap != nil {
		buffers[T]().Put(ap)
	}
}

// block multiplies the packed rows [i0, i1) of A with B's panels [q0, q1).
func (p *problem[T]) block(t *tile, a, b []T, i0, i1, jc, nc, q0, q1, pc, kc int) {
	es := int(unsafe.Sizeof(T(0)))
	nr, mr := p.ks.nr(), p.ks.mr
	p.begin(t, pc, kc)
	for q := q0; q < q1; q++ {
		j := jc + q*nr
		p.column(t, unsafe.Pointer(&a[0]), unsafe.Pointer(&b[q*nr*kc]), es, mr*es, mr*kc*es, nr*es,
			true, i0, i1, j, min(nr, jc+nc-j), pc, kc)
	}
	if pc+kc == p.k {
		p.activate(i0, i1, jc+q0*nr, min(jc+q1*nr, jc+nc))
	}
}

// columnGroup picks how many panels of B a task takes where there are gi blocks
// of A: all, if the blocks alone keep the threads busy, else so many that the
// tasks come out even, each thread getting four to eight of them.
func (p *problem[T]) columnGroup(gi, panels int) int {
	if p.threads == 1 || gi >= 4*p.threads {
		return panels
	}
	best, least := 1, math.MaxInt
	for gj := 4*p.threads/gi + 1; gj <= 8*p.threads/gi+1; gj++ {
		group := max(1, (panels+gj-1)/gj)
		tasks := gi * ((panels + group - 1) / group)
		if time := (tasks + p.threads - 1) / p.threads * group; time < least {
			best, least = group, time
		}
	}
	return best
}

// rowBlock picks how many rows of A a task takes: at most mc, few enough that
// the threads get equal shares, and enough to use a panel of B several times
// while it is in L1.
func (p *problem[T]) rowBlock() int {
	ks := p.ks
	blocks := (p.m + ks.mc - 1) / ks.mc
	if p.threads > 1 {
		blocks = (max(blocks, 6*p.threads) + p.threads - 1) / p.threads * p.threads
	}
	return max(((p.m+blocks-1)/blocks+ks.mr-1)/ks.mr*ks.mr, 8*ks.mr)
}
