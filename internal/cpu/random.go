package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
)

// Package random defines the numbers, an element at a time. Here four (of 32
// bits) or two (of 64) are made from each block of the generator, and the
// functions are written out, because they decide how long a network takes to start.

func init() {
	register(op.RandUniform, dtype.Float32, random4(random.Uniform32))
	register(op.RandUniform, dtype.Float64, random2(random.Uniform64))
	register(op.RandUniform, dtype.Float16, random4(func(w uint32) dtype.F16 {
		return min(dtype.ToF16(random.Uniform32(w)), 0x3bff) // the largest below 1
	}))
	register(op.RandUniform, dtype.BFloat16, random4(func(w uint32) dtype.BF16 {
		return min(dtype.ToBF16(random.Uniform32(w)), 0x3f7f)
	}))
	register(op.RandNormal, dtype.Float32, randNormal32)
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
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		key, dst := c.Attrs.(op.Random).Key, elements[T](&c.Out, n)
		pool.For(n, grainDear, func(lo, hi int) { // grainDear is a multiple of 4
			i := lo
			for ; i+4 <= hi; i += 4 {
				w0, w1, w2, w3 := philox(key, uint64(i)/4)
				to := dst[i : i+4 : i+4]
				to[0], to[1], to[2], to[3] = value(w0), value(w1), value(w2), value(w3)
			}
			if i < hi {
				w0, w1, w2, _ := philox(key, uint64(i)/4)
				for j, w := range [3]uint32{w0, w1, w2} {
					if i+j < hi {
						dst[i+j] = value(w)
					}
				}
			}
		})
		return nil
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

// randNormal32 makes random.Normal32's numbers: the same float32 operations in
// the same order, but a step at a time for many elements, so that the processor works on
// several at once instead of waiting for one after the other.
func randNormal32(c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	key, dst := c.Attrs.(op.Random).Key, elements[float32](&c.Out, n)
	pool.For(n, grainDear, func(lo, hi int) {
		s, buf := scratchOf[uint32](chunk)
		for ; lo < hi; lo += chunk {
			words := buf[:min(chunk, hi-lo)]
			fillPhilox(words, key, lo)
			normals32(dst[lo:lo+len(words)], words)
		}
		s.free()
	})
	return nil
}

// fillPhilox gives the words of elements from number `from` on, a multiple of 4.
func fillPhilox(dst []uint32, key uint64, from int) {
	i := 0
	for ; i+4 <= len(dst); i += 4 {
		to := dst[i : i+4 : i+4]
		to[0], to[1], to[2], to[3] = philox(key, uint64(from+i)/4)
	}
	if i < len(dst) {
		var last [4]uint32
		last[0], last[1], last[2], last[3] = philox(key, uint64(from+i)/4)
		copy(dst[i:], last[:])
	}
}

// normals32 maps words, of which there are at most chunk, to normal numbers. The words are
// overwritten. Conversions keep the compiler from fusing operations.
func normals32(dst []float32, words []uint32) {
	s, buf := scratchOf[float32](2 * chunk)
	x, t := buf[:len(dst)], buf[chunk:][:len(dst)]
	words = words[:len(dst)]
	for i, w := range words {
		n := w >> 8
		flip := n>>23 - 1 // all ones for the negative half
		n = (n ^ flip) & (1<<23 - 1)
		words[i] = flip & (1 << 31) // the sign
		x[i] = float32(float32(2*n+1) * (1.0 / (1 << 24)))
		tail := float32(float32(2*(1<<23-1-n)+1) * (1.0 / (1 << 24)))
		t[i] = float32(tail * float32(1+x[i]))
	}
	for i, v := range t {
		b := math.Float32bits(v)
		// Into [√½, √2), by the bits: a mantissa below √½'s belongs to the next lower power.
		low := (b&0x007fffff - 0x3504f3) >> 31
		e := int32(b>>23) - 126 - int32(low)
		m := math.Float32frombits(b&0x007fffff | (0x3f000000 + low<<23))
		m = float32(m - 1)
		z := float32(m * m)
		p := float32(float32(7.0376836292e-2)*m) + -1.1514610310e-1
		p = float32(p*m) + 1.1676998740e-1
		p = float32(p*m) + -1.2420140846e-1
		p = float32(p*m) + 1.4249322787e-1
		p = float32(p*m) + -1.6668057665e-1
		p = float32(p*m) + 2.0000714765e-1
		p = float32(p*m) + -2.4999993993e-1
		p = float32(p*m) + 3.3333331174e-1
		y := float32(float32(m*z) * p)
		fe := float32(e)
		y = float32(y + float32(fe*-2.12194440e-4))
		y = float32(y - float32(0.5*z))
		y = float32(m + y)
		t[i] = -float32(y + float32(fe*0.693359375))
	}
	for i, v := range t {
		var p float32
		if v < 5 {
			v = float32(v - 2.5)
			p = float32(float32(2.81022636e-08)*v) + 3.43273939e-07
			p = float32(p*v) + -3.5233877e-06
			p = float32(p*v) + -4.39150654e-06
			p = float32(p*v) + 0.00021858087
			p = float32(p*v) + -0.00125372503
			p = float32(p*v) + -0.00417768164
			p = float32(p*v) + 0.246640727
			p = float32(p*v) + 1.50140941
		} else {
			v = float32(float32(math.Sqrt(float64(v))) - 3)
			p = float32(float32(-0.000200214257)*v) + 0.000100950558
			p = float32(p*v) + 0.00134934322
			p = float32(p*v) + -0.00367342844
			p = float32(p*v) + 0.00573950773
			p = float32(p*v) + -0.0076224613
			p = float32(p*v) + 0.00943887047
			p = float32(p*v) + 1.00167406
			p = float32(p*v) + 2.83297682
		}
		dst[i] = math.Float32frombits(math.Float32bits(float32(float32(p*x[i])*math.Sqrt2)) | words[i])
	}
	s.free()
}
