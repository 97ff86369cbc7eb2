package gemm

import (
	"fmt"
	"math"
	"unsafe"
)

// HasBlocks reports whether Blocks are computed by tensor cores. Without them they are plain
// Go, for tests.
func HasBlocks() bool { return hasBlocks() }

// BlockDepth is how many elements of a row of A one step of a Blocks takes, and BlockSide
// how many rows and columns of C a block has at most.
const (
	BlockDepth = 32
	BlockSide  = 32
)

// Blocks are products of bfloat16 matrices that lie anywhere, summed in float32: some blocks of
// C, one after the other, each the sum of products of pieces of A and B. A piece of A is Rows
// rows of 32 elements. A piece of B has 16 lines of Cols words; a word is two elements of one
// column of B, neighbors along k. Distances are in elements of 16 bits, and in elements of C
// for C.
//
// As everywhere in this package, sums are made in an order that depends on the depth
// alone, and numbers below 1.2e-38 are zeros.
type Blocks struct {
	Rows, Cols int // of a block, 16 or 32
	Steps      int // pieces that are summed, at least 1
	Count      int // blocks, at least 1

	A            []uint16
	RowA, StepA  int // from one row of a piece to the next, and from one piece to the next
	B            []uint16
	RowB         int        // from one line of a piece to the next
	Starts       BlockStart // of B's pieces
	C            []float32
	LDC          int
	NextA, NextB int // from one block's A, B and C to the next one's
	NextC        int
	Add          bool // to what is in C
}

// BlockStart says where pieces begin.
type BlockStart struct {
	bytes []int
	last  int
}

// NewBlockStart makes one of numbers of elements.
func NewBlockStart(at []int) BlockStart {
	s := BlockStart{bytes: make([]int, len(at))}
	for i, x := range at {
		if x < 0 {
			panic(fmt.Sprintf("gemm: piece %d begins at %d", i, x))
		}
		s.bytes[i], s.last = 2*x, max(s.last, x)
	}
	return s
}

// Range is pieces [i, j) alone.
func (s BlockStart) Range(i, j int) BlockStart {
	last := 0
	for _, b := range s.bytes[i:j] {
		last = max(last, b/2)
	}
	return BlockStart{s.bytes[i:j], last}
}

// blocks is the argument of a kernel; the assembly knows the offsets. Distances are in bytes.
type blocks struct {
	a, b, c             unsafe.Pointer
	starts              unsafe.Pointer
	steps               int
	rowA, stepA         int
	rowB, ldc           int
	count               int
	nextA, nextB, nextC int
	add                 int
}

// Run computes the blocks on the calling goroutine.
func (x *Blocks) Run() {
	if x.Rows != 16 && x.Rows != 32 || x.Cols != 16 && x.Cols != 32 || x.Steps < 1 || x.Count < 1 || len(x.Starts.bytes) < x.Steps ||
		min(x.RowA, x.StepA, x.RowB, x.LDC, x.NextA, x.NextB, x.NextC) < 0 {
		panic(fmt.Sprintf("gemm: %d blocks of %d×%d in %d steps of %d", x.Count, x.Rows, x.Cols, x.Steps, len(x.Starts.bytes)))
	}
	// The last elements, or a panic, before assembly trusts them.
	_ = x.A[(x.Count-1)*x.NextA+(x.Steps-1)*x.StepA+(x.Rows-1)*x.RowA+BlockDepth-1]
	_ = x.B[(x.Count-1)*x.NextB+x.Starts.last+15*x.RowB+2*x.Cols-1]
	_ = x.C[(x.Count-1)*x.NextC+(x.Rows-1)*x.LDC+x.Cols-1]
	t := blocks{
		a: unsafe.Pointer(&x.A[0]), b: unsafe.Pointer(&x.B[0]), c: unsafe.Pointer(&x.C[0]),
		starts: unsafe.Pointer(&x.Starts.bytes[0]), steps: x.Steps, rowA: 2 * x.RowA, stepA: 2 * x.StepA, rowB: 2 * x.RowB, ldc: 4 * x.LDC,
		count: x.Count, nextA: 2 * x.NextA, nextB: 2 * x.NextB, nextC: 4 * x.NextC,
	}
	if x.Add {
		t.add = 1
	}
	t.run(x.Rows, x.Cols)
}

// runGo is what the kernels do, in the same order.
func (t *blocks) runGo(rows, cols int) {
	wide := func(dst []float32, p unsafe.Pointer) {
		for i, x := range unsafe.Slice((*uint16)(p), len(dst)) {
			dst[i] = math.Float32frombits(uint32(x) << 16)
		}
	}
	var a [BlockDepth]float32
	var b [BlockDepth / 2][2 * BlockSide]float32
	for n := range t.count {
		for s, start := range unsafe.Slice((*int)(t.starts), t.steps) {
			for p := range b {
				wide(b[p][:2*cols], unsafe.Add(t.b, n*t.nextB+start+p*t.rowB))
			}
			for i := range rows {
				wide(a[:], unsafe.Add(t.a, n*t.nextA+s*t.stepA+i*t.rowA))
				row := unsafe.Slice((*float32)(unsafe.Add(t.c, n*t.nextC+i*t.ldc)), cols)
				if t.add == 0 && s == 0 {
					clear(row)
				}
				for p := range b {
					x, y, line := a[2*p], a[2*p+1], b[p][:2*len(row)]
					for j := range row {
						row[j] += x * line[2*j]
						row[j] += y * line[2*j+1]
					}
				}
			}
		}
	}
}

// PackWords lays out B, k×n, as pieces for Blocks: panels of 32 columns, each of words for
// k rounded up to whole steps, with zeros from k on. Panel q begins at element q·PanelSize(k),
// its piece s at BlockPiece·s from there on; lines are 64 elements apart. Where the last panel
// has fewer columns the others are left as they are.
func PackWords(dst []uint16, k, n int, b Mat[uint16]) {
	src := halfSource(b, bfloat16).transposed()
	src.pairs, src.k = pairWords, k
	src.check("B", n, k)
	size := PanelSize(k)
	for j := 0; j < n; j += BlockSide {
		panel := dst[j/BlockSide*size:][:size]
		packPairs(unsafe.Slice((*float32)(unsafe.Pointer(&panel[0])), size/2), src, j, min(BlockSide, n-j), 0, size/(2*BlockSide), BlockSide)
	}
}

// PanelSize is the size of a panel of PackWords.
func PanelSize(k int) int { return (k + BlockDepth - 1) / BlockDepth * BlockPiece }

// BlockPiece is the size of a piece of 32 columns that lie side by side.
const BlockPiece = BlockDepth * BlockSide
