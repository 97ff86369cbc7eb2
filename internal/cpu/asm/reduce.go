package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
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
	if v.neon() {
		v.text(map[bool]string{false: "FMOVS <F, =M", true: "FMOVD <F, =M"}[double], x, b.Addr)
		return
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

// emitSumFours takes blocks of 16 vectors, every four of which are added as float32.
// That is a third of the instructions of emitSum, so that more loads are under way at
// a time.
func emitSumFours(v *vk) {
	ctx := v.ctx
	w := v.as(true)
	const groups = 4
	acc := v.accumulators(2 * groups)
	p, n := v.ptr("a"), v.ptr("n")
	step := v.bits / 8
	ctx.Label("block")
	for g := range groups {
		at := func(i int) Mem { return Mem{Base: p, Disp: (4*g + i) * step} }
		x := v.add(v.add(v.load(at(0)), at(1)), v.add(v.load(at(2)), at(3)))
		w.accAdd(acc[2*g], v.widenLow(x))
		w.accAdd(acc[2*g+1], v.widenHigh(x))
	}
	if v.neon() {
		v.text("ADD <$, =R", U32(4*groups*step), p)
		v.text("SUBS <$, =R", U32(4*groups*v.lanes()), n)
		v.text("BGT <L", LabelRef("block"))
	} else {
		ctx.ADDQ(U32(uint32(4*groups*step)), p)
		ctx.SUBQ(U32(uint32(4*groups*v.lanes())), n)
		ctx.JG(LabelRef("block"))
	}
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
		if v.neon() {
			v.neonExtreme(name, start)
			return
		}
		ctx := v.ctx
		const sets = 4
		var m, nan []V
		for range sets {
			m = append(m, v.copy(v.c(start)))
			nan = append(nan, v.zero())
		}
		p, n, i := v.ptr("a"), v.ptr("n"), ctx.GP64()
		ctx.XORQ(i, i)
		var ones V // a NaN, too
		if v.wide() {
			ones = v.copy(v.ci(-1))
		}
		note := func(set int, x, y V) { // y may be x
			if v.wide() {
				v.ins("VMOVAPS", ones, v.cmp(unord, x, y), nan[set])
			} else {
				v.ins("VORPS", v.cmp(unord, x, y), nan[set], nan[set])
			}
			v.ins(name, x, m[set], m[set])
			if y != x {
				v.ins(name, y, m[set], m[set])
			}
		}
		lanes := v.lanes()
		at := func(u int) Mem { return Mem{Base: p, Index: i, Scale: uint8(v.es()), Disp: u * v.bits / 8} }
		// One comparison tells whether either of two is NaN.
		ctx.SUBQ(U32(uint32(2*sets*lanes)), n)
		ctx.JL(LabelRef("few"))
		ctx.Label("many")
		for u := range sets {
			note(u, v.load(at(2*u)), v.load(at(2*u+1)))
		}
		ctx.ADDQ(U32(uint32(2*sets*lanes)), i)
		ctx.SUBQ(U32(uint32(2*sets*lanes)), n)
		ctx.JGE(LabelRef("many"))
		ctx.Label("few")
		ctx.ADDQ(U32(uint32(2*sets*lanes)), n)
		ctx.SUBQ(U32(uint32(lanes)), n)
		ctx.JL(LabelRef("tail"))
		ctx.Label("one")
		x := v.load(at(0))
		note(0, x, x)
		ctx.ADDQ(U32(uint32(lanes)), i)
		ctx.SUBQ(U32(uint32(lanes)), n)
		ctx.JGE(LabelRef("one"))
		ctx.Label("tail")
		ctx.ADDQ(U32(uint32(lanes)), n)
		ctx.JZ(LabelRef("end"))
		k := v.tailMask(n)
		last := v.blend(k, v.loadMasked(at(0), k), v.c(start))
		note(0, last, last)
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

// emitExpSub emits ExpSub (store) and SumExpSub, for elements that are at most
// 40 above m.
func emitExpSub(store bool) func(*vk) {
	return func(v *vk) {
		w := v.as(true)
		s := v.scalar("s")
		acc := v.accumulators(2)
		v.ahead = true // while there is much to compute
		in := "a"
		if !store {
			in = "- a"
		}
		v.elementwise(in, 4, func(in ...Op) V {
			return v.expDown(v.sub(in[0], s))
		}, func(r V) {
			w.accAdd(acc[0], v.widenLow(r))
			w.accAdd(acc[1], v.widenHigh(r))
		})
		v.ret(0, v.total(acc), true)
	}
}

// powTwo is 2^(a·s - t), 0 below 2^-180.
func (v *vk) powTwo(a Mem, s, t V) V {
	x := v.load(a)
	v.ins("VFMSUB213PS", t, s, x)
	x = v.clampLo(x, -180)
	whole := v.add(x, v.c(nearest))
	n := v.sub(whole, v.c(nearest))
	p := v.poly(v.sub(x, n), 1.3276457e-3, 9.6755410e-3, 5.5507135e-2, 2.4022120e-1, 6.9314694e-1, 1)
	if v.wide() {
		v.ctx.VSCALEFPS(n, p, p)
		return p
	}
	return v.mul(v.mul(p, v.pow2(whole, 64)), v.c(0x1p-64))
}

// upper rounds to the upper halves of words, ties up, and returns them. A NaN stays one if its
// lower half is zero, as it is in products of bfloat16.
func (v *vk) upper(x V) V { return v.shr(v.iadd(x, v.ci(0x8000)), 16) }

// storeLower stores the lower halves of the words of x, 16 of them: one vector, or two.
func (v *vk) storeLower(to Mem, x ...V) {
	if v.wide() {
		v.ctx.VPMOVDW(x[0], to)
		return
	}
	d := v.ctx.YMM()
	v.ctx.VPACKUSDW(x[1], x[0], d)
	v.ctx.VPERMQ(Imm(0xd8), d, d)
	v.ctx.VMOVDQU(d, to)
}

// emitPowBF16 emits a loop over blocks of 32 elements that stores 2^(a·s - t) and adds them up in float32.
func emitPowBF16(v *vk) {
	ctx := v.ctx
	s, t := v.scalar("s"), v.scalar("t")
	dst, a, n := v.ptr("dst"), v.ptr("a"), v.ptr("n")
	sums := [2]V{v.zero(), v.zero()}
	i := ctx.GP64()
	ctx.XORQ(i, i)
	ctx.Label("block")
	out := make([]V, 32/v.lanes())
	for first := 0; first < len(out); first += 2 {
		woven(ctx, 2, func(j int) {
			p := v.powTwo(Mem{Base: a, Index: i, Scale: 4, Disp: 4 * (first + j) * v.lanes()}, s, t)
			v.accAdd(sums[j], p)
			out[first+j] = v.upper(p)
		})
	}
	per := len(out) / 2
	for o := range 2 {
		v.storeLower(Mem{Base: dst, Index: i, Scale: 2, Disp: 32 * o}, out[o*per:(o+1)*per]...)
	}
	ctx.ADDQ(Imm(32), i)
	ctx.SUBQ(Imm(32), n)
	ctx.JG(LabelRef("block"))
	v.accAdd(sums[0], sums[1])
	v.ret(0, v.fold(sums[0], false, func(d, s Op) { ctx.VADDPS(s, d, d) }), false)
}

// emitPowGradBF16 emits a loop over blocks of 16 elements, or 32, that stores p = 2^(a·s - t) and p·(b·u - w).
func emitPowGradBF16(v *vk) {
	ctx := v.ctx
	s, t, u, w := v.scalar("s"), v.scalar("t"), v.scalar("u"), v.scalar("w")
	p, d, a, b, n := v.ptr("p"), v.ptr("d"), v.ptr("a"), v.ptr("b"), v.ptr("n")
	i := ctx.GP64()
	ctx.XORQ(i, i)
	ctx.Label("block")
	var out [2][2]V
	woven(ctx, 2, func(j int) {
		x := v.powTwo(Mem{Base: a, Index: i, Scale: 4, Disp: 4 * j * v.lanes()}, s, t)
		y := v.load(Mem{Base: b, Index: i, Scale: 4, Disp: 4 * j * v.lanes()})
		v.ins("VFMSUB213PS", w, u, y)
		out[1][j] = v.upper(v.mul(y, x))
		out[0][j] = v.upper(x)
	})
	for k, to := range []reg.GPVirtual{p, d} {
		if !v.wide() {
			v.storeLower(Mem{Base: to, Index: i, Scale: 2}, out[k][:]...)
			continue
		}
		for j, x := range out[k] {
			v.storeLower(Mem{Base: to, Index: i, Scale: 2, Disp: 32 * j}, x)
		}
	}
	ctx.ADDQ(Imm(uint64(2*v.lanes())), i)
	ctx.SUBQ(Imm(uint64(2*v.lanes())), n)
	ctx.JG(LabelRef("block"))
}
