package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The loops of NEON's code. Pointers move on with the elements; there are no masks, so
// the last elements, fewer than a vector has, are moved one, two or three at a time.

// bump moves pointers on by so many bytes each.
func (v *vk) bump(bytes int, ptrs ...reg.GPVirtual) {
	for _, p := range ptrs {
		v.text("ADD <$, =R", U32(bytes), p)
	}
}

// loads reads n vectors from p on.
func (v *vk) loads(p reg.GPVirtual, n int) []V {
	var x []V
	for len(x) < n {
		m := Mem{Base: p, Disp: 16 * len(x)}
		if n-len(x) == 1 {
			x = append(x, v.load(m))
			break
		}
		a, b := v.reg(), v.reg()
		v.text("FLDPQ <M, (>F, >F)", m, a, b)
		x = append(x, a, b)
	}
	return x
}

// stores writes vectors from p on.
func (v *vk) stores(p reg.GPVirtual, x []V) {
	for i := 0; i < len(x); i += 2 {
		m := Mem{Base: p, Disp: 16 * i}
		if i+1 == len(x) {
			v.store(x[i], m)
		} else {
			v.text("FSTPQ (<F, <F), =M", x[i], x[i+1], m)
		}
	}
}

// count emits a loop: do(u) while there are u more elements, with n counting down,
// negative at the end by the number that misses; then it is put right.
func (v *vk) count(n reg.GPVirtual, label string, elements int, do func()) {
	v.text("SUBS <$, =R", U32(elements), n)
	v.text("BLT <L", LabelRef("no"+label))
	v.ctx.Label(label)
	do()
	v.text("SUBS <$, =R", U32(elements), n)
	v.text("BGE <L", LabelRef(label))
	v.ctx.Label("no" + label)
	v.text("ADDS <$, =R", U32(elements), n)
}

func (v *vk) neonElementwise(inputs string, unroll int, body func(in ...Op) V, after func(r V)) {
	names := strings.Fields(inputs)
	var dst reg.GPVirtual
	var ptrs, src []reg.GPVirtual
	store := names[0] != "-"
	if store {
		dst = v.ptr("dst")
		ptrs = append(ptrs, dst)
	} else {
		names = names[1:]
	}
	for _, s := range names {
		if s != "dst" {
			ptrs = append(ptrs, v.ptr(s))
		}
		p := ptrs[len(ptrs)-1]
		if s == "dst" {
			p = dst
		}
		src = append(src, p)
	}
	n := v.ptr("n")
	turn := func(u int) {
		ins := make([][]Op, u)
		for _, p := range src {
			for j, x := range v.loads(p, u) {
				ins[j] = append(ins[j], x)
			}
		}
		var out []V
		woven(v.ctx, u, func(j int) { out = append(out, body(ins[j]...)) })
		if store {
			v.stores(dst, out)
		}
		if after != nil {
			for _, r := range out {
				after(r)
			}
		}
		v.bump(16*u, ptrs...)
	}
	// Functions that ask for fewer than four vectors do so because AVX2 has no
	// registers for more; see neonFn.compile.
	if u := v.k.unroll; u > 1 {
		v.count(n, "many", u*v.lanes(), func() { turn(u) })
		v.text("BEQ <L", LabelRef("end"))
	}
	v.count(n, "one", v.lanes(), func() { turn(1) })
	v.text("BEQ <L", LabelRef("end"))
	var in []Op
	for i, p := range src {
		in = append(in, v.loadFew(p, n, fmt.Sprint("load", i)))
	}
	r := body(in...)
	if after != nil {
		r = v.keep(v.firstLanes(n), r)
		after(r)
	}
	if store {
		v.storeFew(r, dst, n)
	}
	v.ctx.Label("end")
}

