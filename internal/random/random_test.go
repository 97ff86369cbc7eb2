package random

import (
	"math"
	"testing"
)

// The test vectors that come with the reference implementation (Random123, kat_vectors).
func TestPhiloxVectors(t *testing.T) {
	if got, want := Philox(0, 0), [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}; got != want {
		t.Errorf("Philox(0, 0) = %#x, want %#x", got, want)
	}
}

func TestNormal32IsTheInverseOfTheDistribution(t *testing.T) {
	worst := 0.0
	for n := uint32(0); n < 1<<24; n += 7 {
		got := float64(Normal32(n << 8))
		want := math.Sqrt2 * math.Erfinv((float64(n)+0.5)/(1<<23)-1)
		worst = max(worst, math.Abs(got-want)/max(math.Abs(want), 1e-3))
		if math.IsNaN(got) {
			t.Fatalf("NaN at %d", n)
		}
	}
	if worst > 2e-6 {
		t.Errorf("largest relative error %g", worst)
	}
	if a, b := Normal32(5<<8), Normal32((1<<24-1-5)<<8); a != -b {
		t.Errorf("not symmetric: %v and %v", a, b)
	}
}

func TestMoments(t *testing.T) {
	const n = 1 << 20
	var u, z, z2 float64
	for i := range uint64(n) {
		u += float64(Uniform32(Word32(7, i)))
		x := float64(Normal32(Word32(8, i)))
		z += x
		z2 += x * x
	}
	if m := u / n; math.Abs(m-0.5) > 2e-3 {
		t.Errorf("uniform mean %v", m)
	}
	if m, v := z/n, z2/n; math.Abs(m) > 4e-3 || math.Abs(v-1) > 6e-3 {
		t.Errorf("normal mean %v, variance %v", m, v)
	}
}

func TestSplitKeysDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range uint64(100000) {
		k := Split(1, i)
		if seen[k] {
			t.Fatal("two children of a key are equal")
		}
		seen[k] = true
	}
}

func TestBounded(t *testing.T) {
	var count [7]int
	for i := range uint64(70000) {
		count[Bounded(Word64(3, i), 7)]++
	}
	for v, c := range count {
		if c < 9500 || c > 10500 {
			t.Errorf("%d came %d times of 70000", v, c)
		}
	}
}
