package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

func (v *vk) bit(name string, x, y Op) V {
	if v.wide() {
		s := "D"
		if v.double {
			s = "Q"
		}
		return v.bin("VP"+name+s, x, y)
	}
	return v.bin("V"+name+"PS", x, y)
}

func (v *vk) and(x, y Op) V { return v.bit("AND", x, y) }
func (v *vk) or(x, y Op) V  { return v.bit("OR", x, y) }
func (v *vk) xor(x, y Op) V { return v.bit("XOR", x, y) }

func (v *vk) signMask() Op {
	if v.double {
		return v.ci(math.MinInt64)
	}
	return v.ci(math.MinInt32)
}

func (v *vk) absMask() Op {
	if v.double {
		return v.ci(math.MaxInt64)
	}
	return v.ci(math.MaxInt32)
}

func (v *vk) abs(x Op) V {
	if v.neon() {
		return v.one("fabs"+v.t(), x)
	}
	return v.and(x, v.absMask())
}

func (v *vk) sign(x Op) V { return v.and(x, v.signMask()) }

func (v *vk) neg(x Op) V {
	if v.neon() {
		return v.one("fneg"+v.t(), x)
	}
	return v.xor(x, v.signMask())
}

func (v *vk) zero() V {
	if v.wide() { // avo does not see that VPXORD of a register with itself needs no input
		return v.copy(v.c(0))
	}
	d := v.reg()
	if v.neon() {
		v.op("movi0", d)
	} else {
		v.ctx.VXORPS(d, d, d)
	}
	return d
}

// Predicates of cmp.
const (
	eq    = 0
	lt    = 1
	le    = 2
	unord = 3
	ne    = 4
	nlt   = 5
	nle   = 6
	ge    = 13
	gt    = 14
)

// cmp compares x with y, which may be in memory.
func (v *vk) cmp(pred int, x, y Op) M {
	if v.neon() {
		return v.neonCmp(pred, x, y)
	}
	if v.wide() {
		k := v.ctx.K()
		v.ins("VCMPPS", Imm(uint64(pred)), y, v.in(x), k)
		return k
	}
	d := v.reg()
	v.ins("VCMPPS", Imm(uint64(pred)), y, v.in(x), d)
	return d
}

// blend takes t where m is set, else f.
func (v *vk) blend(m M, t, f Op) V {
	if v.neon() {
		return v.neonBlend(m, t, f)
	}
	d := v.reg()
	if v.wide() {
		v.ins("VBLENDMPS", t, v.in(f), m, d)
	} else {
		v.ins("VBLENDVPS", m, t, v.in(f), d)
	}
	return d
}

// keep is x where m is set, else 0.
func (v *vk) keep(m M, x V) V {
	if v.neon() {
		return v.two("and", m, x)
	}
	d := v.reg()
	if v.wide() {
		v.ins(map[bool]string{false: "VMOVAPS_Z", true: "VMOVAPD_Z"}[v.double], x, m, d)
	} else {
		v.ins("VANDPS", m, x, d)
	}
	return d
}

// Integer lanes of 32 bits (64 for float64).
func (v *vk) iname(s string) string {
	if v.double {
		return s + "Q"
	}
	return s + "D"
}
func (v *vk) iadd(x, y Op) V { return v.bin(v.iname("VPADD"), x, y) }
func (v *vk) isub(x, y Op) V { return v.bin(v.iname("VPSUB"), x, y) }
func (v *vk) shl(x V, n uint64) V {
	if v.neon() {
		return v.neonShift("shl", x, n)
	}
	d := v.reg()
	v.ins(v.iname("VPSLL"), Imm(n), x, d)
	return d
}
func (v *vk) shr(x V, n uint64) V {
	if v.neon() {
		return v.neonShift("ushr", x, n)
	}
	d := v.reg()
	v.ins(v.iname("VPSRL"), Imm(n), x, d)
	return d
}
