package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Field offsets of gemm's types tilesIn, tileRun and tilesOut; gemm's tests compare them.
const (
	inX     = 0
	inStep  = 8
	inDst   = 16
	inPlane = 24
	inPitch = 32
	inN     = 40
	inRuns  = 48
	inCount = 56

	runRows = 0
	runDst  = 32
	runMask = 40
	runSize = 176

	outSrc   = 0
	outPlane = 8
	outPitch = 16
	outN     = 24
	outRows  = 32
	outSteps = 48
	outPx    = 64
	outBad   = 80
	outMask  = 88
)

// winogradKernels writes the transforms of the F(2×2, 3×3) convolution for one
// vector width: of filters, of tiles of the image, and of their products.
// A vector holds one element of as many tiles (or filters) as it has lanes.
func winogradKernels(ctx *build.Context, bits int) {
	w := &winograd{vk{ctx: ctx, bits: bits, consts: map[string]Mem{}}}
	w.filters()
	w.tilesIn(false)
	w.tilesIn(true)
	w.tilesOut()
}

type winograd struct{ vk }

func (w *winograd) begin(name, signature, doc string) {
	w.ctx.Function(name + w.level())
	w.ctx.Attributes(build.NOSPLIT)
	w.ctx.Pragma("noescape")
	w.ctx.Doc(fmt.Sprintf("%s%s %s", name, w.level(), doc))
	w.ctx.SignatureExpr(signature)
}

func (w *winograd) word(p reg.GPVirtual, off int) reg.GPVirtual {
	d := w.ctx.GP64()
	w.ctx.MOVQ(Mem{Base: p, Disp: off}, d)
	return d
}

// planes holds the addresses of the 16 planes of transformed elements from a pointer on.
type planes struct {
	base       [4]reg.GPVirtual // of planes 0, 4, 8, 12
	one, three reg.GPVirtual    // the distance of planes, and three times that
}

func (w *winograd) planes(first, plane reg.GPVirtual) planes {
	ctx := w.ctx
	p := planes{one: plane, three: ctx.GP64()}
	ctx.LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, p.three)
	p.base[0] = first
	for i := 1; i < 4; i++ {
		p.base[i] = ctx.GP64()
		ctx.LEAQ(Mem{Base: p.base[i-1], Index: plane, Scale: 4}, p.base[i])
	}
	return p
}

func (p *planes) at(i, j int) Mem {
	m := Mem{Base: p.base[i]}
	switch j {
	case 1, 2:
		m.Index, m.Scale = p.one, uint8(j)
	case 3:
		m.Index, m.Scale = p.three, 1
	}
	return m
}

func (p *planes) move(ctx *build.Context, by Op) {
	for _, b := range p.base {
		ctx.ADDQ(by, b)
	}
}

// filters transforms packed filters: for each of n places along the depth the nine
// taps of a panel's rows lie one behind the other.
func (w *winograd) filters() {
	ctx := w.ctx
	mr := 6
	if w.wide() {
		mr = 12
	}
	w.begin("winogradFilters", "func(dst, src *byte, plane, n int)",
		fmt.Sprintf("transforms n times nine vectors of %d filters each. It reads and writes whole vectors.", mr))
	dst, src, plane, n := w.ptr("dst"), w.ptr("src"), w.ptr("plane"), w.ptr("n")
	p := w.planes(dst, plane)
	half := w.copy(w.c(0.5))
	// three elements become four: a, (a+b+c)/2, (a-b+c)/2, c
	spread := func(a, b, c V) [4]V {
		s, h := w.mul(w.add(a, c), half), w.mul(b, half)
		return [4]V{a, w.add(s, h), w.sub(s, h), c}
	}
	ctx.Label("loop")
	var cols [3][4]V
	for j := range 3 {
		var g [3]V
		for i := range g {
			g[i] = w.load(Mem{Base: src, Disp: (3*i + j) * mr * 4})
		}
		cols[j] = spread(g[0], g[1], g[2])
	}
	for i := range 4 {
		for j, x := range spread(cols[0][i], cols[1][i], cols[2][i]) {
			ctx.VMOVUPS(x, p.at(i, j))
		}
	}
	ctx.ADDQ(U32(uint32(9*mr*4)), src)
	p.move(ctx, Imm(uint64(mr*4)))
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}

// mask loads a lane mask from words of ones and zeros.
func (w *winograd) mask(m Mem) M {
	d := w.load(m)
	if !w.wide() {
		return d
	}
	k := w.ctx.K()
	w.ctx.VPMOVD2M(d, k)
	return k
}

// index is a vector of 32-bit words in the read-only data.
func (w *winograd) index(name string, at func(lane int) int) V {
	m := w.ctx.StaticGlobal(name)
	w.ctx.DataAttributes(build.RODATA | build.NOPTR)
	for i := range w.lanes() {
		w.ctx.AddDatum(4*i, U32(uint32(at(i))))
	}
	return w.load(m)
}

