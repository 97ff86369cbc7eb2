package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowsAtATime is how many rows of a matrix one pass over the accumulators of
// its columns takes in. With eight the accumulators cost little beside the
// rows, and a core still follows so many streams.
const rowsAtATime = 8

// overRows emits a loop over vectors of columns; n is a multiple of a block of two.
// take gets the address of the columns' accumulators, and of the columns in each row.
func (v *vk) overRows(accSize int, take func(acc func(vector int) Mem, row []Mem)) {
	if v.neon() {
		v.neonOverRows(accSize, take)
		return
	}
	ctx := v.ctx
	acc, rows, n := v.ptr("acc"), v.ptr("rows"), v.ptr("n")
	var p [rowsAtATime]reg.GPVirtual
	for r := range p {
		p[r] = ctx.GP64()
		ctx.MOVQ(Mem{Base: rows, Disp: 8 * r}, p[r])
	}
	i, next := ctx.GP64(), v.ptr("ahead")
	ctx.XORQ(i, i)
	ctx.Label("block")
	// The hardware sees new streams begin with every eight rows. T0 would take
	// these out of L1.
	for _, p := range p {
		for o := 0; o < 2*v.bits/8; o += 64 {
			ctx.PREFETCHT1(Mem{Base: p, Index: next, Scale: uint8(v.es()), Disp: o})
		}
	}
	for u := range 2 {
		var row []Mem
		for _, p := range p {
			row = append(row, Mem{Base: p, Index: i, Scale: uint8(v.es()), Disp: u * v.bits / 8})
		}
		take(func(vector int) Mem {
			return Mem{Base: acc, Index: i, Scale: uint8(accSize), Disp: (u*accSize/v.es() + vector) * v.bits / 8}
		}, row)
	}
	ctx.ADDQ(U32(uint32(2*v.lanes())), i)
	ctx.ADDQ(U32(uint32(2*v.lanes())), next)
	ctx.SUBQ(U32(uint32(2*v.lanes())), n)
	ctx.JG(LabelRef("block"))
}

// tree combines pairs, then pairs of those.
func tree(x []V, f func(x, y V) V) V {
	for ; len(x) > 1; x = x[:len(x)/2] {
		for i := range len(x) / 2 {
			x[i] = f(x[2*i], x[2*i+1])
		}
	}
	return x[0]
}

func emitSumRows(v *vk) {
	w := v.as(true)
	v.overRows(8, func(acc func(int) Mem, row []Mem) {
		var pairs []V
		for r := 0; r < len(row); r += 2 {
			pairs = append(pairs, v.add(v.load(row[r]), row[r+1]))
		}
		s := tree(pairs, func(x, y V) V { return v.add(x, y) })
		if v.double {
			v.store(v.add(s, acc(0)), acc(0))
			return
		}
		v.store(w.add(v.widenLow(s), acc(0)), acc(0))
		v.store(w.add(v.widenHigh(s), acc(1)), acc(1))
	})
}

// extremeRows emits MaxRows or MinRows. The machine's max and min drop a NaN,
// so comparisons of pairs look for one.
func extremeRows(name string) func(*vk) {
	return func(v *vk) {
		v.overRows(v.es(), func(acc func(int) Mem, row []Mem) {
			var nan []M
			var best []V
			for r := 0; r < len(row); r += 2 {
				x, y := v.load(row[r]), v.load(row[r+1])
				if !v.neon() { // which keeps it
					nan = append(nan, v.cmp(unord, x, y))
				}
				best = append(best, v.bin(name, x, y))
			}
			m := v.bin(name, tree(best, func(x, y V) V { return v.bin(name, x, y) }), acc(0)) // the accumulator if that is NaN
			for _, k := range nan {
				if v.wide() {
					m = v.blend(k, v.c(math.NaN()), m)
				} else {
					m = v.or(m, k)
				}
			}
			v.store(m, acc(0))
		})
	}
}
