package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packKernels writes the copies that lay out panels. AVX2 serves every level:
// packing is bound by loads and stores.
func packKernels(ctx *build.Context) {
	for _, n := range []int{24, 48, 64, 96, 128} {
		packCopy(ctx, n)
	}
	packPairs12(ctx)
	packPairs32(ctx)
	packTranspose8(ctx)
	packTranspose4(ctx)
	packTranspose4x64(ctx)
	packTranspose2x64(ctx)
	joinRows(ctx, 1)
	joinRows(ctx, 2)
	everyOther(ctx)
	copyRows(ctx)
}

// rowsHead begins a function over rows of at least 8 elements of 16 bits. body gets the
// number of the first element of a group of `group` elements; the last group ends where
// the row does, over what is there already.
func rowsHead(ctx *build.Context, name, doc, sources string, group int, body func(dst reg.GPVirtual, src []reg.GPVirtual, i reg.GPVirtual)) {
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + doc)
	ctx.SignatureExpr("func(dst, " + sources + " *byte, width, rows, stepDst, stepSrc int)")
	load := func(p string) reg.GPVirtual {
		r := ctx.GP64()
		ctx.Load(ctx.Param(p), r)
		return r
	}
	dst := load("dst")
	var src []reg.GPVirtual
	for _, s := range strings.Split(sources, ", ") {
		src = append(src, load(s))
	}
	last, rows, stepDst, stepSrc := load("width"), load("rows"), load("stepDst"), load("stepSrc")
	ctx.SUBQ(Imm(uint64(group)), last)
	i := ctx.GP64()
	ctx.Label("row")
	ctx.XORQ(i, i)
	ctx.Label("group")
	body(dst, src, i)
	ctx.CMPQ(i, last)
	ctx.JGE(LabelRef("next"))
	ctx.ADDQ(Imm(uint64(group)), i)
	ctx.CMPQ(i, last)
	ctx.CMOVQGT(last, i)
	ctx.JMP(LabelRef("group"))
	ctx.Label("next")
	ctx.ADDQ(stepDst, dst)
	for _, s := range src {
		ctx.ADDQ(stepSrc, s)
	}
	ctx.DECQ(rows)
	ctx.JNZ(LabelRef("row"))
	ctx.VZEROUPPER()
	ctx.RET()
}

// joinRows makes words of elements of two rows, of every step-th one.
func joinRows(ctx *build.Context, step int) {
	if step == 2 {
		doc := " stores words of elements 2i of a and b, i < width, of each row; width is at least 8. It reads element 2·width-1 too."
		rowsHead(ctx, "joinRowsEvery2", doc, "a, b", 8, func(dst reg.GPVirtual, src []reg.GPVirtual, i reg.GPVirtual) {
			x, y := ctx.YMM(), ctx.YMM()
			ctx.VPSLLD(Imm(16), load256(ctx, Mem{Base: src[1], Index: i, Scale: 4}), y)
			ctx.VPBLENDW(Imm(0xaa), y, load256(ctx, Mem{Base: src[0], Index: i, Scale: 4}), x)
			ctx.VMOVDQU(x, Mem{Base: dst, Index: i, Scale: 4})
		})
		return
	}
	doc := " stores words of elements i of a and b, i < width, of each row; width is at least 8."
	rowsHead(ctx, "joinRows", doc, "a, b", 8, func(dst reg.GPVirtual, src []reg.GPVirtual, i reg.GPVirtual) {
		x, y := ctx.YMM(), ctx.YMM()
		ctx.VPMOVZXWD(Mem{Base: src[0], Index: i, Scale: 2}, x)
		ctx.VPMOVZXWD(Mem{Base: src[1], Index: i, Scale: 2}, y)
		ctx.VPSLLD(Imm(16), y, y)
		ctx.VPOR(y, x, x)
		ctx.VMOVDQU(x, Mem{Base: dst, Index: i, Scale: 4})
	})
}

