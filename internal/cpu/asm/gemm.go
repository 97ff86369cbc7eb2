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
// neighbors along k, and t.k counts words. The "sums" version only applies
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
