package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
)

func init() {
	register(op.Full, dtype.Bool, full(func(a *op.Create) uint8 { return b2u(a.IValue != 0) }))
	register(op.Full, dtype.Uint8, full(func(a *op.Create) uint8 { return uint8(a.IValue) }))
	register(op.Full, dtype.Int32, full(func(a *op.Create) int32 { return int32(a.IValue) }))
	register(op.Full, dtype.Int64, full(func(a *op.Create) int64 { return a.IValue }))
	register(op.Full, dtype.Float16, full(func(a *op.Create) dtype.F16 { return dtype.ToF16(narrow(a.Value)) }))
	register(op.Full, dtype.BFloat16, full(func(a *op.Create) dtype.BF16 { return dtype.ToBF16(narrow(a.Value)) }))
	register(op.Full, dtype.Float32, full(func(a *op.Create) float32 { return float32(a.Value) }))
	register(op.Full, dtype.Float64, full(func(a *op.Create) float64 { return a.Value }))

	register(op.Arange, dtype.Uint8, arange(func(a *op.Create, i int) uint8 { return uint8(a.IValue + int64(i)*a.IStep) }))
	register(op.Arange, dtype.Int32, arange(func(a *op.Create, i int) int32 { return int32(a.IValue + int64(i)*a.IStep) }))
	register(op.Arange, dtype.Int64, arange(func(a *op.Create, i int) int64 { return a.IValue + int64(i)*a.IStep }))
	register(op.Arange, dtype.Float16, arange(func(a *op.Create, i int) dtype.F16 { return dtype.ToF16(narrow(ramp(a, i))) }))
	register(op.Arange, dtype.BFloat16, arange(func(a *op.Create, i int) dtype.BF16 { return dtype.ToBF16(narrow(ramp(a, i))) }))
	register(op.Arange, dtype.Float32, arange(func(a *op.Create, i int) float32 { return float32(ramp(a, i)) }))
	register(op.Arange, dtype.Float64, arange(ramp))

	register(op.RandUniform, dtype.Float32, random4(random.Uniform32))
	register(op.RandUniform, dtype.Float64, random2(random.Uniform64))
	register(op.RandUniform, dtype.Float16, random4(func(w uint32) dtype.F16 {
		return min(dtype.ToF16(random.Uniform32(w)), 0x3bff) // the largest below 1
	}))
	register(op.RandUniform, dtype.BFloat16, random4(func(w uint32) dtype.BF16 {
		return min(dtype.ToBF16(random.Uniform32(w)), 0x3f7f)
	}))
	register(op.RandNormal, dtype.Float32, random4(random.Normal32))
	register(op.RandNormal, dtype.Float64, random2(random.Normal64))
	register(op.RandNormal, dtype.Float16, random4(func(w uint32) dtype.F16 { return dtype.ToF16(random.Normal32(w)) }))
	register(op.RandNormal, dtype.BFloat16, random4(func(w uint32) dtype.BF16 { return dtype.ToBF16(random.Normal32(w)) }))
	register(op.RandInt, dtype.Uint8, randInt[uint8])
	register(op.RandInt, dtype.Int32, randInt[int32])
	register(op.RandInt, dtype.Int64, randInt[int64])
	register(op.RandBits, dtype.Int64, random2(random.Bits63))
}

// narrow is a float64 on its way to half precision.
func narrow(x float64) float32 { return one(roundOdd, x) }

func full[T any](value func(*op.Create) T) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		a := c.Attrs.(op.Create)
		v, dst := value(&a), elements[T](&c.Out, n)
		if n <= grainCheap {
			fillWords(dst, v)
			return nil
		}
		pool.For(n, grainCheap, func(lo, hi int) { fillWords(dst[lo:hi], v) })
		return nil
	}
}

func ramp(a *op.Create, i int) float64 {
	// The conversion keeps the two roundings apart on processors that would fuse them.
	return a.Value + float64(float64(i)*a.Step)
}

func arange[T any](value func(*op.Create, int) T) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		a, dst := c.Attrs.(op.Create), elements[T](&c.Out, n)
		pool.For(n, grainCheap, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				dst[i] = value(&a, i)
			}
		})
		return nil
	}
}

// random4 makes a kernel of a function of 32 random bits: four elements share
// a block of the generator.
func random4[T any](value func(uint32) T) kernel {
	return func(c *backend.Call) error {
		n := c.Out.Elements()
		if n == 0 {
			return nil
		}
		key, dst := c.Attrs.(op.Random).Key, elements[T](&c.Out, n)
		pool.For(n, grainDear, func(lo, hi int) { // grainDear is a multiple of 4
			for i := lo; i < hi; i += 4 {
				w := random.Philox(key, uint64(i)/4)
				to := dst[i:min(i+4, hi)]
				for j := range to {
					to[j] = value(w[j])
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
			w := random.Philox(key, uint64(i)/2)
			dst[i] = value(uint64(w[0]) | uint64(w[1])<<32)
			if i+1 < hi {
				dst[i+1] = value(uint64(w[2]) | uint64(w[3])<<32)
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
