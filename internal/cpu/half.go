package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/random"
)

// halfTypes lists the element types of half precision. It is all that package cpu knows of
// them: the files of ops register their kernels for each type of the list.
var halfTypes = []halfType{
	halfOf(dtype.Float16, halfParts[dtype.F16]{
		narrow: vec.F32ToF16, round: dtype.ToF16, belowOne: 0x3bff}),
	halfOf(dtype.BFloat16, halfParts[dtype.BF16]{
		narrow: vec.F32ToBF16, round: dtype.ToBF16, belowOne: 0x3f7f, blocks: true}),
}

// halfParts are what one type differs in from another.
type halfParts[H half] struct {
	narrow   func(dst []uint16, src []float32)
	round    func(float32) H
	belowOne H    // the largest number below 1
	blocks   bool // tensor cores can multiply it, where there are any
}

// halfType is an element type of half precision. Its kernels convert to float32, compute there
// as the kernels of float32 do, and round once.
type halfType struct {
	dtype  dtype.DType
	narrow func(dst []uint16, src []float32)
	bits   func(float64) uint16
	blocks bool

	// Kernels from what is computed in float32.
	unary     func(grain int, loop loop1[float32, float32]) kernel
	binary    func(grain int, loop loop2[float32, float32]) kernel
	test      func(grain int, loop loop1[uint8, float32]) kernel
	compare   func(grain int, loop loop2[uint8, float32]) kernel
	scatter   func(add adder[float32]) kernel
	dense     func(im images, f denseKernel[float32]) kernel
	alongAxis func(f func(dst, a, b []float32), rows rowsFunc[float32]) kernel

	// Kernels.
	attend, attendGrad, indexAdd, linear, matmul, globalNorm, norm, normGrad, maxPoolIndices, cumSum, argSort, uniform, normal kernel

	// What registers several.
	casts, classes, ctc, cum, reductions func()

	castTo func(to halfType) kernel
}

func halfOf[H half](d dtype.DType, p halfParts[H]) halfType {
	return halfType{
		dtype: d, narrow: p.narrow, blocks: p.blocks,
		bits: func(x float64) uint16 { return uint16(p.round(narrow(x))) },

		unary: unaryHalf[H], binary: binaryHalf[H], test: testHalf[H], compare: compareHalf[H], scatter: scatterHalf[H], dense: throughFloat32[H],
		alongAxis: func(f func(dst, a, b []float32), rows rowsFunc[float32]) kernel {
			return alongAxis(halfLines[H](), f, rows)
		},

		attend: attendHalf[H], attendGrad: attendGradHalf[H],
		indexAdd: indexAdd(halfLines[H]()), linear: linearHalf[H](d), matmul: matmul(multiplyHalf[H](d)),
		globalNorm: globalNorm(sumSqHalf[H]()),
		norm:       normalizing(halfLines[H](), (*norm[H, float32]).forward), normGrad: normalizing(halfLines[H](), (*norm[H, float32]).backward),
		maxPoolIndices: maxPoolIndicesHalf[H], cumSum: cumSumHalf[H],
		argSort: argSort(func(x H) uint64 { return key32(x.Float32()) }),
		uniform: random4(func(w uint32) H { return min(p.round(random.Uniform32(w)), p.belowOne) }),
		normal:  random4(func(w uint32) H { return p.round(random.Normal32(w)) }),

		casts: func() { castHalf[H](d) },
		castTo: func(to halfType) kernel {
			up, _ := conversions[H]()
			return castDown(to, loop1[float32, H](up))
		},
		classes:    func() { registerClasses(d, halfLines[H]()) },
		ctc:        func() { registerCTC(d, halfLines[H]()) },
		cum:        func() { registerCum(d, cumHalf[H]) },
		reductions: func() { reduceHalf(d, p.round) },
	}
}

// inBlocks is k, or what computes the same with tensor cores where there are any and it is worth it.
func (h halfType) inBlocks(blocks func(c *backend.Call) bool, k kernel) kernel {
	if !h.blocks {
		return k
	}
	return func(c *backend.Call) error {
		if c.Out.Elements() > 0 && blockProducts() && blocks(c) {
			return nil
		}
		return k(c)
	}
}

// conversions returns the functions between a half-precision type and float32.
func conversions[H half]() (up func(dst []float32, src []H), down func(dst []H, src []float32)) {
	var h H
	if _, ok := any(h).(dtype.F16); ok {
		return func(dst []float32, src []H) { vec.F16ToF32(dst, convert[uint16](src)) },
			func(dst []H, src []float32) { vec.F32ToF16(convert[uint16](dst), src) }
	}
	return func(dst []float32, src []H) { vec.BF16ToF32(dst, convert[uint16](src)) },
		func(dst []H, src []float32) { vec.F32ToBF16(convert[uint16](dst), src) }
}
