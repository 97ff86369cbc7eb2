//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.Full] = (*Device).runFull
	runners[op.Arange] = (*Device).runArange
	for _, id := range []op.ID{op.RandUniform, op.RandNormal, op.RandInt, op.RandBits} {
		runners[id] = (*Device).runRandom
	}
}

// The parameters of kernels/create.cu.
type (
	fillParams  struct{ out, bits, n uint64 }
	rangeParams struct {
		out, n        uint64
		start, step   float64
		istart, istep int64
	}
	randomParams struct {
		out, n, key uint64
		low         int64
		span, first uint64
	}
)

func (d *Device) runFull(c *backend.Call) error {
	a, t := c.Attrs.(op.Create), c.Out.DType
	return d.fill(c.Out.Block.Addr, t, valueBits(t, a.Value, a.IValue), c.Out.Elements())
}

// fill queues writing n elements of one value.
func (d *Device) fill(out uintptr, t dtype.DType, bits uint64, n int) error {
	p := fillParams{uint64(out), bits, uint64(n)}
	return runKernel(d, "create", "full_"+sizeName(t), &p, grid{x: ceil(n, blockThreads*lanes(t)), threads: blockThreads})
}

// valueBits returns a value in the type's own representation.
func valueBits(t dtype.DType, f float64, i int64) uint64 {
	switch {
	case t.IsFloat():
		return elem.Bits(t, f)
	case t == dtype.Bool:
		if i != 0 {
			return 1
		}
		return 0
	}
	return uint64(i)
}

func (d *Device) runArange(c *backend.Call) error {
	a, n := c.Attrs.(op.Create), c.Out.Elements()
	p := rangeParams{uint64(c.Out.Block.Addr), uint64(n), a.Value, a.Step, a.IValue, a.IStep}
	return runKernel(d, "create", "arange_"+typeName(c.Out.DType), &p, oneEach(n))
}

func (d *Device) runRandom(c *backend.Call) error {
	a, n := c.Attrs.(op.Random), c.Out.Elements()
	p := randomParams{uint64(c.Out.Block.Addr), uint64(n), a.Key, a.Low, uint64(a.Span), a.First}
	per := 2 // elements of one counter block
	if t := c.Out.DType; t.IsFloat() && t != dtype.Float64 {
		per = 4
	}
	return runKernel(d, "create", c.Op.String()+"_"+typeName(c.Out.DType), &p, grid{x: ceil(n+int(a.First%uint64(per)), blockThreads*per), threads: blockThreads})
}