// loadFew reads n elements, fewer than a vector has; the other lanes are 0.
func (v *vk) loadFew(p, n reg.GPVirtual, label string) V {
	d := v.reg()
	if v.double {
		v.text("FMOVD <M, >F", Mem{Base: p}, d)
		return d
	}
	v.text("TBZ $1, <R, <L", n, LabelRef(label+"one"))
	v.text("FMOVD <M, >F", Mem{Base: p}, d)
	v.text("TBZ $0, <R, <L", n, LabelRef(label+"done"))
	q := v.ctx.GP64()
	v.text("ADD $8, <R, >R", p, q)
	v.text("VLD1 (<R), =V.S[2]", q, d)
	v.text("B <L", LabelRef(label+"done"))
	v.ctx.Label(label + "one")
	v.text("FMOVS <M, >F", Mem{Base: p}, d)
	v.ctx.Label(label + "done")
	return d
}

// storeFew writes the first n lanes, fewer than a vector has.
func (v *vk) storeFew(x V, p, n reg.GPVirtual) {
	if v.double {
		v.text("FMOVD <F, =M", x, Mem{Base: p})
		return
	}
	v.text("TBZ $1, <R, <L", n, LabelRef("storeone"))
	v.text("FMOVD <F, =M", x, Mem{Base: p})
	v.text("TBZ $0, <R, <L", n, LabelRef("end"))
	q := v.ctx.GP64()
	v.text("ADD $8, <R, >R", p, q)
	v.text("VST1 <V.S[2], (<R)", x, q)
	v.text("B <L", LabelRef("end"))
	v.ctx.Label("storeone")
	v.text("FMOVS <F, =M", x, Mem{Base: p})
}

// firstLanes is the mask of n lanes, of which there are 0 to a whole vector.
func (v *vk) firstLanes(n reg.GPVirtual) V {
	p := v.ctx.GP64()
	v.text("MOVD $neonMask<>+16(SB), >R", p)
	v.text(fmt.Sprintf("SUB <R<<%d, =R", 2+v.es()/8), n, p)
	return v.load(Mem{Base: p})
}

// neonReduce is reduce: an accumulator has two lanes, so a vector of float32 is added to
// two accumulators.
func (v *vk) neonReduce(inputs string, unroll int, body func(set int, valid func(V) V, in ...Op)) {
	var src []reg.GPVirtual
	for _, s := range strings.Fields(inputs) {
		src = append(src, v.ptr(s))
	}
	n := v.ptr("n")
	all := func(x V) V { return x }
	v.count(n, "many", 2*unroll, func() {
		ins := make([][]Op, unroll)
		for _, p := range src {
			for j, x := range v.loads(p, 2*unroll/v.lanes()) {
				if v.double {
					ins[j] = append(ins[j], x)
				} else {
					ins[2*j] = append(ins[2*j], v.widenLow(x))
					ins[2*j+1] = append(ins[2*j+1], v.widenHigh(x))
				}
			}
		}
		for j, in := range ins {
			body(j, all, in...)
		}
		v.bump(2*unroll*v.es(), src...)
	})
	v.text("BEQ <L", LabelRef("end"))
	v.count(n, "two", 2, func() {
		var in []Op
		for _, p := range src {
			in = append(in, v.pair(p))
		}
		body(0, all, in...)
		v.bump(2*v.es(), src...)
	})
	v.text("BEQ <L", LabelRef("end"))
	var in []Op
	for _, p := range src {
		d := v.reg()
		if v.double {
			v.text("FMOVD <M, >F", Mem{Base: p}, d)
		} else {
			v.text("FMOVS <M, >F", Mem{Base: p}, d)
			d = v.widenLow(d)
		}
		in = append(in, d)
	}
	body(0, func(x V) V { return v.two("and", x, v.as(true).firstLanes(n)) }, in...)
	v.ctx.Label("end")
}

// pair reads two elements as float64.
func (v *vk) pair(p reg.GPVirtual) V {
	if v.double {
		return v.load(Mem{Base: p})
	}
	d := v.reg()
	v.text("FMOVD <M, >F", Mem{Base: p}, d)
	return v.widenLow(d)
}

