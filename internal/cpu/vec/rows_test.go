package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func testRows[T float](t *testing.T, sum func([]float64, *[Rows]*T, int), mx, mn func([]T, *[Rows]*T, int), ulp float64) {
	r := rand.New(rand.NewPCG(35, 36))
	for _, n := range append(lengths(), 255, 4096) {
		var rows [Rows]*T
		var x [Rows][]T
		for i := range rows {
			x[i] = append(make([]T, i%3, n+9), fill[T](r, n+1)...)[i%3:] // one more, for a pointer to none
			rows[i] = &x[i][0]
		}
		const guard = 42
		sums, high, low := make([]float64, n+8), make([]T, n+8), make([]T, n+8)
		for i := range sums {
			sums[i], high[i], low[i] = guard, guard, guard
		}
		for i := range n {
			sums[i], high[i], low[i] = r.NormFloat64(), T(r.NormFloat64()), T(r.NormFloat64())
		}
		if n > 3 {
			high[2], low[3] = T(math.NaN()), T(math.NaN())
		}
		before, top, bottom := append([]float64{}, sums...), append([]T{}, high...), append([]T{}, low...)
		sum(sums[:n], &rows, 0)
		mx(high[:n], &rows, 0)
		mn(low[:n], &rows, 0)
		for i := range n {
			want, lost, size := before[i], 0.0, math.Abs(before[i])
			for r := range rows {
				v := x[r][i]
				// What the sum loses to rounding is put back in the end: sums of float64
				// are to be compared with something better.
				s := want + float64(v)
				back := s - want
				lost += (want - (s - back)) + (float64(v) - back)
				want = s
				size += math.Abs(float64(v))
				top[i], bottom[i] = max(top[i], v), min(bottom[i], v)
			}
			if !math.IsInf(want, 0) && lost == lost {
				want += lost
			}
			finite := !math.IsInf(sums[i], 0) && sums[i] == sums[i]
			if near := math.Abs(sums[i]-want) <= 4*ulp*size; !near && (size < math.MaxFloat32 || finite) { // else float32 has overflowed
				t.Fatalf("sum n=%d [%d]: %v, want %v", n, i, sums[i], want)
			}
			if !same(high[i], top[i]) || !same(low[i], bottom[i]) {
				t.Fatalf("n=%d [%d]: %v and %v, want %v and %v", n, i, high[i], low[i], top[i], bottom[i])
			}
		}
		for i := n; i < n+8; i++ {
			if sums[i] != guard || high[i] != guard || low[i] != guard {
				t.Fatalf("n=%d: wrote past the end", n)
			}
		}
	}
}

func TestRows(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		testRows(t, SumRowsF32, MaxRowsF32, MinRowsF32, 0x1p-24)
		testRows(t, SumRowsF64, MaxRowsF64, MinRowsF64, 0x1p-53)
	})
}
