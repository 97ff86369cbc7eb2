package gemm

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
)

// Convolutions of 3×3 filters that go from element to element are computed by
// Winograd's minimal filtering F(2×2, 3×3): tiles of 4×4 elements of the image, 2
// apart, and the filters are transformed into 16 numbers each, which are multiplied
// number by number and summed over channels (16 matrix products), and a transform of
// the sums yields 2×2 elements of the result. That takes 16 multiplications where 36
// are needed otherwise, and the transforms, with factors of 1 and ½ only, hardly add
// to the rounding error. Larger tiles would save more and round worse; they are not
// used.
//
// An element that is not finite reaches all four results of its tile, also those that
// do not depend on it, and a sum in a transform may overflow: Convolve reports the
// images with results that are not finite.

// Filters are filters of 3×3 taps as m×k matrices, one for each of the 16 numbers
// they are transformed into, laid out for the kernels.
type Filters struct {
	ks           *kernels[float32]
	tr           *transforms
	m, k         int
	parts, depth int // of k, for one pass
	tiles        int // of rows
	plane        int // elements of a matrix
	flipped      bool
	buf          *[]float32
}

// transforms are the vector functions of a CPU level.
type transforms struct {
	lanes   int
	filters func(dst, src *byte, plane, n int)
	in, out func(*byte)
	grad    func(*byte) // in for gradients of results
}

// tilesIn is the argument of transforms.in and grad: vectors of tiles for n channels. Strides
// are in bytes. The assembly knows the offsets; TestWinogradLayout guards them.
type tilesIn struct {
	x            unsafe.Pointer // the first channel
	step         int            // from one channel to the next
	dst          unsafe.Pointer
	plane, pitch int // from one number to the next, and from one channel
	n            int // channels; 0 afterwards
	runs         unsafe.Pointer
	count        int
}

// tileRun is a vector of tiles: where its rows begin from x on, where they go, and the
// columns that are inside the image.
type tileRun struct {
	rows [4]int // or outside
	dst  int
	mask [34]uint32
}

// outside is the beginning of a row of padding.
const outside = math.MinInt32

// tilesOut is the argument of transforms.out: two rows of the result get px[0]
// elements and then px[1] of another vector.
type tilesOut struct {
	src          unsafe.Pointer
	plane, pitch int
	n            int
	rows         [2]unsafe.Pointer
	steps        [2]int
	px           [2]int
	bad          int        // set to other than 0 if something is not finite
	mask         [16]uint32 // of the tiles that count for that
}

// NewFilters transforms weight, o×c filters of 9 taps. Flipped they are c×o filters with
// the taps in the opposite order, as the gradient of an image needs them.
func NewFilters(o, c int, weight []float32, flipped bool) *Filters {
	return newFilters(kernelsF32, o, c, weight, flipped)
}

func newFilters(ks *kernels[float32], o, c int, weight []float32, flipped bool) *Filters {
	if len(weight) < o*c*9 {
		panic(fmt.Sprintf("gemm: %d weights for %d×%d filters of 3×3", len(weight), o, c))
	}
	f := &Filters{ks: ks, tr: transformsOf(ks), m: o, k: c, flipped: flipped, buf: buffers32.Get().(*[]float32)}
	if flipped {
		f.m, f.k = c, o
	}
	mr := ks.mr
	f.parts = (f.k + leftDepth - 1) / leftDepth
	f.depth = (f.k + f.parts - 1) / f.parts
	f.tiles = (f.m + mr - 1) / mr
	f.plane = planeOf(f.tiles*mr*f.parts*f.depth + packSlack)
	data := grow(f.buf, 16*f.plane)
	chunks := (f.depth-1)/filterChunk + 1 // of a part
	pool.For(f.tiles*f.parts*chunks, 1, func(lo, hi int) {
		buf := buffers32.Get().(*[]float32)
		taps := grow(buf, 9*mr*filterChunk+packSlack)
		for i := lo; i < hi; i++ {
			p, part, from := i/chunks/f.parts, i/chunks%f.parts, i%chunks*filterChunk
			first := part * f.depth
			count := min(f.depth, f.k-first)
			n := min(filterChunk, count-from)
			if n <= 0 {
				continue
			}
			h := min(mr, f.m-p*mr)
			k0 := first + from
			if flipped {
				for i := range n {
					pack(taps[9*mr*i:], source[float32]{data: weight[9*c*(k0+i):], row: 9, col: 1}, p*mr, h, 0, 9, mr)
				}
			} else {
				pack(taps, source[float32]{data: weight, row: 9 * c, col: 1}, p*mr, h, 9*k0, 9*n, mr)
			}
			// Whole vectors reach into the next place, which is written later, but the
			// last one's would reach into another chunk.
			to := data[f.tiles*mr*first+(p*count+from)*mr:]
			if n > 1 {
				f.tr.filters(bytePtr(to), bytePtr(taps), 4*f.plane, n-1)
			}
			transformFilters(to[(n-1)*mr:], taps[(n-1)*9*mr:], f.plane, mr, h)
		}
		buffers32.Put(buf)
	})
	return f
}

