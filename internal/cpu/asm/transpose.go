package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Transposing small blocks of elements of 1, 2, 4 and 8 bytes in registers. The
// functions use 256 bits at either level: what they wait for is memory.

// block tells what a width's network takes: rows of the result, which are
// contiguous in the source, and columns, which are contiguous in the result.
type block struct{ size, rows, columns int }

func blockOf(size int) block {
	switch size {
	case 1, 2:
		return block{size, 16, 8}
	case 4:
		return block{size, 8, 8}
	}
	return block{size, 4, 4}
}

// reg is a register for a column of a block.
func (b block) reg(v *vk) V {
	if b.rows*b.size == 16 {
		return v.ctx.XMM()
	}
	return v.ctx.YMM()
}

// network transposes the columns x of a block and passes each row of the result to
// store: the register and which part of it the row is.
func (b block) network(v *vk, x []V, store func(row int, x V, part int)) {
	pair := func(width string, x, y V) (lo, hi V) {
		lo, hi = b.reg(v), b.reg(v)
		v.ins("VPUNPCKL"+width, y, x, lo)
		v.ins("VPUNPCKH"+width, y, x, hi)
		return lo, hi
	}
	// Interleaving the first half of the registers with the second moves the
	// highest bit of an element's place (register, lane) behind the lowest; as
	// many turns as a register's number has bits swap the two.
	interleave := func(width string, x []V) []V {
		h := len(x) / 2
		out := make([]V, len(x))
		for i := range h {
			out[2*i], out[2*i+1] = pair(width, x[i], x[i+h])
		}
		return out
	}
	lanes := func(a, b V, imm uint64) V {
		d := v.ctx.YMM()
		v.ctx.VPERM2F128(Imm(imm), b, a, d)
		return d
	}
	switch b.size {
	case 1:
		for i, y := range interleave("BW", interleave("BW", interleave("BW", x))) {
			store(2*i, y, 0)
			store(2*i+1, y, 1)
		}
	case 2:
		for i, y := range interleave("WD", interleave("WD", interleave("WD", x))) {
			store(i, y, 0)
			store(i+8, y, 1)
		}
	case 4:
		lo, hi := interleave("DQ", interleave("DQ", x[:4])), interleave("DQ", interleave("DQ", x[4:]))
		for i := range lo {
			store(i, lanes(lo[i], hi[i], 0x20), 0)
		}
		for i := range lo {
			store(i+4, lanes(lo[i], hi[i], 0x31), 0)
		}
	case 8:
		a0, a1 := pair("QDQ", x[0], x[1])
		b0, b1 := pair("QDQ", x[2], x[3])
		store(0, lanes(a0, b0, 0x20), 0)
		store(1, lanes(a1, b1, 0x20), 0)
		store(2, lanes(a0, b0, 0x31), 0)
		store(3, lanes(a1, b1, 0x31), 0)
	}
}

// put stores a row of network's.
func (b block) put(v *vk, x V, part int, m Mem) {
	switch {
	case b.size == 1 && part == 0:
		v.ctx.VMOVLPS(x.AsX(), m)
	case b.size == 1:
		v.ctx.VMOVHPS(x.AsX(), m)
	case b.size == 2 && part == 0:
		v.ctx.VMOVUPS(x.AsX(), m)
	case b.size == 2:
		v.ctx.VEXTRACTF128(Imm(1), x, m)
	default:
		v.ctx.VMOVUPS(x, m)
	}
}

// steps returns the addresses p, p+f, p+2f, … of n rows that are f bytes apart;
// f3 is 3f.
func (v *vk) steps(p, f, f3 reg.Register, n int) []Mem {
	var m []Mem
	for len(m) < n {
		m = append(m, Mem{Base: p}, Mem{Base: p, Index: f, Scale: 1}, Mem{Base: p, Index: f, Scale: 2}, Mem{Base: p, Index: f3, Scale: 1})
		if len(m) < n {
			q := v.ctx.GP64()
			v.ctx.LEAQ(Mem{Base: p, Index: f, Scale: 4}, q)
			p = q
		}
	}
	return m[:n]
}

// load reads a block's columns from p on, f bytes apart.
func (b block) load(v *vk, p, f, f3 reg.Register) []V {
	var x []V
	for _, m := range v.steps(p, f, f3, b.columns) {
		d := b.reg(v)
		v.ctx.VMOVDQU(m, d)
		x = append(x, d)
	}
	return x
}

// bytes loads a parameter that counts elements and makes it count bytes.
func (v *vk) bytes(name string, b block) reg.GPVirtual {
	p := v.ptr(name)
	if b.size > 1 {
		v.ctx.SHLQ(Imm(map[int]uint64{2: 1, 4: 2, 8: 3}[b.size]), p)
	}
	return p
}

func (v *vk) triple(f reg.Register) reg.GPVirtual {
	d := v.ctx.GP64()
	v.ctx.LEAQ(Mem{Base: f, Index: f, Scale: 2}, d)
	return d
}

