package gemm

import (
	"sync"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

var (
	kernelsF32 = pickF32(vec.Products())
	kernelsF64 = pickF64(vec.Products())
)

func pickF32(l vec.Level) *kernels[float32] {
	if l == vec.NEON {
		return &neonF32
	}
	return &genericF32
}

func pickF64(l vec.Level) *kernels[float64] {
	if l == vec.NEON {
		return &neonF64
	}
	return &genericF64
}

var neonF32 = kernels[float32]{
	name: "neon", lanes: 4, mr: 8, mc: 160, kc: 256, nc: 4096, span: 2, packs: true,
	full:   neonTiles[float32](kernF32R8V2NEON),
	edge:   neonTiles[float32](kernF32R8V2NEON),
	packed: func(t *byte) { neonTile[float32]((*tile)(unsafe.Pointer(t)), 8, 8, kernF32R8V2NEON) },
	rows:   neonRows[float32](kernF32R8V1RowsNEON, kernF32R8V2RowsNEON),
	row:    rowF32NEON,
	dots:   []func(*byte){dotF32R1NEON, dotF32R2NEON, dotF32R3NEON},
}

var neonF64 = kernels[float64]{
	name: "neon", lanes: 2, mr: 8, mc: 80, kc: 256, nc: 2048, span: 2, packs: true,
	full:   neonTiles[float64](kernF64R8V2NEON),
	edge:   neonTiles[float64](kernF64R8V2NEON),
	packed: func(t *byte) { neonTile[float64]((*tile)(unsafe.Pointer(t)), 8, 4, kernF64R8V2NEON) },
	rows:   neonRows[float64](kernF64R8V1RowsNEON, kernF64R8V2RowsNEON),
	row:    rowF64NEON,
	dots:   []func(*byte){dotF64R1NEON, dotF64R2NEON, dotF64R3NEON},
}

// neonTiles makes the kernels that read A and B with any stride: where these
// are those of packed panels, which are as large as whole tiles need, f runs.
func neonTiles[T Float](f func(*byte)) (out [][2]func(*byte)) {
	es := int(unsafe.Sizeof(T(0)))
	for h := 1; h <= 8; h++ {
		var k [2]func(*byte)
		for nv := range 2 {
			k[nv] = func(p *byte) {
				t := (*tile)(unsafe.Pointer(p))
				w := nv*16/es + t.tail
				if t.rowA == es && t.colA == 8*es && t.rowB == 32 {
					neonApart[T](t, h, w, f)
				} else {
					strided[T](t, h, w)
				}
			}
		}
		out = append(out, k)
	}
	return out
}

// neonRows makes the kernels for a B of scattered rows.
func neonRows[T Float](one, two func(*byte)) (out [][2]func(*byte)) {
	w := 16 / int(unsafe.Sizeof(T(0)))
	for h := 1; h <= 8; h++ {
		out = append(out, [2]func(*byte){
			func(p *byte) { neonTile[T]((*tile)(unsafe.Pointer(p)), h, w, one) },
			func(p *byte) { neonTile[T]((*tile)(unsafe.Pointer(p)), h, 2*w, two) },
		})
	}
	return out
}

// neonTile computes tiles of h rows and whole vectors, straight into C where
// all rows are wanted and nothing but the sum goes there.
func neonTile[T Float](t *tile, h, w int, f func(*byte)) {
	one := toBits(T(1))
	if h == 8 && t.alpha == one && (t.flags == 0 || t.flags == flagBeta && t.beta == one) && t.bias == nil && t.rowBias == nil {
		t.run(f)
		return
	}
	neonApart[T](t, h, w, f)
}

// aside is where a tile is computed that is not stored as a whole.
type aside struct {
	t    tile
	sums [8 * 32]byte
}

var asides = sync.Pool{New: func() any { return new(aside) }}

// neonApart computes whole tiles beside C and stores h rows of w sums of each
// with the epilogue.
func neonApart[T Float](t *tile, h, w int, f func(*byte)) {
	s := asides.Get().(*aside)
	sums := unsafe.Slice((*T)(unsafe.Pointer(&s.sums)), len(s.sums)/int(unsafe.Sizeof(T(0))))
	for {
		s.t = tile{a: t.a, b: t.b, c: unsafe.Pointer(&s.sums), k: t.k, ldc: 32, tiles: 1, starts: t.starts}
		s.t.run(f)
		store(t, sums, len(sums)/8, h, w)
		if !t.step() {
			break
		}
	}
	s.t = tile{}
	asides.Put(s)
}

// strided computes tiles from an A and B of any strides.
func strided[T Float](t *tile, h, w int) {
	for {
		var sums [8 * 8]T
		for p := range t.k {
			b := unsafe.Slice((*T)(unsafe.Add(t.b, p*t.rowB)), w)
			for i := range h {
				x := *(*T)(unsafe.Add(t.a, i*t.rowA+p*t.colA))
				row := sums[i*8:][:w]
				for j, y := range b {
					row[j] += x * y
				}
			}
		}
		store(t, sums[:], 8, h, w)
		if !t.step() {
			return
		}
	}
}
