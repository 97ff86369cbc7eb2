package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// testBlocks multiplies with blocks so small that there are several each way.
func testBlocks[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, level := range levels[T]() {
		ks := *level
		ks.mc, ks.kc, ks.nc, ks.span = 2*ks.mr, 12, 3*ks.nr(), 3
		for _, s := range [][3]int{{4*ks.mc + 5, 7*ks.nr() + 3, 100}, {6 * ks.nc, 2 * ks.nr(), 36}, {2*ks.mc + 1, 1, 73}, {5 * ks.mc, 3 * ks.nc, 11}} {
			m, n, k := s[0], s[1], s[2]
			what := fmt.Sprintf("%s %d×%d×%d", ks.name, m, n, k)
			a, b := matrix[T](r, m, k, r.IntN(5)), matrix[T](r, k, n, r.IntN(5))
			ep := Epilogue[T]{Alpha: 1, Beta: 0.5, Bias: vector[T](r, n), RowBias: vector[T](r, m), Act: op.Sigmoid}
			old := vector[T](r, m*n)
			want, scale := reference(m, n, k, a, b, old, n, ep)
			var first []T
			for _, threads := range []int{1, 2, 3, 7, 16} {
				before := pool.SetThreads(threads)
				c := append([]T(nil), old...)
				p := &problem[T]{ks: &ks, m: m, n: n, k: k, a: nativeSource(a), b: nativeSource(b), c: c, ldc: n, ep: ep, threads: threads}
				p.blocked()
				pool.SetThreads(before)
				if first == nil {
					first = c
					compare(t, what, m, n, k, want, scale, c, n, old)
				}
				for i := range c {
					if c[i] != first[i] {
						t.Fatalf("%s: element %d differs on %d threads", what, i, threads)
					}
				}
			}
		}
	}
}

func TestBlocksF32(t *testing.T) { testBlocks[float32](t) }
func TestBlocksF64(t *testing.T) { testBlocks[float64](t) }

// TestDivide checks that each tile is in one task.
func TestDivide(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 4, 7, 16, 31, 64} {
		for _, s := range [][3]int{{1, 1, 8}, {3, 200, 256}, {200, 3, 256}, {86, 32, 1024}, {171, 128, 1024}, {43, 2, 512}, {16, 5, 64}} {
			p := &problem[float32]{ks: &genericF32, threads: threads}
			d := p.divide(s[0], s[1], s[2])
			seen := make([]int, s[0]*s[1])
			for q := range d.tasks() {
				i0, i1, j0, j1 := d.task(q)
				for i := i0; i < i1; i++ {
					for j := j0; j < j1; j++ {
						seen[i*s[1]+j]++
					}
				}
			}
			for i, n := range seen {
				if n != 1 {
					t.Fatalf("%v on %d threads, %+v: tile %d is in %d tasks", s, threads, d, i, n)
				}
			}
		}
	}
}
