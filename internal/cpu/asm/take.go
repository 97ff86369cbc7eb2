package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitTake copies rows of at least 32 bytes from scattered places to adjacent
// ones. While a row is copied, the one that comes four later is fetched: the
// hardware cannot know where it is.
func emitTake(v *vk) {
	if v.neon() {
		v.neonTake()
		return
	}
	ctx := v.ctx
	const ahead = 4
	dst, src, idx, n, size := v.ptr("dst"), v.ptr("src"), v.ptr("idx"), v.ptr("n"), v.ptr("size")
	last, from, next := ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.LEAQ(Mem{Base: idx, Index: n, Scale: 8, Disp: -8}, last)
	ctx.Label("row")
	row := func(at reg.GPVirtual, to reg.GPVirtual) {
		ctx.MOVQ(Mem{Base: at}, to)
		ctx.IMULQ(size, to)
		ctx.ADDQ(src, to)
	}
	row(idx, from)
	at := ctx.GP64()
	ctx.LEAQ(Mem{Base: idx, Disp: 8 * ahead}, at)
	ctx.CMPQ(at, last)
	ctx.CMOVQHI(last, at)
	row(at, next)
	i, left := ctx.GP64(), ctx.GP64()
	ctx.XORQ(i, i)
	ctx.MOVQ(size, left)
	move := func(disp int) {
		x := ctx.YMM()
		ctx.VMOVUPS(Mem{Base: from, Index: i, Scale: 1, Disp: disp}, x)
		ctx.VMOVUPS(x, Mem{Base: dst, Index: i, Scale: 1, Disp: disp})
	}
	ctx.SUBQ(Imm(64), left)
	ctx.JL(LabelRef("short"))
	ctx.Label("line")
	ctx.PREFETCHT0(Mem{Base: next, Index: i, Scale: 1})
	move(0)
	move(32)
	ctx.ADDQ(Imm(64), i)
	ctx.SUBQ(Imm(64), left)
	ctx.JGE(LabelRef("line"))
	ctx.Label("short") // left - 64 bytes remain
	ctx.ADDQ(Imm(64), left)
	ctx.JZ(LabelRef("end"))
	ctx.PREFETCHT0(Mem{Base: next, Index: i, Scale: 1})
	ctx.SUBQ(Imm(32), left)
	ctx.JLE(LabelRef("tail"))
	move(0)
	ctx.Label("tail") // the last 32, which may be there already
	ctx.LEAQ(Mem{Base: size, Disp: -32}, i)
	move(0)
	ctx.Label("end")
	ctx.ADDQ(size, dst)
	ctx.ADDQ(Imm(8), idx)
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("row"))
}
