package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vecKernels emits every function of the table that has assembly.
func vecKernels(ctx *build.Context, bits int) {
	consts := map[string]Mem{}
	for _, f := range table {
		for _, t := range f.typesList() {
			if !f.hasAsm(t) {
				continue
			}
			v := &vk{ctx: ctx, bits: bits, double: t == "F64", fn: f, consts: consts}
			c := classes[f.class]
			ctx.Function(f.asmName(t, v.level()))
			ctx.Attributes(build.NOSPLIT)
			ctx.Pragma("noescape")
			ctx.Doc(f.asmName(t, v.level()) + " is " + f.name + t + " for n > 0.")
			ctx.SignatureExpr("func(" + subst(c.asmParams, t) + ") " + asmResult(c.result, t))
			f.emit(v)
			ctx.VZEROUPPER()
			ctx.RET()
			if f.stream && t == "F32" {
				v := &vk{ctx: ctx, bits: bits, fn: f, consts: consts, stream: true}
				ctx.Function(f.streamName(v.level()))
				ctx.Attributes(build.NOSPLIT)
				ctx.Pragma("noescape")
				ctx.Doc(f.streamName(v.level()) + " is " + f.name + "StreamF32 for whole cache lines of dst.")
				ctx.SignatureExpr("func(" + subst(c.asmParams, t) + ")")
				f.emit(v)
				ctx.VZEROUPPER()
				ctx.RET()
			}
		}
	}
}

func asmResult(r, t string) string { return subst(r, t) }

// ptr loads a pointer or integer parameter.
func (v *vk) ptr(name string) reg.GPVirtual {
	p := v.ctx.GP64()
	if v.neon() {
		v.text("MOVD <M, >R", v.param(name), p)
		return p
	}
	v.ctx.Load(v.ctx.Param(name), p)
	return p
}

// scalar broadcasts a floating-point parameter.
func (v *vk) scalar(name string) V {
	d := v.reg()
	m := v.param(name)
	switch {
	case v.neon() && v.double:
		v.text("FMOVD <M, >F", m, d)
		return v.one("dup.2d", d)
	case v.neon():
		v.text("FMOVS <M, >F", m, d)
		return v.one("dup.4s", d)
	case v.double:
		v.ctx.VBROADCASTSD(m, d)
	default:
		v.ctx.VBROADCASTSS(m, d)
	}
	return d
}

