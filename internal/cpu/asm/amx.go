package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// amxKernels writes the kernels that multiply bfloat16 with AMX tiles: 1 or 2
// tiles of 16 rows by 1 or 2 of 16 columns. A's tiles have rows of 16 words of k, rowA
// apart, and are colA from each other; B's panels hold 32 words for each word of k.
// A passes through the L1 cache, in which B's panel stays. t.k is a multiple of
// 16. The sums are stored as they are, or with flagBeta
// added to C.
func amxKernels(ctx *build.Context) {
	// Palette 1; every tile has 16 rows of 64 bytes.
	config := ctx.StaticGlobal("amxConfig")
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	const bytes, rows = 0x0040004000400040, 0x1010101010101010
	for i, v := range []uint64{1, 0, bytes, bytes, 0, 0, rows, 0} {
		ctx.AddDatum(8*i, U64(v))
	}
	for rows := 1; rows <= 2; rows++ {
		for cols := 1; cols <= 2; cols++ {
			amxKernel(ctx, config, rows, cols)
		}
	}
	for rows := 1; rows <= 2; rows++ {
		for cols := 1; cols <= 2; cols++ {
			amxBlocks(ctx, config, rows, cols)
		}
	}
}

// Offsets of gemm's struct blocks.
const (
	kA = 8 * iota
	kB
	kC
	kStarts
	kSteps
	kRowA
	kStepA
	kRowB
	kLdc
	kCount
	kNextA
	kNextB
	kNextC
	kAdd
)

// tiles are those of a block of C: rows×cols of them, 0 to 3. 4 and 5 are A's, 6 and 7 B's.
type tiles struct {
	rows, cols int
	c, c1, ldc reg.GPPhysical // where the first and the second row of tiles begin
}

func (x tiles) each(f func(tile int, base reg.GPPhysical, disp int)) {
	for i := range x.rows {
		for j := range x.cols {
			f(2*i+j, []reg.GPPhysical{x.c, x.c1}[i], 64*j)
		}
	}
}

// begin loads the tiles of C if the bits of a mask are set, else clears them.
func (x tiles) begin(ctx *build.Context, mask Op, flags Mem) {
	ctx.MOVQ(x.ldc, x.c1)
	ctx.SHLQ(Imm(4), x.c1)
	ctx.ADDQ(x.c, x.c1)
	ctx.TESTQ(mask, flags)
	ctx.JZ(LabelRef("zero"))
	x.each(func(tile int, base reg.GPPhysical, disp int) { raw(ctx, tileLoad(tile, base, x.ldc, disp)) })
	ctx.JMP(LabelRef("sum"))
	ctx.Label("zero")
	x.each(func(tile int, base reg.GPPhysical, disp int) { raw(ctx, tileZero(tile)) })
	ctx.Label("sum")
}

// step adds the products of A's tiles, at p and q, and B's, at b.
func (x tiles) step(ctx *build.Context, loadA func(tile int, base, stride reg.GPPhysical, disp int) []byte, p, q, rowA, b, rowB reg.GPPhysical) {
	raw(ctx, loadA(4, p, rowA, 0))
	raw(ctx, tileLoad(6, b, rowB, 0))
	raw(ctx, tileDot(0, 4, 6))
	if x.cols == 2 {
		raw(ctx, tileLoad(7, b, rowB, 64))
		raw(ctx, tileDot(1, 4, 7))
	}
	if x.rows == 2 {
		raw(ctx, loadA(5, q, rowA, 0))
		raw(ctx, tileDot(2, 5, 6))
		if x.cols == 2 {
			raw(ctx, tileDot(3, 5, 7))
		}
	}
}

func (x tiles) store(ctx *build.Context) {
	x.each(func(tile int, base reg.GPPhysical, disp int) { raw(ctx, tileStore(tile, base, x.ldc, disp)) })
}

// amxHead begins a function of a task in memory, and returns what finds its fields.
func amxHead(ctx *build.Context, config Mem, name, doc string) (field func(off int) Mem) {
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.SignatureExpr("func(t *byte)")
	ctx.Doc(doc)
	t := reg.RDI
	ctx.Load(ctx.Param("t"), t)
	ctx.LEAQ(config, reg.RAX)
	raw(ctx, tileConfig)
	return func(off int) Mem { return Mem{Base: t, Disp: off} }
}

