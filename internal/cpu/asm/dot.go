package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Field offsets of gemm's type dots; gemm's tests compare them.
const (
	dX    = 0
	dY    = 8
	dRowX = 16
	dRowY = 24
	dK    = 32
	dOut  = 40
)

// dotKernel writes the kernel for thin products of matrices that both lie
// along k: the h×4 dot products of h rows of X and 4 rows of Y. Each sums in
// the lanes of one register, so nothing is packed.
func dotKernel(ctx *build.Context, bits int, double bool, h int, consts map[string]Mem) {
	v := &vk{ctx: ctx, bits: bits, double: double, consts: consts}
	name := fmt.Sprintf("dot%sR%d%s", map[bool]string{false: "F32", true: "F64"}[double], h, v.level())
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(fmt.Sprintf("%s computes the dot products of %d rows of X with 4 of Y.", name, h))
	ctx.SignatureExpr("func(d *byte)")
	d := v.ptr("d")
	field := func(o int) Mem { return Mem{Base: d, Disp: o} }
	x, y, rx, ry, n, i := ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.MOVQ(field(dX), x)
	ctx.MOVQ(field(dY), y)
	ctx.MOVQ(field(dRowX), rx)
	ctx.MOVQ(field(dRowY), ry)
	ctx.MOVQ(field(dK), n)
	ctx.XORQ(i, i)
	xs, ys := []reg.GPVirtual{x}, []reg.GPVirtual{y}
	for len(xs) < h {
		p := ctx.GP64()
		ctx.MOVQ(xs[len(xs)-1], p)
		ctx.ADDQ(rx, p)
		xs = append(xs, p)
	}
	for len(ys) < 4 {
		p := ctx.GP64()
		ctx.MOVQ(ys[len(ys)-1], p)
		ctx.ADDQ(ry, p)
		ys = append(ys, p)
	}
	var acc [][]V
	for range h {
		var r []V
		for range 4 {
			z := v.reg()
			if v.wide() {
				ctx.VMOVUPS(v.c(0), z)
			} else {
				ctx.VXORPS(z, z, z)
			}
			r = append(r, z)
		}
		acc = append(acc, r)
	}
	step := func(load func(p reg.GPVirtual) V) {
		var xv []V
		for _, p := range xs {
			xv = append(xv, load(p))
		}
		for j, p := range ys {
			yv := load(p)
			for r := range xv {
				v.ins("VFMADD231PS", yv, xv[r], acc[r][j])
			}
		}
	}
	at := func(p reg.GPVirtual) Mem { return Mem{Base: p, Index: i, Scale: 1} }
	lanes := v.lanes()
	ctx.SUBQ(U32(uint32(lanes)), n)
	ctx.JL(LabelRef("tail"))
	ctx.Label("loop")
	step(func(p reg.GPVirtual) V { return v.load(at(p)) })
	ctx.ADDQ(U32(uint32(bits/8)), i)
	ctx.SUBQ(U32(uint32(lanes)), n)
	ctx.JGE(LabelRef("loop"))
	ctx.Label("tail")
	ctx.ADDQ(U32(uint32(lanes)), n)
	ctx.JZ(LabelRef("sum"))
	if v.wide() {
		k := v.tailMask(n)
		step(func(p reg.GPVirtual) V { return v.loadMasked(at(p), k) })
	} else {
		// All registers are in use: the mask is read again for each load.
		p, t := ctx.GP64(), n
		ctx.LEAQ(Mem{Symbol: Symbol{Name: "·tailMask"}, Base: reg.StaticBase}, p)
		ctx.SHLQ(Imm(uint64(2+v.es()/8)), t)
		ctx.SUBQ(t, p)
		step(func(q reg.GPVirtual) V {
			m := v.reg()
			ctx.VMOVUPS(Mem{Base: p, Disp: 32}, m)
			v.ins("VMASKMOVPS", at(q), m, m)
			return m
		})
	}
	ctx.Label("sum")
	for r := range acc {
		for j := range acc[r] {
			s := v.fold(acc[r][j], double, func(d, s Op) { v.ins("VADDPS", s, d, d) })
			m := field(dOut + (r*4+j)*v.es())
			if double {
				ctx.VMOVSD(s.AsX(), m)
			} else {
				ctx.VMOVSS(s.AsX(), m)
			}
		}
	}
	ctx.VZEROUPPER()
	ctx.RET()
}
