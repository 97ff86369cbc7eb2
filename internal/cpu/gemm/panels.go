package gemm

import (
	"sync/atomic"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
)

// panels are lines of a matrix, packed for some blocks of k when they are first
// needed, or read where they lie.
//
// A unit is what one thread packs at a time. Where lines lie along k it is a
// panel, with all blocks unless there are fewer panels than threads; where they
// lie side by side it is several panels of one block. So what is read lies together.
type panels[T Float] struct {
	source[T]
	width int  // lines of a panel
	depth int  // columns of a block
	line  int  // elements from one line of a panel to the next
	next  int  // elements from one column of a panel to the next
	step  int  // elements from one panel to the next
	run   int  // panels of a unit; 0 means one, with all blocks
	side  bool // lines lie side by side

	first, lines int
	from, k      int // columns

	buf   *[]T
	data  []T
	units []atomic.Uint32 // untouched, taken or packed
}

const (
	untouched = iota
	taken
	packed
)

// runBytes is how much is read at a time of a column of lines that lie side by
// side.
const runBytes = 512

// newPanels makes room for lines and blocks of k. Panels of A have some slack
// between them, because of packSlack and so that they do not compete with those
// of B for the same places of a cache.
func newPanels[T Float](s source[T], width, depth, slack, lines, blocks, threads int) *panels[T] {
	x := &panels[T]{source: s, width: width, depth: depth, step: width*depth + slack, buf: buffers[T]().Get().(*[]T)}
	x.line, x.next = s.distances(width)
	count := (lines + width - 1) / width
	x.data = grow(x.buf, count*blocks*x.step+packSlack)
	units := count
	if x.side = s.row == 1 && s.col != 1 && s.starts == nil && s.format == 0; x.side {
		x.run = max(1, runBytes/(width*int(unsafe.Sizeof(T(0)))))
	} else if count < threads {
		x.run = 1
	}
	if x.run > 0 {
		units = (count + x.run - 1) / x.run * blocks
	}
	x.units = make([]atomic.Uint32, units)
	return x
}

// inPlace are panels of lines where they lie.
func inPlace[T Float](s source[T], width, depth int) *panels[T] {
	return &panels[T]{source: s, width: width, depth: depth, line: s.row, next: s.col, step: width * s.row}
}

// inTiles are lines that lie as AMX's tiles want them; see liesInTiles.
func inTiles[T Float](s source[T], width, depth int) *panels[T] {
	return &panels[T]{source: s, width: width, depth: depth, line: s.row / 2, next: 16, step: width * s.row / 2}
}

// liesInTiles reports whether n lines can be read where they lie: as words along k, in whole tiles that do not lie
// across cache lines.
func (ks *kernels[T]) liesInTiles(s *source[T], n int) bool {
	return s.pairs == pairLines && s.col == 1 && s.k%32 == 0 && n%ks.mr == 0 && s.row%32 == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(s.bits)))%64 == 0
}

// distances returns the distances between the lines of a packed panel, and between its columns
// or, for AMX, runs of 16 words.
func (s *source[T]) distances(width int) (line, next int) {
	if s.pairs == pairLines {
		return 16, 16 * width
	}
	return 1, width
}

// packs reports whether the panels are copies.
func (x *panels[T]) packs() bool { return x.buf != nil }

func (x *panels[T]) free() {
	if x.packs() {
		buffers[T]().Put(x.buf)
	}
}

// move says which lines and columns are next.
func (x *panels[T]) move(first, lines, from, k int) {
	x.first, x.lines, x.from, x.k = first, lines, from, k
	for i := range x.units {
		x.units[i].Store(untouched)
	}
}

func (x *panels[T]) count() int  { return (x.lines + x.width - 1) / x.width }
func (x *panels[T]) blocks() int { return (x.k + x.depth - 1) / x.depth }

// at is where a panel of a block begins.
func (x *panels[T]) at(block, panel int) unsafe.Pointer {
	if !x.packs() && x.pairs == pairLines {
		return unsafe.Pointer(&x.bits[(x.first+panel*x.width)*x.row+2*(x.from+block*x.depth)])
	}
	if !x.packs() {
		return unsafe.Pointer(&x.source.data[(x.first+panel*x.width)*x.row+(x.from+block*x.depth)*x.col])
	}
	return unsafe.Pointer(&x.data[(block*x.count()+panel)*x.step])
}

// need returns once panels [lo, hi) are packed. It begins at the given part of
// the way through them.
func (x *panels[T]) need(lo, hi int, part float32) {
	if !x.packs() {
		return
	}
	// The units are n in each of some groups, group g from g·stride + lo on.
	groups, stride := 1, 0
	if x.run > 0 {
		groups, stride = x.blocks(), (x.count()+x.run-1)/x.run
		lo, hi = lo/x.run, (hi-1)/x.run+1
	}
	n := hi - lo
	for i, u := 0, int(part*float32(groups*n)); i < groups*n; i, u = i+1, u+1 {
		if u >= groups*n {
			u = 0
		}
		if at := u/n*stride + lo + u%n; x.units[at].Load() == untouched && x.units[at].CompareAndSwap(untouched, taken) {
			x.pack(at)
		}
	}
	for u := range groups * n {
		if unit := &x.units[u/n*stride+lo+u%n]; unit.Load() != packed {
			pool.Await(func() bool { return unit.Load() == packed })
		}
	}
}

// pack packs a unit.
func (x *panels[T]) pack(unit int) {
	defer x.units[unit].Store(packed) // also after a panic, or others would wait forever
	count := x.count()
	if x.run == 0 {
		for block := range x.blocks() {
			x.packOne(block, unit)
		}
		return
	}
	runs := (count + x.run - 1) / x.run
	block, lo := unit/runs, unit%runs*x.run
	pc := block * x.depth
	whole := min(x.lines/x.width-lo, x.run) // panels
	if x.side && whole > 0 && packSide(x.data[(block*count+lo)*x.step:], x.source, x.first+lo*x.width, whole, x.from+pc, min(x.depth, x.k-pc), x.width, x.step) {
		lo += whole
	}
	for ; lo < min(unit%runs*x.run+x.run, count); lo++ {
		x.packOne(block, lo)
	}
}

func (x *panels[T]) packOne(block, panel int) {
	pc, l := block*x.depth, panel*x.width
	pack(x.data[(block*x.count()+panel)*x.step:], x.source, x.first+l, min(x.width, x.lines-l), x.from+pc, min(x.depth, x.k-pc), x.width)
}
