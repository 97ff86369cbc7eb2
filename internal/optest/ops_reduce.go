package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

func reduce(name string, set dtype.Set, f func(t *tensor, axes ...int) *tensor) *Op {
	ones := func(d locus.Device) *tensor { return d.As(set.List()[0]).Ones(2, 3) }
	return (&Op{Name: "Tensor." + name, DTypes: set, Run: func(c *Call) []*tensor { return one(f(c.In[0], c.Ints("axes")...)) }}).
		bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(ones(d), 2) }).
		bad(locus.ErrAxis, "an axis named twice", func(d locus.Device) { f(ones(d), 1, -1) })
}

// nothing adds the error of reducing an empty axis.
func nothing(o *Op, f func(t *tensor, axes ...int) *tensor) *Op {
	return o.bad(locus.ErrShape, "an empty axis", func(d locus.Device) { f(d.Ones(2, 0), 1) })
}

func reduceOps() []*Op {
	n, f := dtype.Numbers, dtype.Floats
	spread := func(name string, f func(t *tensor, o locus.VarOptions, axes ...int) *tensor) *Op {
		return (&Op{Name: "Tensor." + name, DTypes: dtype.Floats, Run: func(c *Call) []*tensor {
			return one(f(c.In[0], locus.VarOptions{Correction: c.Int("correction"), Keep: c.Bool("keep")}, c.Ints("axes")...))
		}}).bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2, 3), locus.VarOptions{}, 2) })
	}
	quantile := func(name string, f func(t *tensor, q float64, axes ...int) *tensor) *Op {
		return (&Op{Name: "Tensor." + name, DTypes: dtype.Floats, Run: func(c *Call) []*tensor { return one(f(c.In[0], c.Float("q"), c.Ints("axes")...)) }}).
			bad(locus.ErrArgument, "a percentage", func(d locus.Device) { f(d.Ones(2), 50) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2), 0.5, 1) }).
			bad(locus.ErrShape, "an empty axis", func(d locus.Device) { f(d.Ones(2, 0), 0.5, 1) })
	}
	ops := []*Op{
		reduce("Sum", dtype.Any, (*tensor).Sum),
		reduce("SumKeep", dtype.Any, (*tensor).SumKeep),
		reduce("Prod", n, (*tensor).Prod),
		reduce("ProdKeep", n, (*tensor).ProdKeep),
		nothing(reduce("Max", dtype.Any, (*tensor).Max), (*tensor).Max),
		nothing(reduce("MaxKeep", dtype.Any, (*tensor).MaxKeep), (*tensor).MaxKeep),
		nothing(reduce("Min", dtype.Any, (*tensor).Min), (*tensor).Min),
		nothing(reduce("MinKeep", dtype.Any, (*tensor).MinKeep), (*tensor).MinKeep),
		reduce("LogSumExp", f, (*tensor).LogSumExp),
		reduce("LogSumExpKeep", f, (*tensor).LogSumExpKeep),
		reduce("Mean", f, (*tensor).Mean),
		reduce("MeanKeep", f, (*tensor).MeanKeep),
		reduce("Var", f, (*tensor).Var),
		reduce("VarKeep", f, (*tensor).VarKeep),
		spread("VarWith", (*tensor).VarWith),
		reduce("VarBiased", f, (*tensor).VarBiased),
		reduce("Std", f, (*tensor).Std),
		reduce("StdKeep", f, (*tensor).StdKeep),
		spread("StdWith", (*tensor).StdWith),
		nothing(reduce("Median", n, (*tensor).Median), (*tensor).Median),
		nothing(reduce("MedianKeep", n, (*tensor).MedianKeep), (*tensor).MedianKeep),
		quantile("Quantile", (*tensor).Quantile),
		quantile("QuantileKeep", (*tensor).QuantileKeep),
		reduce("Norm", f, (*tensor).Norm),
		reduce("NormKeep", f, (*tensor).NormKeep),
		{Name: "Tensor.NormPKeep", DTypes: f, Run: func(c *Call) []*tensor { return one(c.In[0].NormPKeep(c.Float("p"), c.Ints("axes")...)) },
			Bad: []Bad{{locus.ErrArgument, "a negative p", func(d locus.Device) { d.Ones(2).NormPKeep(-1) }}}},
		{Name: "Tensor.NormP", DTypes: f, Run: func(c *Call) []*tensor { return one(c.In[0].NormP(c.Float("p"), c.Ints("axes")...)) },
			Bad: []Bad{{locus.ErrArgument, "a negative p", func(d locus.Device) { d.Ones(2).NormP(-1) }}}},
	}
	for _, o := range []*Op{
		reduce("Any", dtype.Bools, (*tensor).Any),
		reduce("AnyKeep", dtype.Bools, (*tensor).AnyKeep),
		reduce("All", dtype.Bools, (*tensor).All),
		reduce("AllKeep", dtype.Bools, (*tensor).AllKeep),
		argument("ArgMax", (*tensor).ArgMax),
		argument("ArgMaxKeep", (*tensor).ArgMaxKeep),
		argument("ArgMin", (*tensor).ArgMin),
		argument("ArgMinKeep", (*tensor).ArgMinKeep),
	} {
		o.NoGrad = discrete
		ops = append(ops, o)
	}
	ops = append(ops,
		extreme("MaxWithPositions", (*tensor).MaxWithPositions),
		extreme("MaxWithPositionsKeep", (*tensor).MaxWithPositionsKeep),
		extreme("MinWithPositions", (*tensor).MinWithPositions),
		extreme("MinWithPositionsKeep", (*tensor).MinWithPositionsKeep),
		(&Op{Name: "Tensor.MatMul", DTypes: n, Run: func(c *Call) []*tensor { return one(c.In[0].MatMul(c.In[1])) }}).
			bad(locus.ErrShape, "inner sizes that differ", func(d locus.Device) { d.Ones(2, 3).MatMul(d.Ones(2, 3)) }).
			bad(locus.ErrShape, "batches that do not broadcast", func(d locus.Device) { d.Ones(2, 2, 3).MatMul(d.Ones(3, 3, 2)) }).
			bad(locus.ErrShape, "a scalar", func(d locus.Device) { d.Ones().MatMul(d.Ones(3, 2)) }).
			bad(locus.ErrDType, "two element types", func(d locus.Device) { d.Ones(2, 2).MatMul(d.As(locus.Float64).Ones(2, 2)) }),
		(&Op{Name: "Tensor.Dot", DTypes: n, Run: func(c *Call) []*tensor { return one(c.In[0].Dot(c.In[1])) }}).
			bad(locus.ErrShape, "a matrix", func(d locus.Device) { d.Ones(2, 2).Dot(d.Ones(2)) }).
			bad(locus.ErrShape, "two lengths", func(d locus.Device) { d.Ones(3).Dot(d.Ones(2)) }),
	)
	return group("Reductions and products", ops...)
}

