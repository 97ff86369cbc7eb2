package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
)

// halves rounds a matrix to 16 bits and returns both the bits and the values.
func halves(m Mat[float32], to func([]uint16, []float32), from func([]float32, []uint16)) (Mat[uint16], Mat[float32]) {
	bits, vals := make([]uint16, len(m.Data)), make([]float32, len(m.Data))
	to(bits, m.Data)
	from(vals, bits)
	return Mat[uint16]{bits, m.RowStride, m.ColStride}, Mat[float32]{vals, m.RowStride, m.ColStride}
}

// bf16Levels lists the kernel sets for bfloat16 that this machine can run,
// and plain Go ones that take the layouts of the others.
func bf16Levels(t *testing.T) []*kernels[float32] {
	out := []*kernels[float32]{goPairs(pairWords, 12), goPairs(pairLines, 32)}
	for _, l := range vec.Levels() {
		ks := pickBF16(l)
		if ks.pairs == pairLines && !tilesGranted() {
			t.Log("the system does not grant the use of AMX")
			continue
		}
		out = append(out, ks)
	}
	return out
}

// goPairs makes kernels for pairs in plain Go.
func goPairs(pairs pairing, mr int) *kernels[float32] {
	ks := &kernels[float32]{name: fmt.Sprintf("go %d", pairs), lanes: 16, mr: mr, mc: 4 * mr, kc: 32, nc: 64, span: 2, pairs: pairs}
	for h := 1; h <= mr; h++ {
		ks.full = append(ks.full, [2]func(*byte){
			func(t *byte) { goPairTiles((*tile)(unsafe.Pointer(t)), h, 1, pairs) },
			func(t *byte) { goPairTiles((*tile)(unsafe.Pointer(t)), h, 2, pairs) },
		})
	}
	ks.edge, ks.packed = ks.full, ks.full[mr-1][1]
	return ks
}

func goPairTiles(t *tile, h, nv int, pairs pairing) {
	at := func(p unsafe.Pointer, off int) float32 {
		return math.Float32frombits(uint32(*(*uint16)(unsafe.Add(p, off))) << 16)
	}
	var sums [32 * 32]float32
	for {
		for i := range h {
			for j := range (nv-1)*16 + t.tail {
				var sum float32
				for p := range t.k {
					a := i*t.rowA + p*t.colA
					if pairs == pairLines {
						a = p/16*t.colA + i*t.rowA + p%16*4
					}
					b := p*t.rowB + 4*j
					sum += at(t.a, a) * at(t.b, b)
					sum += at(t.a, a+2) * at(t.b, b+2)
				}
				sums[32*i+j] = sum
			}
		}
		store(t, sums[:], 32, h, (nv-1)*16+t.tail)
		if !t.step() {
			return
		}
	}
}

func TestBF16(t *testing.T) {
	for _, ks := range bf16Levels(t) {
		t.Run(ks.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 5))
			one := func(m, n, k, la, lb int, ep Epilogue[float32]) {
				t.Helper()
				a, fa := halves(matrix[float32](r, m, k, la), vec.F32ToBF16, vec.BF16ToF32)
				b, fb := halves(matrix[float32](r, k, n, lb), vec.F32ToBF16, vec.BF16ToF32)
				ldc := n + r.IntN(3)
				c := make([]float32, max(0, (m-1)*ldc+n))
				for i := range c {
					c[i] = float32(math.NaN())
					if ep.Beta != 0 {
						c[i] = float32(r.NormFloat64())
					}
				}
				old := append([]float32(nil), c...)
				want, scale := reference(m, n, k, fa, fb, c, ldc, ep)
				for _, threads := range []int{1, pool.Threads()} { // which are divided in different ways
					copy(c, old)
					run(ks, m, n, k, halfSource(a, bfloat16), halfSource(b, bfloat16), c, ldc, &ep, threads)
					compare(t, fmt.Sprintf("%d×%d×%d layouts %d %d on %d threads", m, n, k, la, lb, threads), m, n, k, want, scale, c, ldc, old)
				}
			}
			for range 150 {
				if thinned() && r.IntN(8) > 0 {
					continue
				}
				one(1+r.IntN(70), 1+r.IntN(70), 1+r.IntN(90), r.IntN(5), r.IntN(5), Epilogue[float32]{})
			}
			for k := range 40 { // every tail along k
				one(33, 34, k, k%5, k/5%5, Epilogue[float32]{})
			}
			for la := range 5 {
				for lb := range 5 {
					if thinned() && la != lb {
						continue
					}
					ep := Epilogue[float32]{Alpha: 0.5, Beta: -2, Bias: vector[float32](r, 133), RowBias: vector[float32](r, 97), Act: anyActivation(r)}
					one(97, 133, 150, la, lb, ep)
					one(97, 64, 131, la, lb, Epilogue[float32]{Beta: 1})
				}
			}
			// More than one block each way.
			one(ks.mc+65, 70, 4*ks.kc+75, 0, 0, Epilogue[float32]{})
			one(65, ks.nc+50, 40, 1, 1, Epilogue[float32]{})
		})
	}
}

