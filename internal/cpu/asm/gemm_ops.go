package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (k *kernel) vec(i int) reg.VecPhysical {
	y := []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	z := []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
		reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
		reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}
	if k.bits == 512 {
		return z[i]
	}
	return y[i]
}

// The instructions below exist for single and double precision.
func (k *kernel) pick(s, d func(...Op), ops ...Op) {
	if k.double {
		d(ops...)
	} else {
		s(ops...)
	}
}
func (k *kernel) fma231(a, b, d Op) { k.pick(k.ctx.VFMADD231PS, k.ctx.VFMADD231PD, a, b, d) }

// sum adds the products of a and b, one per lane or one per half, to d.
func (k *kernel) sum(a, b, d reg.VecPhysical) {
	if k.pairs {
		raw(k.ctx, vdpbf16ps(a, b, d))
	} else {
		k.fma231(a, b, d)
	}
}

func (k *kernel) broadcast(m Mem, d Op) { k.pick(k.ctx.VBROADCASTSS, k.ctx.VBROADCASTSD, m, d) }
func (k *kernel) mul(a, b, d Op)        { k.pick(k.ctx.VMULPS, k.ctx.VMULPD, a, b, d) }
func (k *kernel) add(a, b, d Op)        { k.pick(k.ctx.VADDPS, k.ctx.VADDPD, a, b, d) }
func (k *kernel) max(a, b, d Op)        { k.pick(k.ctx.VMAXPS, k.ctx.VMAXPD, a, b, d) }
func (k *kernel) zero(d Op) {
	if k.bits == 512 {
		k.ctx.VPXORD(d, d, d)
	} else {
		k.ctx.VXORPS(d, d, d)
	}
}

// load reads the j-th vector of a row; the last one of an edge kernel only in
// its valid lanes, so that memory past the matrix is never touched.
func (k *kernel) load(m Mem, d reg.VecPhysical, j int) {
	switch {
	case !k.edge || j < k.nv-1:
		k.ctx.VMOVUPS(m, d)
	case k.bits == 512:
		if k.double {
			k.ctx.VMOVUPD_Z(m, k.mask, d)
		} else {
			k.ctx.VMOVUPS_Z(m, k.mask, d)
		}
	default:
		if k.double {
			k.ctx.VMASKMOVPD(m, k.mask, d)
		} else {
			k.ctx.VMASKMOVPS(m, k.mask, d)
		}
	}
}

// store writes the j-th vector of a row. VMASKMOVPS stores are microcoded on
// AMD, so under AVX2 a partial vector goes out in halves, quarters and eighths.
func (k *kernel) store(v reg.VecPhysical, row reg.GPVirtual, j int, tail reg.GPVirtual) {
	m := Mem{Base: row, Disp: j * k.bits / 8}
	switch {
	case !k.edge || j < k.nv-1:
		k.ctx.VMOVUPS(v, m)
	case k.bits == 512:
		k.pick(k.ctx.VMOVUPS, k.ctx.VMOVUPD, v, k.mask, m)
	default:
		ctx := k.ctx
		p := ctx.GP64()
		ctx.LEAQ(m, p)
		x := v.AsX()
		half := 4 / (k.esize() / 4)
		skip := k.label("half")
		ctx.TESTQ(U32(half), tail)
		ctx.JZ(LabelRef(skip))
		ctx.VMOVUPS(x, Mem{Base: p})
		ctx.VEXTRACTF128(Imm(1), v, x)
		ctx.ADDQ(Imm(16), p)
		ctx.Label(skip)
		if !k.double {
			skip = k.label("quarter")
			ctx.TESTQ(U32(2), tail)
			ctx.JZ(LabelRef(skip))
			ctx.VMOVLPS(x, Mem{Base: p})
			ctx.VMOVHLPS(x, x, x)
			ctx.ADDQ(Imm(8), p)
			ctx.Label(skip)
		}
		skip = k.label("eighth")
		ctx.TESTQ(U32(1), tail)
		ctx.JZ(LabelRef(skip))
		if k.double {
			ctx.VMOVSD(x, Mem{Base: p})
		} else {
			ctx.VMOVSS(x, Mem{Base: p})
		}
		ctx.Label(skip)
	}
}

func (k *kernel) loadMask() {
	ctx := k.ctx
	p, t := ctx.GP64(), ctx.GP64()
	ctx.LEAQ(Mem{Symbol: Symbol{Name: "·tailMask"}, Base: reg.StaticBase}, p)
	ctx.MOVQ(k.field(tTail), t)
	ctx.SHLQ(Imm(uint64(2+k.esize()/8)), t)
	ctx.SUBQ(t, p)
	ctx.VMOVUPS(Mem{Base: p, Disp: 32}, k.mask)
}
