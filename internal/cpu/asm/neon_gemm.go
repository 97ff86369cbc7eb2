package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Functions of package gemm for NEON beside the kernels of tiles: products of few rows, and
// Winograd's transforms.

// field reads a word of a struct.
func (v *vk) field(p reg.GPVirtual, off int) reg.GPVirtual {
	d := v.ctx.GP64()
	v.text("MOVD <M, >R", Mem{Base: p, Disp: off}, d)
	return d
}

func neonThin() (out []neonFn) {
	for _, double := range []bool{false, true} {
		t := map[bool]string{false: "F32", true: "F64"}[double]
		out = append(out, neonFn{
			"row" + t + "NEON", fmt.Sprintf("adds %d rows of b, stride bytes apart, times the elements of x to c. n is a multiple of %d.", rowsPerPass, map[bool]int{false: 4, true: 2}[double]),
			"func(c, x, b *byte, stride, n int)", double, (*vk).neonRow,
		})
		for h := 1; h <= 3; h++ {
			out = append(out, neonFn{
				fmt.Sprintf("dot%sR%dNEON", t, h), fmt.Sprintf("computes the dot products of %d rows of X with 4 of Y.", h),
				"func(d *byte)", double, func(v *vk) { v.neonDots(h) },
			})
		}
	}
	return out
}

// spread reads an element into all lanes.
func (v *vk) spread(p reg.GPVirtual) V {
	d := v.reg()
	v.text("VLD1R (<R), [>V"+map[bool]string{false: ".S4", true: ".D2"}[v.double]+"]", p, d)
	return d
}

// neonRow is rowKernel.
func (v *vk) neonRow() {
	c, x, b, stride, n := v.ptr("c"), v.ptr("x"), v.ptr("b"), v.ptr("stride"), v.ptr("n")
	var xs []V
	rows := []reg.GPVirtual{b}
	for i := range rowsPerPass {
		xs = append(xs, v.spread(x))
		v.bump(v.es(), x)
		if i > 0 {
			p := v.ctx.GP64()
			v.text("ADD <R, <R, >R", stride, rows[i-1], p)
			rows = append(rows, p)
		}
	}
	turn := func(u int) func() {
		return func() {
			acc := v.loads(c, u)
			for i, p := range rows {
				for j, y := range v.loads(p, u) {
					v.acc(acc[j], xs[i], y)
				}
			}
			v.stores(c, acc)
			v.bump(16*u, append([]reg.GPVirtual{c}, rows...)...)
		}
	}
	v.count(n, "many", 4*v.lanes(), turn(4))
	v.text("BEQ <L", LabelRef("end"))
	v.count(n, "one", v.lanes(), turn(1))
	v.ctx.Label("end")
}

// neonDots is dotKernel.
func (v *vk) neonDots(h int) {
	d := v.ptr("d")
	n := v.field(d, dK)
	rows := func(first, step, n int) (p []reg.GPVirtual) {
		p = append(p, v.field(d, first))
		s := v.field(d, step)
		for len(p) < n {
			q := v.ctx.GP64()
			v.text("ADD <R, <R, >R", s, p[len(p)-1], q)
			p = append(p, q)
		}
		return p
	}
	xs, ys := rows(dX, dRowX, h), rows(dY, dRowY, 4)
	acc := v.accumulators(4 * h)
	turn := func(u int, load func(p reg.GPVirtual) []V) {
		var x [][]V
		for _, p := range xs {
			x = append(x, load(p))
		}
		for j, p := range ys {
			for k, y := range load(p) {
				for r := range xs {
					v.acc(acc[4*r+j], x[r][k], y)
				}
			}
		}
		v.bump(u, append(append([]reg.GPVirtual{}, xs...), ys...)...)
	}
	v.count(n, "many", 2*v.lanes(), func() { turn(32, func(p reg.GPVirtual) []V { return v.loads(p, 2) }) })
	v.text("BEQ <L", LabelRef("sum"))
	v.count(n, "single", 1, func() {
		turn(v.es(), func(p reg.GPVirtual) []V {
			x := v.reg()
			v.text(map[bool]string{false: "FMOVS <M, >F", true: "FMOVD <M, >F"}[v.double], Mem{Base: p}, x)
			return []V{x} // the other lanes are 0
		})
	})
	v.ctx.Label("sum")
	for r := range h {
		a := acc[4*r:]
		lo, hi := v.two("faddp"+v.t(), a[0], a[1]), v.two("faddp"+v.t(), a[2], a[3])
		if v.double {
			v.text("FSTPQ (<F, <F), =M", lo, hi, Mem{Base: d, Disp: dOut + 32*r})
		} else {
			v.store(v.two("faddp.4s", lo, hi), Mem{Base: d, Disp: dOut + 16*r})
		}
	}
}