func copyRows(ctx *build.Context) {
	doc := " copies width elements of each row, at least 8."
	rowsHead(ctx, "copyRows", doc, "src", 8, func(dst reg.GPVirtual, src []reg.GPVirtual, i reg.GPVirtual) {
		x := ctx.XMM()
		ctx.VMOVDQU(Mem{Base: src[0], Index: i, Scale: 2}, x)
		ctx.VMOVDQU(x, Mem{Base: dst, Index: i, Scale: 2})
	})
}

func load256(ctx *build.Context, m Mem) reg.VecVirtual {
	x := ctx.YMM()
	ctx.VMOVDQU(m, x)
	return x
}

// everyOther takes a row apart.
func everyOther(ctx *build.Context) {
	doc := " copies elements 2i, i < width, of each row; width is at least 8. It reads element 2·width-1 too."
	rowsHead(ctx, "everyOther", doc, "src", 8, func(dst reg.GPVirtual, src []reg.GPVirtual, i reg.GPVirtual) {
		x := load256(ctx, Mem{Base: src[0], Index: i, Scale: 4})
		ctx.VPSLLD(Imm(16), x, x)
		ctx.VPSRLD(Imm(16), x, x)
		y := ctx.XMM()
		ctx.VEXTRACTI128(Imm(1), x, y)
		ctx.VPACKUSDW(y, x.AsX(), y)
		ctx.VMOVDQU(y, Mem{Base: dst, Index: i, Scale: 2})
	})
}

