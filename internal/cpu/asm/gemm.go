package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Field offsets of gemm's type tile; gemm's tests compare them.
const (
	tA        = 0
	tB        = 8
	tC        = 16
	tK        = 24
	tRowA     = 32
	tColA     = 40
	tRowB     = 48
	tLdc      = 56
	tTiles    = 64
	tStepA    = 72
	tStepC    = 80
	tBias     = 88
	tRowBias  = 96
	tFlags    = 104
	tTail     = 112
	tAlpha    = 120
	tBeta     = 128
	tStepBias = 136
	tStarts   = 144

	flagBeta = 1
	flagRelu = 2
)

// gemmKernels writes the micro-kernels of one vector width: for each height
// 1..MR and width of 1 or 2 vectors one that reads A and B with any stride and
// handles a partial last vector, and for full tiles of packed panels one with
// the strides built in. Under AVX2 a partial last vector needs other
// instructions than a full one, so there is a "full" and an "edge" version.
// The "rows" version, for convolutions, takes packed panels of A and a B whose
// rows begin anywhere, and computes whole vectors only. The "pixels" version,
// for convolutions of few filters, takes an A whose rows lie one element apart
// and whose columns begin anywhere, and a packed panel of B.
func gemmKernels(ctx *build.Context, bits int) {
	mr := 6
	if bits == 512 {
		mr = 12
	}
	consts := map[string]Mem{}
	for _, double := range []bool{false, true} {
		for nv := 1; nv <= 2; nv++ {
			for h := 1; h <= mr; h++ {
				if bits == 256 {
					(&kernel{ctx: ctx, bits: bits, double: double, h: h, nv: nv}).emit()
				}
				(&kernel{ctx: ctx, bits: bits, double: double, h: h, nv: nv, edge: true}).emit()
				(&kernel{ctx: ctx, bits: bits, double: double, h: h, nv: nv, rows: mr}).emit()
				if !double {
					(&kernel{ctx: ctx, bits: bits, h: h, nv: nv, pixels: true}).emit()
				}
			}
		}
		(&kernel{ctx: ctx, bits: bits, double: double, h: mr, nv: 2, packed: true}).emit()
		rowKernel(ctx, bits, double, consts)
		for h := 1; h <= 3; h++ {
			dotKernel(ctx, bits, double, h, consts)
		}
	}
}

// pairKernels writes AVX-512 kernels for bfloat16: a word of A and B holds two
// neighbours along k, and t.k counts words. The "sums" version only applies
// the epilogue, to sums that another kernel has stored: row i of them begins
// at t.a + i*t.stepA, and each row is a tile.
func pairKernels(ctx *build.Context) {
	const mr = 12
	for nv := 1; nv <= 2; nv++ {
		for h := 1; h <= mr; h++ {
			(&kernel{ctx: ctx, bits: 512, pairs: true, h: h, nv: nv, edge: true}).emit()
		}
		(&kernel{ctx: ctx, bits: 512, h: 1, nv: nv, edge: true, sums: true}).emit()
	}
	(&kernel{ctx: ctx, bits: 512, pairs: true, h: mr, nv: 2, packed: true}).emit()
}

type kernel struct {
	ctx    *build.Context
	bits   int
	double bool
	pairs  bool // words are pairs of bfloat16
	sums   bool // no product: the sums lie at tile.a
	h, nv  int
	edge   bool // the last vector is partial: tile.tail of its lanes count
	packed bool // rows of A and B are adjacent: strides are constants
	pixels bool // rows of A are adjacent elements, columns begin at tile.starts
	rows   int  // rows of B begin at tile.starts and A's panels have so many rows; 0: no

	acc  [][]reg.VecPhysical
	b    []reg.VecPhysical
	t    []reg.VecPhysical
	tile reg.GPVirtual
	mask reg.Register // the edge mask: a YMM or a K register
	n    int          // label counter
}

func (k *kernel) name() string {
	t := "F32"
	if k.double {
		t = "F64"
	} else if k.pairs {
		t = "BF16"
	}
	s := fmt.Sprintf("kern%sR%dV%d", t, k.h, k.nv)
	if k.sums {
		s += "Sums"
	} else if k.packed {
		s += "Packed"
	} else if k.rows > 0 {
		s += "Rows"
	} else if k.pixels {
		s += "Pixels"
	} else if k.edge && k.bits == 256 {
		s += "Edge"
	}
	return s + map[int]string{256: "AVX2", 512: "AVX512"}[k.bits]
}