// everySecond returns the function that picks the even or the odd elements of two vectors.
func (w *winograd) everySecond(name string) func(a, b V, odd bool) V {
	ctx := w.ctx
	if w.wide() {
		evens := w.index(name+"Evens", func(i int) int { return 2 * i })
		odds := w.index(name+"Odds", func(i int) int { return 2*i + 1 })
		return func(a, b V, odd bool) V {
			d := w.copy(map[bool]V{false: evens, true: odds}[odd])
			ctx.VPERMI2PS(b, a, d)
			return d
		}
	}
	return func(a, b V, odd bool) V {
		imm := uint64(0x88)
		if odd {
			imm = 0xDD
		}
		d, r := w.reg(), w.reg()
		ctx.VSHUFPS(Imm(imm), b, a, d)
		ctx.VPERMPD(Imm(0xD8), d, r)
		return r
	}
}

// tilesIn transforms vectors of neighboring tiles of 4×4 elements that are 2
// apart, for n channels: all of a channel's before the next's, the order in which
// they lie in memory. Of gradients it transforms 2×2 elements, which become
// four by four as the sums in tilesOut are spread; the sign of the last row and column is left out.
func (w *winograd) tilesIn(gradient bool) {
	ctx := w.ctx
	name, other := "winogradIn", ""
	if gradient {
		name, other = "winogradGrad", " of a gradient"
	}
	w.begin(name, "func(t *byte)", "transforms t.count vectors of tiles"+other+" for each of t.n channels.")
	t := w.ptr("t")
	x, dst, plane := w.word(t, inX), w.word(t, inDst), w.word(t, inPlane)
	vb := w.bits / 8
	// Elements 0 and 1 of the tiles are those of two vectors, 2 and 3 those of
	// the two from two elements on.
	at := []int{0, vb, 8, vb + 8}
	if gradient {
		at = at[:2]
	}
	every := w.everySecond(name)
	ctx.Label("channel")
	run, count := w.word(t, inRuns), w.word(t, inCount)
	ctx.Label("run")
	first := w.word(run, runDst)
	ctx.ADDQ(dst, first)
	p := w.planes(first, plane)
	var masks [4]M
	for i, a := range at {
		masks[i] = w.mask(Mem{Base: run, Disp: runMask + a})
	}
	row := func(i int) [4]V {
		// A row of padding begins nowhere.
		from := w.word(run, runRows+8*i)
		out := [4]V{w.reg(), w.reg(), w.reg(), w.reg()}
		inside, done := w.label("inside"), w.label("done")
		ctx.CMPQ(from, I32(math.MinInt32))
		ctx.JNE(LabelRef(inside))
		for _, v := range out {
			if w.wide() {
				ctx.VMOVUPS(w.c(0), v)
			} else {
				ctx.VXORPS(v, v, v)
			}
		}
		ctx.JMP(LabelRef(done))
		ctx.Label(inside)
		ctx.ADDQ(x, from)
		var e [4]V
		for j := 0; j < len(at); j += 2 {
			a, b := w.loadMasked(Mem{Base: from, Disp: at[j]}, masks[j]), w.loadMasked(Mem{Base: from, Disp: at[j+1]}, masks[j+1])
			e[j], e[j+1] = every(a, b, false), every(a, b, true)
		}
		if gradient {
			ctx.VMOVAPS(e[0], out[0])
			ctx.VADDPS(e[1], e[0], out[1])
			ctx.VSUBPS(e[1], e[0], out[2])
			ctx.VMOVAPS(e[1], out[3])
			ctx.Label(done)
			return out
		}
		ctx.VSUBPS(e[2], e[0], out[0])
		ctx.VADDPS(e[2], e[1], out[1])
		ctx.VSUBPS(e[1], e[2], out[2])
		ctx.VSUBPS(e[3], e[1], out[3])
		ctx.Label(done)
		return out
	}
	store := func(i, j int, x V) { ctx.VMOVUPS(x, p.at(i, j)) }
	if gradient {
		r0, r1 := row(0), row(1)
		for j := range 4 {
			store(0, j, r0[j])
			store(1, j, w.add(r0[j], r1[j]))
			store(2, j, w.sub(r0[j], r1[j]))
			store(3, j, r1[j])
		}
	} else {
		r0, r2 := row(0), row(2)
		for j := range 4 {
			store(0, j, w.sub(r0[j], r2[j]))
		}
		r1 := row(1)
		for j := range 4 {
			store(1, j, w.add(r1[j], r2[j]))
			store(2, j, w.sub(r2[j], r1[j]))
		}
		r3 := row(3)
		for j := range 4 {
			store(3, j, w.sub(r1[j], r3[j]))
		}
	}
	ctx.ADDQ(U32(runSize), run)
	ctx.DECQ(count)
	ctx.JNZ(LabelRef("run"))
	ctx.ADDQ(Mem{Base: t, Disp: inStep}, x)
	ctx.ADDQ(Mem{Base: t, Disp: inPitch}, dst)
	ctx.DECQ(Mem{Base: t, Disp: inN})
	ctx.JNZ(LabelRef("channel"))
	ctx.VZEROUPPER()
	ctx.RET()
}

