package gemm

import "unsafe"

// A tile is the argument of a micro-kernel: a column of t.tiles register tiles
// of C, one below the other, that share B's columns. Strides and steps are in
// bytes. The assembly knows the offsets; TestTileLayout guards them.
type tile struct {
	a, b, c    unsafe.Pointer
	k          int
	rowA, colA int // from one row, and one column, of A to the next
	rowB       int // from one row of B to the next; its columns are adjacent
	ldc        int
	tiles      int // at least 1
	stepA      int // from one tile's A and C to the next tile's
	stepC      int
	bias       unsafe.Pointer // of the tile's first column, or nil
	rowBias    unsafe.Pointer // of the tile's first row, or nil
	flags      int
	tail       int    // valid lanes of the last vector of a row
	alpha      uint64 // bits of the element type in the low bytes
	beta       uint64
	stepBias   int
	starts     unsafe.Pointer // for kernels.rows: t.k offsets from b, in bytes, of B's rows
}

const (
	flagBeta = 1 // add beta*C
	flagReLU = 2
)

// tailMask is 8 words of ones and 8 of zeros: from 4*n bytes before its middle
// begins a mask of n lanes.
//
//lint:ignore U1000 the assembly reads it
var tailMask = [16]uint32{
	0: ^uint32(0), 1: ^uint32(0), 2: ^uint32(0), 3: ^uint32(0),
	4: ^uint32(0), 5: ^uint32(0), 6: ^uint32(0), 7: ^uint32(0),
}

// kernels is the set of micro-kernels for an element type at one CPU level.
type kernels[T Float] struct {
	name  string
	lanes int // elements per vector; a tile is 1 or 2 vectors wide
	mr    int // rows of the tallest tile
	// full[h-1][v-1] computes tiles of h rows and v whole vectors; edge is
	// for a partial last vector (tile.tail). packed is full[mr-1][1] for
	// panels laid out by packA and packB.
	full, edge [][2]func(*byte)
	packed     func(*byte)
	rows       [][2]func(*byte)                   // full for packed panels of A and a B of scattered rows
	pixels     [][2]func(*byte)                   // for an A of adjacent rows and scattered columns, and a packed B; nil if there are none
	row        func(c, x, b *byte, stride, n int) // or nil
	dots       []func(*byte)                      // by rows of X less one; nil if there are none

	packs bool    // tiles are fast for packed panels only
	pairs pairing // of bfloat16 matrices; k and kc then count words

	// Block sizes: of depth kc, a panel of B is in L1, mc rows of A are in L2
	// and nc columns of B in L3. span is how many times that depth several
	// threads take at once.
	mc, kc, nc, span int
}

func (ks *kernels[T]) nr() int { return 2 * ks.lanes }

func (t *tile) run(f func(*byte)) { f((*byte)(unsafe.Pointer(t))) }

// step moves on to the next tile; it reports false after the last one, where
// pointers would leave the matrices.
func (t *tile) step() bool {
	if t.tiles--; t.tiles == 0 {
		return false
	}
	t.a, t.c = unsafe.Add(t.a, t.stepA), unsafe.Add(t.c, t.stepC)
	if t.rowBias != nil {
		t.rowBias = unsafe.Add(t.rowBias, t.stepBias)
	}
	return true
}