// amxBlocks writes a kernel for matrices that lie anywhere: each tile's rows have a
// distance of their own, and B's tiles begin where a list says.
func amxBlocks(ctx *build.Context, config Mem, rows, cols int) {
	name := fmt.Sprintf("blocksR%dV%dAMX", 16*rows, cols)
	field := amxHead(ctx, config, name, fmt.Sprintf("%s computes t.count blocks of %d rows and %d columns.", name, 16*rows, 16*cols))
	a, b, c, c1, n := reg.R8, reg.R9, reg.R10, reg.R11, reg.RCX
	ldc, rowA, rowB, p, q, start, at := reg.RDX, reg.R12, reg.R13, reg.RSI, reg.RBX, reg.RAX, reg.R15
	for _, f := range []struct {
		off int
		r   reg.GPPhysical
	}{{kA, a}, {kB, b}, {kC, c}, {kLdc, ldc}, {kRowA, rowA}, {kRowB, rowB}} {
		ctx.MOVQ(field(f.off), f.r)
	}
	x := tiles{rows, cols, c, c1, ldc}
	ctx.Label("block")
	x.begin(ctx, U32(1), field(kAdd))
	ctx.MOVQ(field(kStarts), start)
	ctx.MOVQ(field(kSteps), n)
	ctx.MOVQ(a, p)
	ctx.MOVQ(rowA, q)
	ctx.SHLQ(Imm(4), q)
	ctx.ADDQ(a, q)
	ctx.Label("loop")
	ctx.MOVQ(Mem{Base: start}, at)
	ctx.ADDQ(b, at)
	x.step(ctx, tileLoad, p, q, rowA, at, rowB)
	if rows == 2 {
		ctx.ADDQ(field(kStepA), q)
	}
	ctx.ADDQ(field(kStepA), p)
	ctx.ADDQ(Imm(8), start)
	ctx.DECQ(n)
	ctx.JNZ(LabelRef("loop"))
	x.store(ctx)
	ctx.ADDQ(field(kNextA), a)
	ctx.ADDQ(field(kNextB), b)
	ctx.ADDQ(field(kNextC), c)
	ctx.DECQ(field(kCount))
	ctx.JNZ(LabelRef("block"))
	raw(ctx, tileRelease)
	ctx.RET()
}

func amxKernel(ctx *build.Context, config Mem, rows, cols int) {
	name := fmt.Sprintf("kernBF16R%dV%dAMX", 16*rows, cols)
	field := amxHead(ctx, config, name, fmt.Sprintf("%s computes t.tiles tiles of %d rows and %d columns of packed panels of bfloat16 pairs.", name, 16*rows, 16*cols))
	a, b, c, c1, n := reg.R8, reg.R9, reg.R10, reg.R11, reg.RCX
	ldc, strideA, strideB, p, q := reg.RDX, reg.R12, reg.R13, reg.RSI, reg.RBX
	ctx.MOVQ(field(tA), a)
	ctx.MOVQ(field(tC), c)
	ctx.MOVQ(field(tLdc), ldc)
	ctx.MOVQ(field(tRowA), strideA)
	ctx.MOVQ(U32(128), strideB)
	x := tiles{rows, cols, c, c1, ldc}
	ctx.Label("tile")
	x.begin(ctx, U32(flagBeta), field(tFlags))
	ctx.MOVQ(field(tB), b)
	ctx.MOVQ(field(tK), n)
	ctx.MOVQ(a, p)
	ctx.MOVQ(strideA, q)
	ctx.SHLQ(Imm(4), q)
	ctx.ADDQ(a, q)
	ctx.Label("loop")
	x.step(ctx, tileLoadOnce, p, q, strideA, b, strideB)
	ctx.ADDQ(field(tColA), p)
	ctx.ADDQ(field(tColA), q)
	ctx.ADDQ(U32(2048), b)
	ctx.SUBQ(Imm(16), n)
	ctx.JG(LabelRef("loop"))
	x.store(ctx)
	ctx.ADDQ(field(tStepA), a)
	ctx.ADDQ(field(tStepC), c)
	ctx.DECQ(field(tTiles))
	ctx.JNZ(LabelRef("tile"))
	raw(ctx, tileRelease)
	ctx.RET()
}