// tilesOut turns the products of a vector of tiles into 2×2 elements of the
// result each, for n channels, and notes if one is not finite.
func (w *winograd) tilesOut() {
	ctx := w.ctx
	w.begin("winogradOut", "func(t *byte)", "writes two rows of the result from a vector of tiles for each of t.n channels.")
	t := w.ptr("t")
	p := w.planes(w.word(t, outSrc), w.word(t, outPlane))
	n := w.word(t, outN)
	rows := [2]reg.GPVirtual{w.word(t, outRows), w.word(t, outRows+8)}
	px := [2]reg.GPVirtual{w.word(t, outPx), w.word(t, outPx+8)}
	mask := w.mask(Mem{Base: t, Disp: outMask})
	zero, bad := w.zero(), w.zero()
	var low, high V
	var stores [2]M
	if w.wide() {
		low = w.index("winogradLow", func(i int) int { return i/2 + i%2*16 })
		high = w.index("winogradHigh", func(i int) int { return 8 + i/2 + i%2*16 })
		for i := range stores {
			stores[i] = w.tailMask(px[i])
		}
	}
	// weave returns the elements of a and b in turn.
	weave := func(a, b V) [2]V {
		if w.wide() {
			x, y := w.copy(low), w.copy(high)
			ctx.VPERMI2PS(b, a, x)
			ctx.VPERMI2PS(b, a, y)
			return [2]V{x, y}
		}
		l, h, x, y := w.reg(), w.reg(), w.reg(), w.reg()
		ctx.VUNPCKLPS(b, a, l)
		ctx.VUNPCKHPS(b, a, h)
		ctx.VPERM2F128(Imm(0x20), h, l, x)
		ctx.VPERM2F128(Imm(0x31), h, l, y)
		return [2]V{x, y}
	}
	// loop writes only whole vectors, or whole ones and then part of one, or part of one.
	const (
		whole = iota
		oneMore
		part
	)
	loop := func(name string, kind int) {
		ctx.Label(name)
		var s [2][4]V
		for j := range 4 {
			m1, m2 := w.load(p.at(1, j)), w.load(p.at(2, j))
			s[0][j] = w.add(w.add(m1, m2), p.at(0, j))
			s[1][j] = w.sub(w.sub(m1, m2), p.at(3, j))
		}
		var sum V
		var y [2][2]V
		for i, r := range s {
			y[i] = [2]V{w.add(w.add(r[0], r[1]), r[2]), w.sub(w.sub(r[1], r[2]), r[3])}
			pair := w.add(y[i][0], y[i][1])
			if i == 0 {
				sum = pair
			} else {
				sum = w.add(sum, pair)
			}
		}
		w.acc(bad, w.keep(mask, sum), zero)
		for i := range y {
			v := weave(y[i][0], y[i][1])
			switch {
			case w.wide():
				w.ins("VMOVUPS", v[0], stores[0], Mem{Base: rows[i]})
				w.ins("VMOVUPS", v[1], stores[1], Mem{Base: rows[i], Disp: 64})
			case kind == whole:
				ctx.VMOVUPS(v[0], Mem{Base: rows[i]})
				ctx.VMOVUPS(v[1], Mem{Base: rows[i], Disp: 32})
			case kind == oneMore:
				ctx.VMOVUPS(v[0], Mem{Base: rows[i]})
				q := ctx.GP64()
				ctx.LEAQ(Mem{Base: rows[i], Disp: 32}, q)
				w.storeTail(v[1], q, px[1], nil)
			default:
				q := ctx.GP64()
				ctx.MOVQ(rows[i], q)
				w.storeTail(v[0], q, px[0], nil)
			}
			ctx.ADDQ(Mem{Base: t, Disp: outSteps + 8*i}, rows[i])
		}
		p.move(ctx, Mem{Base: t, Disp: outPitch})
		ctx.DECQ(n)
		ctx.JNZ(LabelRef(name))
	}
	if !w.wide() {
		ctx.CMPQ(px[0], Imm(8))
		ctx.JL(LabelRef("part"))
		ctx.CMPQ(px[1], Imm(8))
		ctx.JL(LabelRef("more"))
	}
	loop("whole", whole)
	if !w.wide() {
		ctx.JMP(LabelRef("done"))
		loop("more", oneMore)
		ctx.JMP(LabelRef("done"))
		loop("part", part)
		ctx.Label("done")
	}
	found := ctx.GP64()
	if w.wide() {
		ctx.KMOVW(w.cmp(unord, bad, bad), found.As32())
	} else {
		ctx.VMOVMSKPS(w.cmp(unord, bad, bad), found.As32())
	}
	ctx.MOVQ(found, Mem{Base: t, Disp: outBad})
	ctx.VZEROUPPER()
	ctx.RET()
}