func (k *kernel) esize() int {
	if k.double {
		return 8
	}
	return 4
}

func (k *kernel) field(off int) Mem { return Mem{Base: k.tile, Disp: off} }

func (k *kernel) vec(i int) reg.VecPhysical {
	y := []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	z := []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
		reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
		reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}
	if k.bits == 512 {
		return z[i]
	}
	return y[i]
}

// The instructions below exist for single and double precision.
func (k *kernel) pick(s, d func(...Op), ops ...Op) {
	if k.double {
		d(ops...)
	} else {
		s(ops...)
	}
}
func (k *kernel) fma231(a, b, d Op) { k.pick(k.ctx.VFMADD231PS, k.ctx.VFMADD231PD, a, b, d) }

// sum adds the products of a and b, one a lane or one a half, to d.
func (k *kernel) sum(a, b, d reg.VecPhysical) {
	if k.pairs {
		raw(k.ctx, vdpbf16ps(a, b, d))
	} else {
		k.fma231(a, b, d)
	}
}

func (k *kernel) broadcast(m Mem, d Op) { k.pick(k.ctx.VBROADCASTSS, k.ctx.VBROADCASTSD, m, d) }
func (k *kernel) mul(a, b, d Op)        { k.pick(k.ctx.VMULPS, k.ctx.VMULPD, a, b, d) }
func (k *kernel) add(a, b, d Op)        { k.pick(k.ctx.VADDPS, k.ctx.VADDPD, a, b, d) }
func (k *kernel) max(a, b, d Op)        { k.pick(k.ctx.VMAXPS, k.ctx.VMAXPD, a, b, d) }
func (k *kernel) zero(d Op) {
	if k.bits == 512 {
		k.ctx.VPXORD(d, d, d)
	} else {
		k.ctx.VXORPS(d, d, d)
	}
}

// load reads the j-th vector of a row; the last one of an edge kernel only in
// its valid lanes, so that memory past the matrix is never touched.
func (k *kernel) load(m Mem, d reg.VecPhysical, j int) {
	switch {
	case !k.edge || j < k.nv-1:
		k.ctx.VMOVUPS(m, d)
	case k.bits == 512:
		if k.double {
			k.ctx.VMOVUPD_Z(m, k.mask, d)
		} else {
			k.ctx.VMOVUPS_Z(m, k.mask, d)
		}
	default:
		if k.double {
			k.ctx.VMASKMOVPD(m, k.mask, d)
		} else {
			k.ctx.VMASKMOVPS(m, k.mask, d)
		}
	}
}

// store writes the j-th vector of a row. VMASKMOVPS stores are microcoded on
// AMD, so under AVX2 a partial vector goes out in halves, quarters and eighths.
func (k *kernel) store(v reg.VecPhysical, row reg.GPVirtual, j int, tail reg.GPVirtual) {
	m := Mem{Base: row, Disp: j * k.bits / 8}
	switch {
	case !k.edge || j < k.nv-1:
		k.ctx.VMOVUPS(v, m)
	case k.bits == 512:
		k.pick(k.ctx.VMOVUPS, k.ctx.VMOVUPD, v, k.mask, m)
	default:
		ctx := k.ctx
		p := ctx.GP64()
		ctx.LEAQ(m, p)
		x := v.AsX()
		half := 4 / (k.esize() / 4)
		skip := k.label("half")
		ctx.TESTQ(U32(half), tail)
		ctx.JZ(LabelRef(skip))
		ctx.VMOVUPS(x, Mem{Base: p})
		ctx.VEXTRACTF128(Imm(1), v, x)
		ctx.ADDQ(Imm(16), p)
		ctx.Label(skip)
		if !k.double {
			skip = k.label("quarter")
			ctx.TESTQ(U32(2), tail)
			ctx.JZ(LabelRef(skip))
			ctx.VMOVLPS(x, Mem{Base: p})
			ctx.VMOVHLPS(x, x, x)
			ctx.ADDQ(Imm(8), p)
			ctx.Label(skip)
		}
		skip = k.label("eighth")
		ctx.TESTQ(U32(1), tail)
		ctx.JZ(LabelRef(skip))
		if k.double {
			ctx.VMOVSD(x, Mem{Base: p})
		} else {
			ctx.VMOVSS(x, Mem{Base: p})
		}
		ctx.Label(skip)
	}
}

