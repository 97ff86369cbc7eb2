package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// levels lists the kernel sets this machine can run.
func levels[T Float]() []*kernels[T] {
	var out []*kernels[T]
	for _, l := range vec.Levels() {
		if l == vec.AVX512BF16 || l == vec.AMX { // AVX512's
			continue
		}
		switch any(T(0)).(type) {
		case float32:
			out = append(out, any(pickF32(l)).(*kernels[T]))
		case float64:
			out = append(out, any(pickF64(l)).(*kernels[T]))
		}
	}
	return out
}

func TestTileLayout(t *testing.T) {
	var x tile
	var d dots
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"a", unsafe.Offsetof(x.a), 0}, {"b", unsafe.Offsetof(x.b), 8}, {"c", unsafe.Offsetof(x.c), 16},
		{"k", unsafe.Offsetof(x.k), 24}, {"rowA", unsafe.Offsetof(x.rowA), 32}, {"colA", unsafe.Offsetof(x.colA), 40},
		{"rowB", unsafe.Offsetof(x.rowB), 48}, {"ldc", unsafe.Offsetof(x.ldc), 56}, {"tiles", unsafe.Offsetof(x.tiles), 64},
		{"stepA", unsafe.Offsetof(x.stepA), 72}, {"stepC", unsafe.Offsetof(x.stepC), 80}, {"bias", unsafe.Offsetof(x.bias), 88},
		{"rowBias", unsafe.Offsetof(x.rowBias), 96}, {"flags", unsafe.Offsetof(x.flags), 104}, {"tail", unsafe.Offsetof(x.tail), 112},
		{"alpha", unsafe.Offsetof(x.alpha), 120}, {"beta", unsafe.Offsetof(x.beta), 128}, {"stepBias", unsafe.Offsetof(x.stepBias), 136}, {"starts", unsafe.Offsetof(x.starts), 144},
		{"dots.x", unsafe.Offsetof(d.x), 0}, {"dots.y", unsafe.Offsetof(d.y), 8}, {"dots.rowX", unsafe.Offsetof(d.rowX), 16},
		{"dots.rowY", unsafe.Offsetof(d.rowY), 24}, {"dots.k", unsafe.Offsetof(d.k), 32}, {"dots.out", unsafe.Offsetof(d.out), 40},
	} {
		if f.got != f.want {
			t.Errorf("%s is at %d, the assembly expects %d", f.name, f.got, f.want)
		}
	}
}

// matrix makes a rows×cols matrix in one of four layouts, surrounded by NaN so
// that an element read from outside shows up.
func matrix[T Float](r *rand.Rand, rows, cols, layout int) Mat[T] {
	var m Mat[T]
	switch layout {
	case 0:
		m = Mat[T]{RowStride: cols, ColStride: 1}
	case 1:
		m = Mat[T]{RowStride: 1, ColStride: rows}
	case 2:
		m = Mat[T]{RowStride: cols + 5, ColStride: 1}
	case 3:
		m = Mat[T]{RowStride: 1, ColStride: rows + 3}
	default:
		m = Mat[T]{RowStride: 3*cols + 1, ColStride: 3}
	}
	size := 0
	if rows > 0 && cols > 0 {
		size = (rows-1)*m.RowStride + (cols-1)*m.ColStride + 1
	}
	all := make([]T, size+64)
	for i := range all {
		all[i] = T(math.NaN())
	}
	off := r.IntN(32)
	m.Data = all[off : off+size]
	for i := range rows {
		for j := range cols {
			m.Data[i*m.RowStride+j*m.ColStride] = T(r.NormFloat64())
		}
	}
	return m
}

// reference computes C in float64, and for each element the sum of the
// absolute products, which bounds the rounding error.
func reference[T Float](m, n, k int, a, b Mat[T], c []T, ldc int, ep Epilogue[T]) (want, scale []float64) {
	want, scale = make([]float64, m*n), make([]float64, m*n)
	alpha := float64(ep.Alpha)
	if alpha == 0 {
		alpha = 1
	}
	for i := range m {
		for j := range n {
			var s, abs float64
			for p := range k {
				x := float64(a.Data[i*a.RowStride+p*a.ColStride]) * float64(b.Data[p*b.RowStride+j*b.ColStride])
				s += x
				abs += math.Abs(x)
			}
			s *= alpha
			abs *= math.Abs(alpha)
			if ep.Beta != 0 {
				s += float64(ep.Beta) * float64(c[i*ldc+j])
				abs += math.Abs(float64(ep.Beta) * float64(c[i*ldc+j]))
			}
			if ep.Bias != nil {
				s += float64(ep.Bias[j])
				abs += math.Abs(float64(ep.Bias[j]))
			}
			if ep.RowBias != nil {
				s += float64(ep.RowBias[i])
				abs += math.Abs(float64(ep.RowBias[i]))
			}
			want[i*n+j] = activate64(ep.Act, s)
			scale[i*n+j] = abs
		}
	}
	return want, scale
}

