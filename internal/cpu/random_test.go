package cpu

import (
	"math"
	"testing"

	"github.com/locusml/locus/internal/random"
)

func TestRandomFunctionsAreThoseOfPackageRandom(t *testing.T) {
	for i := range uint64(1000) {
		key, n := i*0x9E3779B97F4A7C15, i*i<<20
		w0, w1, w2, w3 := philox(key, n)
		if got, want := [4]uint32{w0, w1, w2, w3}, random.Philox(key, n); got != want {
			t.Fatalf("block %d under %#x is %v, want %v", n, key, got, want)
		}
	}
	// Every seventh of the numbers that exist, and both ends.
	check := func(n uint32) {
		if got, want := normal32(n<<8), random.Normal32(n<<8); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("normal32(%#x) = %v, want %v", n<<8, got, want)
		}
	}
	for n := uint32(0); n < 1<<24; n += 7 {
		check(n)
	}
	for n := range uint32(2000) {
		check(n)
		check(1<<24 - 1 - n)
		check(1<<23 - 1000 + n)
	}
}