func (k *kernel) label(s string) string {
	k.n++
	return fmt.Sprintf("%s%d", s, k.n)
}

func (k *kernel) emit() {
	ctx := k.ctx
	ctx.Function(k.name())
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.SignatureExpr("func(t *byte)")
	if k.sums {
		ctx.Doc(fmt.Sprintf("%s stores t.tiles rows of %d vectors of sums.", k.name(), k.nv))
	} else if k.packed {
		ctx.Doc(k.name() + " computes t.tiles full tiles of packed panels.")
	} else if k.rows > 0 {
		ctx.Doc(fmt.Sprintf("%s computes t.tiles tiles of %d rows and %d vectors of a B whose rows begin at t.starts.", k.name(), k.h, k.nv))
	} else if k.pixels {
		ctx.Doc(fmt.Sprintf("%s computes t.tiles tiles of %d rows and %d vectors of an A whose columns begin at t.starts.", k.name(), k.h, k.nv))
	} else {
		ctx.Doc(fmt.Sprintf("%s computes t.tiles tiles of %d rows and %d vectors.", k.name(), k.h, k.nv))
	}
	k.tile = ctx.GP64()
	ctx.Load(ctx.Param("t"), k.tile)

	// Registers: accumulators last, B's vectors and the broadcasts first. The
	// AVX2 edge mask takes a broadcast's place in the 6x2 kernel.
	next := 0
	take := func() reg.VecPhysical { next++; return k.vec(next - 1) }
	for j := 0; j < k.nv; j++ {
		k.b = append(k.b, take())
	}
	nt := 2
	if k.bits == 512 {
		nt = 4
	}
	for j := 0; j < nt; j++ {
		k.t = append(k.t, take())
	}
	for i := 0; i < k.h; i++ {
		var r []reg.VecPhysical
		for j := 0; j < k.nv; j++ {
			r = append(r, take())
		}
		k.acc = append(k.acc, r)
	}
	if k.edge {
		if k.bits == 512 {
			tail := reg.RCX
			ctx.MOVQ(k.field(tTail), tail)
			one := ctx.GP64()
			ctx.MOVQ(U32(1), one)
			ctx.SHLQ(reg.CL, one)
			ctx.DECQ(one)
			m := reg.K1
			ctx.KMOVW(one.As32(), m)
			k.mask = m
		} else {
			if next < 16 {
				k.mask = take()
			} else {
				k.mask = k.t[1]
				k.t = k.t[:1]
			}
			k.loadMask()
		}
	}

	a, c := ctx.GP64(), ctx.GP64()
	ctx.MOVQ(k.field(tA), a)
	ctx.MOVQ(k.field(tC), c)
	ldc := ctx.GP64()
	ctx.MOVQ(k.field(tLdc), ldc)
	var rowA, colA, rowB reg.GPVirtual
	if !k.packed && !k.pixels && k.rows == 0 && !k.sums {
		rowA, colA, rowB = ctx.GP64(), ctx.GP64(), ctx.GP64()
		ctx.MOVQ(k.field(tRowA), rowA)
		ctx.MOVQ(k.field(tColA), colA)
		ctx.MOVQ(k.field(tRowB), rowB)
	}

	ctx.Label("tile")
	for _, r := range k.acc {
		for j, v := range r {
			if k.sums {
				ctx.VMOVUPS(Mem{Base: a, Disp: j * k.bits / 8}, v)
			} else {
				k.zero(v)
			}
		}
	}
	// The tile of C is needed only at the end: fetch it meanwhile. The long rows
	// of AVX-512 would hold up the panels, so that there packedLoop does it.
	if !k.sums && !(k.packed && k.bits == 512) {
		p := ctx.GP64()
		ctx.MOVQ(c, p)
		for i := range k.acc {
			ctx.PREFETCHT0(Mem{Base: p})
			if k.nv*k.bits/8 > 64 {
				ctx.PREFETCHT0(Mem{Base: p, Disp: 64})
			}
			if i < k.h-1 {
				ctx.ADDQ(ldc, p)
			}
		}
	}
	if !k.sums {
		b, n := ctx.GP64(), ctx.GP64()
		ctx.MOVQ(k.field(tB), b)
		ctx.MOVQ(k.field(tK), n)
		switch {
		case k.packed:
			k.packedLoop(a, b, n, c, ldc)
		case k.rows > 0:
			k.rowsLoop(a, b, n)
		case k.pixels:
			k.pixelsLoop(a, b, n)
		default:
			k.stridedLoop(a, b, n, rowA, colA, rowB)
		}
	}
	k.finish(c, ldc)

	ctx.DECQ(k.field(tTiles))
	ctx.JZ(LabelRef("done"))
	ctx.ADDQ(k.field(tStepC), c)
	ctx.MOVQ(k.field(tA), a)
	ctx.ADDQ(k.field(tStepA), a)
	ctx.MOVQ(a, k.field(tA))
	step := ctx.GP64()
	ctx.MOVQ(k.field(tStepBias), step)
	ctx.ADDQ(step, k.field(tRowBias))
	ctx.JMP(LabelRef("tile"))
	ctx.Label("done")
	ctx.VZEROUPPER()
	ctx.RET()
}

