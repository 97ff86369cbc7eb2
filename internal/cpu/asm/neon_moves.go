package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Functions of NEON that move elements between lanes: transposes, pooling by 2, the
// generator of random words.

// interleave interleaves the first half of the registers with the second, lanes of the
// given arrangement: as many turns as a register's number has bits swap it with the lane's.
func (v *vk) interleave(lanes string, x []V) []V {
	h := len(x) / 2
	out := make([]V, len(x))
	for i := range h {
		out[2*i], out[2*i+1] = v.two("zip1."+lanes, x[i], x[i+h]), v.two("zip2."+lanes, x[i], x[i+h])
	}
	return out
}

// neonBlockOf tells what neonTranspose takes at a time; package vec knows it as well.
func neonBlockOf(size int) block {
	return map[int]block{1: {1, 16, 8}, 2: {2, 8, 8}, 4: {4, 4, 8}, 8: {8, 2, 4}}[size]
}

// neonTranspose: dst[r*pitch + c] = src[c*from + r] for whole blocks of rows and columns.
func (v *vk) neonTranspose(size int) {
	b := neonBlockOf(size)
	scaled := func(name string) reg.GPVirtual {
		p := v.ptr(name)
		if size > 1 {
			v.text(fmt.Sprintf("LSL $%d, =R", map[int]int{2: 1, 4: 2, 8: 3}[size]), p)
		}
		return p
	}
	dst, pitch, src, from := v.ptr("dst"), scaled("pitch"), v.ptr("src"), scaled("from")
	columns := v.ptr("columns")
	v.ctx.Label("column")
	p, d, rows := v.ctx.GP64(), v.ctx.GP64(), v.ptr("rows")
	v.text("MOVD <R, >R", src, p)
	v.text("MOVD <R, >R", dst, d)
	v.ctx.Label("row")
	q := v.ctx.GP64()
	v.text("MOVD <R, >R", p, q)
	var x []V
	for range b.columns {
		x = append(x, v.load(Mem{Base: q}))
		v.text("ADD <R, =R", from, q)
	}
	put := func(text string, ops ...Op) {
		v.text(text, ops...)
		v.text("ADD <R, =R", pitch, d)
	}
	switch size {
	case 1:
		for _, y := range v.interleave("16b", v.interleave("16b", v.interleave("16b", x))) {
			put("VST1 <V.D[0], (<R)", y, d)
			put("VST1 <V.D[1], (<R)", y, d)
		}
	case 2:
		for _, y := range v.interleave("8h", v.interleave("8h", v.interleave("8h", x))) {
			put("FMOVQ <F, =M", y, Mem{Base: d})
		}
	case 4:
		lo, hi := v.interleave("4s", v.interleave("4s", x[:4])), v.interleave("4s", v.interleave("4s", x[4:]))
		for i := range lo {
			put("FSTPQ (<F, <F), =M", lo[i], hi[i], Mem{Base: d})
		}
	case 8:
		lo, hi := v.interleave("2d", x[:2]), v.interleave("2d", x[2:])
		for i := range lo {
			put("FSTPQ (<F, <F), =M", lo[i], hi[i], Mem{Base: d})
		}
	}
	v.bump(16, p)
	v.text("SUBS <$, =R", U32(b.rows), rows)
	v.text("BGT <L", LabelRef("row"))
	v.text(fmt.Sprintf("ADD <R<<%d, =R", map[int]int{4: 2, 8: 3}[b.columns]), from, src)
	v.bump(b.columns*size, dst)
	v.text("SUBS <$, =R", U32(b.columns), columns)
	v.text("BGT <L", LabelRef("column"))
}

