package gemm

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
)

// gradBytes is how large the transformed tiles may get that are multiplied at once.
const gradBytes = 8 << 20

// FilterGrad computes the gradient of m×k filters of 3×3 taps from images X and the
// gradient Y of the results, by the transpose of what Filters do: the 16 numbers of a
// tile of X and of one of Y are multiplied, summed over tiles, and transformed. It reports
// whether the gradient is finite; if it is not, it may be wrong. Filters that many
// images share are summed in an order that depends on the shape only.
func FilterGrad(m, k int, x *Images, weight []float32) bool {
	return filterGrad(kernelsF32, m, k, x, weight)
}

func filterGrad(ks *kernels[float32], m, k int, x *Images, weight []float32) bool {
	if len(weight) < m*k*9 {
		panic(fmt.Sprintf("gemm: %d weights for %d×%d filters of 3×3", len(weight), m, k))
	}
	if x.N == 0 || x.OH == 0 || x.OW == 0 {
		clear(weight[:m*k*9])
		return true
	}
	x.check(m, k)
	tr := transformsOf(ks)
	g := grid2{(x.OH + 1) / 2, (x.OW + 1) / 2}
	total := x.N * g.rows * g.cols
	chunks := (total-1)/max(64, gradBytes/(64*(m+k))) + 1
	size := (total-1)/chunks + 1
	pitch := size + tr.lanes
	planeX, planeY, planeW := planeOf(k*pitch), planeOf(m*pitch), planeOf(m*k)
	bx, by, bw := buffers32.Get().(*[]float32), buffers32.Get().(*[]float32), buffers32.Get().(*[]float32)
	vx, vy, sums := grow(bx, 16*planeX), grow(by, 16*planeY), grow(bw, 16*planeW)
	var runsX, runsY []tileRun
	for t0 := 0; t0 < total; t0 += size {
		t1 := min(t0+size, total)
		n0 := t0 / (g.rows * g.cols)
		runsX, runsY = runsX[:0], runsY[:0]
		g.runs(t0, t1, tr.lanes, func(t, n, ty, tx, _ int) {
			runsX = append(runsX, newRun((n-n0)*x.NextX, x.H, x.W, 2*ty-x.Pad[0], 2*tx-x.Pad[1], t, tr.lanes))
			runsY = append(runsY, newRun((n-n0)*x.NextY, x.OH, x.OW, 2*ty, 2*tx, t, tr.lanes))
		})
		// Channels are divided among the threads: lanes past a vector's tiles are
		// overwritten by those of the next.
		const some = 8
		groups := (k-1)/some + 1
		pool.For(groups+(m-1)/some+1, 1, func(lo, hi int) {
			w := winogradWorks.Get().(*winogradWork)
			for i := lo; i < hi; i++ {
				if i < groups {
					c := i * some
					w.in = tilesIn{
						x: unsafe.Pointer(&x.X[n0*x.NextX+c*x.H*x.W]), step: 4 * x.H * x.W,
						dst: unsafe.Pointer(&vx[c*pitch]), plane: 4 * planeX, pitch: 4 * pitch, n: min(some, k-c),
						runs: unsafe.Pointer(&runsX[0]), count: len(runsX),
					}
					tr.in((*byte)(unsafe.Pointer(&w.in)))
					continue
				}
				o := (i - groups) * some
				w.in = tilesIn{
					x: unsafe.Pointer(&x.Y[n0*x.NextY+o*x.OH*x.OW]), step: 4 * x.OH * x.OW,
					dst: unsafe.Pointer(&vy[o*pitch]), plane: 4 * planeY, pitch: 4 * pitch, n: min(some, m-o),
					runs: unsafe.Pointer(&runsY[0]), count: len(runsY),
				}
				tr.grad((*byte)(unsafe.Pointer(&w.in)))
			}
			w.release()
		})
		ep := &Epilogue[float32]{}
		if t0 > 0 {
			ep.Beta = 1
		}
		pool.For(16, 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				a, b := RowMajor(vy[i*planeY:], pitch), RowMajor(vx[i*planeX:], pitch).T()
				run(ks, m, k, t1-t0, nativeSource(a), nativeSource(b), sums[i*planeW:], k, ep, 1)
			}
		})
	}
	finite := gatherFilters(m, k, sums, planeW, weight)
	buffers32.Put(bx)
	buffers32.Put(by)
	buffers32.Put(bw)
	return finite
}

// gatherFilters transforms 16 m×k matrices into m×k filters and reports whether they are finite.
func gatherFilters(m, k int, sums []float32, plane int, weight []float32) bool {
	gather := func(a, b, c, d float32) [3]float32 {
		s, e := (b+c)*0.5, (b-c)*0.5
		return [3]float32{a + s, e, s - d}
	}
	var bad atomic.Bool
	pool.For(m, max(1, 1024/k), func(lo, hi int) {
		var zero float32
		for i := lo * k; i < hi*k; i++ {
			var cols [4][3]float32
			for j := range cols {
				at := j*plane + i
				cols[j] = gather(sums[at], sums[at+4*plane], sums[at+8*plane], sums[at+12*plane])
			}
			to := (*[9]float32)(weight[9*i:])
			for r := range 3 {
				g := gather(cols[0][r], cols[1][r], cols[2][r], cols[3][r])
				to[3*r], to[3*r+1], to[3*r+2] = g[0], g[1], g[2]
				sum := g[0] + g[1] + g[2]
				zero += sum - sum
			}
		}
		if zero != 0 {
			bad.Store(true)
		}
	})
	return !bad.Load()
}