func (k *kernel) loadMask() {
	ctx := k.ctx
	p, t := ctx.GP64(), ctx.GP64()
	ctx.LEAQ(Mem{Symbol: Symbol{Name: "·tailMask"}, Base: reg.StaticBase}, p)
	ctx.MOVQ(k.field(tTail), t)
	ctx.SHLQ(Imm(uint64(2+k.esize()/8)), t)
	ctx.SUBQ(t, p)
	ctx.VMOVUPS(Mem{Base: p, Disp: 32}, k.mask)
}

// unroll is how many columns of A and rows of B a round of the loops takes.
const unroll = 4

func (k *kernel) packedLoop(a, b, n, c, ldc reg.GPVirtual) {
	ctx := k.ctx
	es, vb := k.esize(), k.bits/8
	step := func(u int) {
		for j := range k.b {
			k.load(Mem{Base: b, Disp: (u*k.nv + j) * vb}, k.b[j], j)
		}
		if k.bits == 512 { // both panels together are larger than an L1 cache
			ctx.PREFETCHT0(Mem{Base: b, Disp: u*k.nv*vb + 1024})
			ctx.PREFETCHT0(Mem{Base: b, Disp: u*k.nv*vb + 1024 + 64})
			ctx.PREFETCHT0(Mem{Base: a, Disp: u*k.h*es + 768})
		}
		for i, r := range k.acc {
			t := k.t[i%len(k.t)]
			k.broadcast(Mem{Base: a, Disp: (u*k.h + i) * es}, t)
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}
	steps := func(n int) {
		for u := range n {
			step(u)
		}
		ctx.ADDQ(U32(uint32(n*k.h*es)), a)
		ctx.ADDQ(U32(uint32(n*k.nv*vb)), b)
	}
	rest := ctx.GP64()
	ctx.MOVQ(n, rest)
	ctx.SHRQ(Imm(2), n)
	ctx.JZ(LabelRef("rest"))
	if k.bits == 512 {
		k.fetchRows(c, ldc, n, steps)
	}
	ctx.Label("loop")
	steps(unroll)
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("loop"))
	ctx.Label("rest")
	ctx.ANDQ(Imm(unroll-1), rest)
	ctx.JZ(LabelRef("sum"))
	ctx.Label("single")
	steps(1)
	ctx.DECQ(rest)
	ctx.JNZ(LabelRef("single"))
	ctx.Label("sum")
}

