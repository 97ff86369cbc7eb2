package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// overlapping makes k lines of n elements that begin anywhere in one slice.
func overlapping[T Float](r *rand.Rand, k, n int) ([]T, *Starts) {
	data, at := vector[T](r, k+n+50), make([]int, k)
	for i := range at {
		at[i] = r.IntN(len(data) - n + 1)
	}
	return data, NewStarts[T](at)
}

func near[T Float](t *testing.T, what string, got T, want, scale float64, k int) {
	t.Helper()
	if math.Abs(float64(got)-want) > float64(k+2)*eps[T]()*(scale+1e-30) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func testScattered[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, ks := range levels[T]() {
		for _, s := range [][3]int{{1, 1, 1}, {5, 3, 2}, {6, 16, 25}, {16, 136, 150}, {13, 33, 700}, {24, 32, 4}, {25, 50, 1300}, {12, 17, 640}, {350, 40, 300}} {
			m, n, k := s[0], s[1], s[2]
			what := fmt.Sprintf("%s %d×%d×%d", ks.name, m, n, k)
			w := (n + ks.lanes - 1) / ks.lanes * ks.lanes
			a := matrix[T](r, m, k, r.IntN(5))
			at := func(i, p int) float64 { return float64(a.Data[i*a.RowStride+p*a.ColStride]) }

			// A times rows.
			b, rows := overlapping[T](r, k, w)
			c := make([]T, m*w)
			l := newLeft(ks, m, k, a)
			l.Times(n, b, rows, c, w)
			if k > 3 { // the middle of it
				k0, k1 := k/3, k-k/4
				some := make([]T, m*w)
				l.TimesSome(k0, k1, n, b, NewStarts[T](rows.at[k0:k1]), some, w)
				for i := range m {
					for j := range n {
						want, size := 0.0, 0.0
						for p := k0; p < k1; p++ {
							x := at(i, p) * float64(b[rows.at[p]+j])
							want += x
							size += math.Abs(x)
						}
						near(t, what+" some rows", some[i*w+j], want, size, k)
					}
				}
			}
			l.Free()
			for i := range m {
				for j := range n {
					var sum, abs float64
					for p := range k {
						x := at(i, p) * float64(b[rows.at[p]+j])
						sum, abs = sum+x, abs+math.Abs(x)
					}
					near(t, what+" rows", c[i*w+j], sum, abs, k)
				}
			}

			// A times columns, added to what is there.
			b, columns := overlapping[T](r, n, k)
			c = vector[T](r, m*n)
			old := append([]T(nil), c...)
			addLines(ks, m, n, k, a, b, columns, c, n)
			for i := range m {
				for j := range n {
					sum := float64(old[i*n+j])
					abs := math.Abs(sum)
					for p := range k {
						x := at(i, p) * float64(b[columns.at[j]+p])
						sum, abs = sum+x, abs+math.Abs(x)
					}
					near(t, what+" columns", c[i*n+j], sum, abs, k)
				}
			}
		}
	}
}

func TestScatteredF32(t *testing.T) { testScattered[float32](t) }
func TestScatteredF64(t *testing.T) { testScattered[float64](t) }

func testTaps[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, ks := range levels[T]() {
		for _, s := range [][6]int{{1, 1, 1, 1, 1, 1}, {5, 5, 16, 136, 1, 14}, {5, 5, 6, 892, 1, 32}, {3, 7, 33, 300, 2, 5}, {2, 13, 3, 40, 1, 0}, {4, 25, 17, 9, 3, 1}} {
			groups, h, n, k, row, step := s[0], s[1], s[2], s[3], s[4], s[5]
			a := vector[T](r, (groups-1)*step+(h-1)*row+k)
			b, c := vector[T](r, k*n), vector[T](r, groups*h*n)
			old := append([]T(nil), c...)
			taps(ks, groups, h, n, k, a, row, step, b, n, c, n)
			for i := range groups * h {
				for j := range n {
					sum := float64(old[i*n+j])
					abs := math.Abs(sum)
					for p := range k {
						x := float64(a[i/h*step+i%h*row+p]) * float64(b[p*n+j])
						sum, abs = sum+x, abs+math.Abs(x)
					}
					near(t, fmt.Sprintf("%s %v", ks.name, s), c[i*n+j], sum, abs, k)
				}
			}
		}
	}
}

func TestTapsF32(t *testing.T) { testTaps[float32](t) }
func TestTapsF64(t *testing.T) { testTaps[float64](t) }

func TestAddWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, ks := range levels[float32]() {
		if ks.pixels == nil {
			continue
		}
		// channels, rows and columns of a window, windows in a row and rows of them, stride, n
		for _, s := range [][7]int{{1, 1, 1, 1, 1, 1, 1}, {1, 5, 5, 28, 28, 1, 6}, {6, 5, 5, 10, 10, 1, 16}, {3, 7, 7, 20, 12, 2, 64}, {2, 3, 13, 5, 7, 3, 33}, {1, 2, 25, 3, 2, 1, 20}} {
			channels, rows, cols, across, down, stride, n := s[0], s[1], s[2], s[3], s[4], s[5], s[6]
			step := (across-1)*stride + cols
			area := ((down-1)*stride + rows) * step
			k, lines, pitch := across*down, channels*rows*cols, (n+ks.lanes-1)/ks.lanes*ks.lanes
			at := make([]int, k)
			for i := range at {
				at[i] = i/across*stride*step + i%across*stride
			}
			ldb := k + 3
			a, b, c := vector[float32](r, channels*area), vector[float32](r, (n-1)*ldb+k), vector[float32](r, lines*pitch)
			old := append([]float32(nil), c...)
			addWindows(ks, &Windows{Channels: channels, Rows: rows, Cols: cols, Area: area, Step: step, Starts: NewStarts[float32](at)}, n, a, b, ldb, c)
			for i := range lines {
				for j := range n {
					sum := float64(old[i*pitch+j])
					abs := math.Abs(sum)
					for p := range k {
						x := float64(a[i/(rows*cols)*area+i/cols%rows*step+i%cols+at[p]]) * float64(b[j*ldb+p])
						sum, abs = sum+x, abs+math.Abs(x)
					}
					near(t, fmt.Sprintf("%s %v", ks.name, s), c[i*pitch+j], sum, abs, k)
				}
			}
		}
	}
}

