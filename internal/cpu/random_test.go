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
		words := make([]uint32, i%20)
		fillPhilox(words, key, int(i)*4)
		for j, w := range words {
			if want := random.Word32(key, i*4+uint64(j)); w != want {
				t.Fatalf("word %d from %d on is %#x, want %#x", j, i*4, w, want)
			}
		}
	}
	// Every seventh of the numbers that exist, and both ends and the middle.
	var ns []uint32
	for n := uint32(0); n < 1<<24; n += 7 {
		ns = append(ns, n)
	}
	for n := range uint32(2000) {
		ns = append(ns, n, 1<<24-1-n, 1<<23-1000+n)
	}
	words, got := make([]uint32, chunk), make([]float32, chunk)
	for len(ns) > 0 {
		k := min(chunk, len(ns))
		for i, n := range ns[:k] {
			words[i] = n<<8 | n&0xff
		}
		normals32(got[:k], words[:k])
		for i, n := range ns[:k] {
			if want := random.Normal32(n << 8); math.Float32bits(got[i]) != math.Float32bits(want) {
				t.Fatalf("normal number of word %#x is %v, want %v", n<<8, got[i], want)
			}
		}
		ns = ns[k:]
	}
}
