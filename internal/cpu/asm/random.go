package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Package random of the repository defines these numbers; its functions are
// followed here operation by operation, so that the bits are the same.

// emitPhilox emits the generator for n blocks from number block on, n a
// multiple of two vectors of them. A block is a lane of 64 bits in each of
// four vectors, of which the lower half counts: what multiplications leave in
// the upper ones never comes back.
func emitPhilox(v *vk) {
	if v.neon() {
		v.neonPhilox()
		return
	}
	ctx := v.ctx
	w := v.as(true)
	const groups = 2
	dst, n := v.ptr("dst"), v.ptr("n")
	broadcast := func(name string) V {
		d := v.reg()
		b, err := ctx.Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		ctx.VPBROADCASTQ(b.Addr, d)
		return d
	}
	lanes := []uint64{0, 1, 2, 3, 4, 5, 6, 7}[:w.lanes()]
	number := w.iadd(broadcast("block"), v.longs(lanes...))
	ctx.Label("blocks")
	var c [groups][4]V
	for g := range c {
		c[g] = [4]V{v.copy(number), w.shr(number, 32), v.zero(), v.zero()}
		v.ins("VPADDQ", w.ci(int64(w.lanes())), number, number)
	}
	k0 := broadcast("key")
	k1 := w.shr(k0, 32)
	for r := range 10 {
		if r > 0 {
			v.ins("VPADDD", v.ci(0x9E3779B9), k0, k0)
			v.ins("VPADDD", v.ci(0xBB67AE85), k1, k1)
		}
		for g := range c {
			p0, p1 := v.reg(), v.reg()
			ctx.VPMULUDQ(w.ci(0xD2511F53), c[g][0], p0)
			ctx.VPMULUDQ(w.ci(0xCD9E8D57), c[g][2], p1)
			c0 := w.xor(w.xor(w.shr(p1, 32), c[g][1]), k0)
			c2 := w.xor(w.xor(w.shr(p0, 32), c[g][3]), k1)
			c[g] = [4]V{c0, p1, c2, p0}
		}
	}
	size := v.bits / 8
	for g := range c {
		a, b := v.pairUp(c[g][0], c[g][1]), v.pairUp(c[g][2], c[g][3])
		lo, hi := v.reg(), v.reg() // blocks 0 and 2 (4, 6), and 1 and 3 (5, 7)
		ctx.VPUNPCKLQDQ(b, a, lo)
		ctx.VPUNPCKHQDQ(b, a, hi)
		first, second := v.reg(), v.reg()
		if v.wide() {
			ctx.VMOVDQU64(v.longs(0, 1, 8, 9, 2, 3, 10, 11), first)
			ctx.VPERMI2Q(hi, lo, first)
			ctx.VMOVDQU64(v.longs(4, 5, 12, 13, 6, 7, 14, 15), second)
			ctx.VPERMI2Q(hi, lo, second)
		} else {
			ctx.VPERM2I128(Imm(0x20), hi, lo, first)
			ctx.VPERM2I128(Imm(0x31), hi, lo, second)
		}
		ctx.VMOVUPS(first, Mem{Base: dst, Disp: 2 * g * size})
		ctx.VMOVUPS(second, Mem{Base: dst, Disp: (2*g + 1) * size})
	}
	ctx.ADDQ(U32(uint32(2*groups*size)), dst)
	ctx.SUBQ(U32(uint32(groups*w.lanes())), n)
	ctx.JG(LabelRef("blocks"))
}

// longs is a constant of 64-bit lanes.
func (v *vk) longs(words ...uint64) Mem {
	key := "l"
	for _, x := range words {
		key += fmt.Sprintf("_%d", x)
	}
	if m, ok := v.consts[key]; ok {
		return m
	}
	m := v.ctx.StaticGlobal(key)
	v.ctx.DataAttributes(build.RODATA | build.NOPTR)
	for i, x := range words {
		v.ctx.AddDatum(8*i, U64(x))
	}
	v.consts[key] = m
	return m
}

