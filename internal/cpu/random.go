package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
)

// Package random defines the numbers, an element at a time. Here four (of 32
// bits) or two (of 64) are made from each block of the generator, and the
// functions are written out, because they decide how long a network takes to start.

func init() {
	register(op.RandUniform, dtype.Float32, randomWords(uniforms32))
	register(op.RandUniform, dtype.Float64, random2(random.Uniform64))
	register(op.RandUniform, dtype.Float16, random4(func(w uint32) dtype.F16 {
		return min(dtype.ToF16(random.Uniform32(w)), 0x3bff) // the largest below 1
	}))
	register(op.RandUniform, dtype.BFloat16, random4(func(w uint32) dtype.BF16 {
		return min(dtype.ToBF16(random.Uniform32(w)), 0x3f7f)
	}))
	register(op.RandNormal, dtype.Float32, randomWords(normals32))
	register(op.RandNormal, dtype.Float64, random2(random.Normal64))
	register(op.RandNormal, dtype.Float16, random4(func(w uint32) dtype.F16 { return dtype.ToF16(random.Normal32(w)) }))
	register(op.RandNormal, dtype.BFloat16, random4(func(w uint32) dtype.BF16 { return dtype.ToBF16(random.Normal32(w)) }))
	register(op.RandInt, dtype.Uint8, randInt[uint8])
	register(op.RandInt, dtype.Int32, randInt[int32])
	register(op.RandInt, dtype.Int64, randInt[int64])
	register(op.RandBits, dtype.Int64, random2(random.Bits63))
}

// philox is random.Philox in registers.
func philox(key, n uint64) (c0, c1, c2, c3 uint32) {
	const m0, m1 = 0xD2511F53, 0xCD9E8D57
	const w0, w1 = 0x9E3779B9, 0xBB67AE85
	k0, k1 := uint32(key), uint32(key>>32)
	c0, c1 = uint32(n), uint32(n>>32)
	for range 10 {
		p0, p1 := m0*uint64(c0), m1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0 += w0
		k1 += w1
	}
	return c0, c1, c2, c3
}

// random4 makes a kernel of a function of 32 random bits.
func random4[T any](value func(uint32) T) kernel {
	return randomWords(func(dst []T, words []uint32) {
		for i, w := range words[:len(dst)] {
			dst[i] = value(w)
		}
	})
}

// randomWords makes a kernel of a function of up to chunk words, which it may overwrite.
func randomWords[T any](values func(dst []T, words []uint32)) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		key, dst := c.Attrs.(op.Random).Key, elements[T](&c.Out, n)
		pool.For(n, grainDear, func(lo, hi int) { // grainDear is a multiple of chunk, chunk of 8
			s, buf := scratchOf[uint32](chunk)
			for ; lo < hi; lo += chunk {
				words := buf[:min(chunk, hi-lo)]
				fillPhilox(words, key, lo)
				values(dst[lo:lo+len(words)], words)
			}
			s.free()
		})
		return nil
	}
}

func uniforms32(dst []float32, words []uint32) {
	for i, w := range words[:len(dst)] {
		dst[i] = random.Uniform32(w)
	}
}

// fillPhilox gives the words of elements from number `from` on, a multiple of 4.
// Two blocks are made at a time, because each is a chain of multiplications.
func fillPhilox(dst []uint32, key uint64, from int) {
	const m0, m1 = 0xD2511F53, 0xCD9E8D57
	const w0, w1 = 0x9E3779B9, 0xBB67AE85
	n := uint64(from) / 4
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
		to := (*[8]uint32)(dst)
		*to = [8]uint32{a0, a1, a2, a3, b0, b1, b2, b3}
		dst = dst[8:]
	}
	for ; len(dst) > 0; n++ {
		var last [4]uint32
		last[0], last[1], last[2], last[3] = philox(key, n)
		dst = dst[copy(dst, last[:]):]
	}
}

// random2 is random4 for 64 bits an element.
func random2[T any](value func(uint64) T) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		fillRandom2(elements[T](&c.Out, n), c.Attrs.(op.Random).Key, value)
		return nil
	}
}

