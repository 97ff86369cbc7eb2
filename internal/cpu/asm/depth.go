package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Field offsets of depth's type plane; depth's tests compare them.
const (
	depthX       = 0
	depthOffset  = 8
	depthY       = 16
	depthW       = 24
	depthRowX    = 32
	depthRowY    = 40
	depthRows    = 48
	depthFirst   = 56
	depthLast    = 64
	depthOdd     = 72
	depthVectors = 80
	depthMasks   = 88
	depthTail    = 96
	depthSpread  = 104
)

// depthKernels writes the convolution of a plane with a 3×3 filter, for one vector width.
func depthKernels(ctx *build.Context, bits int) {
	consts := map[string]Mem{}
	for _, stride := range []int{1, 2} {
		d := &depth{winograd{vk{ctx: ctx, bits: bits, consts: consts}}, stride, nil}
		d.convolve()
	}
}

type depth struct {
	winograd
	stride int
	t      reg.GPVirtual
}

func (d *depth) field(off int) Mem { return Mem{Base: d.t, Disp: off} }

// convolve goes down the plane, a column of vectors at a time. Each row of x is read once
// and added to the rows of the result that it belongs to, which are kept in
// registers: first the one that it is the last row of, which is then written.
func (d *depth) convolve() {
	ctx := d.ctx
	d.begin(fmt.Sprintf("stride%d", d.stride), "func(t *byte)", fmt.Sprintf("convolves a plane with a 3×3 filter that moves by %d.", d.stride))
	d.t = d.ptr("t")
	vb := d.bits / 8
	// The taps as vectors.
	{
		w := d.word(d.t, depthW)
		for i := range 9 {
			v := d.reg()
			ctx.VBROADCASTSS(Mem{Base: w, Disp: 4 * i}, v)
			ctx.VMOVUPS(v, d.field(depthSpread+64*i))
		}
	}
	tap := func(i, j int) Mem { return d.field(depthSpread + 64*(3*i+j)) }
	column := d.word(d.t, depthX) // of x, at the filter's first place, which may be outside
	ctx.ADDQ(d.field(depthOffset), column)
	to := d.word(d.t, depthY)
	masks := d.word(d.t, depthMasks)
	var every func(a, b V, odd bool) V
	if d.stride == 2 {
		every = d.everySecond("depth")
	}

	ctx.Label("vector")
	x, y := ctx.GP64(), ctx.GP64()
	ctx.MOVQ(column, x)
	ctx.MOVQ(to, y)
	// at says which row of the result the first accumulator is.
	rows, at, last := d.word(d.t, depthRows), d.word(d.t, depthFirst), d.word(d.t, depthLast)
	n := 3
	offsets := []int{0, 4, 8}
	if d.stride == 2 {
		n, offsets = 4, []int{0, vb, 8, vb + 8}
	}
	var ms []M
	for i := range n {
		ms = append(ms, d.mask(Mem{Base: masks, Disp: 64 * i}))
	}
	load := func() [3]V {
		var l []V
		for i, o := range offsets {
			l = append(l, d.loadMasked(Mem{Base: x, Disp: o}, ms[i]))
		}
		if d.stride == 2 {
			l = []V{every(l[0], l[1], false), every(l[0], l[1], true), every(l[2], l[3], false)}
		}
		ctx.ADDQ(d.field(depthRowX), x)
		return [3]V{l[0], l[1], l[2]}
	}
	add := func(acc V, i int, l [3]V) {
		for j := range l {
			d.acc(acc, l[j], tap(i, j))
		}
	}
	begin := func(acc V, l [3]V) {
		d.ins("VMULPS", tap(0, 0), l[0], acc)
		d.acc(acc, l[1], tap(0, 1))
		d.acc(acc, l[2], tap(0, 2))
	}
	// put writes a row of the result if it is one, and goes on to the next.
	put := func(acc V) {
		skip, whole := d.label("skip"), d.label("whole")
		ctx.CMPQ(at, last)
		ctx.JAE(LabelRef(skip)) // also where it is negative
		ctx.CMPQ(d.field(depthVectors), Imm(1))
		ctx.JNE(LabelRef(whole))
		tail := d.word(d.t, depthTail)
		if d.wide() {
			ctx.VMOVUPS(acc, d.tailMask(tail), Mem{Base: y})
		} else {
			ctx.CMPQ(tail, Imm(8))
			ctx.JE(LabelRef(whole))
			q := ctx.GP64()
			ctx.MOVQ(y, q)
			d.storeTail(d.copy(acc), q, tail, nil)
		}
		next := d.label("next")
		ctx.JMP(LabelRef(next))
		ctx.Label(whole)
		ctx.VMOVUPS(acc, Mem{Base: y})
		ctx.Label(next)
		ctx.ADDQ(d.field(depthRowY), y)
		ctx.Label(skip)
		ctx.INCQ(at)
	}
	zero := func(v V) {
		if d.wide() {
			ctx.VMOVUPS(d.c(0), v)
		} else {
			ctx.VXORPS(v, v, v)
		}
	}
	if d.stride == 1 {
		acc := []V{d.reg(), d.reg(), d.reg()}
		zero(acc[0])
		zero(acc[1])
		ctx.TESTQ(rows, rows)
		ctx.JZ(LabelRef("end0"))
		// Three rows per turn, so that each accumulator is in its place again.
		ctx.Label("row")
		for i := range 3 {
			l := load()
			add(acc[i], 2, l)
			put(acc[i])
			add(acc[(i+1)%3], 1, l)
			begin(acc[(i+2)%3], l)
			ctx.DECQ(rows)
			if i < 2 {
				ctx.JZ(LabelRef(fmt.Sprintf("end%d", i+1)))
			}
		}
		ctx.JNZ(LabelRef("row"))
		// Two rows of the result have begun.
		ctx.Label("end0")
		for i := range 3 {
			if i > 0 {
				ctx.Label(fmt.Sprintf("end%d", i))
			}
			put(acc[i])
			put(acc[(i+1)%3])
			ctx.JMP(LabelRef("done"))
		}
		ctx.Label("done")
	} else {
		// Rows of x that are the last of one row of the result are the first of the next.
		// With an odd first row, only the second row of the first one is there.
		acc := d.reg()
		zero(acc)
		ctx.TESTQ(rows, rows)
		ctx.JZ(LabelRef("end"))
		odd := d.word(d.t, depthOdd)
		ctx.TESTQ(odd, odd)
		ctx.JNZ(LabelRef("middle"))
		ctx.Label("row")
		{
			l := load()
			add(acc, 2, l)
			put(acc)
			begin(acc, l)
			ctx.DECQ(rows)
			ctx.JZ(LabelRef("end"))
		}
		ctx.Label("middle")
		add(acc, 1, load())
		ctx.DECQ(rows)
		ctx.JNZ(LabelRef("row"))
		ctx.Label("end")
		put(acc)
	}
	ctx.ADDQ(U32(uint32(d.stride*vb)), column)
	ctx.ADDQ(U32(uint32(vb)), to)
	ctx.ADDQ(U32(256), masks)
	ctx.DECQ(d.field(depthVectors))
	ctx.JNZ(LabelRef("vector"))
	ctx.VZEROUPPER()
	ctx.RET()
}