func TestInterleave(t *testing.T) {
	testInterleave[float32](t)
	testInterleave[float64](t)
}

func testInterleave[T Float](t *testing.T) {
	for lines := 1; lines < 35; lines++ {
		for _, n := range []int{1, 3, 4, 7, 10, 16, 29} {
			stride := n + lines%3
			x, dst := make([]T, lines*stride), make([]T, lines*n+Slack)
			for i := range x {
				x[i] = T(i + 1)
			}
			Interleave(dst, x, lines, stride, n)
			for i := range n {
				for l := range lines {
					if got, want := dst[i*lines+l], x[l*stride+i]; got != want {
						t.Fatalf("%T: element %d of line %d of %d×%d is %v, want %v", got, i, l, lines, n, got, want)
					}
				}
			}
		}
	}
}

func TestScatteredShortOperandsPanic(t *testing.T) {
	l := NewLeft(2, 3, RowMajor(make([]float32, 6), 3))
	defer l.Free()
	starts := NewStarts[float32]([]int{0, 1, 2})
	w := Whole[float32](1)
	for name, f := range map[string]func(){
		"B":      func() { l.Times(1, make([]float32, w+1), starts, make([]float32, 2*w), w) },
		"C":      func() { l.Times(1, make([]float32, w+2), starts, make([]float32, 2*w-1), w) },
		"rows":   func() { l.Times(1, make([]float32, w+2), NewStarts[float32]([]int{0}), make([]float32, 2*w), w) },
		"starts": func() { NewStarts[float32]([]int{-1}) },
		"taps":   func() { Taps(2, 2, 1, 4, make([]float32, 6), 1, 2, make([]float32, 4), 1, make([]float32, 4), 1) },
		"windows": func() {
			AddWindows(&Windows{Channels: 1, Rows: 1, Cols: 2, Starts: starts}, 1, make([]float32, 3), make([]float32, 3), 3, make([]float32, 2*w))
		},
		"lines": func() {
			AddLines(1, 3, 4, RowMajor(make([]float32, 4), 4), make([]float32, 5), starts, make([]float32, 3), 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
