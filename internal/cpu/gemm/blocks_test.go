package gemm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

func TestBlocksLayout(t *testing.T) {
	var b blocks
	for i, f := range []uintptr{unsafe.Offsetof(b.a), unsafe.Offsetof(b.b), unsafe.Offsetof(b.c), unsafe.Offsetof(b.starts), unsafe.Offsetof(b.steps),
		unsafe.Offsetof(b.rowA), unsafe.Offsetof(b.stepA), unsafe.Offsetof(b.rowB), unsafe.Offsetof(b.ldc), unsafe.Offsetof(b.count),
		unsafe.Offsetof(b.nextA), unsafe.Offsetof(b.nextB), unsafe.Offsetof(b.nextC), unsafe.Offsetof(b.add)} {
		if f != uintptr(8*i) {
			t.Errorf("field %d is at %d, the assembly expects %d", i, f, 8*i)
		}
	}
}

// TestBlocks compares blocks of matrices at odd distances with sums in float64.
func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	t.Logf("tensor cores: %v", HasBlocks())
	random := func(n int) ([]uint16, []float32) {
		f, h := make([]float32, n), make([]uint16, n)
		for i := range f {
			f[i] = float32(r.NormFloat64())
		}
		vec.F32ToBF16(h, f)
		vec.BF16ToF32(f, h)
		return h, f
	}
	for _, rows := range []int{16, 32} {
		for _, cols := range []int{16, 32} {
			for steps := 1; steps <= 5; steps += 2 {
				const count = 3
				x := Blocks{Rows: rows, Cols: cols, Steps: steps, Count: count, RowA: 32*steps + 3, StepA: 37, RowB: 2*cols + 6, LDC: cols + 3,
					NextA: 11, NextB: 10, NextC: 33 * (cols + 3), Add: steps == 3}
				at := make([]int, steps)
				for i := range at {
					at[i] = 2 * r.IntN(300)
				}
				x.Starts = NewBlockStart(at)
				var a, b []float32
				x.A, a = random((count-1)*x.NextA + (steps-1)*x.StepA + (rows-1)*x.RowA + 32)
				x.B, b = random((count-1)*x.NextB + x.Starts.last + 15*x.RowB + 2*cols)
				x.C = make([]float32, (count-1)*x.NextC+(rows-1)*x.LDC+cols)
				for i := range x.C {
					x.C[i] = float32(r.NormFloat64())
				}
				old := slices.Clone(x.C)
				x.Run()
				inside := make([]bool, len(x.C))
				for n := range count {
					for i := range rows {
						for j := range cols {
							c := n*x.NextC + i*x.LDC + j
							inside[c] = true
							want := 0.0
							if x.Add {
								want = float64(old[c])
							}
							for s := range steps {
								for p := range 32 {
									want += float64(a[n*x.NextA+s*x.StepA+i*x.RowA+p]) * float64(b[n*x.NextB+at[s]+p/2*x.RowB+2*j+p%2])
								}
							}
							if d := float64(x.C[c]) - want; d > 1e-3 || d < -1e-3 {
								t.Fatalf("%d×%d, %d steps: block %d at %d, %d is %v, want %v", rows, cols, steps, n, i, j, x.C[c], want)
							}
						}
					}
				}
				for i, in := range inside {
					if !in && x.C[i] != old[i] {
						t.Fatalf("%d×%d: wrote outside C", rows, cols)
					}
				}
			}
		}
	}
}

// TestPackWords multiplies with packed panels.
func TestPackWords(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][2]int{{1, 1}, {31, 33}, {32, 32}, {64, 64}, {65, 40}, {100, 7}} {
		k, n := s[0], s[1]
		for layout := range 5 {
			b, _ := halves(matrix[float32](r, k, n, layout), vec.F32ToBF16, vec.BF16ToF32)
			size := PanelSize(k)
			d := make([]uint16, (n+31)/32*size)
			PackWords(d, k, n, b)
			for j := range n {
				for p := range (k + 31) / 32 * 32 {
					want := uint16(0)
					if p < k {
						want = b.Data[p*b.RowStride+j*b.ColStride]
					}
					if got := d[j/32*size+p/32*BlockPiece+p%32/2*64+j%32*2+p%2]; got != want {
						t.Fatalf("%d×%d, layout %d: element %d, %d is %#x, want %#x", k, n, layout, p, j, got, want)
					}
				}
			}
		}
	}
}

