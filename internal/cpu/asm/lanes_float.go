package main

import (
	. "github.com/mmcloughlin/avo/operand"
)

func (v *vk) add(x, y Op) V { return v.bin("VADDPS", x, y) }
func (v *vk) sub(x, y Op) V { return v.bin("VSUBPS", x, y) }
func (v *vk) mul(x, y Op) V { return v.bin("VMULPS", x, y) }
func (v *vk) div(x, y Op) V { return v.bin("VDIVPS", x, y) }

// max and min are the machine's: if either operand is NaN the result is y, or
// with NEON NaN.
func (v *vk) max(x, y Op) V { return v.bin("VMAXPS", x, y) }
func (v *vk) min(x, y Op) V { return v.bin("VMINPS", x, y) }

// fma is x*y + z.
func (v *vk) fma(x, y, z Op) V {
	if v.neon() {
		return v.neonFma("fmla", x, y, z)
	}
	if isMem(z) {
		d := v.copy(x)
		v.ins("VFMADD213PS", z, v.in(y), d)
		return d
	}
	d := v.copy(z)
	if isMem(x) {
		x, y = y, x
	}
	v.ins("VFMADD231PS", y, v.in(x), d)
	return d
}

// fnma is z - x*y.
func (v *vk) fnma(x, y, z Op) V {
	if v.neon() {
		return v.neonFma("fmls", x, y, z)
	}
	d := v.copy(z)
	if isMem(x) {
		x, y = y, x
	}
	v.ins("VFNMADD231PS", y, v.in(x), d)
	return d
}

// fms is x*y - z.
func (v *vk) fms(x, y, z Op) V {
	if v.neon() {
		d := v.one("fneg"+v.t(), z)
		v.acc(d, x, y)
		return d
	}
	d := v.copy(x)
	v.ins("VFMSUB213PS", z, v.in(y), d)
	return d
}

// acc adds x*y to the accumulator a in place.
func (v *vk) acc(a V, x, y Op) {
	if v.neon() {
		v.op("fmla"+v.t(), a, v.in(x), v.in(y))
		return
	}
	v.ins("VFMADD231PS", y, v.in(x), a)
}

// accSub takes x*y from a in place.
func (v *vk) accSub(a V, x, y Op) {
	if v.neon() {
		v.op("fmls"+v.t(), a, v.in(x), v.in(y))
		return
	}
	v.ins("VFNMADD231PS", y, v.in(x), a)
}

// accAdd adds x to a in place.
func (v *vk) accAdd(a V, x Op) {
	if v.neon() {
		v.op("fadd"+v.t(), a, a, v.in(x))
		return
	}
	v.ins("VADDPS", x, a, a)
}

// poly evaluates c[0]*x^n + … + c[n] by Horner's rule.
func (v *vk) poly(x V, c ...float64) V {
	d := v.copy(v.c(c[0]))
	for _, k := range c[1:] {
		d = v.horner(d, x, v.c(k))
	}
	return d
}

// poly2 is poly with the even and the odd powers summed apart, which halves
// the chain of dependent instructions. Use it where the chain is the limit.
func (v *vk) poly2(x V, c ...float64) V {
	var a, b []float64 // of the last coefficient's parity, and the other
	for i, k := range c {
		if (len(c)-1-i)%2 == 0 {
			a = append(a, k)
		} else {
			b = append(b, k)
		}
	}
	s := v.mul(x, x)
	return v.fma(v.poly(s, b...), x, v.poly(s, a...))
}

// horner is r*x + c; r may be overwritten.
func (v *vk) horner(r V, x V, c Op) V {
	if v.neon() {
		return v.fma(r, x, c)
	}
	v.ins("VFMADD213PS", c, x, r)
	return r
}

// round rounds to an integer: mode 0 nearest even, 1 down, 2 up, 3 to zero.
func (v *vk) round(x Op, mode uint64) V {
	if v.neon() {
		return v.one([]string{"frintn", "frintm", "frintp", "frintz"}[mode]+v.t(), x)
	}
	d := v.reg()
	if v.wide() {
		v.ins("VRNDSCALEPS", Imm(mode|8), x, d)
	} else {
		v.ins("VROUNDPS", Imm(mode|8), x, d)
	}
	return d
}

// clampHi and clampLo bound x and let NaN through.
func (v *vk) clampHi(x V, c float64) V { return v.min(v.c(c), x) }
func (v *vk) clampLo(x V, c float64) V { return v.max(v.c(c), x) }

// propMax and propMin propagate NaN from either operand.
func (v *vk) propMax(x V, y Op) V {
	if v.neon() {
		return v.max(x, y)
	}
	return v.blend(v.cmp(unord, x, x), x, v.max(x, y))
}

func (v *vk) propMin(x V, y Op) V {
	if v.neon() {
		return v.min(x, y)
	}
	return v.blend(v.cmp(unord, x, x), x, v.min(x, y))
}
