package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

func creation(name string, set dtype.Set, run func(m locus.Maker, c *Call) *tensor) *Op {
	return (&Op{Name: "Maker." + name, DTypes: set, NoGrad: noInput, Run: func(c *Call) []*tensor { return one(run(c.Device.As(c.DType), c)) }})
}

func createOps() []*Op {
	negative := "a negative size"
	return group("Creation",
		creation("Full", dtype.Any, func(m locus.Maker, c *Call) *tensor { return m.Full(c.Float("value"), c.Ints("shape")...) }).
			bad(locus.ErrShape, negative, func(d locus.Device) { d.Full(1, -1) }).
			bad(locus.ErrDType, "a fraction for integers", func(d locus.Device) { d.As(locus.Int64).Full(0.5, 2) }).
			bad(locus.ErrShape, "too many axes", func(d locus.Device) { d.Full(1, 1, 1, 1, 1, 1, 1, 1, 1, 1) }),
		creation("Zeros", dtype.Any, func(m locus.Maker, c *Call) *tensor { return m.Zeros(c.Ints("shape")...) }).
			bad(locus.ErrShape, negative, func(d locus.Device) { d.Zeros(2, -1) }),
		creation("Ones", dtype.Any, func(m locus.Maker, c *Call) *tensor { return m.Ones(c.Ints("shape")...) }).
			bad(locus.ErrShape, negative, func(d locus.Device) { d.Ones(2, -1) }),
		creation("Arange", dtype.Numbers, func(m locus.Maker, c *Call) *tensor { return m.Arange(c.Floats("args")...) }).
			bad(locus.ErrArgument, "a step of 0", func(d locus.Device) { d.Arange(0, 1, 0) }).
			bad(locus.ErrArgument, "no arguments", func(d locus.Device) { d.Arange() }).
			bad(locus.ErrDType, "bools", func(d locus.Device) { d.As(locus.Bool).Arange(2) }),
		creation("Linspace", dtype.Floats, func(m locus.Maker, c *Call) *tensor { return m.Linspace(c.Float("start"), c.Float("stop"), c.Int("n")) }).
			bad(locus.ErrDType, "integers", func(d locus.Device) { d.As(locus.Int64).Linspace(0, 1, 2) }).
			bad(locus.ErrShape, negative, func(d locus.Device) { d.Linspace(0, 1, -2) }),
		creation("Eye", dtype.Any, func(m locus.Maker, c *Call) *tensor {
			if c.Has("columns") {
				return m.Eye(c.Int("n"), c.Int("columns"))
			}
			return m.Eye(c.Int("n"))
		}).
			bad(locus.ErrShape, negative, func(d locus.Device) { d.Eye(-2) }),
		creation("From", dtype.Any, func(m locus.Maker, c *Call) *tensor {
			if shape := c.Ints("shape"); len(shape) > 0 {
				return m.From(c.Floats("data"), shape...)
			}
			return m.From(c.Floats("data")[0])
		}).
			bad(locus.ErrShape, "another number of elements", func(d locus.Device) { d.From([]float32{1, 2, 3}, 2, 2) }).
			bad(locus.ErrShape, "ragged slices", func(d locus.Device) { d.From([][]float32{{1, 2}, {3}}) }).
			bad(locus.ErrDType, "a string", func(d locus.Device) { d.From("1") }),
		unary("ZerosLike", dtype.Any, (*tensor).ZerosLike).with(func(o *Op) { o.NoGrad = noInput }),
		unary("OnesLike", dtype.Any, (*tensor).OnesLike).with(func(o *Op) { o.NoGrad = noInput }),
	)
}
