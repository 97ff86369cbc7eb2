package main

import (
	. "github.com/mmcloughlin/avo/operand"
)

// Emitters for arithmetic. Simple ones take four vectors per turn.

func binary(f func(v *vk, x V, y Op) V) func(*vk) {
	return func(v *vk) {
		v.elementwise("a b", 4, func(in ...Op) V { return f(v, in[0].(V), in[1]) }, nil)
	}
}

// withScalar is binary with a broadcast second operand.
func withScalar(f func(v *vk, x V, y Op) V) func(*vk) {
	return func(v *vk) {
		s := v.scalar("s")
		v.elementwise("a", 4, func(in ...Op) V { return f(v, in[0].(V), s) }, nil)
	}
}

func unary(unroll int, f func(v *vk, x V) V) func(*vk) {
	return func(v *vk) {
		v.elementwise("a", unroll, func(in ...Op) V { return f(v, in[0].(V)) }, nil)
	}
}

// unaryWide is unary for functions that need more than half of AVX2's registers.
func unaryWide(f func(v *vk, x V) V) func(*vk) {
	return func(v *vk) {
		if v.wide() {
			unary(2, f)(v)
		} else {
			unary(1, f)(v)
		}
	}
}

func opAdd(v *vk, x V, y Op) V  { return v.add(x, y) }
func opSub(v *vk, x V, y Op) V  { return v.sub(x, y) }
func opRSub(v *vk, x V, y Op) V { return v.sub(y, x) }
func opMul(v *vk, x V, y Op) V  { return v.mul(x, y) }
func opDiv(v *vk, x V, y Op) V  { return v.div(x, y) }
func opRDiv(v *vk, x V, y Op) V { return v.div(y, x) }
func opMax(v *vk, x V, y Op) V  { return v.propMax(x, y) }
func opMin(v *vk, x V, y Op) V  { return v.propMin(x, y) }

func emitClamp(v *vk) {
	s, t := v.scalar("s"), v.scalar("t")
	v.elementwise("a", 2, func(in ...Op) V {
		return v.propMin(v.propMax(in[0].(V), s), t)
	}, nil)
}

func emitAffine(v *vk) {
	s, t := v.scalar("s"), v.scalar("t")
	v.elementwise("a", 4, func(in ...Op) V {
		if v.neon() {
			return v.fma(in[0], s, t)
		}
		r := in[0].(V)
		v.ins("VFMADD213PS", t, s, r)
		return r
	}, nil)
}

func emitSubMul(v *vk) {
	s, t := v.scalar("s"), v.scalar("t")
	v.elementwise("a", 4, func(in ...Op) V { return v.mul(v.sub(in[0], s), t) }, nil)
}

func emitAxpy(v *vk) {
	s := v.scalar("s")
	v.elementwise("dst a", 4, func(in ...Op) V {
		r := in[0].(V)
		v.acc(r, s, in[1])
		return r
	}, nil)
}

func emitBlend(v *vk) {
	s, t := v.scalar("s"), v.scalar("t")
	v.elementwise("a b", 4, func(in ...Op) V {
		r := v.mul(in[0].(V), s)
		v.acc(r, t, in[1])
		return r
	}, nil)
}

func emitFma(v *vk) {
	v.elementwise("a b c", 4, func(in ...Op) V {
		if v.neon() {
			return v.fma(in[0], in[1], in[2])
		}
		r := in[0].(V)
		v.ins("VFMADD213PS", in[2], in[1], r)
		return r
	}, nil)
}

func opSqrt(v *vk, x V) V {
	if v.neon() {
		return v.one("fsqrt"+v.t(), x)
	}
	d := v.reg()
	v.ins("VSQRTPS", x, d)
	return d
}

func opRelu(v *vk, x V) V {
	if v.neon() { // fmax would make 0 of -0, which the others keep
		return v.two("bic", x, v.one("fcmlt0"+v.t(), x))
	}
	d := v.zero()
	v.ins("VMAXPS", x, d, d) // x, the second source, wins when it is NaN
	return d
}

// compare emits a comparison to bytes, for blocks of 16 elements.
func compare(pred int, scalar bool) func(*vk) {
	return func(v *vk) {
		if v.neon() {
			v.neonCompare(pred, scalar)
			return
		}
		ctx := v.ctx
		var s V
		params := "dst a b"
		if scalar {
			s = v.scalar("s")
			params = "dst a"
		}
		ones := ctx.XMM()
		ctx.VMOVDQU(v.as(false).constant(0x01010101, 4), ones)
		v.blocks(params, func(at func(string, int, int) Mem) {
			var m []M
			for o := 0; o < 16; o += v.lanes() {
				x := v.load(at("a", v.es(), o))
				var y Op = s
				if !scalar {
					y = at("b", v.es(), o)
				}
				m = append(m, v.cmp(pred, x, y))
			}
			out := ctx.XMM()
			if v.wide() {
				k := m[0]
				if len(m) == 2 {
					k = ctx.K()
					ctx.KUNPCKBW(m[0], m[1], k)
				}
				ctx.VPMOVM2B(k, out)
				ctx.VPAND(ones, out, out)
				ctx.VMOVDQU(out, at("dst", 1, 0))
				return
			}
			if v.double { // four vectors of 64-bit masks to two of 32-bit ones
				var w []M
				for j := 0; j < 4; j += 2 {
					d := ctx.YMM()
					ctx.VSHUFPS(Imm(0x88), m[j+1], m[j], d)
					ctx.VPERMQ(Imm(0xd8), d, d)
					w = append(w, d)
				}
				m = w
			}
			d := ctx.YMM()
			ctx.VPACKSSDW(m[1], m[0], d)
			ctx.VPERMQ(Imm(0xd8), d, d)
			h := ctx.YMM()
			ctx.VEXTRACTI128(Imm(1), d, h.AsX())
			ctx.VPACKSSWB(h.AsX(), d.AsX(), out)
			ctx.VPAND(ones, out, out)
			ctx.VMOVDQU(out, at("dst", 1, 0))
		})
	}
}

func emitSelect(v *vk) {
	if v.neon() {
		v.neonSelect()
		return
	}
	ctx := v.ctx
	v.blocks("dst mask a b", func(at func(string, int, int) Mem) {
		z := v.zero()
		for o := 0; o < 16; o += v.lanes() {
			m := v.reg()
			if v.double {
				ctx.VPMOVZXBQ(at("mask", 1, o), m)
			} else {
				ctx.VPMOVZXBD(at("mask", 1, o), m)
			}
			a, b := v.load(at("a", v.es(), o)), v.load(at("b", v.es(), o))
			var r V
			if v.wide() {
				k := ctx.K()
				v.ins(v.iname("VPTESTM"), m, m, k)
				r = v.blend(k, a, b)
			} else {
				k := v.reg()
				v.ins(v.iname("VPCMPEQ"), z, m, k)
				r = v.blend(k, b, a)
			}
			ctx.VMOVUPS(r, at("dst", v.es(), o))
		}
	})
}