// neonEnds is ends: a loop over [0, n-8] in steps of 8 whose last turn begins at n-8. at
// returns the address of element i, or 2i for scale 8, of a parameter.
func (v *vk) neonEnds(body func(at func(p reg.GPVirtual, scale int) reg.GPVirtual)) {
	n, i := v.ptr("n"), v.ctx.GP64()
	v.text("MOVD $0, >R", i)
	v.text("SUB $8, =R", n)
	v.ctx.Label("eight")
	body(func(p reg.GPVirtual, scale int) reg.GPVirtual {
		q := v.ctx.GP64()
		v.text(fmt.Sprintf("ADD <R<<%d, <R, >R", map[int]int{4: 2, 8: 3}[scale]), i, p, q)
		return q
	})
	v.text("CMP <R, <R", n, i)
	v.text("BGE <L", LabelRef("end"))
	v.text("ADD $8, =R", i)
	v.text("CMP <R, <R", n, i)
	v.text("CSEL GT, <R, =R, >R", n, i, i)
	v.text("B <L", LabelRef("eight"))
	v.ctx.Label("end")
}

func (v *vk) neonAveragePairs() {
	dst, a, b := v.ptr("dst"), v.ptr("a"), v.ptr("b")
	quarter := v.in(v.c(0.25))
	v.neonEnds(func(at func(reg.GPVirtual, int) reg.GPVirtual) {
		var s []V
		y := v.loads(at(b, 8), 4)
		for j, x := range v.loads(at(a, 8), 4) {
			m := v.mul(x, quarter)
			v.acc(m, y[j], quarter)
			s = append(s, m)
		}
		v.stores(at(dst, 4), []V{v.two("faddp.4s", s[0], s[1]), v.two("faddp.4s", s[2], s[3])})
	})
}

func (v *vk) neonSpreadPairs() {
	dst, also, a := v.ptr("dst"), v.ptr("also"), v.ptr("a")
	quarter := v.in(v.c(0.25))
	v.neonEnds(func(at func(reg.GPVirtual, int) reg.GPVirtual) {
		var out []V
		for _, x := range v.loads(at(a, 4), 2) {
			g := v.mul(x, quarter)
			out = append(out, v.two("zip1.4s", g, g), v.two("zip2.4s", g, g))
		}
		v.stores(at(dst, 8), out)
		v.stores(at(also, 8), out)
	})
}

// neonPairs splits 8 elements each of the rows at p and q, from vector j on, into the first
// and the second of each pair.
func (v *vk) neonPairs(a, b []V, j int) [4]V {
	return [4]V{
		v.two("uzp1.4s", a[j], a[j+1]), v.two("uzp2.4s", a[j], a[j+1]),
		v.two("uzp1.4s", b[j], b[j+1]), v.two("uzp2.4s", b[j], b[j+1]),
	}
}

// neonLargest finds the largest of a window's elements, and where element k is larger than
// those before it, or the first NaN.
func (v *vk) neonLargest(x [4]V) (best V, later [4]V) {
	best = v.copy(x[0])
	for k := 1; k < 4; k++ {
		// Neither less nor equal, while the best is a number.
		later[k] = v.two("bic", v.cmp(eq, best, best), v.cmp(le, x[k], best))
		v.op("bit", best, x[k], later[k])
	}
	return best, later
}

func (v *vk) neonLargestPairs() {
	dst, a, b := v.ptr("dst"), v.ptr("a"), v.ptr("b")
	v.neonEnds(func(at func(reg.GPVirtual, int) reg.GPVirtual) {
		x, y := v.loads(at(a, 8), 4), v.loads(at(b, 8), 4)
		var out []V
		woven(v.ctx, 2, func(j int) {
			best, _ := v.neonLargest(v.neonPairs(x, y, 2*j))
			out = append(out, best)
		})
		v.stores(at(dst, 4), out)
	})
}