func eps[T Float]() float64 {
	if unsafe.Sizeof(T(0)) == 4 {
		return 1.0 / (1 << 24)
	}
	return 1.0 / (1 << 53)
}

func compare[T Float](t *testing.T, what string, m, n, k int, want, scale []float64, c []T, ldc int, old []T) {
	t.Helper()
	tol := eps[T]() * (4 + 2*math.Sqrt(float64(k)))
	bad := 0
	for i := range m {
		for j := range ldc {
			o := i*ldc + j
			if o >= len(c) {
				break
			}
			if j >= n {
				if c[o] != old[o] && !(c[o] != c[o] && old[o] != old[o]) {
					t.Fatalf("%s: wrote outside C at row %d, column %d", what, i, j)
				}
				continue
			}
			w, got := want[i*n+j], float64(c[o])
			if math.IsNaN(w) != math.IsNaN(got) || math.Abs(w-got) > tol*(scale[i*n+j]+1e-30) && !math.IsInf(w, 0) {
				if bad++; bad < 4 {
					t.Errorf("%s: C[%d,%d] = %v, want %v", what, i, j, got, w)
				}
			}
		}
	}
}

func testOne[T Float](t *testing.T, ks *kernels[T], r *rand.Rand, m, n, k, la, lb int, ep Epilogue[T], ldcExtra int) {
	t.Helper()
	a, b := matrix[T](r, m, k, la), matrix[T](r, k, n, lb)
	ldc := n + ldcExtra
	c := make([]T, max(0, m*ldc-ldcExtra))
	for i := range c {
		c[i] = T(r.NormFloat64())
		if ep.Beta == 0 {
			c[i] = T(math.NaN()) // the old C must not be read
		}
	}
	old := append([]T(nil), c...)
	want, scale := reference(m, n, k, a, b, c, ldc, ep)
	for _, threads := range []int{1, pool.Threads()} { // which are divided in different ways
		copy(c, old)
		run(ks, m, n, k, nativeSource(a), nativeSource(b), c, ldc, &ep, threads)
		compare(t, fmt.Sprintf("%s %d×%d×%d layouts %d %d ep %+v on %d threads", ks.name, m, n, k, la, lb, ep.Act, threads), m, n, k, want, scale, c, ldc, old)
	}
}

func vector[T Float](r *rand.Rand, n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = T(r.NormFloat64())
	}
	return v
}

// tall makes kernels in plain Go with tiles as AVX-512 has them, so that every machine divides and packs for them.
func tall[T Float]() *kernels[T] {
	const mr = 12
	ks := &kernels[T]{name: "tall", lanes: 64 / int(unsafe.Sizeof(T(0))), mr: mr, mc: 4 * mr, kc: 64, nc: 2048, span: 2}
	for h := 1; h <= mr; h++ {
		ks.full = append(ks.full, [2]func(*byte){
			func(t *byte) { tallTiles[T]((*tile)(unsafe.Pointer(t)), h, false, ks.lanes) },
			func(t *byte) { tallTiles[T]((*tile)(unsafe.Pointer(t)), h, true, ks.lanes) },
		})
	}
	ks.edge, ks.packed = ks.full, ks.full[mr-1][1]
	return ks
}

func tallTiles[T Float](t *tile, h int, two bool, lanes int) {
	w := t.tail
	if two {
		w += lanes
	}
	sums := make([]T, h*w)
	for {
		clear(sums)
		for p := range t.k {
			b := unsafe.Slice((*T)(unsafe.Add(t.b, p*t.rowB)), w)
			for i := range h {
				x := *(*T)(unsafe.Add(t.a, i*t.rowA+p*t.colA))
				for j := range b {
					sums[i*w+j] += x * b[j]
				}
			}
		}
		store(t, sums, w, h, w)
		if !t.step() {
			return
		}
	}
}