// Free ends the use of f.
func (f *Filters) Free() {
	buffers32.Put(f.buf)
	f.buf = nil
}

// filterChunk is how many filters of each row of a tile are transformed at a time.
const filterChunk = 32

// matrix returns the panels from tile p on of part `part` of matrix i.
func (f *Filters) matrix(i, part, p int) unsafe.Pointer {
	if f.flipped { // which changes numbers 0 and 3 of each axis over
		at := [4]int{3, 1, 2, 0}
		i = 4*at[i/4] + at[i%4]
	}
	k0 := part * f.depth
	return unsafe.Pointer(&(*f.buf)[:cap(*f.buf)][i*f.plane+f.tiles*f.ks.mr*k0+p*f.ks.mr*min(f.depth, f.k-k0)])
}

// Images are N images and the results of a convolution. X begins with the first of the
// channels that are summed, Y with the first of the results.
type Images struct {
	X, Y         []float32
	N            int
	H, W, OH, OW int
	Pad          [2]int
	NextX, NextY int // from one image to the next
}

// check panics unless the images and results fit m×k filters.
func (x *Images) check(m, k int) {
	if need := (x.N-1)*x.NextX + k*x.H*x.W; len(x.X) < need {
		panic(fmt.Sprintf("gemm: %d elements for images of %d", len(x.X), need))
	}
	if need := (x.N-1)*x.NextY + m*x.OH*x.OW; len(x.Y) < need {
		panic(fmt.Sprintf("gemm: %d elements for results of %d", len(x.Y), need))
	}
	if x.Pad[0] < 0 || x.Pad[1] < 0 || x.OH > x.H+2*x.Pad[0]-2 || x.OW > x.W+2*x.Pad[1]-2 {
		panic(fmt.Sprintf("gemm: %d×%d results of %d×%d elements padded by %v", x.OH, x.OW, x.H, x.W, x.Pad))
	}
}

// winogradBytes is how large the transformed tiles of a task may get, to stay in the
// L2 cache with their products, of which about winogradRows rows are made at once. On
// many threads of a CPU with vectors of 16 lanes, which has a larger cache, there may be
// winogradTiles in up to winogradMost: then fewer filters come from other cores.
const (
	winogradBytes = 192 << 10
	winogradMost  = 640 << 10
	winogradTiles = 80
	winogradRows  = 72
)

// block is how many tiles of rows are multiplied at once.
func (f *Filters) block() int {
	blocks := (f.m + winogradRows - 1) / winogradRows
	return (f.tiles + blocks - 1) / blocks
}

// winogradTask divides a convolution: tasks have so many tiles and so many tiles
// of rows of the filters.
type winogradTask struct{ tiles, rows int }

// columnsCost is what n columns of products cost, in columns: the last vector of an odd
// number waits for its sums where tiles have fewer rows than a core adds at a time.
func (f *Filters) columnsCost(n int) int {
	nr, lanes := f.ks.nr(), f.tr.lanes
	switch whole := n / nr * nr; {
	case n == whole:
		return n
	case n-whole <= lanes:
		return whole + lanes*8/min(8, f.ks.mr)
	default:
		return whole + nr
	}
}

// Reading a filter costs so many columns, and more where it is in another core's cache.
const (
	winogradFilterCols = 4
	winogradFarCols    = 12
)

