package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unroll is how many columns of A and rows of B a round of the loops takes.
const unroll = 4

func (k *kernel) packedLoop(a, b, n, c, ldc reg.GPVirtual) {
	ctx := k.ctx
	es, vb := k.esize(), k.bits/8
	step := func(u int) {
		for j := range k.b {
			k.load(Mem{Base: b, Disp: (u*k.nv + j) * vb}, k.b[j], j)
		}
		if k.bits == 512 { // both panels together are larger than an L1 cache
			ctx.PREFETCHT0(Mem{Base: b, Disp: u*k.nv*vb + 1024})
			ctx.PREFETCHT0(Mem{Base: b, Disp: u*k.nv*vb + 1024 + 64})
			ctx.PREFETCHT0(Mem{Base: a, Disp: u*k.h*es + 768})
		}
		for i, r := range k.acc {
			t := k.t[i%len(k.t)]
			k.broadcast(Mem{Base: a, Disp: (u*k.h + i) * es}, t)
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}
	steps := func(n int) {
		for u := range n {
			step(u)
		}
		ctx.ADDQ(U32(uint32(n*k.h*es)), a)
		ctx.ADDQ(U32(uint32(n*k.nv*vb)), b)
	}
	k.unrolled(n, func() {
		if k.bits == 512 {
			k.fetchRows(c, ldc, n, steps)
		}
	}, func() { steps(unroll) }, func() { steps(1) })
}

// unrolled writes a loop of n steps, unroll of them in a round and the rest one by one,
// with what comes before the first round.
func (k *kernel) unrolled(n reg.GPVirtual, before, round, single func()) {
	ctx := k.ctx
	rest := ctx.GP64()
	ctx.MOVQ(n, rest)
	ctx.SHRQ(Imm(2), n)
	ctx.JZ(LabelRef("rest"))
	before()
	ctx.Label("loop")
	round()
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("loop"))
	ctx.Label("rest")
	ctx.ANDQ(Imm(unroll-1), rest)
	ctx.JZ(LabelRef("sum"))
	ctx.Label("single")
	single()
	ctx.DECQ(rest)
	ctx.JNZ(LabelRef("single"))
	ctx.Label("sum")
}

// fetchRows runs the first rounds of a loop of n; each fetches a row of C.
func (k *kernel) fetchRows(c, ldc, n reg.GPVirtual, steps func(int)) {
	ctx := k.ctx
	row, first := ctx.GP64(), ctx.GP64()
	ctx.MOVQ(c, row)
	ctx.MOVQ(U32(uint32(k.h)), first)
	ctx.CMPQ(n, first)
	ctx.CMOVQLT(n, first)
	ctx.SUBQ(first, n)
	ctx.Label("fetch")
	for o := 0; o < k.nv*k.bits/8; o += 64 {
		ctx.PREFETCHT0(Mem{Base: row, Disp: o})
	}
	ctx.ADDQ(ldc, row)
	steps(unroll)
	ctx.DECQ(first)
	ctx.JNZ(LabelRef("fetch"))
	ctx.TESTQ(n, n)
	ctx.JZ(LabelRef("rest"))
}

