package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.Full, dtype.Bool, full(func(a *op.Create) uint8 { return b2u(a.IValue != 0) }))
	register(op.Full, dtype.Uint8, full(func(a *op.Create) uint8 { return uint8(a.IValue) }))
	register(op.Full, dtype.Int32, full(func(a *op.Create) int32 { return int32(a.IValue) }))
	register(op.Full, dtype.Int64, full(func(a *op.Create) int64 { return a.IValue }))
	register(op.Full, dtype.Float32, full(func(a *op.Create) float32 { return float32(a.Value) }))
	register(op.Full, dtype.Float64, full(func(a *op.Create) float64 { return a.Value }))

	register(op.Arange, dtype.Uint8, arange(func(a *op.Create, i int) uint8 { return uint8(a.IValue + int64(i)*a.IStep) }))
	register(op.Arange, dtype.Int32, arange(func(a *op.Create, i int) int32 { return int32(a.IValue + int64(i)*a.IStep) }))
	register(op.Arange, dtype.Int64, arange(func(a *op.Create, i int) int64 { return a.IValue + int64(i)*a.IStep }))
	register(op.Arange, dtype.Float32, arange(func(a *op.Create, i int) float32 { return float32(ramp(a, i)) }))
	register(op.Arange, dtype.Float64, arange(ramp))

	for _, h := range halfTypes {
		register(op.Full, h.dtype, full(func(a *op.Create) uint16 { return h.bits(a.Value) }))
		register(op.Arange, h.dtype, arange(func(a *op.Create, i int) uint16 { return h.bits(ramp(a, i)) }))
	}
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
