package gemm

import (
	"sync"
	"unsafe"
)

var transformsNEON = transforms{
	lanes:   neonTileLanes,
	filters: winogradFiltersNEON,
	in:      func(p *byte) { neonTilesIn((*tilesIn)(unsafe.Pointer(p)), 4, 2*neonTileLanes+2, winogradInNEON) },
	grad:    func(p *byte) { neonTilesIn((*tilesIn)(unsafe.Pointer(p)), 2, 2*neonTileLanes, winogradGradNEON) },
	out:     func(p *byte) { neonTilesOut((*tilesOut)(unsafe.Pointer(p))) },
}

const neonTileLanes = 4

func transformsOf(ks *kernels[float32]) *transforms {
	if ks == &neonF32 {
		return &transformsNEON
	}
	return genericTransforms(ks.mr)
}

// neonEdges is where rows of tiles are put that are not all inside the image, and results that
// are not whole vectors, for so many channels at a time: NEON has no masks.
type neonEdges struct {
	in  tilesIn
	run tileRun
	out tilesOut
	x   [edgeChannels][4][2*neonTileLanes + 2]float32
	y   [2][edgeChannels][2 * neonTileLanes]float32
}

const edgeChannels = 32

var edges = sync.Pool{New: func() any { return new(neonEdges) }}

// neonTilesIn transforms runs of tiles, one after the other since each overwrites lanes
// that the one before did not need. f reads rows and columns of a tile run.
func neonTilesIn(t *tilesIn, rows, columns int, f func(*byte)) {
	e := edges.Get().(*neonEdges)
	for _, r := range unsafe.Slice((*tileRun)(t.runs), t.count) {
		e.run = r
		first, count := 0, 0 // of the columns inside
		for c, m := range r.mask[:columns] {
			if m != 0 {
				if count == 0 {
					first = c
				}
				count++
			}
		}
		inside := count == columns
		for _, from := range r.rows[:rows] {
			inside = inside && from != outside
		}
		if inside {
			e.in = *t
			e.in.runs = unsafe.Pointer(&e.run)
			f((*byte)(unsafe.Pointer(&e.in)))
			continue
		}
		for i := range rows {
			e.run.rows[i] = int(unsafe.Sizeof(e.x[0][0])) * i
		}
		for c0 := 0; c0 < t.n; c0 += edgeChannels {
			n := min(edgeChannels, t.n-c0)
			for c := range n {
				x := &e.x[c]
				*x = [4][2*neonTileLanes + 2]float32{}
				for i, from := range r.rows[:rows] {
					if from != outside && count > 0 {
						copy(x[i][first:], unsafe.Slice(at(t.x, (c0+c)*t.step+from+4*first), count))
					}
				}
			}
			e.in = tilesIn{
				x: unsafe.Pointer(&e.x), step: int(unsafe.Sizeof(e.x[0])), dst: unsafe.Add(t.dst, c0*t.pitch), plane: t.plane, pitch: t.pitch, n: n,
				runs: unsafe.Pointer(&e.run), count: 1,
			}
			f((*byte)(unsafe.Pointer(&e.in)))
		}
	}
	t.n = 0
	e.in = tilesIn{}
	edges.Put(e)
}

// neonTilesOut writes results, those that are not whole vectors by way of memory aside.
func neonTilesOut(t *tilesOut) {
	px := t.px[0] + t.px[1]
	if px == 2*neonTileLanes {
		winogradOutNEON((*byte)(unsafe.Pointer(t)))
		return
	}
	e := edges.Get().(*neonEdges)
	bad := 0
	for c0 := 0; c0 < t.n; c0 += edgeChannels {
		n := min(edgeChannels, t.n-c0)
		e.out = *t
		e.out.src, e.out.n = unsafe.Add(t.src, c0*t.pitch), n
		for i := range e.y {
			e.out.rows[i], e.out.steps[i] = unsafe.Pointer(&e.y[i]), int(unsafe.Sizeof(e.y[i][0]))
		}
		winogradOutNEON((*byte)(unsafe.Pointer(&e.out)))
		bad |= e.out.bad
		for i := range e.y {
			for c := range n {
				copy(unsafe.Slice(at(t.rows[i], (c0+c)*t.steps[i]), px), e.y[i][c][:])
			}
		}
	}
	t.bad = bad
	e.out = tilesOut{}
	edges.Put(e)
}
