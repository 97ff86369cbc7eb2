package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
)

// Package random defines the numbers, an element at a time; package vec makes
// many at once, because they decide how long a network takes to start.

func init() {
	register(op.RandUniform, dtype.Float32, randomWords(vec.Uniform))
	register(op.RandUniform, dtype.Float64, random2(random.Uniform64))
	register(op.RandNormal, dtype.Float32, randomWords(vec.Normal))
	register(op.RandNormal, dtype.Float64, random2(random.Normal64))
	for _, h := range halfTypes {
		register(op.RandUniform, h.dtype, h.uniform)
		register(op.RandNormal, h.dtype, h.normal)
	}
	register(op.RandInt, dtype.Uint8, randInt[uint8])
	register(op.RandInt, dtype.Int32, randInt[int32])
	register(op.RandInt, dtype.Int64, randInt[int64])
	register(op.RandBits, dtype.Int64, random2(random.Bits63))
}

// random4 makes a kernel of a function of 32 random bits.
func random4[T any](value func(uint32) T) kernel {
	return randomWords(func(dst []T, words []uint32) {
		for i, w := range words[:len(dst)] {
			dst[i] = value(w)
		}
	})
}

// randomWords makes a kernel of a function of up to chunk words.
func randomWords[T any](values func(dst []T, words []uint32)) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		a, dst := c.Attrs.(op.Random), elements[T](&c.Out, n)
		pool.For(n, grainExpensive, func(lo, hi int) { // grainExpensive is a multiple of chunk, chunk of 8
			s, buf := scratchOf[uint32](chunk + 4)
			for ; lo < hi; lo += chunk {
				from, size := a.First+uint64(lo), min(chunk, hi-lo)
				words := buf[:int(from%4)+size] // from the beginning of a counter block
				vec.Philox(words, a.Key, from/4)
				values(dst[lo:lo+size], words[from%4:])
			}
			s.free()
		})
		return nil
	}
}

// random2 is random4 for 64 bits per element.
func random2[T any](value func(uint64) T) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		fillRandom2(elements[T](&c.Out, n), c.Attrs.(op.Random), value)
		return nil
	}
}

func fillRandom2[T any](dst []T, a op.Random, value func(uint64) T) {
	pool.For(len(dst), grainExpensive, func(lo, hi int) {
		s, buf := scratchOf[uint32](chunk + 4)
		for ; lo < hi; lo += chunk / 2 {
			part, from := dst[lo:min(lo+chunk/2, hi)], a.First+uint64(lo)
			words := buf[:2*(int(from%2)+len(part))]
			vec.Philox(words, a.Key, from/2)
			words = words[2*(from%2):]
			for i := range part {
				part[i] = value(uint64(words[2*i]) | uint64(words[2*i+1])<<32)
			}
		}
		s.free()
	})
}

func randInt[T integer](c *backend.Call) error {
	n := c.Out.Elements()
	if n == 0 {
		return nil
	}
	a := c.Attrs.(op.Random)
	fillRandom2(elements[T](&c.Out, n), a, func(w uint64) T {
		return T(a.Low + int64(random.Bounded(w, uint64(a.Span))))
	})
	return nil
}