func argument(name string, f func(t *tensor, axis ...int) *tensor) *Op {
	return (&Op{Name: "Tensor." + name, DTypes: dtype.Numbers, Run: func(c *Call) []*tensor {
		if !c.Has("axis") {
			return one(f(c.In[0]))
		}
		return one(f(c.In[0], c.Int("axis")))
	}}).
		bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2, 3), -3) }).
		bad(locus.ErrAxis, "a scalar", func(d locus.Device) { f(d.Ones(), 0) }).
		bad(locus.ErrShape, "an empty axis", func(d locus.Device) { f(d.Ones(2, 0), 1) }).
		bad(locus.ErrShape, "nothing at all", func(d locus.Device) { f(d.Ones(2, 0)) }).
		bad(locus.ErrArgument, "two axes", func(d locus.Device) { f(d.Ones(2, 2), 0, 1) })
}

func extreme(name string, f func(t *tensor, axis int) (values, positions *tensor)) *Op {
	return (&Op{Name: "Tensor." + name, DTypes: dtype.Numbers, Run: func(c *Call) []*tensor {
		v, i := f(c.In[0], c.Int("axis"))
		return []*tensor{v, i}
	}}).
		bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2, 3), -3) }).
		bad(locus.ErrShape, "an empty axis", func(d locus.Device) { f(d.Ones(2, 0), 1) })
}
