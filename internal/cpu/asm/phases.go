package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// These take 8 elements per turn at every level: they shuffle, and rows of images are
// short. n is a multiple of 8.

func (v *vk) eights(params string, body func(at func(name string, scale, disp int) Mem)) {
	ctx := v.ctx
	ptr := map[string]reg.GPVirtual{}
	for _, name := range params {
		ptr[string(name)] = v.ptr(map[rune]string{'d': "dst", 'e': "even", 'o': "odd", 'a': "a", 'g': "grad", 'm': "m"}[name])
	}
	n, i := v.ptr("n"), ctx.GP64()
	ctx.XORQ(i, i)
	ctx.Label("eight")
	body(func(name string, scale, disp int) Mem {
		return Mem{Base: ptr[name], Index: i, Scale: uint8(scale), Disp: disp}
	})
	ctx.ADDQ(Imm(8), i)
	ctx.SUBQ(Imm(8), n)
	ctx.JG(LabelRef("eight"))
}

func emitSplitPairs(v *vk) {
	if v.neon() {
		v.neonSplitPairs()
		return
	}
	ctx := v.ctx
	v.eights("eoa", func(at func(string, int, int) Mem) {
		x, y, e, o := ctx.YMM(), ctx.YMM(), ctx.YMM(), ctx.YMM()
		ctx.VMOVUPS(at("a", 8, 0), x)
		ctx.VMOVUPS(at("a", 8, 32), y)
		ctx.VSHUFPS(Imm(0x88), y, x, e)
		ctx.VSHUFPS(Imm(0xdd), y, x, o)
		ctx.VPERMPD(Imm(0xd8), e, e)
		ctx.VPERMPD(Imm(0xd8), o, o)
		ctx.VMOVUPS(e, at("e", 4, 0))
		ctx.VMOVUPS(o, at("o", 4, 0))
	})
}

func emitEvens(v *vk) {
	if v.neon() {
		v.neonEvens()
		return
	}
	ctx := v.ctx
	v.eights("da", func(at func(string, int, int) Mem) {
		x := ctx.YMM()
		ctx.VMOVUPS(at("a", 8, 0), x)
		ctx.VSHUFPS(Imm(0x88), at("a", 8, 32), x, x)
		ctx.VPERMPD(Imm(0xd8), x, x)
		ctx.VMOVUPS(x, at("d", 4, 0))
	})
}

func emitJoinPairs(v *vk) {
	if v.neon() {
		v.neonJoinPairs()
		return
	}
	ctx := v.ctx
	v.eights("deo", func(at func(string, int, int) Mem) {
		e, o, lo, hi, x := ctx.YMM(), ctx.YMM(), ctx.YMM(), ctx.YMM(), ctx.YMM()
		ctx.VMOVUPS(at("e", 4, 0), e)
		ctx.VMOVUPS(at("o", 4, 0), o)
		ctx.VUNPCKLPS(o, e, lo)
		ctx.VUNPCKHPS(o, e, hi)
		ctx.VPERM2F128(Imm(0x20), hi, lo, x)
		ctx.VMOVUPS(x, at("d", 8, 0))
		ctx.VPERM2F128(Imm(0x31), hi, lo, x)
		ctx.VMOVUPS(x, at("d", 8, 32))
	})
}

func emitClaim(v *vk) {
	if v.neon() {
		v.neonClaim()
		return
	}
	ctx := v.ctx
	v.eights("dgam", func(at func(string, int, int) Mem) {
		x, mine, nan, g := ctx.YMM(), ctx.YMM(), ctx.YMM(), ctx.YMM()
		ctx.VMOVUPS(at("a", 4, 0), x)
		ctx.VCMPPS(Imm(eq), at("m", 4, 0), x, mine)
		ctx.VCMPPS(Imm(unord), x, x, nan)
		ctx.VORPS(nan, mine, mine)
		ctx.VMOVUPS(at("g", 4, 0), g)
		ctx.VANDPS(mine, g, x)
		ctx.VANDNPS(g, mine, g)
		ctx.VADDPS(at("d", 4, 0), x, x)
		ctx.VMOVUPS(x, at("d", 4, 0))
		ctx.VMOVUPS(g, at("g", 4, 0))
	})
}
