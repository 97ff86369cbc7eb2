package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Pooling by 2 on rows of at least 8 results. The functions take whole
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
	if v.neon() {
		v.neonAveragePairs()
		return
	}
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
	if v.neon() {
		v.neonSpreadPairs()
		return
	}
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

// pairs splits 16 elements of the rows a and b into the first and the second of
// each pair, in the order 0 1 4 5 | 2 3 6 7, which unpacking undoes.
func (v *vk) pairs(a, b, i reg.Register) (x [4]V) {
	ctx := v.ctx
	for r, p := range []reg.Register{a, b} {
		lo := ctx.YMM()
		ctx.VMOVUPS(Mem{Base: p, Index: i, Scale: 8}, lo)
		hi := Mem{Base: p, Index: i, Scale: 8, Disp: 32}
		x[2*r], x[2*r+1] = ctx.YMM(), ctx.YMM()
		ctx.VSHUFPS(Imm(0x88), hi, lo, x[2*r])
		ctx.VSHUFPS(Imm(0xdd), hi, lo, x[2*r+1])
	}
	return x
}

// largest finds the largest of a window's elements, and where element k is larger
// than those before it, or the first NaN.
func (v *vk) largest(x [4]V) (best V, later [4]V) {
	ctx := v.ctx
	best = ctx.YMM()
	ctx.VMOVUPS(x[0], best)
	for k := 1; k < 4; k++ {
		later[k] = ctx.YMM()
		number := ctx.YMM()
		ctx.VCMPPS(Imm(7), best, best, number)   // ordered
		ctx.VCMPPS(Imm(6), best, x[k], later[k]) // not less or equal
		ctx.VANDPS(number, later[k], later[k])
		ctx.VBLENDVPS(later[k], x[k], best, best)
	}
	return best, later
}

func emitLargestPairs(v *vk) {
	if v.neon() {
		v.neonLargestPairs()
		return
	}
	dst, a, b := v.ptr("dst"), v.ptr("a"), v.ptr("b")
	v.ends(func(i reg.Register) {
		best, _ := v.largest(v.pairs(a, b, i))
		v.ctx.VPERMPD(Imm(0xd8), best, best)
		v.ctx.VMOVUPS(best, Mem{Base: dst, Index: i, Scale: 4})
	})
}

func emitLargestPairsGrad(v *vk) {
	if v.neon() {
		v.neonLargestPairsGrad()
		return
	}
	ctx := v.ctx
	dst, also, a, b, g := v.ptr("dst"), v.ptr("also"), v.ptr("a"), v.ptr("b"), v.ptr("grad")
	v.ends(func(i reg.Register) {
		x := v.pairs(a, b, i)
		_, later := v.largest(x)
		rest := ctx.YMM()
		ctx.VPERMPD(Imm(0xd8), Mem{Base: g, Index: i, Scale: 4}, rest)
		for k := 3; k > 0; k-- { // the last one that is larger is the largest
			share := x[k]
			ctx.VANDPS(later[k], rest, share)
			ctx.VANDNPS(rest, later[k], rest)
		}
		for r, p := range []reg.Register{dst, also} {
			first, second := x[2*r], x[2*r+1]
			if r == 0 {
				first = rest
			}
			lo, hi := ctx.YMM(), ctx.YMM()
			ctx.VUNPCKLPS(second, first, lo)
			ctx.VUNPCKHPS(second, first, hi)
			ctx.VMOVUPS(lo, Mem{Base: p, Index: i, Scale: 8})
			ctx.VMOVUPS(hi, Mem{Base: p, Index: i, Scale: 8, Disp: 32})
		}
	})
}
