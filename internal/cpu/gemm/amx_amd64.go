package gemm

import "unsafe"

var amxBF16 = kernels[float32]{
	name: "amx", lanes: 16, mr: 32, mc: 512, kc: 256, nc: 2048, span: 4, pairs: pairLines,
	full:   amxTiles(),
	edge:   amxTiles(),
	packed: amxPacked,
}

func amxTiles() (out [][2]func(*byte)) {
	for h := 1; h <= 32; h++ {
		out = append(out, [2]func(*byte){
			func(t *byte) { amxApart((*tile)(unsafe.Pointer(t)), h, 1) },
			func(t *byte) { amxApart((*tile)(unsafe.Pointer(t)), h, 2) },
		})
	}
	return out
}

// amxPacked computes full tiles, straight into C where nothing but the sum
// goes there.
func amxPacked(p *byte) {
	t := (*tile)(unsafe.Pointer(p))
	one := toBits(float32(1))
	if t.alpha == one && (t.flags == 0 || t.flags == flagBeta && t.beta == one) && t.bias == nil && t.rowBias == nil {
		kernBF16R32V2AMX(p)
		return
	}
	amxApart(t, 32, 2)
}

// amxApart computes whole tiles beside C and stores h rows of nv vectors of
// each with the epilogue.
func amxApart(t *tile, h, nv int) {
	var sums [32 * 32]float32
	for {
		u := tile{a: t.a, b: t.b, c: unsafe.Pointer(&sums), k: t.k, rowA: t.rowA, colA: t.colA, ldc: 128, tiles: 1}
		switch {
		case h > 16 && nv == 2:
			u.run(kernBF16R32V2AMX)
		case h > 16:
			u.run(kernBF16R32V1AMX)
		case nv == 2:
			u.run(kernBF16R16V2AMX)
		default:
			u.run(kernBF16R16V1AMX)
		}
		u = tile{a: unsafe.Pointer(&sums), c: t.c, ldc: t.ldc, tiles: h, stepA: 128, stepC: t.ldc,
			bias: t.bias, rowBias: t.rowBias, flags: t.flags, tail: t.tail, alpha: t.alpha, beta: t.beta}
		if t.rowBias != nil {
			u.stepBias = 4
		}
		if nv == 2 {
			u.run(kernF32R1V2SumsAVX512)
		} else {
			u.run(kernF32R1V1SumsAVX512)
		}
		if !t.step() {
			return
		}
	}
}