// pairUp puts the lower halves of a's and b's lanes side by side.
func (v *vk) pairUp(a, b V) V {
	b = v.as(true).shl(b, 32)
	d := v.reg()
	if v.wide() {
		k, t := v.ctx.K(), v.ctx.GP32()
		v.ctx.MOVL(U32(0xaaaa), t)
		v.ctx.KMOVW(t, k)
		v.ctx.VPBLENDMD(b, a, k, d)
	} else {
		v.ctx.VPBLENDD(Imm(0xaa), b, a, d)
	}
	return d
}

// emitUniform maps words to [0, 1).
func emitUniform(v *vk) {
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		for o := 0; o < 16; o += v.lanes() {
			w := v.load(at("a", 4, o))
			v.store(v.mul(v.fromInt32(v.shr(w, 8)), v.c(1.0/(1<<24))), at("dst", 4, o))
		}
	})
}

var (
	normalLog    = []float64{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
	normalCenter = []float64{2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941}
	normalTail   = []float64{-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682}
)

// unfused evaluates a polynomial with a rounding after each multiplication and
// each addition.
func (v *vk) unfused(x V, c []float64) V {
	d := v.copy(v.c(c[0]))
	for _, k := range c[1:] {
		if v.neon() {
			d = v.add(v.mul(d, x), v.c(k))
			continue
		}
		v.ins("VMULPS", x, d, d)
		v.ins("VADDPS", v.c(k), d, d)
	}
	return d
}

// emitNormal maps words to standard normal numbers.
func emitNormal(v *vk) {
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		for o := 0; o < 16; o += v.lanes() {
			v.store(v.normal(v.load(at("a", 4, o))), at("dst", 4, o))
		}
	})
}

func (v *vk) normal(w V) V {
	ctx := v.ctx
	flip := v.isub(v.shr(w, 31), v.ci(1)) // ones for the negative half
	n := v.and(v.xor(v.shr(w, 8), flip), v.ci(1<<23-1))
	odd := v.iadd(v.iadd(n, n), v.ci(1))
	x := v.mul(v.fromInt32(odd), v.c(1.0/(1<<24)))
	rest := v.mul(v.fromInt32(v.isub(v.copy(v.ci(1<<24)), odd)), v.c(1.0/(1<<24))) // 1-x
	b := v.mul(rest, v.add(x, v.c(1)))
	// t = -log(b)
	e := v.fromInt32(v.isub(v.shr(b, 23), v.ci(126)))
	m := v.or(v.and(b, v.ci(0x007fffff)), v.ci(0x3f000000))
	low := v.cmp(lt, m, v.c(0.70710678))
	e = v.sub(e, v.keep(low, v.copy(v.c(1))))
	m = v.sub(v.add(m, v.keep(low, m)), v.c(1))
	z := v.mul(m, m)
	y := v.mul(v.mul(m, z), v.unfused(m, normalLog))
	y = v.add(y, v.mul(e, v.c(-2.12194440e-4)))
	y = v.sub(y, v.mul(z, v.c(0.5)))
	y = v.add(m, y)
	y = v.add(y, v.mul(e, v.c(0.693359375)))
	t := v.neg(y)
	p := v.unfused(v.sub(t, v.c(2.5)), normalCenter)
	// One number of a hundred and fifty lies in the tails.
	tail := v.cmp(ge, t, v.c(5))
	f := ctx.GP32()
	skip := v.label("center")
	switch {
	case v.neon():
		v.text("CBZW <R, <L", v.anyLane(tail), LabelRef(skip))
	case v.wide():
		ctx.KMOVW(tail, f)
	default:
		v.ins("VMOVMSKPS", tail, f)
	}
	if !v.neon() {
		ctx.TESTL(f, f)
		ctx.JZ(LabelRef(skip))
	}
	q := v.unfused(v.sub(opSqrt(v, t), v.c(3)), normalTail)
	switch {
	case v.neon():
		v.op("bit", p, q, tail)
	case v.wide():
		v.ins("VBLENDMPS", q, p, tail, p)
	default:
		v.ins("VBLENDVPS", tail, q, p, p)
	}
	ctx.Label(skip)
	p = v.mul(v.mul(p, x), v.c(math.Sqrt2))
	return v.or(p, v.and(flip, v.signMask()))
}