// neonWinograd lists the transforms of F(2×2, 3×3) for vectors of four tiles, or eight
// filters. Package gemm calls those of tiles with one run of tiles that lies inside the
// image, and lets it write whole vectors of results.
func neonWinograd() []neonFn {
	return []neonFn{
		{"winogradFiltersNEON", "transforms n times nine vectors of 8 filters each.", "func(dst, src *byte, plane, n int)", false, (*vk).neonFilters},
		{"winogradInNEON", "transforms the first run of t.runs, of tiles inside the image, for each of t.n channels.", "func(t *byte)", false, func(v *vk) { v.neonTilesIn(false) }},
		{"winogradGradNEON", "transforms the first run of t.runs, of tiles inside a gradient, for each of t.n channels.", "func(t *byte)", false, func(v *vk) { v.neonTilesIn(true) }},
		{"winogradOutNEON", "writes 8 elements of two rows of the result for each of t.n channels.", "func(t *byte)", false, (*vk).neonTilesOut},
	}
}

// planesOf calls do for the address of each of 16 planes in turn.
func (v *vk) planesOf(first, plane reg.GPVirtual, do func(i, j int, m Mem)) {
	q := v.ctx.GP64()
	v.text("MOVD <R, >R", first, q)
	for i := range 16 {
		do(i/4, i%4, Mem{Base: q})
		if i < 15 {
			v.text("ADD <R, =R", plane, q)
		}
	}
}

func (v *vk) neonFilters() {
	const mr = 8
	dst, src, plane, n := v.ptr("dst"), v.ptr("src"), v.ptr("plane"), v.ptr("n")
	half := v.in(v.c(0.5))
	spread := func(a, b, c V) [4]V {
		s, h := v.mul(v.add(a, c), half), v.mul(b, half)
		return [4]V{a, v.add(s, h), v.sub(s, h), c}
	}
	v.ctx.Label("loop")
	for side := range 2 {
		var cols [3][4]V
		for j := range 3 {
			var g [3]V
			for i := range g {
				g[i] = v.load(Mem{Base: src, Disp: (3*i+j)*mr*4 + 16*side})
			}
			cols[j] = spread(g[0], g[1], g[2])
		}
		var rows [4][4]V
		for i := range rows {
			rows[i] = spread(cols[0][i], cols[1][i], cols[2][i])
		}
		v.planesOf(dst, plane, func(i, j int, m Mem) { v.store(rows[i][j], m) })
		v.bump(16, dst)
	}
	v.bump(9*mr*4, src)
	v.text("SUBS $1, =R", n)
	v.text("BNE <L", LabelRef("loop"))
}