func testShapes[T Float](t *testing.T) {
	for _, ks := range append(levels[T](), tall[T]()) {
		t.Run(ks.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for m := 0; m <= 14; m++ {
				for n := 0; n <= 34; n++ {
					if thinned() && r.IntN(8) > 0 {
						continue
					}
					k := r.IntN(20)
					testOne(t, ks, r, m, n, k, r.IntN(5), r.IntN(5), Epilogue[T]{}, r.IntN(3))
				}
			}
			for range 60 {
				m, n, k := 1+r.IntN(80), 1+r.IntN(80), 1+r.IntN(80)
				ep := Epilogue[T]{}
				if r.IntN(2) == 0 {
					ep.Alpha = T(r.NormFloat64())
				}
				if r.IntN(2) == 0 {
					ep.Beta = T(r.NormFloat64())
				}
				if r.IntN(2) == 0 {
					ep.Bias = vector[T](r, n)
				}
				if r.IntN(2) == 0 {
					ep.RowBias = vector[T](r, m)
				}
				ep.Act = anyActivation(r)
				testOne(t, ks, r, m, n, k, r.IntN(5), r.IntN(5), ep, r.IntN(3))
			}
			for la := range 5 {
				for lb := range 5 {
					if thinned() && la != lb {
						continue
					}
					// Deeper than kc, and too large for the direct path.
					testOne(t, ks, r, 111, 101, 390, la, lb, Epilogue[T]{Beta: 0.5, Act: op.Relu, Bias: vector[T](r, 101), RowBias: vector[T](r, 111)}, 1)
				}
			}
			// Thin ones, and matrix times vector, in every layout.
			for _, s := range [][2]int{{1, 1}, {1, 4}, {1, 37}, {37, 1}, {2, 50}, {50, 2}, {5, 33}, {33, 5}, {3, 3}, {300, 8}, {8, 300}, {290, 3}, {400, 23}} {
				for la := range 5 {
					for lb := range 5 {
						m, n, k := s[0], s[1], 30+r.IntN(40)
						ep := Epilogue[T]{Alpha: 2, Act: anyActivation(r), Bias: vector[T](r, n), RowBias: vector[T](r, m)}
						testOne(t, ks, r, m, n, k, la, lb, ep, r.IntN(2))
					}
				}
			}
			// A few rows more than whole tiles have, and columns enough for A to be packed.
			for _, m := range []int{ks.mr + 1, ks.mr + 2, ks.mr + 3, 2*ks.mr + 1, 2*ks.mr + 2, 2*ks.mr + 3, 3*ks.mr + 1, 3*ks.mr + 3} {
				for la := range 5 {
					n := (placedPanels+1)*ks.nr() + 3
					testOne(t, ks, r, m, n, 37, la, r.IntN(5), Epilogue[T]{RowBias: vector[T](r, m)}, 0)
				}
			}
			// Parts along k.
			testOne(t, ks, r, 3, 700, 600, 0, 0, Epilogue[T]{}, 0)
			testOne(t, ks, r, 1, 900, 650, 0, 0, Epilogue[T]{Bias: vector[T](r, 900), Act: op.Tanh}, 0)
			testOne(t, ks, r, 7, 513, 1030, 1, 2, Epilogue[T]{Alpha: 2, Beta: 0.5, RowBias: vector[T](r, 7), Act: op.Relu}, 1)
			testOne(t, ks, r, 1000, 4, 800, 1, 0, Epilogue[T]{Bias: vector[T](r, 4)}, 1)
		})
	}
}

func TestShapesF32(t *testing.T) { testShapes[float32](t) }
func TestShapesF64(t *testing.T) { testShapes[float64](t) }

func TestSameBitsForAnyThreadCount(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][3]int{{100, 100, 100}, {333, 257, 300}, {1, 1000, 700}, {1000, 1, 700}, {7, 2000, 600}, {1, 4100, 300}, {5, 4100, 300}, {23, 3000, 500}, {1000, 9, 300}, {64, 64, 3000}, {256, 784, 100}, {130, 1024, 40}, {60, 80, 1024}} {
		m, n, k := s[0], s[1], s[2]
		for layout := range 4 {
			a, b := matrix[float32](r, m, k, layout/2), matrix[float32](r, k, n, layout%2)
			var first []float32
			for _, threads := range []int{1, 2, 3, 7, 64} {
				old := pool.SetThreads(threads)
				c := make([]float32, m*n)
				F32(m, n, k, a, b, c, n, nil)
				pool.SetThreads(old)
				if first == nil {
					first = c
					continue
				}
				for i := range c {
					if c[i] != first[i] {
						t.Fatalf("%v: element %d differs on %d threads", s, i, threads)
					}
				}
			}
		}
	}
}

func benchF32(b *testing.B, m, n, k int, ta, tb bool) {
	r := rand.New(rand.NewPCG(1, 2))
	x, y := RowMajor(vector[float32](r, m*k), k), RowMajor(vector[float32](r, k*n), n)
	if ta {
		x = RowMajor(vector[float32](r, m*k), m).T()
	}
	if tb {
		y = RowMajor(vector[float32](r, k*n), k).T()
	}
	c := make([]float32, m*n)
	best := time.Hour
	for b.Loop() {
		t := time.Now()
		F32(m, n, k, x, y, c, n, nil)
		best = min(best, time.Since(t))
	}
	b.ReportMetric(2*float64(m)*float64(n)*float64(k)/float64(best.Nanoseconds()), "best-GFLOP/s")
}

func BenchmarkF32(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, s := range []int{32, 64, 100, 128, 200, 256, 512, 1024, 2048} {
			b.Run(fmt.Sprintf("%d/threads=%d", s, threads), func(b *testing.B) {
				defer pool.SetThreads(pool.SetThreads(threads))
				benchF32(b, s, s, s, false, false)
			})
		}
	}
}

// thinned reports whether tests are to try a part of their cases only.
func thinned() bool { return raceEnabled || testing.Short() }
