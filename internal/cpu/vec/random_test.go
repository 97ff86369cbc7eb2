package vec

import (
	"math"
	"testing"

	"github.com/locusml/locus/internal/random"
)

func TestPhiloxIsThatOfPackageRandom(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for i := range uint64(300) {
			key, block := i*0x9E3779B97F4A7C15, i*i<<20
			if i%3 == 0 {
				block = 1<<32 - i // the counter carries into its upper word
			}
			words := make([]uint32, i+1)
			Philox(words[:i], key, block)
			for j, w := range words[:i] {
				if want := random.Philox(key, block+uint64(j)/4)[j%4]; w != want {
					t.Fatalf("word %d of %d from block %d on is %#x, want %#x", j, i, block, w, want)
				}
			}
			if words[i] != 0 {
				t.Fatalf("%d words: wrote past the end", i)
			}
		}
	})
}

func TestRandomNumbersAreThoseOfPackageRandom(t *testing.T) {
	// Every seventh of the numbers that exist, and both ends and the middle.
	var words []uint32
	for n := uint32(0); n < 1<<24; n += 7 {
		if raceEnabled && n > 1<<18 {
			break
		}
		words = append(words, n<<8|n&0xff)
	}
	for n := range uint32(2000) {
		words = append(words, n<<8, (1<<24-1-n)<<8, (1<<23-1000+n)<<8)
	}
	eachLevel(t, func(t *testing.T) {
		got := make([]float32, len(words))
		for _, f := range []struct {
			name string
			fast func([]float32, []uint32)
			want func(uint32) float32
		}{{"Uniform", Uniform, random.Uniform32}, {"Normal", Normal, random.Normal32}} {
			f.fast(got, words)
			for i, w := range words {
				if want := f.want(w); math.Float32bits(got[i]) != math.Float32bits(want) {
					t.Fatalf("%s of word %#x is %v, want %v", f.name, w, got[i], want)
				}
			}
		}
	})
}