func (v *vk) neonLargestPairsGrad() {
	dst, also, a, b, g := v.ptr("dst"), v.ptr("also"), v.ptr("a"), v.ptr("b"), v.ptr("grad")
	v.neonEnds(func(at func(reg.GPVirtual, int) reg.GPVirtual) {
		x, y := v.loads(at(a, 8), 4), v.loads(at(b, 8), 4)
		grad := v.loads(at(g, 4), 2)
		var out [2][]V
		woven(v.ctx, 2, func(j int) {
			_, later := v.neonLargest(v.neonPairs(x, y, 2*j))
			rest := grad[j]
			var share [4]V
			for k := 3; k > 0; k-- { // the last one that is larger is the largest
				share[k] = v.and(later[k], rest)
				rest = v.two("bic", rest, later[k])
			}
			share[0] = rest
			for r := range out {
				out[r] = append(out[r], v.two("zip1.4s", share[2*r], share[2*r+1]), v.two("zip2.4s", share[2*r], share[2*r+1]))
			}
		})
		v.stores(at(dst, 8), out[0])
		v.stores(at(also, 8), out[1])
	})
}

// neonPhilox emits the generator for n blocks from number block on, n a multiple of 8. A
// block is a lane of 32 bits in each of four vectors.
func (v *vk) neonPhilox() {
	w := v.as(true)
	const groups = 2
	dst, n := v.ptr("dst"), v.ptr("n")
	// The numbers of four blocks, two in a vector.
	var number [2]V
	i := v.ptr("block")
	for h := range number {
		number[h] = v.zero()
		for l := range 2 {
			v.text(fmt.Sprintf("VMOV <R, =V.D[%d]", l), i, number[h])
			v.text("ADD $1, =R", i)
		}
	}
	var key [2]V
	i = v.ptr("key")
	for h := range key {
		key[h] = v.reg()
		v.text("VDUP <R, >V.S4", i, key[h])
		v.text("LSR $32, =R", i)
	}
	four := v.in(w.ci(4))
	bump := [2]V{v.in(v.ci(0x9E3779B9)), v.in(v.ci(0xBB67AE85))}
	times := [2]V{v.in(v.ci(0xD2511F53)), v.in(v.ci(0xCD9E8D57))}
	v.ctx.Label("blocks")
	var c [groups][4]V
	for g := range c {
		c[g] = [4]V{v.two("uzp1.4s", number[0], number[1]), v.two("uzp2.4s", number[0], number[1]), v.zero(), v.zero()}
		for h := range number {
			v.op("add.2d", number[h], number[h], four)
		}
	}
	k := key
	for r := range 10 {
		if r > 0 {
			k = [2]V{v.iadd(k[0], bump[0]), v.iadd(k[1], bump[1])}
		}
		woven(v.ctx, groups, func(g int) {
			var low, high [2]V
			for h := range 2 {
				x := c[g][2*h]
				lo, hi := v.two("umull", x, times[h]), v.two("umull2", x, times[h])
				low[h], high[h] = v.two("uzp1.4s", lo, hi), v.two("uzp2.4s", lo, hi)
			}
			c[g] = [4]V{v.xor(v.xor(high[1], c[g][1]), k[0]), low[1], v.xor(v.xor(high[0], c[g][3]), k[1]), low[0]}
		})
	}
	for g := range c {
		out := v.interleave("4s", v.interleave("4s", c[g][:]))
		v.stores(dst, out)
		v.bump(64, dst)
	}
	v.text("SUBS <$, =R", U32(4*groups), n)
	v.text("BGT <L", LabelRef("blocks"))
}

// turns emits a loop over n elements, a multiple of 8, 8 at a time. A parameter whose name
// ends in "2" has two elements for each.
func (v *vk) turns(body func(p []reg.GPVirtual), params ...string) {
	var p []reg.GPVirtual
	for _, name := range params {
		p = append(p, v.ptr(strings.TrimSuffix(name, "2")))
	}
	n := v.ptr("n")
	v.ctx.Label("eight")
	body(p)
	for i, name := range params {
		v.bump(map[bool]int{false: 32, true: 64}[strings.HasSuffix(name, "2")], p[i])
	}
	v.text("SUBS <$, =R", U32(8), n)
	v.text("BGT <L", LabelRef("eight"))
}