// TestBF16InTiles multiplies with an A that AMX's kernels read where it lies.
func TestBF16InTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 5))
	aligned := func(n int) []uint16 {
		x := make([]uint16, n+32)
		for uintptr(unsafe.Pointer(&x[0]))%64 != 0 {
			x = x[1:]
		}
		return x[:n]
	}
	for _, ks := range bf16Levels(t) {
		if ks.pairs != pairLines {
			continue
		}
		for _, s := range [][3]int{{96, 70, 64}, {ks.mc + 64, 33, 4*ks.kc + 96}, {32, ks.nc + 40, 32}} {
			m, n, k := s[0], s[1], s[2]
			ld := k + 64
			a := RowMajor(aligned(m*ld), ld)
			fa := RowMajor(make([]float32, m*ld), ld)
			for i := range fa.Data {
				fa.Data[i] = float32(r.NormFloat64())
			}
			vec.F32ToBF16(a.Data, fa.Data)
			vec.BF16ToF32(fa.Data, a.Data)
			b, fb := halves(matrix[float32](r, k, n, 0), vec.F32ToBF16, vec.BF16ToF32)
			src, _, _ := ks.paired(halfSource(a, bfloat16), halfSource(b, bfloat16), k)
			if !ks.liesInTiles(&src, m) {
				t.Fatalf("%s %v: A is packed", ks.name, s)
			}
			c := make([]float32, m*n)
			want, scale := reference(m, n, k, fa, fb, c, n, Epilogue[float32]{})
			for _, threads := range []int{1, 3} {
				old := pool.SetThreads(threads)
				out := make([]uint16, m*n)
				run(ks, m, n, k, halfSource(a, bfloat16), halfSource(b, bfloat16), c, n, nil, threads)
				runHalf(ks, m, n, k, halfSource(a, bfloat16), halfSource(b, bfloat16), out, n, nil, threads)
				pool.SetThreads(old)
				compare(t, fmt.Sprintf("%s %v on %d threads", ks.name, s, threads), m, n, k, want, scale, c, n, c)
				rounded := make([]uint16, m*n)
				if vec.F32ToBF16(rounded, c); !slices.Equal(out, rounded) {
					t.Fatalf("%s %v on %d threads: C is not the sums, rounded", ks.name, s, threads)
				}
			}
		}
	}
}

// TestBF16Special puts a NaN or an infinity into each matrix in turn.
func TestBF16Special(t *testing.T) {
	const m, n, k = 37, 45, 67
	fill := func(x uint16, size int) []uint16 {
		out := make([]uint16, size)
		for i := range out {
			out[i] = x
		}
		return out
	}
	const one, inf, minusInf, nan, least = 0x3f80, 0x7f80, 0xff80, 0x7fc1, 0x0001
	for _, ks := range bf16Levels(t) {
		product := func(a, b []uint16) []float32 {
			c := make([]float32, m*n)
			run(ks, m, n, k, halfSource(RowMajor(a, k), bfloat16), halfSource(RowMajor(b, n), bfloat16), c, n, nil, pool.Threads())
			return c
		}
		a, b := fill(one, m*k), fill(one, k*n)
		a[3*k+50], a[20*k+66], b[10*n+44] = nan, inf, minusInf
		for q, v := range product(a, b) {
			i, j := q/n, q%n
			want := float64(k)
			switch {
			case i == 3 || i == 20 && j == 44:
				want = math.NaN()
			case i == 20:
				want = math.Inf(1)
			case j == 44:
				want = math.Inf(-1)
			}
			if float64(v) != want && !(v != v && math.IsNaN(want)) {
				t.Fatalf("%s: C[%d,%d] = %v, want %v", ks.name, i, j, v, want)
			}
		}
		// Zeros times infinity.
		a, b = fill(0, m*k), fill(one, k*n)
		b[66*n+1] = inf
		for q, v := range product(a, b) {
			if (v != v) != (q%n == 1) || v == v && v != 0 {
				t.Fatalf("%s: C[%d,%d] = %v of zeros", ks.name, q/n, q%n, v)
			}
		}
		// Subnormal numbers count, or count as zero.
		a, b = fill(least, m*k), fill(0x7e80, k*n) // 2^-133 · 2^126
		for q, v := range product(a, b) {
			if want := float32(k) / 128; v != want && !(v == 0 && ks.pairs != noPairs) {
				t.Fatalf("%s: C[%d] = %v, want %v", ks.name, q, v, want)
			}
		}
		// Sums beyond the range are infinite.
		a, b = fill(0x7f00, m*k), fill(0x7f00, k*n)
		for q, v := range product(a, b) {
			if !math.IsInf(float64(v), 1) {
				t.Fatalf("%s: C[%d] = %v, want infinity", ks.name, q, v)
			}
		}
	}
}

