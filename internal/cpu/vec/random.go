package vec

import "github.com/locusml/locus/internal/random"

// Philox fills dst with the words of the generator's blocks from number block
// on, four words each; see package random.
func Philox(dst []uint32, key, block uint64) {
	switch m := len(dst); {
	case level == AVX512 && m >= 64:
		m &^= 63
		philoxAVX512(&dst[0], key, block, m/4)
		dst, block = dst[m:], block+uint64(m/4)
	case level == AVX2 && m >= 32:
		m &^= 31
		philoxAVX2(&dst[0], key, block, m/4)
		dst, block = dst[m:], block+uint64(m/4)
	case level == NEON && m >= 32:
		m &^= 31
		philoxNEON(&dst[0], key, block, m/4)
		dst, block = dst[m:], block+uint64(m/4)
	}
	philoxGo(dst, key, block)
}

// philoxGo makes two blocks at a time, because each is a chain of multiplications.
func philoxGo(dst []uint32, key, n uint64) {
	const m0, m1 = 0xD2511F53, 0xCD9E8D57
	const w0, w1 = 0x9E3779B9, 0xBB67AE85
	for ; len(dst) >= 8; n += 2 {
		k0, k1 := uint32(key), uint32(key>>32)
		a0, a1, a2, a3 := uint32(n), uint32(n>>32), uint32(0), uint32(0)
		b0, b1, b2, b3 := uint32(n+1), uint32((n+1)>>32), uint32(0), uint32(0)
		for range 10 {
			p0, p1 := m0*uint64(a0), m1*uint64(a2)
			q0, q1 := m0*uint64(b0), m1*uint64(b2)
			a0, a1, a2, a3 = uint32(p1>>32)^a1^k0, uint32(p1), uint32(p0>>32)^a3^k1, uint32(p0)
			b0, b1, b2, b3 = uint32(q1>>32)^b1^k0, uint32(q1), uint32(q0>>32)^b3^k1, uint32(q0)
			k0 += w0
			k1 += w1
		}
		*(*[8]uint32)(dst) = [8]uint32{a0, a1, a2, a3, b0, b1, b2, b3}
		dst = dst[8:]
	}
	for ; len(dst) > 0; n++ {
		last := random.Philox(key, n)
		dst = dst[copy(dst, last[:]):]
	}
}

func uniformGo(dst []float32, a []uint32) {
	for i, w := range a[:len(dst)] {
		dst[i] = random.Uniform32(w)
	}
}

func normalGo(dst []float32, a []uint32) {
	for i, w := range a[:len(dst)] {
		dst[i] = random.Normal32(w)
	}
}