func (v *vk) neonSplitPairs() {
	v.turns(func(p []reg.GPVirtual) {
		a := v.loads(p[2], 4)
		for i, name := range []string{"uzp1.4s", "uzp2.4s"} {
			v.stores(p[i], []V{v.two(name, a[0], a[1]), v.two(name, a[2], a[3])})
		}
	}, "even", "odd", "a2")
}

func (v *vk) neonEvens() {
	v.turns(func(p []reg.GPVirtual) {
		a := v.loads(p[1], 4)
		v.stores(p[0], []V{v.two("uzp1.4s", a[0], a[1]), v.two("uzp1.4s", a[2], a[3])})
	}, "dst", "a2")
}

func (v *vk) neonJoinPairs() {
	v.turns(func(p []reg.GPVirtual) {
		e, o := v.loads(p[1], 2), v.loads(p[2], 2)
		var out []V
		for i := range e {
			out = append(out, v.two("zip1.4s", e[i], o[i]), v.two("zip2.4s", e[i], o[i]))
		}
		v.stores(p[0], out)
	}, "dst2", "even", "odd")
}

func (v *vk) neonClaim() {
	v.turns(func(p []reg.GPVirtual) {
		d, g, x, m := v.loads(p[0], 2), v.loads(p[1], 2), v.loads(p[2], 2), v.loads(p[3], 2)
		for i := range d {
			// Not mine are numbers that differ.
			other := v.two("bic", v.cmp(eq, x[i], x[i]), v.cmp(eq, x[i], m[i]))
			d[i] = v.add(d[i], v.two("bic", g[i], other))
			g[i] = v.and(g[i], other)
		}
		v.stores(p[0], d)
		v.stores(p[1], g)
	}, "dst", "grad", "a", "m")
}

// neonTake is emitTake.
func (v *vk) neonTake() {
	const ahead = 4
	dst, src, idx, n, size := v.ptr("dst"), v.ptr("src"), v.ptr("idx"), v.ptr("n"), v.ptr("size")
	last := v.ctx.GP64()
	v.text("ADD <R<<3, <R, >R", n, idx, last)
	v.text("SUB $8, =R", last)
	v.ctx.Label("row")
	row := func(at reg.GPVirtual) reg.GPVirtual {
		p := v.field(at, 0)
		v.text("MUL <R, =R", size, p)
		v.text("ADD <R, =R", src, p)
		return p
	}
	from := row(idx)
	at := v.ctx.GP64()
	v.text("ADD <$, <R, >R", U32(8*ahead), idx, at)
	v.text("CMP <R, <R", last, at)
	v.text("CSEL HI, <R, =R, >R", last, at, at)
	next := row(at)
	d, left := v.ctx.GP64(), v.ctx.GP64()
	v.text("MOVD <R, >R", dst, d)
	v.text("MOVD <R, >R", size, left)
	v.count(left, "line", 64, func() {
		v.text("PRFM (<R), PLDL1KEEP", next)
		v.stores(d, v.loads(from, 4))
		v.bump(64, from, d, next)
	})
	v.text("BEQ <L", LabelRef("end"))
	v.text("PRFM (<R), PLDL1KEEP", next)
	v.text("SUBS $32, =R", left)
	v.text("BLE <L", LabelRef("tail"))
	v.stores(d, v.loads(from, 2))
	v.ctx.Label("tail") // the last 32, which may be there already
	v.text("ADD <R, =R", left, from)
	v.text("ADD <R, =R", left, d)
	v.stores(d, v.loads(from, 2))
	v.ctx.Label("end")
	v.text("ADD <R, =R", size, dst)
	v.bump(8, idx)
	v.text("SUBS $1, =R", n)
	v.text("BNE <L", LabelRef("row"))
}