// emitTranspose: dst[r*pitch + c] = src[c*from + r] for whole blocks of rows
// and columns.
func emitTranspose(size int) func(*vk) {
	b := blockOf(size)
	return func(v *vk) {
		if v.neon() {
			v.neonTranspose(size)
			return
		}
		ctx := v.ctx
		dst, g := v.ptr("dst"), v.bytes("pitch", b)
		src, f := v.ptr("src"), v.bytes("from", b)
		columns := v.ptr("columns")
		f3, g3 := v.triple(f), v.triple(g)
		ctx.Label("column")
		p, d, rows := ctx.GP64(), ctx.GP64(), v.ptr("rows")
		ctx.MOVQ(src, p)
		ctx.MOVQ(dst, d)
		ctx.Label("row")
		x := b.load(v, p, f, f3)
		// Rows of the result are stored four at a time, as network passes them.
		type out struct {
			x    V
			part int
		}
		rest := make([]out, b.rows)
		b.network(v, x, func(row int, x V, part int) { rest[row] = out{x, part} })
		for i := 0; i < b.rows; i += 4 {
			for k, m := range v.steps(d, g, g3, 4) {
				b.put(v, rest[i+k].x, rest[i+k].part, m)
			}
			ctx.LEAQ(Mem{Base: d, Index: g, Scale: 4}, d)
		}
		ctx.ADDQ(Imm(uint64(b.rows*size)), p)
		ctx.SUBQ(Imm(uint64(b.rows)), rows)
		ctx.JG(LabelRef("row"))
		ctx.LEAQ(Mem{Base: src, Index: f, Scale: 4}, src)
		if b.columns == 8 {
			ctx.LEAQ(Mem{Base: src, Index: f, Scale: 4}, src)
		}
		ctx.ADDQ(Imm(uint64(b.columns*size)), dst)
		ctx.SUBQ(Imm(uint64(b.columns)), columns)
		ctx.JG(LabelRef("column"))
	}
}

// Large results are written past the caches in runs of streamRun bytes. A tile
// is as high as a cache line of the source is long.
const (
	streamLine  = 64
	streamRun   = 128
	streamAhead = 128
)

// emitTransposeStream transposes tiles one below the other: of the source the
// next cache line of as many columns as a run has, of the result the next rows.
// Each goes by way of buf, so that runs are written at once.
func emitTransposeStream(size int) func(*vk) {
	b := blockOf(size)
	return func(v *vk) {
		ctx := v.ctx
		dst, g := v.ptr("dst"), v.bytes("pitch", b)
		src, f := v.ptr("src"), v.bytes("from", b)
		buf, tiles := v.ptr("buf"), v.ptr("tiles")
		f3 := v.triple(f)
		ctx.Label("tile")
		p, d, columns := ctx.GP64(), ctx.GP64(), ctx.GP64()
		ctx.MOVQ(src, p)
		ctx.MOVQ(buf, d)
		ctx.MOVQ(U32(uint32(streamRun/size)), columns)
		ctx.Label("columns")
		for _, m := range v.steps(p, f, f3, b.columns) {
			m.Disp = streamAhead
			ctx.PREFETCHT0(m)
		}
		for r := 0; r < streamLine/size; r += b.rows {
			q := ctx.GP64()
			ctx.LEAQ(Mem{Base: p, Disp: r * size}, q)
			b.network(v, b.load(v, q, f, f3), func(row int, x V, part int) {
				b.put(v, x, part, Mem{Base: d, Disp: (r + row) * streamRun})
			})
		}
		ctx.LEAQ(Mem{Base: p, Index: f, Scale: 4}, p)
		if b.columns == 8 {
			ctx.LEAQ(Mem{Base: p, Index: f, Scale: 4}, p)
		}
		ctx.ADDQ(Imm(uint64(b.columns*size)), d)
		ctx.SUBQ(Imm(uint64(b.columns)), columns)
		ctx.JG(LabelRef("columns"))
		// The buffer's rows to the result's.
		ctx.MOVQ(buf, p)
		rows := ctx.GP64()
		ctx.MOVQ(U32(uint32(streamLine/size)), rows)
		ctx.Label("run")
		for o := 0; o < streamRun; o += 32 {
			x := ctx.YMM()
			ctx.VMOVDQU(Mem{Base: p, Disp: o}, x)
			ctx.VMOVNTDQ(x, Mem{Base: dst, Disp: o})
		}
		ctx.ADDQ(U32(streamRun), p)
		ctx.ADDQ(g, dst)
		ctx.SUBQ(Imm(1), rows)
		ctx.JG(LabelRef("run"))
		ctx.ADDQ(U32(streamLine), src)
		ctx.SUBQ(Imm(1), tiles)
		ctx.JG(LabelRef("tile"))
		ctx.SFENCE()
	}
}