// param is where a parameter lies.
func (v *vk) param(name string) Mem {
	b, err := v.ctx.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// tailMask makes the mask of the first n lanes, n in a register.
func (v *vk) tailMask(n reg.GPVirtual) M {
	ctx := v.ctx
	if v.wide() {
		ctx.MOVQ(n, reg.RCX)
		one := ctx.GP64()
		ctx.MOVQ(U32(1), one)
		ctx.SHLQ(reg.CL, one)
		ctx.DECQ(one)
		k := ctx.K()
		ctx.KMOVW(one.As32(), k)
		return k
	}
	p, t := ctx.GP64(), ctx.GP64()
	ctx.LEAQ(Mem{Symbol: Symbol{Name: "·tailMask"}, Base: reg.StaticBase}, p)
	ctx.MOVQ(n, t)
	ctx.SHLQ(Imm(uint64(2+v.es()/8)), t)
	ctx.SUBQ(t, p)
	d := v.reg()
	ctx.VMOVUPS(Mem{Base: p, Disp: 32}, d)
	return d
}

// loadMasked reads the lanes of m that the mask names; the others are 0.
func (v *vk) loadMasked(m Mem, k M) V {
	d := v.reg()
	if v.wide() {
		v.ins(map[bool]string{false: "VMOVUPS_Z", true: "VMOVUPD_Z"}[v.double], m, k, d)
	} else {
		v.ins("VMASKMOVPS", m, k, d)
	}
	return d
}

// storeTail writes the first n lanes of x to p, without a masked store under
// AVX2, where it is slow on AMD.
func (v *vk) storeTail(x V, p reg.GPVirtual, n reg.GPVirtual, k M) {
	ctx := v.ctx
	if v.wide() {
		v.ins("VMOVUPS", x, k, Mem{Base: p})
		return
	}
	skip := v.label("half")
	ctx.TESTQ(U32(uint32(16/v.es())), n)
	ctx.JZ(LabelRef(skip))
	ctx.VMOVUPS(x.AsX(), Mem{Base: p})
	ctx.VEXTRACTF128(Imm(1), x, x.AsX())
	ctx.ADDQ(Imm(16), p)
	ctx.Label(skip)
	if !v.double {
		skip = v.label("quarter")
		ctx.TESTQ(U32(2), n)
		ctx.JZ(LabelRef(skip))
		ctx.VMOVLPS(x.AsX(), Mem{Base: p})
		ctx.VMOVHLPS(x.AsX(), x.AsX(), x.AsX())
		ctx.ADDQ(Imm(8), p)
		ctx.Label(skip)
	}
	skip = v.label("eighth")
	ctx.TESTQ(U32(1), n)
	ctx.JZ(LabelRef(skip))
	if v.double {
		ctx.VMOVSD(x.AsX(), Mem{Base: p})
	} else {
		ctx.VMOVSS(x.AsX(), Mem{Base: p})
	}
	ctx.Label(skip)
}

// elementwise emits dst[i] = body(inputs[i]...) with unroll vectors per turn. Inputs
// are parameter names; all have the lanes' size. after, if not nil, gets each result
// vector (masked to the valid lanes in the tail).
func (v *vk) elementwise(inputs string, unroll int, body func(in ...Op) V, after func(r V)) {
	if v.neon() {
		v.neonElementwise(inputs, unroll, body, after)
		return
	}
	ctx := v.ctx
	names := strings.Fields(inputs)
	store := !strings.HasPrefix(inputs, "-")
	var dst reg.GPVirtual
	if store {
		dst = v.ptr("dst")
	} else {
		names = names[1:]
	}
	var src []reg.GPVirtual
	for _, s := range names {
		if s == "dst" {
			src = append(src, dst)
		} else {
			src = append(src, v.ptr(s))
		}
	}
	n := v.ptr("n")
	i := ctx.GP64()
	ctx.XORQ(i, i)
	es, lanes := v.es(), v.lanes()
	at := func(p reg.GPVirtual, u int) Mem {
		return Mem{Base: p, Index: i, Scale: uint8(es), Disp: u * v.bits / 8}
	}
	var behind reg.GPVirtual
	if v.ahead {
		behind = ctx.GP64()
		ctx.LEAQ(Mem{Base: src[0], Index: n, Scale: uint8(es)}, behind)
	}
	if v.stream {
		v.streaming(src, at, dst, i, n, unroll > 1, body)
		return
	}
	turn := func(u int) {
		if v.ahead && u > 1 {
			for o := 0; o < u*v.bits/8; o += 64 {
				ctx.PREFETCHT0(Mem{Base: behind, Index: i, Scale: uint8(es), Disp: o})
			}
		}
		// Loads come first so that the vectors of a turn overlap.
		var ins [][]Op
		for j := range u {
			var in []Op
			for q, p := range src {
				if q == len(src)-1 && q > 0 {
					in = append(in, at(p, j))
				} else {
					in = append(in, v.load(at(p, j)))
				}
			}
			ins = append(ins, in)
		}
		var out []V
		woven(ctx, u, func(j int) { out = append(out, body(ins[j]...)) })
		for j := range u {
			if store {
				ctx.VMOVUPS(out[j], at(dst, j))
			}
			if after != nil {
				after(out[j])
			}
		}
		ctx.ADDQ(U32(uint32(u*lanes)), i)
		ctx.SUBQ(U32(uint32(u*lanes)), n)
	}
	if unroll > 1 {
		ctx.SUBQ(U32(uint32(unroll*lanes)), n)
		ctx.JL(LabelRef("few"))
		ctx.Label("many")
		turn(unroll)
		ctx.JGE(LabelRef("many"))
		ctx.Label("few")
		ctx.ADDQ(U32(uint32(unroll*lanes)), n)
	}
	ctx.SUBQ(U32(uint32(lanes)), n)
	ctx.JL(LabelRef("tail"))
	ctx.Label("one")
	turn(1)
	ctx.JGE(LabelRef("one"))
	ctx.Label("tail")
	ctx.ADDQ(U32(uint32(lanes)), n)
	ctx.JZ(LabelRef("end"))
	k := v.tailMask(n)
	var in []Op
	for _, p := range src {
		in = append(in, v.loadMasked(at(p, 0), k))
	}
	r := body(in...)
	if after != nil {
		r = v.keep(k, r)
		after(r)
	}
	if store {
		p := ctx.GP64()
		ctx.LEAQ(at(dst, 0), p)
		v.storeTail(r, p, n, k)
	}
	ctx.Label("end")
}

// streaming is elementwise's loop with stores that bypass the caches, one cache line
// per turn. dst is aligned to a line and n a multiple of 16 float32.
func (v *vk) streaming(src []reg.GPVirtual, at func(reg.GPVirtual, int) Mem, dst, i, n reg.GPVirtual, weave bool, body func(in ...Op) V) {
	ctx := v.ctx
	turn := func(u int) {
		var out []V
		chain := func(j int) {
			var in []Op
			for q, p := range src {
				if q == len(src)-1 && q > 0 {
					in = append(in, at(p, j))
				} else {
					in = append(in, v.load(at(p, j)))
				}
			}
			out = append(out, body(in...))
		}
		if weave {
			woven(ctx, u, chain)
		} else {
			for j := range u {
				chain(j)
			}
		}
		for j := range u {
			v.ins("VMOVNTPS", out[j], at(dst, j))
		}
		ctx.ADDQ(U32(uint32(u*v.lanes())), i)
		ctx.SUBQ(U32(uint32(u*v.lanes())), n)
	}
	if weave && v.wide() { // a line is one vector, too few to weave
		ctx.SUBQ(U32(32), n)
		ctx.JL(LabelRef("few"))
		ctx.Label("lines")
		turn(2)
		ctx.JGE(LabelRef("lines"))
		ctx.Label("few")
		ctx.ADDQ(U32(32), n)
		ctx.JZ(LabelRef("end"))
	}
	ctx.Label("line")
	turn(512 / v.bits)
	ctx.JG(LabelRef("line"))
	ctx.Label("end")
	ctx.SFENCE()
}

// blocks emits a loop over whole blocks of 16 elements (n is a multiple of 16), for
// functions whose operands differ in size. at returns the address of element off of
// the current block of a parameter with elements of size es.
func (v *vk) blocks(params string, body func(at func(name string, es, off int) Mem)) {
	if v.neon() {
		v.neonBlocks(params, body)
		return
	}
	ctx := v.ctx
	ptrs := map[string]reg.GPVirtual{}
	for _, s := range strings.Fields(params) {
		ptrs[s] = v.ptr(s)
	}
	n := v.ptr("n")
	i := ctx.GP64()
	ctx.XORQ(i, i)
	ctx.Label("block")
	body(func(name string, es, off int) Mem {
		p, ok := ptrs[name]
		if !ok {
			panic(fmt.Sprintf("no parameter %s", name))
		}
		return Mem{Base: p, Index: i, Scale: uint8(es), Disp: off * es}
	})
	ctx.ADDQ(Imm(16), i)
	ctx.SUBQ(Imm(16), n)
	ctx.JG(LabelRef("block"))
}
