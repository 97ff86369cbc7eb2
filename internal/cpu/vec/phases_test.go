package vec

import (
	"math/rand/v2"
	"testing"
)

func TestPhases(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(39, 40))
		for _, n := range lengths() {
			a := fill[float32](r, 2*n)
			const guard = 42
			even, odd, back := make([]float32, n+8), make([]float32, n+8), make([]float32, 2*n+8)
			for i := range even {
				even[i], odd[i] = guard, guard
			}
			for i := range back {
				back[i] = guard
			}
			SplitPairsF32(even[:n], odd[:n], a)
			JoinPairsF32(back[:2*n], even[:n], odd[:n])
			for i := range n {
				if !same(even[i], a[2*i]) || !same(odd[i], a[2*i+1]) {
					t.Fatalf("n=%d: split %v and %v, want %v and %v", n, even[i], odd[i], a[2*i], a[2*i+1])
				}
			}
			evens := make([]float32, n+8)
			for i := range evens {
				evens[i] = guard
			}
			EvensF32(evens[:n], a[:max(0, 2*n-1)]) // the last odd place is not needed
			for i := range n {
				if !same(evens[i], even[i]) {
					t.Fatalf("n=%d: even element %d is %v, want %v", n, i, evens[i], even[i])
				}
			}
			if evens[n] != guard {
				t.Fatalf("n=%d: wrote past the end", n)
			}
			for i, x := range a {
				if !same(back[i], x) {
					t.Fatalf("n=%d: joined %v, want %v", n, back[i], x)
				}
			}
			for i := range 8 {
				if even[n+i] != guard || odd[n+i] != guard || back[2*n+i] != guard {
					t.Fatalf("n=%d: wrote past the end", n)
				}
			}
		}
	})
}

func TestClaim(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		for _, n := range lengths() {
			a, m, g, dst := fill[float32](r, n), fill[float32](r, n), fill[float32](r, n), fill[float32](r, n)
			for i := range m {
				if r.IntN(2) == 0 {
					m[i] = a[i]
				}
			}
			wantG, want := append([]float32{}, g...), append([]float32{}, dst...)
			for i := range want {
				if a[i] == m[i] || a[i] != a[i] {
					want[i] += g[i]
					wantG[i] = 0
				}
			}
			ClaimF32(dst, g, a, m)
			for i := range want {
				if !same(dst[i], want[i]) || !same(g[i], wantG[i]) {
					t.Fatalf("n=%d: %v and %v left, want %v and %v", n, dst[i], g[i], want[i], wantG[i])
				}
			}
		}
	})
}