// Rows of all widths, between elements that must not be written.
func TestRows16(t *testing.T) {
	for width := 1; width < 40; width++ {
		for every := 1; every <= 3; every++ {
			for rows := 1; rows <= 3; rows++ {
				s := Rows16{Width: width, Rows: rows, Every: every, StepDst: 2*width + 3, StepSrc: every*width + 5}
				n := (rows-1)*s.StepSrc + (width-1)*every + 1
				a, b := make([]uint16, n), make([]uint16, n)
				for i := range a {
					a[i], b[i] = uint16(1+i), uint16(30000+i)
				}
				what := fmt.Sprintf("%+v", s)
				copied, joined, alone := make([]uint16, rows*s.StepDst), make([]uint16, rows*s.StepDst), make([]uint16, rows*s.StepDst)
				s.Copy(copied, a)
				s.Join(joined, a, b)
				s.Join(alone, a, nil)
				for i := range copied {
					y, j := i/s.StepDst, i%s.StepDst
					want := uint16(0)
					if j < width {
						want = a[y*s.StepSrc+j*every]
					}
					if copied[i] != want {
						t.Fatalf("%s: copied[%d] is %d, want %d", what, i, copied[i], want)
					}
					want, single := 0, uint16(0)
					if j < 2*width {
						want = a[y*s.StepSrc+j/2*every]
						if single = want; j%2 == 1 {
							want, single = b[y*s.StepSrc+j/2*every], 0
						}
					}
					if joined[i] != want || alone[i] != single {
						t.Fatalf("%s: joined[%d] is %d and %d, want %d and %d", what, i, joined[i], alone[i], want, single)
					}
				}
			}
		}
	}
}

// BenchmarkBlocks multiplies 32 rows with 16 blocks of columns in 18 steps: of packed panels, and of a frame of 64
// channels of 24×24 pixels, as a convolution does, whose lines lie across cache lines or do not.
func BenchmarkBlocks(b *testing.B) {
	const steps, count = 18, 16
	a := make([]uint16, 32*steps*32)
	c := make([]float32, 32*(32*count+16))
	run := func(name string, x Blocks) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x.Run()
			}
			b.ReportMetric(2*32*32*32*float64(x.Steps*x.Count*b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
	x := Blocks{Rows: 32, Cols: 32, Steps: steps, Count: count, A: a, RowA: 32, StepA: 1024, C: c, LDC: 32*count + 16, NextC: 32}
	at := make([]int, steps)
	for i := range at {
		at[i] = i * BlockPiece
	}
	x.B, x.RowB, x.NextB, x.Starts = make([]uint16, count*steps*BlockPiece), 64, steps*BlockPiece, NewBlockStart(at)
	run("panels", x)
	x.NextB = 0
	run("one panel", x)
	x.Steps, x.Starts, x.Add = 9, x.Starts.Range(0, 9), true
	run("one panel, 9 steps added", x)
	x.Steps, x.Starts = 2, x.Starts.Range(0, 2)
	run("one panel, 2 steps added", x)
	x.Add = false
	run("one panel, 2 steps", x)
	x.Steps, x.NextB = steps, 64
	for _, width := range []int{25, 32} {
		pitch := 27*width/16*16 + 16
		if pitch%32 == 0 {
			pitch += 16
		}
		x.B, x.RowB = make([]uint16, 2*(32*pitch+1024)), 2*pitch
		for i := range at {
			at[i] = 2 * (i/9*16*pitch + i%9/3*width + i%3)
			if width == 32 {
				at[i] = 2 * (i/9*16*pitch + i%9/3*width)
			}
		}
		x.Starts = NewBlockStart(at)
		run(fmt.Sprintf("frame %d", width), x)
	}
}
