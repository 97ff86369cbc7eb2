package gemm

import "github.com/locusml/locus/internal/cpu/vec"

var (
	kernelsF32 = pickF32(vec.CPU())
	kernelsF64 = pickF64(vec.CPU())
)

func pickF32(l vec.Level) *kernels[float32] {
	switch {
	case l >= vec.AVX512:
		return &avx512F32
	case l == vec.AVX2:
		return &avx2F32
	}
	return &genericF32
}

func pickF64(l vec.Level) *kernels[float64] {
	switch {
	case l >= vec.AVX512:
		return &avx512F64
	case l == vec.AVX2:
		return &avx2F64
	}
	return &genericF64
}

var avx2F32 = kernels[float32]{
	name: "avx2", lanes: 8, mr: 6, mc: 336, kc: 256, nc: 4096, span: 2,
	full: [][2]func(*byte){
		{kernF32R1V1AVX2, kernF32R1V2AVX2},
		{kernF32R2V1AVX2, kernF32R2V2AVX2},
		{kernF32R3V1AVX2, kernF32R3V2AVX2},
		{kernF32R4V1AVX2, kernF32R4V2AVX2},
		{kernF32R5V1AVX2, kernF32R5V2AVX2},
		{kernF32R6V1AVX2, kernF32R6V2AVX2},
	},
	edge: [][2]func(*byte){
		{kernF32R1V1EdgeAVX2, kernF32R1V2EdgeAVX2},
		{kernF32R2V1EdgeAVX2, kernF32R2V2EdgeAVX2},
		{kernF32R3V1EdgeAVX2, kernF32R3V2EdgeAVX2},
		{kernF32R4V1EdgeAVX2, kernF32R4V2EdgeAVX2},
		{kernF32R5V1EdgeAVX2, kernF32R5V2EdgeAVX2},
		{kernF32R6V1EdgeAVX2, kernF32R6V2EdgeAVX2},
	},
	packed: kernF32R6V2PackedAVX2,
	rows: [][2]func(*byte){
		{kernF32R1V1RowsAVX2, kernF32R1V2RowsAVX2},
		{kernF32R2V1RowsAVX2, kernF32R2V2RowsAVX2},
		{kernF32R3V1RowsAVX2, kernF32R3V2RowsAVX2},
		{kernF32R4V1RowsAVX2, kernF32R4V2RowsAVX2},
		{kernF32R5V1RowsAVX2, kernF32R5V2RowsAVX2},
		{kernF32R6V1RowsAVX2, kernF32R6V2RowsAVX2},
	},
	pixels: [][2]func(*byte){
		{kernF32R1V1PixelsAVX2, kernF32R1V2PixelsAVX2},
		{kernF32R2V1PixelsAVX2, kernF32R2V2PixelsAVX2},
		{kernF32R3V1PixelsAVX2, kernF32R3V2PixelsAVX2},
		{kernF32R4V1PixelsAVX2, kernF32R4V2PixelsAVX2},
		{kernF32R5V1PixelsAVX2, kernF32R5V2PixelsAVX2},
		{kernF32R6V1PixelsAVX2, kernF32R6V2PixelsAVX2},
	},
	row:  rowF32AVX2,
	dots: []func(*byte){dotF32R1AVX2, dotF32R2AVX2, dotF32R3AVX2},
}

var avx2F64 = kernels[float64]{
	name: "avx2", lanes: 4, mr: 6, mc: 168, kc: 256, nc: 2048, span: 2,
	full: [][2]func(*byte){
		{kernF64R1V1AVX2, kernF64R1V2AVX2},
		{kernF64R2V1AVX2, kernF64R2V2AVX2},
		{kernF64R3V1AVX2, kernF64R3V2AVX2},
		{kernF64R4V1AVX2, kernF64R4V2AVX2},
		{kernF64R5V1AVX2, kernF64R5V2AVX2},
		{kernF64R6V1AVX2, kernF64R6V2AVX2},
	},
	edge: [][2]func(*byte){
		{kernF64R1V1EdgeAVX2, kernF64R1V2EdgeAVX2},
		{kernF64R2V1EdgeAVX2, kernF64R2V2EdgeAVX2},
		{kernF64R3V1EdgeAVX2, kernF64R3V2EdgeAVX2},
		{kernF64R4V1EdgeAVX2, kernF64R4V2EdgeAVX2},
		{kernF64R5V1EdgeAVX2, kernF64R5V2EdgeAVX2},
		{kernF64R6V1EdgeAVX2, kernF64R6V2EdgeAVX2},
	},
	packed: kernF64R6V2PackedAVX2,
	rows: [][2]func(*byte){
		{kernF64R1V1RowsAVX2, kernF64R1V2RowsAVX2},
		{kernF64R2V1RowsAVX2, kernF64R2V2RowsAVX2},
		{kernF64R3V1RowsAVX2, kernF64R3V2RowsAVX2},
		{kernF64R4V1RowsAVX2, kernF64R4V2RowsAVX2},
		{kernF64R5V1RowsAVX2, kernF64R5V2RowsAVX2},
		{kernF64R6V1RowsAVX2, kernF64R6V2RowsAVX2},
	},
	row:  rowF64AVX2,
	dots: []func(*byte){dotF64R1AVX2, dotF64R2AVX2, dotF64R3AVX2},
}

