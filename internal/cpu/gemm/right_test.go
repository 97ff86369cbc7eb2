package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestRight(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tried := 0
	for _, ks := range levels[float32]() {
		for _, s := range []struct{ k, n, rows, cols, pitch int }{
			{1, 4, 1, 1, 1}, {150, 16, 10, 10, 14}, {25, 8, 3, 5, 9}, {300, 12, 4, 13, 13}, {600, 16, 2, 25, 30}, {70, 32, 5, 7, 8}, {9, 20, 1, 31, 40},
		} {
			if !ks.fitsRight(s.n) {
				continue
			}
			tried++
			what := fmt.Sprintf("%s %+v", ks.name, s)
			b := matrix[float32](r, s.k, s.n, r.IntN(5))
			size := s.rows * s.cols
			image, starts := overlapping[float32](r, s.k, (s.rows-1)*s.pitch+s.cols)
			plane := size + 3
			dst := make([]float32, (s.n-1)*plane+size+1)
			for i := range dst {
				dst[i] = float32(math.NaN())
			}
			right := newRight(ks, s.k, s.n, b)
			right.Times(s.rows, s.cols, image, s.pitch, starts, dst, plane)
			right.Free()
			for j := range s.n {
				for i := range plane {
					at := j*plane + i
					if i >= size {
						if at < len(dst) && dst[at] == dst[at] {
							t.Fatalf("%s: wrote between planes", what)
						}
						continue
					}
					var sum, abs float64
					for p := range s.k {
						x := float64(image[starts.at[p]+i/s.cols*s.pitch+i%s.cols]) * float64(b.Data[p*b.RowStride+j*b.ColStride])
						sum, abs = sum+x, abs+math.Abs(x)
					}
					near(t, what, dst[at], sum, abs, s.k)
				}
			}
		}
	}
	if tried == 0 {
		t.Skip("no kernels for few columns on this CPU")
	}
}

func TestRightShortOperandsPanic(t *testing.T) {
	if !FitsRight[float32](4) {
		t.Skip("no kernels for few columns on this CPU")
	}
	r := NewRight(1, 4, RowMajor(make([]float32, 4), 4))
	defer r.Free()
	for name, f := range map[string]func(){
		"starts": func() { r.Times(1, 1, make([]float32, 9), 1, NewStarts[float32]([]int{0, 1}), make([]float32, 4), 1) },
		"image":  func() { r.Times(2, 3, make([]float32, 7), 4, NewStarts[float32]([]int{1}), make([]float32, 24), 6) },
		"planes": func() { r.Times(2, 3, make([]float32, 8), 4, NewStarts[float32]([]int{1}), make([]float32, 23), 6) },
		"plane":  func() { r.Times(2, 3, make([]float32, 8), 4, NewStarts[float32]([]int{1}), make([]float32, 24), 5) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