// division picks the tasks: as large as the cache allows, unless the threads would not get
// equal shares. The results do not depend on it.
func (f *Filters) division(total int) winogradTask {
	threads := pool.Threads()
	nr, lanes := f.ks.nr(), f.tr.lanes
	most := max(nr, winogradBytes/(64*f.k)/nr*nr)
	if threads >= 8 && lanes == 16 {
		most = max(most, min(winogradTiles, winogradMost/(64*f.k)/lanes*lanes))
	}
	filter := winogradFilterCols + min(threads-1, winogradFarCols)
	var best winogradTask
	least := 0
	for blocks := (total + most - 1) / most; ; blocks += blocks/64 + 1 {
		tiles := (total + blocks - 1) / blocks
		for s := 1; s <= min(4, f.tiles); s++ {
			rounds := (blocks*s + threads - 1) / threads
			rows := (f.tiles + s - 1) / s
			// Transforming a tile takes as long as products with some rows.
			cost := rounds * (f.columnsCost(tiles) + filter) * (rows*f.ks.mr + lanes)
			if best.tiles == 0 || cost < least {
				best, least = winogradTask{tiles, rows}, cost
			}
		}
		if tiles <= lanes {
			return best
		}
	}
}

// Convolve computes the results and returns the images that have results that are not
// finite, which may be wrong.
func (f *Filters) Convolve(x *Images) (bad []int) {
	if x.N == 0 || x.OH == 0 || x.OW == 0 {
		return nil
	}
	x.check(f.m, f.k)
	g := grid2{(x.OH + 1) / 2, (x.OW + 1) / 2}
	total := x.N * g.rows * g.cols
	d := f.division(total)
	blocks, splits := (total+d.tiles-1)/d.tiles, (f.tiles+d.rows-1)/d.rows
	found := make([]atomic.Bool, x.N)
	pitch := d.tiles + f.tr.lanes
	at := make([]int, f.k)
	for i := range at {
		at[i] = i * pitch * 4
	}
	pool.For(blocks*splits, 1, func(lo, hi int) {
		w := winogradWorks.Get().(*winogradWork)
		for i := lo; i < hi; i++ {
			t0, p0 := i/splits*d.tiles, i%splits*d.rows
			w.run(f, x, g, at, pitch, t0, min(t0+d.tiles, total), p0, min(p0+d.rows, f.tiles), found)
		}
		w.release()
	})
	for n := range found {
		if found[n].Load() {
			bad = append(bad, n)
		}
	}
	return bad
}

// planeOf returns the distance of 16 planes of n elements: five cache lines more than a
// multiple of 4 KiB, so that what is written to all of them at once stays in the L1 cache.
func planeOf(n int) int { return (n-80+1023)&^1023 + 80 }

// grid2 is how many tiles an image has.
type grid2 struct{ rows, cols int }

// runs calls do for the vectors that tiles [t0, t1) of all images make: their places from t0
// on, image, row and column, and how many of them there are.
func (g grid2) runs(t0, t1, lanes int, do func(t, n, ty, tx, count int)) {
	for t := t0; t < t1; {
		n, ty, tx := t/(g.rows*g.cols), t/g.cols%g.rows, t%g.cols
		count := min(lanes, g.cols-tx, t1-t)
		do(t-t0, n, ty, tx, count)
		t += count
	}
}

// winogradWork is what one worker needs; it lives on the heap because kernels are
// called through pointers.
type winogradWork struct {
	t       tile
	in      tilesIn
	out     tilesOut
	runs    []tileRun
	v, m    []float32
	nothing []float32 // a row to throw away
}

var winogradWorks = sync.Pool{New: func() any { return new(winogradWork) }}

// release returns w for reuse without holding on to the images it worked on.
func (w *winogradWork) release() {
	w.t, w.in, w.out = tile{}, tilesIn{}, tilesOut{}
	winogradWorks.Put(w)
}