// neonTilesIn is winograd's tilesIn without edges.
func (v *vk) neonTilesIn(gradient bool) {
	t := v.ptr("t")
	run := v.field(t, inRuns)
	dst, plane, pitch, step, n := v.field(t, inDst), v.field(t, inPlane), v.field(t, inPitch), v.field(t, inStep), v.field(t, inN)
	v.text("ADD <R, =R", v.field(run, runDst), dst)
	x := v.field(t, inX)
	var rows []reg.GPVirtual
	for i := range map[bool]int{false: 4, true: 2}[gradient] {
		p := v.field(run, runRows+8*i)
		v.text("ADD <R, =R", x, p)
		rows = append(rows, p)
	}
	v.ctx.Label("channel")
	var r [][4]V
	for _, p := range rows {
		// Elements 0 and 1 of the tiles are those of two vectors, 2 and 3 those of the two
		// from two elements on.
		a := v.loads(p, 2)
		e0, e1 := v.two("uzp1.4s", a[0], a[1]), v.two("uzp2.4s", a[0], a[1])
		if gradient {
			r = append(r, [4]V{e0, v.add(e0, e1), v.sub(e0, e1), e1})
		} else {
			b, c := v.load(Mem{Base: p, Disp: 8}), v.load(Mem{Base: p, Disp: 24})
			e2, e3 := v.two("uzp1.4s", b, c), v.two("uzp2.4s", b, c)
			r = append(r, [4]V{v.sub(e0, e2), v.add(e1, e2), v.sub(e2, e1), v.sub(e1, e3)})
		}
		v.text("ADD <R, =R", step, p)
	}
	v.planesOf(dst, plane, func(i, j int, m Mem) {
		var y V
		switch {
		case gradient && (i == 0 || i == 3):
			y = r[i/3][j]
		case gradient:
			y = []func(a, b Op) V{v.add, v.sub}[i-1](r[0][j], r[1][j])
		case i == 0:
			y = v.sub(r[0][j], r[2][j])
		case i == 1:
			y = v.add(r[1][j], r[2][j])
		case i == 2:
			y = v.sub(r[2][j], r[1][j])
		default:
			y = v.sub(r[1][j], r[3][j])
		}
		v.store(y, m)
	})
	v.text("ADD <R, =R", pitch, dst)
	v.text("SUBS $1, =R", n)
	v.text("BNE <L", LabelRef("channel"))
}

// neonTilesOut is winograd's tilesOut for whole vectors.
func (v *vk) neonTilesOut() {
	t := v.ptr("t")
	src, plane, pitch, n := v.field(t, outSrc), v.field(t, outPlane), v.field(t, outPitch), v.field(t, outN)
	rows := []reg.GPVirtual{v.field(t, outRows), v.field(t, outRows+8)}
	steps := []reg.GPVirtual{v.field(t, outSteps), v.field(t, outSteps+8)}
	mask := v.load(Mem{Base: t, Disp: outMask})
	zero, bad := v.zero(), v.zero()
	v.ctx.Label("channel")
	var m [4][4]V
	v.planesOf(src, plane, func(i, j int, at Mem) { m[i][j] = v.load(at) })
	var s [2][4]V
	for j := range 4 {
		s[0][j] = v.add(v.add(m[1][j], m[2][j]), m[0][j])
		s[1][j] = v.sub(v.sub(m[1][j], m[2][j]), m[3][j])
	}
	var sum V
	for i, r := range s {
		y := [2]V{v.add(v.add(r[0], r[1]), r[2]), v.sub(v.sub(r[1], r[2]), r[3])}
		pair := v.add(y[0], y[1])
		if i == 0 {
			sum = pair
		} else {
			sum = v.add(sum, pair)
		}
		v.stores(rows[i], []V{v.two("zip1.4s", y[0], y[1]), v.two("zip2.4s", y[0], y[1])})
		v.text("ADD <R, =R", steps[i], rows[i])
	}
	v.acc(bad, v.keep(mask, sum), zero)
	v.text("ADD <R, =R", pitch, src)
	v.text("SUBS $1, =R", n)
	v.text("BNE <L", LabelRef("channel"))
	v.text("MOVD <R, =M", v.anyLane(v.cmp(unord, bad, bad)), Mem{Base: t, Disp: outBad})
}