func TestBF16SameBitsForAnyThreadCount(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, ks := range bf16Levels(t) {
		for _, s := range [][3]int{{100, 100, 100}, {333, 257, 300}, {7, 400, 600}, {64, 64, 1000}} {
			m, n, k := s[0], s[1], s[2]
			if thinned() && m*n*k > 1<<23 && strings.HasPrefix(ks.name, "go ") { // plain Go, a minute under -race
				continue
			}
			a, _ := halves(matrix[float32](r, m, k, 0), vec.F32ToBF16, vec.BF16ToF32)
			b, _ := halves(matrix[float32](r, k, n, 1), vec.F32ToBF16, vec.BF16ToF32)
			var first []float32
			for _, threads := range []int{1, 2, 3, 8} {
				old := pool.SetThreads(threads)
				c := make([]float32, m*n)
				run(ks, m, n, k, halfSource(a, bfloat16), halfSource(b, bfloat16), c, n, nil, threads)
				pool.SetThreads(old)
				if first == nil {
					first = c
				}
				for i := range c {
					if c[i] != first[i] {
						t.Fatalf("%s %v: element %d differs on %d threads", ks.name, s, i, threads)
					}
				}
			}
		}
	}
}

func TestHalfInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {8, 33, 90}, {40, 33, 300}, {33, 31, 65}, {1, 50, 64}, {50, 1, 64}, {129, 70, 90}} {
		m, n, k := s[0], s[1], s[2]
		for la := range 5 {
			for lb := range 5 {
				if thinned() && la != lb {
					continue
				}
				a, b := matrix[float32](r, m, k, la), matrix[float32](r, k, n, lb)
				c := make([]float32, m*n)
				rounded, want16 := make([]uint16, m*n), make([]uint16, m*n)
				ha, fa := halves(a, vec.F32ToBF16, vec.BF16ToF32)
				hb, fb := halves(b, vec.F32ToBF16, vec.BF16ToF32)
				want, scale := reference(m, n, k, fa, fb, c, n, Epilogue[float32]{})
				for _, threads := range []int{1, pool.Threads()} {
					run(bf16Kernels(), m, n, k, halfSource(ha, bfloat16), halfSource(hb, bfloat16), c, n, nil, threads)
					compare(t, "bf16", m, n, k, want, scale, c, n, c)
				}
				Half(bfloat16, m, n, k, ha, hb, rounded, n, nil)
				if vec.F32ToBF16(want16, c); !slices.Equal(rounded, want16) {
					t.Errorf("bf16 %v: C is not the sums, rounded", s)
				}
				ha, fa = halves(a, vec.F32ToF16, vec.F16ToF32)
				hb, fb = halves(b, vec.F32ToF16, vec.F16ToF32)
				want, scale = reference(m, n, k, fa, fb, c, n, Epilogue[float32]{})
				for _, threads := range []int{1, pool.Threads()} {
					run(kernelsF32, m, n, k, halfSource(ha, float16), halfSource(hb, float16), c, n, nil, threads)
					compare(t, "f16", m, n, k, want, scale, c, n, c)
				}
				Half(float16, m, n, k, ha, hb, rounded, n, nil)
				if vec.F32ToF16(want16, c); !slices.Equal(rounded, want16) {
					t.Errorf("f16 %v: C is not the sums, rounded", s)
				}
			}
		}
	}
}

// TestRounded compares a C in half precision with the sums, rounded.
func TestRounded(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 5))
	for _, ks := range bf16Levels(t) {
		for _, s := range [][3]int{{40, 33, 0}, {40, 33, 300}, {ks.mc + 35, 3*ks.nr() + 5, 70}, {ks.mc + 35, 3*ks.nr() + 5, 2*ks.span*ks.kc + 50}} {
			m, n, k := s[0], s[1], s[2]
			a, _ := halves(matrix[float32](r, m, k, r.IntN(5)), vec.F32ToBF16, vec.BF16ToF32)
			b, _ := halves(matrix[float32](r, k, n, r.IntN(5)), vec.F32ToBF16, vec.BF16ToF32)
			ep := &Epilogue[float32]{Alpha: 0.5, Bias: vector[float32](r, n), RowBias: vector[float32](r, m), Act: anyActivation(r)}
			sums, want := make([]float32, m*n), make([]uint16, m*n)
			run(ks, m, n, k, halfSource(a, bfloat16), halfSource(b, bfloat16), sums, n, ep, 1)
			vec.F32ToBF16(want, sums)
			for _, threads := range []int{1, 2, 3, 7} {
				old := pool.SetThreads(threads)
				ldc := n + r.IntN(3)
				c := make([]uint16, m*ldc)
				runHalf(ks, m, n, k, halfSource(a, bfloat16), halfSource(b, bfloat16), c, ldc, ep, threads)
				pool.SetThreads(old)
				for i := range m {
					if !slices.Equal(c[i*ldc:][:n], want[i*n:][:n]) {
						t.Fatalf("%s %v on %d threads: row %d is not the sums, rounded", ks.name, s, threads, i)
					}
					for _, x := range c[i*ldc+n : (i+1)*ldc] {
						if x != 0 {
							t.Fatalf("%s %v: wrote outside C", ks.name, s)
						}
					}
				}
			}
		}
	}
}
