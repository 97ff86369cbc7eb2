package gemm

import (
	"math"
	"unsafe"
)

// The plain Go kernels keep a 4×4 block of C in registers, which is what a
// compiler can hold on every architecture.
var (
	genericF32 = kernels[float32]{
		name: "generic", lanes: 2, mr: 4, mc: 128, kc: 256, nc: 2048, span: 2,
		full:   genericTiles[float32](),
		edge:   genericTiles[float32](),
		packed: func(t *byte) { genericRun[float32](t, 4, 2) },
		rows:   genericTiles[float32](),
	}
	genericF64 = kernels[float64]{
		name: "generic", lanes: 2, mr: 4, mc: 64, kc: 256, nc: 1024, span: 2,
		full:   genericTiles[float64](),
		edge:   genericTiles[float64](),
		packed: func(t *byte) { genericRun[float64](t, 4, 2) },
		rows:   genericTiles[float64](),
	}
)

func genericTiles[T Float]() (out [][2]func(*byte)) {
	for h := 1; h <= 4; h++ {
		out = append(out, [2]func(*byte){
			func(t *byte) { genericRun[T](t, h, 1) },
			func(t *byte) { genericRun[T](t, h, 2) },
		})
	}
	return out
}

func fromBits[T Float](u uint64) T {
	var z T
	if unsafe.Sizeof(z) == 4 {
		return T(math.Float32frombits(uint32(u)))
	}
	return T(math.Float64frombits(u))
}

func toBits[T Float](v T) uint64 {
	if unsafe.Sizeof(v) == 4 {
		return uint64(math.Float32bits(float32(v)))
	}
	return math.Float64bits(float64(v))
}

func genericRun[T Float](p *byte, h, nv int) {
	t := (*tile)(unsafe.Pointer(p))
	const lanes = 2
	es := int(unsafe.Sizeof(T(0)))
	w := (nv-1)*lanes + t.tail
	for {
		var acc [4][4]T
		switch {
		case t.starts != nil:
			genericRows(t, &acc, h, w)
		case h == 4 && w == 4:
			genericFull(t, &acc)
		default:
			pa, pb := t.a, t.b
			for p := 0; ; {
				for i := range h {
					x := *(*T)(unsafe.Add(pa, i*t.rowA))
					for j := range w {
						acc[i][j] += x * *(*T)(unsafe.Add(pb, j*es))
					}
				}
				if p++; p >= t.k {
					break
				}
				pa, pb = unsafe.Add(pa, t.colA), unsafe.Add(pb, t.rowB)
			}
		}
		store(t, unsafe.Slice(&acc[0][0], 16), 4, h, w)
		if !t.step() {
			return
		}
	}
}

// store writes h rows of w sums, ld apart, to the tile's C with the epilogue.
func store[T Float](t *tile, sums []T, ld, h, w int) {
	es := int(unsafe.Sizeof(T(0)))
	alpha, beta := fromBits[T](t.alpha), fromBits[T](t.beta)
	for i := range h {
		row := unsafe.Slice((*T)(unsafe.Add(t.c, i*t.ldc)), w)
		for j := range row {
			v := sums[i*ld+j] * alpha
			if t.flags&flagBeta != 0 {
				v += beta * row[j]
			}
			if t.bias != nil {
				v += *(*T)(unsafe.Add(t.bias, j*es))
			}
			if t.rowBias != nil {
				v += *(*T)(unsafe.Add(t.rowBias, i*es))
			}
			if t.flags&flagReLU != 0 && v < 0 {
				v = 0
			}
			row[j] = v
		}
	}
}

// genericRows sums a tile of packed rows of A and scattered rows of B.
func genericRows[T Float](t *tile, acc *[4][4]T, h, w int) {
	es := int(unsafe.Sizeof(T(0)))
	for p, at := range unsafe.Slice((*int)(t.starts), t.k) {
		b := unsafe.Slice((*T)(unsafe.Add(t.b, at)), w)
		for i := range h {
			x := *(*T)(unsafe.Add(t.a, (4*p+i)*es))
			for j, y := range b {
				acc[i][j] += x * y
			}
		}
	}
}

// genericFull sums a whole 4×4 tile.
func genericFull[T Float](t *tile, acc *[4][4]T) {
	var c00, c01, c02, c03, c10, c11, c12, c13 T
	var c20, c21, c22, c23, c30, c31, c32, c33 T
	pa, pb := t.a, t.b
	r1, r2, r3 := t.rowA, 2*t.rowA, 3*t.rowA
	for p := 0; ; {
		b := (*[4]T)(pb)
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		a := *(*T)(pa)
		c00 += a * b0
		c01 += a * b1
		c02 += a * b2
		c03 += a * b3
		a = *(*T)(unsafe.Add(pa, r1))
		c10 += a * b0
		c11 += a * b1
		c12 += a * b2
		c13 += a * b3
		a = *(*T)(unsafe.Add(pa, r2))
		c20 += a * b0
		c21 += a * b1
		c22 += a * b2
		c23 += a * b3
		a = *(*T)(unsafe.Add(pa, r3))
		c30 += a * b0
		c31 += a * b1
		c32 += a * b2
		c33 += a * b3
		if p++; p >= t.k {
			break
		}
		pa, pb = unsafe.Add(pa, t.colA), unsafe.Add(pb, t.rowB)
	}
	acc[0] = [4]T{c00, c01, c02, c03}
	acc[1] = [4]T{c10, c11, c12, c13}
	acc[2] = [4]T{c20, c21, c22, c23}
	acc[3] = [4]T{c30, c31, c32, c33}
}
