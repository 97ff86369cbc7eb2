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
	ops := []*Op{
		reduce("Sum", n, (*tensor).Sum),
		reduce("SumKeep", n, (*tensor).SumKeep),
		reduce("Prod", n, (*tensor).Prod),
		nothing(reduce("Max", dtype.Any, (*tensor).Max), (*tensor).Max),
		nothing(reduce("MaxKeep", dtype.Any, (*tensor).MaxKeep), (*tensor).MaxKeep),
		nothing(reduce("Min", dtype.Any, (*tensor).Min), (*tensor).Min),
		nothing(reduce("MinKeep", dtype.Any, (*tensor).MinKeep), (*tensor).MinKeep),
		reduce("LogSumExp", f, (*tensor).LogSumExp),
		reduce("LogSumExpKeep", f, (*tensor).LogSumExpKeep),
		reduce("Mean", f, (*tensor).Mean),
		reduce("MeanKeep", f, (*tensor).MeanKeep),
		reduce("Var", f, (*tensor).Var),
		reduce("VarBiased", f, (*tensor).VarBiased),
		reduce("Std", f, (*tensor).Std),
		reduce("Norm", f, (*tensor).Norm),
		{Name: "Tensor.NormP", DTypes: f, Run: func(c *Call) []*tensor { return one(c.In[0].NormP(c.Float("p"), c.Ints("axes")...)) },
			Bad: []Bad{{locus.ErrArgument, "a negative p", func(d locus.Device) { d.Ones(2).NormP(-1) }}}},
	}
	for _, o := range []*Op{
		reduce("Any", dtype.Bools, (*tensor).Any),
		reduce("All", dtype.Bools, (*tensor).All),
		argument("ArgMax", (*tensor).ArgMax),
		argument("ArgMin", (*tensor).ArgMin),
	} {
		o.NoGrad = discrete
		ops = append(ops, o)
	}
	ops = append(ops,
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

func argument(name string, f func(t *tensor, axis int) *tensor) *Op {
	return (&Op{Name: "Tensor." + name, DTypes: dtype.Numbers, Run: func(c *Call) []*tensor { return one(f(c.In[0], c.Int("axis"))) }}).
		bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2, 3), -3) }).
		bad(locus.ErrAxis, "a scalar", func(d locus.Device) { f(d.Ones(), 0) }).
		bad(locus.ErrShape, "an empty axis", func(d locus.Device) { f(d.Ones(2, 0), 1) })
}