// run computes tiles [t0, t1) of all images for the filters of tiles of rows [p0, p1).
func (w *winogradWork) run(f *Filters, x *Images, g grid2, at []int, pitch, t0, t1, p0, p1 int, found []atomic.Bool) {
	ks := f.ks
	block := f.block()
	planeV, planeM := planeOf(f.k*pitch), planeOf(block*ks.mr*pitch)
	v, m := grow(&w.v, 16*planeV), grow(&w.m, 16*planeM)
	each := func(do func(t, n, ty, tx, count int)) { g.runs(t0, t1, f.tr.lanes, do) }
	// Lanes past a vector's tiles are overwritten by those of the next.
	w.runs = w.runs[:0]
	n0 := t0 / (g.rows * g.cols)
	each(func(t, n, ty, tx, _ int) {
		w.runs = append(w.runs, newRun((n-n0)*x.NextX, x.H, x.W, 2*ty-x.Pad[0], 2*tx-x.Pad[1], t, f.tr.lanes))
	})
	w.in = tilesIn{
		x: unsafe.Pointer(&x.X[n0*x.NextX]), step: 4 * x.H * x.W,
		dst: unsafe.Pointer(&v[0]), plane: 4 * planeV, pitch: 4 * pitch, n: f.k,
		runs: unsafe.Pointer(&w.runs[0]), count: len(w.runs),
	}
	f.tr.in((*byte)(unsafe.Pointer(&w.in)))
	w.out.plane, w.out.pitch = 4*planeM, 4*pitch
	for p := p0; p < p1; p += block {
		i0, i1 := p*ks.mr, min((p+block)*ks.mr, p1*ks.mr, f.m)
		for i := range 16 {
			w.multiply(f, i, at, p, i1-i0, t1-t0, v[i*planeV:], m[i*planeM:], pitch)
		}
		each(func(t, n, ty, tx, count int) {
			if w.store(f, x, m[t:], n, ty, tx, count, i0, i1) {
				found[n].Store(true)
			}
		})
	}
}

// newRun is a vector of tiles the first of which begins at (top, left) of the h×w plane that
// begins at `plane`, and goes to place t.
func newRun(plane, h, w, top, left, t, lanes int) tileRun {
	r := tileRun{dst: 4 * t}
	for c := max(0, left); c < min(w, left+2*lanes+2); c++ {
		r.mask[c-left] = ^uint32(0)
	}
	for i := range r.rows {
		r.rows[i] = outside
		if y := top + i; y >= 0 && y < h {
			r.rows[i] = 4 * (plane + y*w + left)
		}
	}
	return r
}

// multiply computes product i of a block of filters, from tile p on, with n tiles.
func (w *winogradWork) multiply(f *Filters, i int, at []int, p, rows, n int, v, m []float32, pitch int) {
	ks, t := f.ks, &w.t
	t.alpha, t.beta, t.tail = toBits(float32(1)), toBits(float32(1)), ks.lanes
	for part := range f.parts {
		k0 := part * f.depth
		t.k, t.starts, t.flags = min(f.depth, f.k-k0), unsafe.Pointer(&at[0]), 0
		t.stepA = 4 * ks.mr * t.k
		if part > 0 {
			t.flags = flagBeta
		}
		ks.multiplyRows(t, f.matrix(i, part, p), rows, v[k0*pitch:], n, m, pitch)
	}
}

// store writes the results of a vector of tiles for filters [i0, i1), and reports
// whether any of them is not finite.
func (w *winogradWork) store(f *Filters, x *Images, from []float32, n, ty, tx, count, i0, i1 int) bool {
	out := &w.out
	for i := range out.mask {
		out.mask[i] = 0
		if i < count {
			out.mask[i] = ^uint32(0)
		}
	}
	area := x.OH * x.OW
	for i := range out.rows {
		if y := 2*ty + i; y < x.OH {
			out.rows[i], out.steps[i] = unsafe.Pointer(&x.Y[n*x.NextY+i0*area+y*x.OW+2*tx]), 4*area
		} else {
			out.rows[i], out.steps[i] = unsafe.Pointer(unsafe.SliceData(grow(&w.nothing, 2*f.tr.lanes))), 0
		}
	}
	px := min(2*count, x.OW-2*tx)
	out.px = [2]int{min(px, f.tr.lanes), max(0, px-f.tr.lanes)}
	out.src, out.n = unsafe.Pointer(&from[0]), i1-i0
	f.tr.out((*byte)(unsafe.Pointer(out)))
	return out.bad != 0
}