// fetchRows runs the first rounds of a loop of n; each fetches a row of C.
func (k *kernel) fetchRows(c, ldc, n reg.GPVirtual, steps func(int)) {
	ctx := k.ctx
	row, first := ctx.GP64(), ctx.GP64()
	ctx.MOVQ(c, row)
	ctx.MOVQ(U32(uint32(k.h)), first)
	ctx.CMPQ(n, first)
	ctx.CMOVQLT(n, first)
	ctx.SUBQ(first, n)
	ctx.Label("fetch")
	for o := 0; o < k.nv*k.bits/8; o += 64 {
		ctx.PREFETCHT0(Mem{Base: row, Disp: o})
	}
	ctx.ADDQ(ldc, row)
	steps(unroll)
	ctx.DECQ(first)
	ctx.JNZ(LabelRef("fetch"))
	ctx.TESTQ(n, n)
	ctx.JZ(LabelRef("rest"))
}

func (k *kernel) rowsLoop(a, b, n reg.GPVirtual) {
	es, vb := k.esize(), k.bits/8
	k.startsLoop(n, func(u int, at reg.GPVirtual) {
		for j := range k.b {
			k.load(Mem{Base: b, Index: at, Scale: 1, Disp: j * vb}, k.b[j], j)
		}
		for i, r := range k.acc {
			t := k.t[i%len(k.t)]
			k.broadcast(Mem{Base: a, Disp: (u*k.rows + i) * es}, t)
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}, func(steps int) { k.ctx.ADDQ(U32(uint32(steps*k.rows*es)), a) })
}

func (k *kernel) pixelsLoop(a, b, n reg.GPVirtual) {
	es, vb := k.esize(), k.bits/8
	k.startsLoop(n, func(u int, at reg.GPVirtual) {
		for j := range k.b {
			k.load(Mem{Base: b, Disp: (u*k.nv + j) * vb}, k.b[j], j)
		}
		for i, r := range k.acc {
			t := k.t[i%len(k.t)]
			k.broadcast(Mem{Base: a, Index: at, Scale: 1, Disp: i * es}, t)
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}, func(steps int) { k.ctx.ADDQ(U32(uint32(steps*k.nv*vb)), b) })
}

// startsLoop runs step for each of n offsets at tile.starts; next moves on by
// so many steps.
func (k *kernel) startsLoop(n reg.GPVirtual, step func(u int, at reg.GPVirtual), next func(steps int)) {
	ctx := k.ctx
	starts := ctx.GP64()
	ctx.MOVQ(k.field(tStarts), starts)
	one := func(u int) {
		at := ctx.GP64()
		ctx.MOVQ(Mem{Base: starts, Disp: 8 * u}, at)
		step(u, at)
	}
	rest := ctx.GP64()
	ctx.MOVQ(n, rest)
	ctx.SHRQ(Imm(2), n)
	ctx.JZ(LabelRef("rest"))
	ctx.Label("loop")
	for u := range unroll {
		one(u)
	}
	next(unroll)
	ctx.ADDQ(U32(8*unroll), starts)
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("loop"))
	ctx.Label("rest")
	ctx.ANDQ(Imm(unroll-1), rest)
	ctx.JZ(LabelRef("sum"))
	ctx.Label("single")
	one(0)
	next(1)
	ctx.ADDQ(U32(8), starts)
	ctx.DECQ(rest)
	ctx.JNZ(LabelRef("single"))
	ctx.Label("sum")
}

func (k *kernel) stridedLoop(a, b, n, rowA, colA, rowB reg.GPVirtual) {
	ctx := k.ctx
	// Rows in groups of three: base, base+row, base+2*row.
	bases := []reg.GPVirtual{a}
	for g := 3; g < k.h; g += 3 {
		p := ctx.GP64()
		ctx.LEAQ(Mem{Base: bases[len(bases)-1], Index: rowA, Scale: 2}, p)
		ctx.ADDQ(rowA, p)
		bases = append(bases, p)
	}
	// The rows of the next tile are fetched meanwhile: each of them begins a
	// line of its own, all at about the same time, which no prefetcher foresees.
	ahead := ctx.GP64()
	prefetch := k.h == 6 && k.bits == 256 || k.h == 12
	step := func(u int) {
		for j := range k.b {
			k.load(Mem{Base: b, Disp: j * k.bits / 8}, k.b[j], j)
		}
		ctx.ADDQ(rowB, b)
		if prefetch && 3*u < k.h {
			ctx.PREFETCHT0(Mem{Base: ahead})
			ctx.PREFETCHT0(Mem{Base: ahead, Index: rowA, Scale: 1})
			ctx.PREFETCHT0(Mem{Base: ahead, Index: rowA, Scale: 2})
			if 3*u+3 < k.h {
				ctx.LEAQ(Mem{Base: ahead, Index: rowA, Scale: 2}, ahead)
				ctx.ADDQ(rowA, ahead)
			}
		}
		for i, r := range k.acc {
			m := Mem{Base: bases[i/3]}
			if i%3 > 0 {
				m.Index, m.Scale = rowA, uint8(i%3)
			}
			t := k.t[i%len(k.t)]
			k.broadcast(m, t)
			if i%3 == 2 || i == k.h-1 {
				ctx.ADDQ(colA, bases[i/3])
			}
			for j, v := range r {
				k.sum(k.b[j], t, v)
			}
		}
	}
	rest := ctx.GP64()
	ctx.MOVQ(n, rest)
	ctx.SHRQ(Imm(2), n)
	ctx.JZ(LabelRef("rest"))
	ctx.Label("loop")
	if prefetch {
		ctx.MOVQ(a, ahead)
		ctx.ADDQ(k.field(tStepA), ahead)
	}
	for u := range unroll {
		step(u)
	}
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("loop"))
	ctx.Label("rest")
	ctx.ANDQ(Imm(unroll-1), rest)
	ctx.JZ(LabelRef("sum"))
	ctx.Label("single")
	step(unroll)
	ctx.DECQ(rest)
	ctx.JNZ(LabelRef("single"))
	ctx.Label("sum")
}