// packCopy packs lines that lie side by side, several panels of them at a
// time, so that what is read of a column of the matrix is not too short for
// the prefetchers.
func packCopy(ctx *build.Context, n int) {
	ctx.Function(fmt.Sprintf("packCopy%d", n))
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(fmt.Sprintf("packCopy%d copies runs of %d bytes, so many as there are panels, from each of k places stride bytes apart: run i to adjacent places from i·step on. What lies ahead bytes after them is fetched.", n, n))
	ctx.SignatureExpr("func(dst, src *byte, stride, k, panels, step, ahead int)")
	d, s, st, k, panels, step := ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.Load(ctx.Param("dst"), d)
	ctx.Load(ctx.Param("src"), s)
	ctx.Load(ctx.Param("stride"), st)
	ctx.Load(ctx.Param("k"), k)
	ctx.Load(ctx.Param("panels"), panels)
	ctx.Load(ctx.Param("step"), step)
	ahead := ctx.GP64()
	ctx.Load(ctx.Param("ahead"), ahead)
	from, to, left := ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.Label("loop")
	ctx.MOVQ(s, from)
	ctx.MOVQ(d, to)
	ctx.MOVQ(panels, left)
	ctx.Label("run")
	type part struct {
		off int
		v   reg.VecVirtual
		n   int
	}
	var parts []part
	for o := 0; o < n; {
		p := part{off: o}
		switch {
		case n-o >= 32:
			p.v, p.n = ctx.YMM(), 32
			ctx.VMOVUPS(Mem{Base: from, Disp: o}, p.v)
		case n-o >= 16:
			p.v, p.n = ctx.XMM(), 16
			ctx.VMOVUPS(Mem{Base: from, Disp: o}, p.v)
		default:
			p.v, p.n = ctx.XMM(), 8
			ctx.VMOVSD(Mem{Base: from, Disp: o}, p.v)
		}
		parts = append(parts, p)
		o += p.n
	}
	// The jump from column to column hides the pattern from the prefetcher.
	for o := 0; o < n; o += 64 {
		ctx.PREFETCHT0(Mem{Base: from, Index: ahead, Scale: 1, Disp: o})
	}
	for _, p := range parts {
		if p.n == 8 {
			ctx.VMOVSD(p.v, Mem{Base: to, Disp: p.off})
		} else {
			ctx.VMOVUPS(p.v, Mem{Base: to, Disp: p.off})
		}
	}
	ctx.ADDQ(U32(uint32(n)), from)
	ctx.ADDQ(step, to)
	ctx.DECQ(left)
	ctx.JNZ(LabelRef("run"))
	ctx.ADDQ(st, s)
	ctx.ADDQ(U32(uint32(n)), d)
	ctx.DECQ(k)
	ctx.JNZ(LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}

// pairsHead begins a packPairs function: at "loop", row0 and row1 point at two
// neighbors along k.
func pairsHead(ctx *build.Context, n int) (d, row0, row1, st, words reg.GPVirtual) {
	ctx.Function(fmt.Sprintf("packPairs%d", n))
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(fmt.Sprintf("packPairs%d joins the 16-bit elements of rows 2i and 2i+1, stride bytes apart, for i < words: %d pairs each, adjacent.", n, n))
	ctx.SignatureExpr("func(dst, src *byte, stride, words int)")
	d, row0, row1, st, words = ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.Load(ctx.Param("dst"), d)
	ctx.Load(ctx.Param("src"), row0)
	ctx.Load(ctx.Param("stride"), st)
	ctx.Load(ctx.Param("words"), words)
	ctx.MOVQ(row0, row1)
	ctx.ADDQ(st, row1)
	ctx.ADDQ(st, st)
	ctx.Label("loop")
	return
}

func pairsTail(ctx *build.Context, n int, d, row0, row1, st, words reg.GPVirtual) {
	ctx.ADDQ(st, row0)
	ctx.ADDQ(st, row1)
	ctx.ADDQ(U32(uint32(4*n)), d)
	ctx.DECQ(words)
	ctx.JNZ(LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}

func packPairs12(ctx *build.Context) {
	d, row0, row1, st, words := pairsHead(ctx, 12)
	x, y, z, w := ctx.XMM(), ctx.XMM(), ctx.XMM(), ctx.XMM()
	ctx.VMOVUPS(Mem{Base: row0}, x)
	ctx.VMOVUPS(Mem{Base: row1}, y)
	ctx.VMOVSD(Mem{Base: row0, Disp: 16}, z)
	ctx.VMOVSD(Mem{Base: row1, Disp: 16}, w)
	lo := ctx.XMM()
	ctx.VPUNPCKLWD(y, x, lo)
	ctx.VPUNPCKHWD(y, x, x)
	ctx.VPUNPCKLWD(w, z, z)
	ctx.VMOVUPS(lo, Mem{Base: d})
	ctx.VMOVUPS(x, Mem{Base: d, Disp: 16})
	ctx.VMOVUPS(z, Mem{Base: d, Disp: 32})
	pairsTail(ctx, 12, d, row0, row1, st, words)
}

func packPairs32(ctx *build.Context) {
	d, row0, row1, st, words := pairsHead(ctx, 32)
	for i := range 2 {
		x, y, lo, hi := ctx.YMM(), ctx.YMM(), ctx.YMM(), ctx.YMM()
		ctx.VMOVUPS(Mem{Base: row0, Disp: 32 * i}, x)
		ctx.VMOVUPS(Mem{Base: row1, Disp: 32 * i}, y)
		ctx.VPUNPCKLWD(y, x, lo)
		ctx.VPUNPCKHWD(y, x, hi)
		ctx.VPERM2I128(Imm(0x20), hi, lo, x)
		ctx.VPERM2I128(Imm(0x31), hi, lo, y)
		ctx.VMOVUPS(x, Mem{Base: d, Disp: 64 * i})
		ctx.VMOVUPS(y, Mem{Base: d, Disp: 64*i + 32})
	}
	ctx.PREFETCHT0(Mem{Base: row0, Disp: 64})
	ctx.PREFETCHT0(Mem{Base: row1, Disp: 64})
	pairsTail(ctx, 32, d, row0, row1, st, words)
}

// transposeHead begins a packTranspose function and loads its arguments.
func transposeHead(ctx *build.Context, name, doc string, rows int) (d, st, k, off reg.GPVirtual, row []reg.GPVirtual) {
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(doc)
	ctx.SignatureExpr("func(dst *byte, rows *uintptr, stride, k int)")
	d, st, k, off = ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.Load(ctx.Param("dst"), d)
	p := ctx.GP64()
	ctx.Load(ctx.Param("rows"), p)
	for i := range rows {
		r := ctx.GP64()
		ctx.MOVQ(Mem{Base: p, Disp: 8 * i}, r)
		row = append(row, r)
	}
	ctx.Load(ctx.Param("stride"), st)
	ctx.Load(ctx.Param("k"), k)
	ctx.XORQ(off, off)
	return
}

// transpose4 turns the 4×4 blocks of 32-bit words in the lanes of y.
func transpose4(ctx *build.Context, y []reg.VecVirtual, vec func() reg.VecVirtual) []reg.VecVirtual {
	t := []reg.VecVirtual{vec(), vec(), vec(), vec()}
	c := []reg.VecVirtual{vec(), vec(), vec(), vec()}
	ctx.VUNPCKLPS(y[1], y[0], t[0])
	ctx.VUNPCKHPS(y[1], y[0], t[1])
	ctx.VUNPCKLPS(y[3], y[2], t[2])
	ctx.VUNPCKHPS(y[3], y[2], t[3])
	ctx.VUNPCKLPD(t[2], t[0], c[0])
	ctx.VUNPCKHPD(t[2], t[0], c[1])
	ctx.VUNPCKLPD(t[3], t[1], c[2])
	ctx.VUNPCKHPD(t[3], t[1], c[3])
	return c
}

// storeColumns writes the columns stride bytes apart and moves on.
func storeColumns(ctx *build.Context, c []reg.VecVirtual, d, st reg.GPVirtual) {
	for i := range c {
		ctx.VMOVUPS(c[i], Mem{Base: d})
		ctx.ADDQ(st, d)
	}
}

func packTranspose8(ctx *build.Context) {
	packTranspose(ctx, "packTranspose8", "packTranspose8 writes the columns of 8 rows of k 32-bit words, k a multiple of 4, stride bytes apart.", 8, 4)
}

func packTranspose4(ctx *build.Context) {
	packTranspose(ctx, "packTranspose4", "packTranspose4 is packTranspose8 for 4 rows.", 4, 4)
}

func packTranspose4x64(ctx *build.Context) {
	packTranspose(ctx, "packTranspose4x64", "packTranspose4x64 writes the columns of 4 rows of k 64-bit words, k a multiple of 2, stride bytes apart.", 4, 2)
}

func packTranspose2x64(ctx *build.Context) {
	packTranspose(ctx, "packTranspose2x64", "packTranspose2x64 is packTranspose4x64 for 2 rows.", 2, 2)
}

// packTranspose writes a function that turns rows whose 16 bytes are so many words each.
// Where there are twice as many rows as words, two share a register.
func packTranspose(ctx *build.Context, name, doc string, rows, words int) {
	d, st, k, off, row := transposeHead(ctx, name, doc, rows)
	ctx.Label("loop")
	vec, wide := ctx.XMM, rows > words
	if wide {
		vec = ctx.YMM
	}
	var y, c []reg.VecVirtual
	for i := range words {
		v := vec()
		ctx.VMOVUPS(Mem{Base: row[i], Index: off, Scale: 1}, v.AsX())
		if wide {
			ctx.VINSERTF128(Imm(1), Mem{Base: row[i+words], Index: off, Scale: 1}, v, v)
		}
		y = append(y, v)
		if words == 2 {
			c = append(c, vec())
		}
	}
	if words == 4 {
		c = transpose4(ctx, y, vec)
	} else {
		ctx.VUNPCKLPD(y[1], y[0], c[0])
		ctx.VUNPCKHPD(y[1], y[0], c[1])
	}
	storeColumns(ctx, c, d, st)
	ctx.ADDQ(Imm(16), off)
	ctx.SUBQ(Imm(uint64(words)), k)
	ctx.JNZ(LabelRef("loop"))
	if wide {
		ctx.VZEROUPPER()
	}
	ctx.RET()
}
