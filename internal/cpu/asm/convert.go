package main

import . "github.com/mmcloughlin/avo/operand"

func emitF16ToF32(v *vk) {
	if v.neon() {
		v.neonEights(func(x V) (lo, hi V) { return v.one("fcvtl.half", x), v.one("fcvtl2.half", x) })
		return
	}
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		for o := 0; o < 16; o += v.lanes() {
			d := v.reg()
			v.ctx.VCVTPH2PS(at("a", 2, o), d)
			v.ctx.VMOVUPS(d, at("dst", 4, o))
		}
	})
}

func emitF32ToF16(v *vk) {
	if v.neon() {
		v.neonHalves(func(lo, hi V) V {
			d := v.one("fcvtn.half", lo)
			v.op("fcvtn2.half", d, hi)
			return d
		})
		return
	}
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		for o := 0; o < 16; o += v.lanes() {
			v.ctx.VCVTPS2PH(Imm(0), v.load(at("a", 4, o)), at("dst", 2, o))
		}
	})
}

func emitBF16ToF32(v *vk) {
	if v.neon() {
		v.neonEights(func(x V) (lo, hi V) { return v.one("shll.4s", x), v.one("shll2.4s", x) })
		return
	}
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		for o := 0; o < 16; o += v.lanes() {
			d := v.reg()
			v.ctx.VPMOVZXWD(at("a", 2, o), d)
			v.ctx.VMOVUPS(v.shl(d, 16), at("dst", 4, o))
		}
	})
}

// toBF16 rounds to the lower half of each lane.
func (v *vk) toBF16(x V) V {
	top := v.shr(x, 16)
	odd := v.and(top, v.ci(1))
	r := v.shr(v.iadd(v.iadd(x, v.ci(0x7fff)), odd), 16)
	nan := v.or(top, v.ci(0x40))
	return v.blend(v.cmp(unord, x, x), nan, r)
}

func emitF32ToBF16(v *vk) {
	if v.neon() {
		v.neonHalves(func(lo, hi V) V { return v.two("uzp1.8h", v.toBF16(lo), v.toBF16(hi)) })
		return
	}
	v.halves(func(x V) V { return x })
}

// emitMulSBF16 is for amd64.
func emitMulSBF16(v *vk) {
	s := v.scalar("s")
	v.halves(func(x V) V { return v.mul(x, s) })
}

// halves emits a loop that stores f of a's elements in bfloat16.
func (v *vk) halves(f func(x V) V) {
	if v.neon() {
		v.neonHalves(func(lo, hi V) V { return v.two("uzp1.8h", v.toBF16(f(lo)), v.toBF16(f(hi))) })
		return
	}
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		var out []V
		for o := 0; o < 16; o += v.lanes() {
			out = append(out, v.toBF16(f(v.load(at("a", 4, o)))))
		}
		v.storeLower(at("dst", 2, 0), out...)
	})
}

func emitU8ToF32(v *vk) {
	if v.neon() {
		v.neonBytes()
		return
	}
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		for o := 0; o < 16; o += v.lanes() {
			d := v.reg()
			v.ctx.VPMOVZXBD(at("a", 1, o), d)
			v.ctx.VMOVUPS(v.fromInt32(d), at("dst", 4, o))
		}
	})
}

func emitI32ToF32(v *vk) {
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		for o := 0; o < 16; o += v.lanes() {
			v.store(v.fromInt32(at("a", 4, o)), at("dst", 4, o))
		}
	})
}