// neonExtreme emits ReduceMax or ReduceMin, for which the machine's instructions are
// right: they keep a NaN.
func (v *vk) neonExtreme(name string, start float64) {
	op := neonNames[name]
	const sets = 4
	var m []V
	for range sets {
		m = append(m, v.copy(v.c(start)))
	}
	p, n := v.ptr("a"), v.ptr("n")
	v.count(n, "many", 2*sets*v.lanes(), func() {
		for j, x := range v.loads(p, 2*sets) {
			v.op(op+v.t(), m[j%sets], m[j%sets], x)
		}
		v.bump(2*sets*16, p)
	})
	v.text("BEQ <L", LabelRef("end"))
	v.count(n, "one", v.lanes(), func() {
		v.op(op+v.t(), m[0], m[0], v.load(Mem{Base: p}))
		v.bump(16, p)
	})
	v.text("BEQ <L", LabelRef("end"))
	v.count(n, "single", 1, func() { // an element, spread to all lanes
		x := v.reg()
		if v.double {
			v.text("VLD1R (<R), [>V.D2]", p, x)
		} else {
			v.text("VLD1R (<R), [>V.S4]", p, x)
		}
		v.op(op+v.t(), m[1], m[1], x)
		v.bump(v.es(), p)
	})
	v.ctx.Label("end")
	for h := sets / 2; h > 0; h /= 2 {
		for j := range h {
			v.op(op+v.t(), m[j], m[j], m[j+h])
		}
	}
	if v.double {
		v.ret(0, v.one(op+"p.d", m[0]), true)
	} else {
		v.ret(0, v.one(op+"v", m[0]), false)
	}
}

// anyLane is other than 0 if a lane of a mask is set.
func (v *vk) anyLane(m M) reg.GPVirtual {
	f := v.ctx.GP64()
	v.op("fmov.w", f, v.one("umaxv", m))
	return f
}

func (v *vk) neonBlocks(params string, body func(at func(name string, es, off int) Mem)) {
	ptrs := map[string]reg.GPVirtual{}
	size := map[string]int{}
	for _, s := range strings.Fields(params) {
		ptrs[s] = v.ptr(s)
	}
	n := v.ptr("n")
	v.ctx.Label("block")
	body(func(name string, es, off int) Mem {
		size[name] = es
		return Mem{Base: ptrs[name], Disp: off * es}
	})
	for _, s := range strings.Fields(params) {
		v.bump(16*size[s], ptrs[s])
	}
	v.text("SUBS <$, =R", U32(16), n)
	v.text("BGT <L", LabelRef("block"))
}

// neonEights widens elements of 16 bits, eight in a vector.
func (v *vk) neonEights(widen func(x V) (lo, hi V)) {
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		var out []V
		for _, x := range v.loads(at("a", 2, 0).Base.(reg.GPVirtual), 2) {
			lo, hi := widen(x)
			out = append(out, lo, hi)
		}
		v.stores(at("dst", 4, 0).Base.(reg.GPVirtual), out)
	})
}

// neonHalves narrows two vectors to one of elements of 16 bits.
func (v *vk) neonHalves(narrow func(lo, hi V) V) {
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		x := v.loads(at("a", 4, 0).Base.(reg.GPVirtual), 4)
		var out []V
		woven(v.ctx, 2, func(j int) { out = append(out, narrow(x[2*j], x[2*j+1])) })
		v.stores(at("dst", 2, 0).Base.(reg.GPVirtual), out)
	})
}

// neonBytes converts bytes to float32.
func (v *vk) neonBytes() {
	v.blocks("dst a", func(at func(string, int, int) Mem) {
		x := v.load(at("a", 1, 0))
		var out []V
		for _, h := range v.spreadBytes("ushll", x) {
			out = append(out, v.fromInt32(h))
		}
		v.stores(at("dst", 4, 0).Base.(reg.GPVirtual), out)
	})
}

