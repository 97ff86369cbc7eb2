package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowsPerPass is how many rows of B rowKernel adds at a time.
const rowsPerPass = 8

// rowKernel writes the kernel for a vector times a row-major matrix: it adds 8
// rows of B, each times an element of x, to c. B is read in the order it lies
// in memory, and c stays in the L1 cache.
func rowKernel(ctx *build.Context, bits int, double bool, consts map[string]Mem) {
	v := &vk{ctx: ctx, bits: bits, double: double, consts: consts}
	t := map[bool]string{false: "F32", true: "F64"}[double]
	name := "row" + t + v.level()
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(fmt.Sprintf("%s adds %d rows of b, stride bytes apart, times the elements of x to c. n is a multiple of %d.", name, rowsPerPass, v.lanes()))
	ctx.SignatureExpr("func(c, x, b *byte, stride, n int)")
	c, x, b, st, n := v.ptr("c"), v.ptr("x"), v.ptr("b"), v.ptr("stride"), v.ptr("n")
	var xs []V
	for i := range rowsPerPass {
		d := v.reg()
		m := Mem{Base: x, Disp: i * v.es()}
		if double {
			ctx.VBROADCASTSD(m, d)
		} else {
			ctx.VBROADCASTSS(m, d)
		}
		xs = append(xs, d)
	}
	// Three pointers reach eight rows with scaled strides.
	b3, b6 := ctx.GP64(), ctx.GP64()
	ctx.LEAQ(Mem{Base: b, Index: st, Scale: 2}, b3)
	ctx.ADDQ(st, b3)
	ctx.LEAQ(Mem{Base: b3, Index: st, Scale: 2}, b6)
	ctx.ADDQ(st, b6)
	bases := []reg.GPVirtual{b, b3, b6}
	ctx.Label("loop")
	acc := v.load(Mem{Base: c})
	for i := range rowsPerPass {
		m := Mem{Base: bases[i/3]}
		if i%3 > 0 {
			m.Index, m.Scale = st, uint8(i%3)
		}
		v.acc(acc, xs[i], m)
	}
	ctx.VMOVUPS(acc, Mem{Base: c})
	for _, p := range append(bases, c) {
		ctx.ADDQ(U32(uint32(bits/8)), p)
	}
	ctx.SUBQ(U32(uint32(v.lanes())), n)
	ctx.JG(LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}