// finish scales by alpha, adds beta times C, the biases, clamps and stores.
func (k *kernel) finish(c, ldc reg.GPVirtual) {
	ctx := k.ctx
	flags := ctx.GP64()
	ctx.MOVQ(k.field(tFlags), flags)
	s := k.t[0]
	k.broadcast(k.field(tAlpha), s)
	for _, r := range k.acc {
		for _, v := range r {
			k.mul(s, v, v)
		}
	}
	ctx.TESTQ(U32(flagBeta), flags)
	ctx.JZ(LabelRef("bias"))
	k.broadcast(k.field(tBeta), s)
	row := ctx.GP64()
	ctx.MOVQ(c, row)
	for i, r := range k.acc {
		for j, v := range r {
			k.load(Mem{Base: row, Disp: j * k.bits / 8}, k.b[j], j)
			k.fma231(k.b[j], s, v)
		}
		if i < k.h-1 {
			ctx.ADDQ(ldc, row)
		}
	}
	ctx.Label("bias")
	p := ctx.GP64()
	ctx.MOVQ(k.field(tBias), p)
	ctx.TESTQ(p, p)
	ctx.JZ(LabelRef("rowbias"))
	for j := range k.b {
		k.load(Mem{Base: p, Disp: j * k.bits / 8}, k.b[j], j)
	}
	for _, r := range k.acc {
		for j, v := range r {
			k.add(k.b[j], v, v)
		}
	}
	ctx.Label("rowbias")
	q := ctx.GP64()
	ctx.MOVQ(k.field(tRowBias), q)
	ctx.TESTQ(q, q)
	ctx.JZ(LabelRef("relu"))
	for i, r := range k.acc {
		k.broadcast(Mem{Base: q, Disp: i * k.esize()}, s)
		for _, v := range r {
			k.add(s, v, v)
		}
	}
	ctx.Label("relu")
	ctx.TESTQ(U32(flagRelu), flags)
	ctx.JZ(LabelRef("store"))
	k.zero(s)
	for _, r := range k.acc {
		for _, v := range r {
			k.max(v, s, v) // the second source, v, wins when it is NaN
		}
	}
	ctx.Label("store")
	row2 := ctx.GP64()
	ctx.MOVQ(c, row2)
	tail := ctx.GP64()
	if k.edge && k.bits == 256 {
		ctx.MOVQ(k.field(tTail), tail)
	}
	for i, r := range k.acc {
		for j, v := range r {
			k.store(v, row2, j, tail)
		}
		if i < k.h-1 {
			ctx.ADDQ(ldc, row2)
		}
	}
}