// spreadBytes makes four vectors of 32-bit lanes from 16 bytes; name says how: ushll or sshll.
func (v *vk) spreadBytes(name string, x V) []V {
	wide := func(key string, x V) V {
		d := v.reg()
		v.op(key, d, x, U32(0))
		return d
	}
	lo, hi := wide(name+".8h", x), wide(name+"2.8h", x)
	return []V{wide(name+".4s", lo), wide(name+"2.4s", lo), wide(name+".4s", hi), wide(name+"2.4s", hi)}
}

// neonCompare emits a comparison to bytes, for blocks of 16 elements.
func (v *vk) neonCompare(pred int, scalar bool) {
	var s V
	params := "dst a b"
	if scalar {
		s, params = v.scalar("s"), "dst a"
	}
	ones := v.as(false).held(v.as(false).constant(0x01010101, 4))
	v.blocks(params, func(at func(string, int, int) Mem) {
		count := 16 / v.lanes()
		x := v.loads(at("a", v.es(), 0).Base.(reg.GPVirtual), count)
		var y []V
		if !scalar {
			y = v.loads(at("b", v.es(), 0).Base.(reg.GPVirtual), count)
		}
		// Negated comparisons are the inverse of the others, at the end.
		p, not := pred, false
		if pred == ne {
			p, not = eq, true
		}
		var m []V
		for j := range x {
			other := s
			if !scalar {
				other = y[j]
			}
			m = append(m, v.cmp(p, x[j], other).(V))
		}
		for _, half := range []string{"uzp1.4s", "uzp1.8h", "uzp1.16b"}[map[bool]int{false: 1, true: 0}[v.double]:] {
			for j := range len(m) / 2 {
				m[j] = v.two(half, m[2*j], m[2*j+1])
			}
			m = m[:len(m)/2]
		}
		if not {
			v.store(v.two("bic", ones, m[0]), at("dst", 1, 0))
		} else {
			v.store(v.two("and", ones, m[0]), at("dst", 1, 0))
		}
	})
}

// neonSelect emits Select: a byte that is not 0 becomes a lane of ones.
func (v *vk) neonSelect() {
	v.blocks("dst mask a b", func(at func(string, int, int) Mem) {
		m := v.load(at("mask", 1, 0))
		masks := v.spreadBytes("sshll", v.two("cmtst.16b", m, m))
		if v.double {
			var long []V
			for _, x := range masks {
				lo, hi := v.reg(), v.reg()
				v.op("sshll.2d", lo, x, U32(0))
				v.op("sshll2.2d", hi, x, U32(0))
				long = append(long, lo, hi)
			}
			masks = long
		}
		a := v.loads(at("a", v.es(), 0).Base.(reg.GPVirtual), len(masks))
		b := v.loads(at("b", v.es(), 0).Base.(reg.GPVirtual), len(masks))
		var out []V
		for j := range masks {
			out = append(out, v.blend(masks[j], a[j], b[j]))
		}
		v.stores(at("dst", v.es(), 0).Base.(reg.GPVirtual), out)
	})
}

// neonOverRows is overRows without its prefetches, which nobody has measured on arm64.
func (v *vk) neonOverRows(accSize int, take func(acc func(vector int) Mem, row []Mem)) {
	acc, rows, n := v.ptr("acc"), v.ptr("rows"), v.ptr("n")
	var p []reg.GPVirtual
	for r := range rowsAtATime {
		p = append(p, v.ctx.GP64())
		v.text("MOVD <M, >R", Mem{Base: rows, Disp: 8 * r}, p[r])
	}
	v.ctx.Label("block")
	for u := range 2 {
		var row []Mem
		for _, p := range p {
			row = append(row, Mem{Base: p, Disp: 16 * u})
		}
		take(func(vector int) Mem { return Mem{Base: acc, Disp: (u*accSize/v.es() + vector) * 16} }, row)
	}
	v.bump(32, p...)
	v.bump(2*accSize*v.lanes(), acc)
	v.text("SUBS <$, =R", U32(2*v.lanes()), n)
	v.text("BGT <L", LabelRef("block"))
}