func fillRandom2[T any](dst []T, key uint64, value func(uint64) T) {
	pool.For(len(dst), grainDear, func(lo, hi int) {
		for i := lo; i < hi; i += 2 {
			w0, w1, w2, w3 := philox(key, uint64(i)/2)
			dst[i] = value(uint64(w0) | uint64(w1)<<32)
			if i+1 < hi {
				dst[i+1] = value(uint64(w2) | uint64(w3)<<32)
			}
		}
	})
}

func randInt[T integer](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	a := c.Attrs.(op.Random)
	fillRandom2(elements[T](&c.Out, n), a.Key, func(w uint64) T {
		return T(a.Low + int64(random.Bounded(w, uint64(a.Span))))
	})
	return nil
}

// normals32 maps words to random.Normal32's numbers: the same float32 operations
// in the same order, each of them a vector function over many elements. Those that multiply
// and add do not fuse, or the bits would differ. The words are overwritten.
func normals32(dst []float32, words []uint32) {
	const piece = 512 // so that all buffers stay in the first-level cache
	s, buf := scratchOf[float32](5 * piece)
	for lo := 0; lo < len(dst); lo += piece {
		n := min(piece, len(dst)-lo)
		part := func(i int) []float32 { return buf[i*piece:][:n] }
		normalPiece(dst[lo:lo+n], words[lo:lo+n], part(0), part(1), part(2), part(3), part(4))
	}
	s.free()
}

func normalPiece(dst []float32, words []uint32, x, t, m, e, u []float32) {
	for i, w := range words {
		n := w >> 8
		flip := n>>23 - 1 // all ones for the negative half
		n = (n ^ flip) & (1<<23 - 1)
		words[i] = flip & (1 << 31) // the sign
		x[i] = float32(float32(2*n+1) * (1.0 / (1 << 24)))
		rest := float32(float32(2*(1<<23-1-n)+1) * (1.0 / (1 << 24))) // 1-x
		b := math.Float32bits(float32(rest * float32(1+x[i])))
		// (1-x²) is 2ᵉ·(1+m) with 1+m in [√½, √2): a mantissa below √½'s belongs to the
		// next lower power.
		low := (b&0x007fffff - 0x3504f3) >> 31
		e[i] = float32(int32(b>>23) - 126 - int32(low))
		m[i] = float32(math.Float32frombits(b&0x007fffff|(0x3f000000+low<<23)) - 1)
	}
	// t = -log(1-x²)
	polynomial(t, m, &logarithm)
	vec.SquareF32(u, m)
	vec.MulF32(dst, m, u)
	vec.MulF32(t, dst, t)
	vec.MulSF32(dst, e, -2.12194440e-4)
	vec.AddF32(t, t, dst)
	vec.MulSF32(u, u, 0.5)
	vec.SubF32(t, t, u)
	vec.AddF32(t, m, t)
	vec.MulSF32(e, e, 0.693359375)
	vec.AddF32(t, t, e)
	vec.NegF32(t, t)

	vec.SubSF32(u, t, 2.5)
	polynomial(dst, u, &centre)
	for i, v := range t {
		if v >= 5 { // one of a hundred and fifty
			u[0] = float32(float32(math.Sqrt(float64(v))) - 3)
			polynomial(dst[i:i+1], u[:1], &tails)
		}
	}
	vec.MulF32(dst, dst, x)
	vec.MulSF32(dst, dst, math.Sqrt2)
	for i, sign := range words {
		dst[i] = math.Float32frombits(math.Float32bits(dst[i]) | sign)
	}
}

// The polynomials of package random, highest power first.
var (
	logarithm = [9]float32{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
	centre    = [9]float32{2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941}
	tails     = [9]float32{-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682}
)

func polynomial(dst, x []float32, c *[9]float32) {
	vec.MulSF32(dst, x, c[0])
	vec.AddSF32(dst, dst, c[1])
	for _, k := range c[2:] {
		vec.MulF32(dst, dst, x)
		vec.AddSF32(dst, dst, k)
	}
}
