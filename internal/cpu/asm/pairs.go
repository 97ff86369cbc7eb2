package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Pooling by 2 on rows of at least 8 results. Both functions take whole
// vectors of 8 and end with one that ends where the row does, over results
// that are there already: rows are short, and masks would cost more. They use
// 256 bits at either level, as AVX-512 has no horizontal addition.

// ends emits a loop over [0, n-8] in steps of 8 whose last turn begins at n-8.
func (v *vk) ends(body func(i reg.Register)) {
	ctx := v.ctx
	n := v.ptr("n")
	i := ctx.GP64()
	ctx.XORQ(i, i)
	ctx.SUBQ(Imm(8), n)
	ctx.Label("eight")
	body(i)
	ctx.CMPQ(i, n)
	ctx.JGE(LabelRef("end"))
	ctx.ADDQ(Imm(8), i)
	ctx.CMPQ(i, n)
	ctx.CMOVQGT(n, i)
	ctx.JMP(LabelRef("eight"))
	ctx.Label("end")
}

func emitAveragePairs(v *vk) {
	ctx := v.ctx
	dst, a, b := v.ptr("dst"), v.ptr("a"), v.ptr("b")
	w := *v
	w.bits = 256
	quarter := ctx.YMM()
	ctx.VMOVUPS(w.c(0.25), quarter)
	v.ends(func(i reg.Register) {
		var s [2]V
		for h := range s {
			s[h] = ctx.YMM()
			ctx.VMULPS(Mem{Base: a, Index: i, Scale: 8, Disp: 32 * h}, quarter, s[h])
			ctx.VFMADD231PS(Mem{Base: b, Index: i, Scale: 8, Disp: 32 * h}, quarter, s[h])
		}
		ctx.VHADDPS(s[1], s[0], s[0])
		ctx.VPERMPD(Imm(0xd8), s[0], s[0])
		ctx.VMOVUPS(s[0], Mem{Base: dst, Index: i, Scale: 4})
	})
}

func emitSpreadPairs(v *vk) {
	ctx := v.ctx
	dst, also, a := v.ptr("dst"), v.ptr("also"), v.ptr("a")
	w := *v
	w.bits = 256
	quarter := ctx.YMM()
	ctx.VMOVUPS(w.c(0.25), quarter)
	v.ends(func(i reg.Register) {
		g, lo, hi := ctx.YMM(), ctx.YMM(), ctx.YMM()
		ctx.VMULPS(Mem{Base: a, Index: i, Scale: 4}, quarter, g)
		ctx.VPERMPD(Imm(0xd8), g, g) // 0 1 4 5 | 2 3 6 7
		ctx.VUNPCKLPS(g, g, lo)      // 0 0 1 1 | 2 2 3 3
		ctx.VUNPCKHPS(g, g, hi)      // 4 4 5 5 | 6 6 7 7
		for _, p := range []reg.Register{dst, also} {
			ctx.VMOVUPS(lo, Mem{Base: p, Index: i, Scale: 8})
			ctx.VMOVUPS(hi, Mem{Base: p, Index: i, Scale: 8, Disp: 32})
		}
	})
}
