// Package random defines the numbers that a key stands for. It is the
// reference: every device must produce exactly these, whatever the number of
// threads, because element i depends on the key and on i alone.
//
// The generator is Philox4x32 with 10 rounds (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011).
package random

import "math/bits"

// Philox returns the four words of counter block n under key.
func Philox(key, n uint64) [4]uint32 {
	const m0, m1 = 0xD2511F53, 0xCD9E8D57
	const w0, w1 = 0x9E3779B9, 0xBB67AE85
	k0, k1 := uint32(key), uint32(key>>32)
	c := [4]uint32{uint32(n), uint32(n >> 32), 0, 0}
	for range 10 {
		h0, l0 := bits.Mul32(m0, c[0])
		h1, l1 := bits.Mul32(m1, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k0, l1, h0 ^ c[3] ^ k1, l0}
		k0 += w0
		k1 += w1
	}
	return c
}

// Word32 returns 32 random bits for element i: four elements share a block.
func Word32(key, i uint64) uint32 { return Philox(key, i/4)[i%4] }

// Word64 returns 64 random bits for element i: two elements share a block, the
// low word first.
func Word64(key, i uint64) uint64 {
	c := Philox(key, i/2)
	j := i % 2 * 2
	return uint64(c[j]) | uint64(c[j+1])<<32
}

// Split returns the key number i below key. Blocks for splitting have the top
// bit of the counter set, which no element reaches.
func Split(key, i uint64) uint64 {
	c := Philox(key, i|1<<63)
	return uint64(c[0]) | uint64(c[1])<<32
}

// Uniform32 maps 32 bits to [0, 1): the upper 24 bits as a fraction. In half
// precision it is rounded, and a result that rounds to 1 becomes the largest value
// below 1.
func Uniform32(w uint32) float32 { return float32(w>>8) * (1.0 / (1 << 24)) }

// Uniform64 maps 64 bits to [0, 1): the upper 53 bits as a fraction.
func Uniform64(w uint64) float64 { return float64(w>>11) * (1.0 / (1 << 53)) }

// Bounded maps 64 bits to [0, span): the high word of the product.
func Bounded(w uint64, span uint64) uint64 {
	h, _ := bits.Mul64(w, span)
	return h
}

// Bits63 returns RandBits' number for a word: never negative as an int64.
func Bits63(w uint64) int64 { return int64(w >> 1) }
