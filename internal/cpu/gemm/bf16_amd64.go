package gemm

import (
	"sync"

	"github.com/locusml/locus/internal/cpu/vec"
)

// bf16Kernels picks the kernels for products of bfloat16 matrices: those that
// multiply pairs of them where the CPU has any, else float32's, for which
// packing converts.
func bf16Kernels() *kernels[float32] {
	l := vec.Products()
	if l == vec.AMX && !tilesGranted() {
		l = vec.AVX512
	}
	return pickBF16(l)
}

func pickBF16(l vec.Level) *kernels[float32] {
	switch l {
	case vec.AMX:
		return &amxBF16
	case vec.AVX512BF16:
		return &avx512BF16
	}
	return pickF32(l)
}

// tilesGranted asks the operating system once for the use of AMX's registers.
var tilesGranted = sync.OnceValue(requestTiles)

var avx512BF16 = kernels[float32]{
	name: "avx512bf16", lanes: 16, mr: 12, mc: 480, kc: 256, nc: 4096, span: 4, pairs: pairWords,
	full:   avx512TilesBF16[:],
	edge:   avx512TilesBF16[:],
	packed: kernBF16R12V2PackedAVX512,
}

var avx512TilesBF16 = [...][2]func(*byte){
	{kernBF16R1V1AVX512, kernBF16R1V2AVX512},
	{kernBF16R2V1AVX512, kernBF16R2V2AVX512},
	{kernBF16R3V1AVX512, kernBF16R3V2AVX512},
	{kernBF16R4V1AVX512, kernBF16R4V2AVX512},
	{kernBF16R5V1AVX512, kernBF16R5V2AVX512},
	{kernBF16R6V1AVX512, kernBF16R6V2AVX512},
	{kernBF16R7V1AVX512, kernBF16R7V2AVX512},
	{kernBF16R8V1AVX512, kernBF16R8V2AVX512},
	{kernBF16R9V1AVX512, kernBF16R9V2AVX512},
	{kernBF16R10V1AVX512, kernBF16R10V2AVX512},
	{kernBF16R11V1AVX512, kernBF16R11V2AVX512},
	{kernBF16R12V1AVX512, kernBF16R12V2AVX512},
}
