package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reduce emits a loop over the inputs with float64 accumulators for float32 data.
// body gets the inputs of one vector of float64 lanes and the number of the
// accumulator set to use; valid, in the tail, masks a vector to the valid lanes (nil
// if all are): lanes outside hold 0.
func (v *vk) reduce(inputs string, unroll int, body func(set int, valid func(V) V, in ...Op)) {
	if v.neon() {
		v.neonReduce(inputs, unroll, body)
		return
	}
	ctx := v.ctx
	var src []reg.GPVirtual
	for _, s := range strings.Fields(inputs) {
		src = append(src, v.ptr(s))
	}
	n := v.ptr("n")
	i := ctx.GP64()
	ctx.XORQ(i, i)
	w := v.as(true)
	lanes := w.lanes() // per accumulator
	es := v.es()
	step := unroll * lanes
	all := func(x V) V { return x }
	ctx.SUBQ(U32(uint32(step)), n)
	ctx.JL(LabelRef("few"))
	ctx.Label("many")
	for u := range unroll {
		var in []Op
		for q, p := range src {
			m := Mem{Base: p, Index: i, Scale: uint8(es), Disp: u * lanes * es}
			switch {
			case !v.double:
				in = append(in, v.widen(m))
			case q == len(src)-1 && q > 0:
				in = append(in, m)
			default:
				in = append(in, v.load(m))
			}
		}
		body(u, all, in...)
	}
	ctx.ADDQ(U32(uint32(step)), i)
	ctx.SUBQ(U32(uint32(step)), n)
	ctx.JGE(LabelRef("many"))
	ctx.Label("few")
	ctx.ADDQ(U32(uint32(step)), n)
	ctx.JZ(LabelRef("end"))
	// The rest, a masked vector of lanes at a time.
	ctx.Label("rest")
	left := ctx.GP64()
	ctx.MOVQ(n, left)
	lim := ctx.GP64()
	ctx.MOVQ(U32(uint32(lanes)), lim)
	ctx.CMPQ(left, lim)
	ctx.CMOVQGT(lim, left)
	k := w.tailMask(left)
	var in []Op
	for _, p := range src {
		m := Mem{Base: p, Index: i, Scale: uint8(es)}
		if v.double {
			in = append(in, v.loadMasked(m, k))
			continue
		}
		// Half a vector of float32, masked.
		d := v.reg()
		if v.wide() {
			ctx.VMOVUPS_Z(m, k, d.AsY())
			in = append(in, v.widen(d.AsY()))
		} else {
			kp, t := ctx.GP64(), ctx.GP64()
			ctx.LEAQ(Mem{Symbol: Symbol{Name: "·tailMask"}, Base: reg.StaticBase}, kp)
			ctx.MOVQ(left, t)
			ctx.SHLQ(Imm(2), t)
			ctx.SUBQ(t, kp)
			km := v.reg()
			ctx.VMOVUPS(Mem{Base: kp, Disp: 32}, km.AsX())
			ctx.VMASKMOVPS(m, km.AsX(), d.AsX())
			in = append(in, v.widen(d.AsX()))
		}
	}
	body(0, func(x V) V { return w.keep(k, x) }, in...)
	ctx.ADDQ(U32(uint32(lanes)), i)
	ctx.SUBQ(U32(uint32(lanes)), n)
	ctx.JG(LabelRef("rest"))
	ctx.Label("end")
}

// total adds up accumulators and their lanes into the low lane, in a fixed
// order.
func (v *vk) total(acc []V) reg.VecVirtual {
	w := v.as(true)
	for len(acc) > 1 {
		h := len(acc) / 2
		for j := range h {
			w.accAdd(acc[j], acc[j+h])
		}
		acc = acc[:h]
	}
	if v.neon() {
		return v.one("faddp.d", acc[0])
	}
	return v.fold(acc[0], true, func(d, s Op) { v.ctx.VADDPD(s, d, d) })
}

// fold combines the lanes of x (float64 if double) into its low lane.
func (v *vk) fold(x V, double bool, op func(d, s Op)) V {
	ctx := v.ctx
	if v.wide() {
		t := ctx.ZMM()
		ctx.VEXTRACTF64X4(Imm(1), x, t.AsY())
		op(x.AsY(), t.AsY())
	}
	t := ctx.YMM()
	ctx.VEXTRACTF128(Imm(1), x.AsY(), t.AsX())
	op(x.AsX(), t.AsX())
	t = ctx.YMM()
	ctx.VPERMILPD(Imm(1), x.AsX(), t.AsX())
	op(x.AsX(), t.AsX())
	if !double {
		t = ctx.YMM()
		ctx.VPERMILPS(Imm(1), x.AsX(), t.AsX())
		op(x.AsX(), t.AsX())
	}
	return x
}