// Under AVX-512 masked loads and stores cost nothing, so the edge kernels
// serve whole vectors too.
var avx512F32 = kernels[float32]{
	name: "avx512", lanes: 16, mr: 12, mc: 480, kc: 256, nc: 4096, span: 4,
	full: avx512TilesF32[:], edge: avx512TilesF32[:],
	packed: kernF32R12V2PackedAVX512,
	rows: [][2]func(*byte){
		{kernF32R1V1RowsAVX512, kernF32R1V2RowsAVX512},
		{kernF32R2V1RowsAVX512, kernF32R2V2RowsAVX512},
		{kernF32R3V1RowsAVX512, kernF32R3V2RowsAVX512},
		{kernF32R4V1RowsAVX512, kernF32R4V2RowsAVX512},
		{kernF32R5V1RowsAVX512, kernF32R5V2RowsAVX512},
		{kernF32R6V1RowsAVX512, kernF32R6V2RowsAVX512},
		{kernF32R7V1RowsAVX512, kernF32R7V2RowsAVX512},
		{kernF32R8V1RowsAVX512, kernF32R8V2RowsAVX512},
		{kernF32R9V1RowsAVX512, kernF32R9V2RowsAVX512},
		{kernF32R10V1RowsAVX512, kernF32R10V2RowsAVX512},
		{kernF32R11V1RowsAVX512, kernF32R11V2RowsAVX512},
		{kernF32R12V1RowsAVX512, kernF32R12V2RowsAVX512},
	},
	pixels: [][2]func(*byte){
		{kernF32R1V1PixelsAVX512, kernF32R1V2PixelsAVX512},
		{kernF32R2V1PixelsAVX512, kernF32R2V2PixelsAVX512},
		{kernF32R3V1PixelsAVX512, kernF32R3V2PixelsAVX512},
		{kernF32R4V1PixelsAVX512, kernF32R4V2PixelsAVX512},
		{kernF32R5V1PixelsAVX512, kernF32R5V2PixelsAVX512},
		{kernF32R6V1PixelsAVX512, kernF32R6V2PixelsAVX512},
		{kernF32R7V1PixelsAVX512, kernF32R7V2PixelsAVX512},
		{kernF32R8V1PixelsAVX512, kernF32R8V2PixelsAVX512},
		{kernF32R9V1PixelsAVX512, kernF32R9V2PixelsAVX512},
		{kernF32R10V1PixelsAVX512, kernF32R10V2PixelsAVX512},
		{kernF32R11V1PixelsAVX512, kernF32R11V2PixelsAVX512},
		{kernF32R12V1PixelsAVX512, kernF32R12V2PixelsAVX512},
	},
	row:  rowF32AVX512,
	dots: []func(*byte){dotF32R1AVX512, dotF32R2AVX512, dotF32R3AVX512},
}

var avx512F64 = kernels[float64]{
	name: "avx512", lanes: 8, mr: 12, mc: 240, kc: 256, nc: 2048, span: 4,
	full: avx512TilesF64[:], edge: avx512TilesF64[:],
	packed: kernF64R12V2PackedAVX512,
	rows: [][2]func(*byte){
		{kernF64R1V1RowsAVX512, kernF64R1V2RowsAVX512},
		{kernF64R2V1RowsAVX512, kernF64R2V2RowsAVX512},
		{kernF64R3V1RowsAVX512, kernF64R3V2RowsAVX512},
		{kernF64R4V1RowsAVX512, kernF64R4V2RowsAVX512},
		{kernF64R5V1RowsAVX512, kernF64R5V2RowsAVX512},
		{kernF64R6V1RowsAVX512, kernF64R6V2RowsAVX512},
		{kernF64R7V1RowsAVX512, kernF64R7V2RowsAVX512},
		{kernF64R8V1RowsAVX512, kernF64R8V2RowsAVX512},
		{kernF64R9V1RowsAVX512, kernF64R9V2RowsAVX512},
		{kernF64R10V1RowsAVX512, kernF64R10V2RowsAVX512},
		{kernF64R11V1RowsAVX512, kernF64R11V2RowsAVX512},
		{kernF64R12V1RowsAVX512, kernF64R12V2RowsAVX512},
	},
	row:  rowF64AVX512,
	dots: []func(*byte){dotF64R1AVX512, dotF64R2AVX512, dotF64R3AVX512},
}

var avx512TilesF32 = [...][2]func(*byte){
	{kernF32R1V1AVX512, kernF32R1V2AVX512},
	{kernF32R2V1AVX512, kernF32R2V2AVX512},
	{kernF32R3V1AVX512, kernF32R3V2AVX512},
	{kernF32R4V1AVX512, kernF32R4V2AVX512},
	{kernF32R5V1AVX512, kernF32R5V2AVX512},
	{kernF32R6V1AVX512, kernF32R6V2AVX512},
	{kernF32R7V1AVX512, kernF32R7V2AVX512},
	{kernF32R8V1AVX512, kernF32R8V2AVX512},
	{kernF32R9V1AVX512, kernF32R9V2AVX512},
	{kernF32R10V1AVX512, kernF32R10V2AVX512},
	{kernF32R11V1AVX512, kernF32R11V2AVX512},
	{kernF32R12V1AVX512, kernF32R12V2AVX512},
}

var avx512TilesF64 = [...][2]func(*byte){
	{kernF64R1V1AVX512, kernF64R1V2AVX512},
	{kernF64R2V1AVX512, kernF64R2V2AVX512},
	{kernF64R3V1AVX512, kernF64R3V2AVX512},
	{kernF64R4V1AVX512, kernF64R4V2AVX512},
	{kernF64R5V1AVX512, kernF64R5V2AVX512},
	{kernF64R6V1AVX512, kernF64R6V2AVX512},
	{kernF64R7V1AVX512, kernF64R7V2AVX512},
	{kernF64R8V1AVX512, kernF64R8V2AVX512},
	{kernF64R9V1AVX512, kernF64R9V2AVX512},
	{kernF64R10V1AVX512, kernF64R10V2AVX512},
	{kernF64R11V1AVX512, kernF64R11V2AVX512},
	{kernF64R12V1AVX512, kernF64R12V2AVX512},
}