func (k *kernel) rowsLoop(a, b, n reg.GPVirtual) {
	es, vb := k.esize(), k.bits/8
	k.startsLoop(n, func(u int, at reg.GPVirtual) {
		for j := range k.b {
			k.load(Mem{Base: b, Index: at, Scale: 1, Disp: j * vb}, k.b[j], j)
		}
		for i, r := range k.acc {
			t := k.t[i%len(k.t)]
			k.broadcast(Mem{Base: a, Disp: (u*k.rows + i) * es}, t)
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}, func(steps int) { k.ctx.ADDQ(U32(uint32(steps*k.rows*es)), a) })
}

func (k *kernel) pixelsLoop(a, b, n reg.GPVirtual) {
	es, vb := k.esize(), k.bits/8
	k.startsLoop(n, func(u int, at reg.GPVirtual) {
		for j := range k.b {
			k.load(Mem{Base: b, Disp: (u*k.nv + j) * vb}, k.b[j], j)
		}
		for i, r := range k.acc {
			t := k.t[i%len(k.t)]
			k.broadcast(Mem{Base: a, Index: at, Scale: 1, Disp: i * es}, t)
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}, func(steps int) { k.ctx.ADDQ(U32(uint32(steps*k.nv*vb)), b) })
}

// startsLoop runs step for each of n offsets at tile.starts; next moves on by
// so many steps.
func (k *kernel) startsLoop(n reg.GPVirtual, step func(u int, at reg.GPVirtual), next func(steps int)) {
	ctx := k.ctx
	starts := ctx.GP64()
	ctx.MOVQ(k.field(tStarts), starts)
	one := func(u int) {
		at := ctx.GP64()
		ctx.MOVQ(Mem{Base: starts, Disp: 8 * u}, at)
		step(u, at)
	}
	rest := ctx.GP64()
	ctx.MOVQ(n, rest)
	ctx.SHRQ(Imm(2), n)
	ctx.JZ(LabelRef("rest"))
	ctx.Label("loop")
	for u := range unroll {
		one(u)
	}
	next(unroll)
	ctx.ADDQ(U32(8*unroll), starts)
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("loop"))
	ctx.Label("rest")
	ctx.ANDQ(Imm(unroll-1), rest)
	ctx.JZ(LabelRef("sum"))
	ctx.Label("single")
	one(0)
	next(1)
	ctx.ADDQ(U32(8), starts)
	ctx.DECQ(rest)
	ctx.JNZ(LabelRef("single"))
	ctx.Label("sum")
}

func (k *kernel) stridedLoop(a, b, n, rowA, colA, rowB reg.GPVirtual) {
	ctx := k.ctx
	// Rows in groups of three: base, base+row, base+2*row.
	bases := []reg.GPVirtual{a}
	for g := 3; g < k.h; g += 3 {
		p := ctx.GP64()
		ctx.LEAQ(Mem{Base: bases[len(bases)-1], Index: rowA, Scale: 2}, p)
		ctx.ADDQ(rowA, p)
		bases = append(bases, p)
	}
	// The rows of the next tile are fetched meanwhile: each of them begins a
	// line of its own, all at about the same time, which no prefetcher foresees.
	ahead := ctx.GP64()
	prefetch := k.h == 6 && k.bits == 256 || k.h == 12
	step := func(u int) {
		for j := range k.b {
			k.load(Mem{Base: b, Disp: j * k.bits / 8}, k.b[j], j)
		}
		ctx.ADDQ(rowB, b)
		if prefetch && 3*u < k.h {
			ctx.PREFETCHT0(Mem{Base: ahead})
			ctx.PREFETCHT0(Mem{Base: ahead, Index: rowA, Scale: 1})
			ctx.PREFETCHT0(Mem{Base: ahead, Index: rowA, Scale: 2})
			if 3*u+3 < k.h {
				ctx.LEAQ(Mem{Base: ahead, Index: rowA, Scale: 2}, ahead)
				ctx.ADDQ(rowA, ahead)
			}
		}
		for i, r := range k.acc {
			m := Mem{Base: bases[i/3]}
			if i%3 > 0 {
				m.Index, m.Scale = rowA, uint8(i%3)
			}
			t := k.t[i%len(k.t)]
			k.broadcast(m, t)
			if i%3 == 2 || i == k.h-1 {
				ctx.ADDQ(colA, bases[i/3])
			}
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}
	k.unrolled(n, func() {}, func() {
		if prefetch {
			ctx.MOVQ(a, ahead)
			ctx.ADDQ(k.field(tStepA), ahead)
		}
		for u := range unroll {
			step(u)
		}
	}, func() { step(unroll) })
}
