package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// accumulators makes n zeroed accumulators.
func (v *vk) accumulators(n int) []V {
	var a []V
	for range n {
		a = append(a, v.zero())
	}
	return a
}

// ret stores the low lane of x, float64 if double, as result i.
func (v *vk) ret(i int, x V, double bool) {
	b, err := v.ctx.ReturnIndex(i).Resolve()
	if err != nil {
		panic(err)
	}
	if double {
		v.ctx.VMOVSD(x.AsX(), b.Addr)
	} else {
		v.ctx.VMOVSS(x.AsX(), b.Addr)
	}
}

func emitSum(v *vk) {
	w := v.as(true)
	acc := v.accumulators(8)
	v.reduce("a", 8, func(set int, valid func(V) V, in ...Op) { w.accAdd(acc[set], in[0]) })
	v.ret(0, v.total(acc), true)
}

func emitSumSq(v *vk) {
	w := v.as(true)
	acc := v.accumulators(8)
	v.reduce("a", 8, func(set int, valid func(V) V, in ...Op) { w.acc(acc[set], in[0], in[0]) })
	v.ret(0, v.total(acc), true)
}

func emitSumSumSq(v *vk) {
	w := v.as(true)
	sum, sq := v.accumulators(4), v.accumulators(4)
	v.reduce("a", 4, func(set int, valid func(V) V, in ...Op) {
		w.accAdd(sum[set], in[0])
		w.acc(sq[set], in[0], in[0])
	})
	v.ret(0, v.total(sum), true)
	v.ret(1, v.total(sq), true)
}

func emitSumSqDev(v *vk) {
	w := v.as(true)
	mean := w.scalar("s")
	acc := v.accumulators(4)
	v.reduce("a", 4, func(set int, valid func(V) V, in ...Op) {
		d := valid(w.sub(in[0], mean))
		w.acc(acc[set], d, d)
	})
	v.ret(0, v.total(acc), true)
}

func emitDot(v *vk) {
	w := v.as(true)
	acc := v.accumulators(8)
	v.reduce("a b", 8, func(set int, valid func(V) V, in ...Op) { w.acc(acc[set], in[0], in[1]) })
	v.ret(0, v.total(acc), true)
}

// extreme emits ReduceMax or ReduceMin. The machine's max and min drop a NaN,
// so the loop remembers where there was one.
func extreme(name string, start float64) func(*vk) {
	return func(v *vk) {
		ctx := v.ctx
		const sets = 4
		var m, nan []V
		for range sets {
			m = append(m, v.copy(v.c(start)))
			nan = append(nan, v.zero())
		}
		p, n, i := v.ptr("a"), v.ptr("n"), ctx.GP64()
		ctx.XORQ(i, i)
		note := func(set int, x V) {
			if v.wide() {
				// x - x is 0 for a number and NaN for NaN and Inf; a NaN
				// stays in a sum. Inf would too, hence the comparison.
				k := v.cmp(unord, x, x)
				v.ins("VMOVAPS", x, k, nan[set])
			} else {
				v.ins("VORPS", v.cmp(unord, x, x), nan[set], nan[set])
			}
			v.ins(name, x, m[set], m[set])
		}
		lanes := v.lanes()
		at := func(u int) Mem { return Mem{Base: p, Index: i, Scale: uint8(v.es()), Disp: u * v.bits / 8} }
		ctx.SUBQ(U32(uint32(sets*lanes)), n)
		ctx.JL(LabelRef("few"))
		ctx.Label("many")
		for u := range sets {
			note(u, v.load(at(u)))
		}
		ctx.ADDQ(U32(uint32(sets*lanes)), i)
		ctx.SUBQ(U32(uint32(sets*lanes)), n)
		ctx.JGE(LabelRef("many"))
		ctx.Label("few")
		ctx.ADDQ(U32(uint32(sets*lanes)), n)
		ctx.SUBQ(U32(uint32(lanes)), n)
		ctx.JL(LabelRef("tail"))
		ctx.Label("one")
		note(0, v.load(at(0)))
		ctx.ADDQ(U32(uint32(lanes)), i)
		ctx.SUBQ(U32(uint32(lanes)), n)
		ctx.JGE(LabelRef("one"))
		ctx.Label("tail")
		ctx.ADDQ(U32(uint32(lanes)), n)
		ctx.JZ(LabelRef("end"))
		k := v.tailMask(n)
		note(0, v.blend(k, v.loadMasked(at(0), k), v.c(start)))
		ctx.Label("end")
		for h := sets / 2; h > 0; h /= 2 {
			for j := range h {
				v.ins(name, m[j+h], m[j], m[j])
				nan[j] = v.or(nan[j], nan[j+h])
			}
		}
		r := v.fold(m[0], v.double, func(d, s Op) { v.ins(name, s, d, d) })
		// Any lane of nan set makes the result NaN.
		f := ctx.GP32()
		if v.wide() {
			kk := v.cmp(unord, nan[0], nan[0])
			ctx.KMOVW(kk, f)
		} else {
			v.ins("VMOVMSKPS", nan[0], f)
		}
		ctx.TESTL(f, f)
		ctx.JZ(LabelRef("number"))
		ctx.VMOVUPS(v.c(math.NaN()), r)
		ctx.Label("number")
		v.ret(0, r, v.double)
	}
}

// emitExpSub emits ExpSub (store) and SumExpSub.
func emitExpSub(store bool) func(*vk) {
	return func(v *vk) {
		w := v.as(true)
		s := v.scalar("s")
		acc := v.accumulators(2)
		in := "a"
		if !store {
			in = "- a"
		}
		v.elementwise(in, 1, func(in ...Op) V {
			return v.exp(v.sub(in[0], s))
		}, func(r V) {
			w.accAdd(acc[0], v.widenLow(r))
			w.accAdd(acc[1], v.widenHigh(r))
		})
		v.ret(0, v.total(acc), true)
	}
}
