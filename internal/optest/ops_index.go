package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

func indexOps() []*Op {
	odd := []int{1}
	at := func(d locus.Device, i ...int64) *tensor { return d.From(i) }
	sorted := func(o *Op, f func(t *tensor, axis int)) *Op {
		return o.bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2, 3), 2) })
	}
	return group("Indexing and ordering",
		(&Op{Name: "Tensor.Gather", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(c.In[0].Gather(c.Int("axis"), c.In[1])) }}).
			bad(locus.ErrIndex, "an index outside", func(d locus.Device) { d.Ones(3).Gather(0, at(d, 3)) }).
			bad(locus.ErrIndex, "a negative index", func(d locus.Device) { d.Ones(3).Gather(0, at(d, -1)) }).
			bad(locus.ErrShape, "an index of another rank", func(d locus.Device) { d.Ones(3, 2).Gather(0, at(d, 1)) }).
			bad(locus.ErrDType, "fractions as index", func(d locus.Device) { d.Ones(3).Gather(0, d.Ones(2)) }),
		(&Op{Name: "Tensor.Take", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(c.In[0].Take(c.Int("axis"), c.In[1])) }}).
			bad(locus.ErrIndex, "an index outside", func(d locus.Device) { d.Ones(3, 2).Take(0, at(d, 0, 3)) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(3, 2).Take(2, at(d, 0)) }).
			bad(locus.ErrDType, "fractions as index", func(d locus.Device) { d.Ones(3).Take(0, d.Ones(2)) }),
		(&Op{Name: "Tensor.ScatterAdd", DTypes: dtype.Numbers, Run: func(c *Call) []*tensor { return one(c.In[0].ScatterAdd(c.Int("axis"), c.In[1], c.In[2])) }}).
			bad(locus.ErrIndex, "an index outside", func(d locus.Device) { d.Ones(3).ScatterAdd(0, at(d, 3), d.Ones(1)) }).
			bad(locus.ErrShape, "a source of another shape", func(d locus.Device) { d.Ones(3).ScatterAdd(0, at(d, 0), d.Ones(2)) }).
			bad(locus.ErrDType, "two element types", func(d locus.Device) { d.Ones(3).ScatterAdd(0, at(d, 0), at(d, 1)) }),
		(&Op{Name: "Tensor.Scatter", DTypes: dtype.Any, Run: func(c *Call) []*tensor {
			if c.Has("value") {
				return one(c.In[0].Scatter(c.Int("axis"), c.In[1], c.Float("value")))
			}
			return one(c.In[0].Scatter(c.Int("axis"), c.In[1], c.In[2]))
		}}).
			bad(locus.ErrIndex, "an index outside", func(d locus.Device) { d.Ones(3).Scatter(0, at(d, 3), d.Ones(1)) }).
			bad(locus.ErrIndex, "a negative index and a number", func(d locus.Device) { d.Ones(3).Scatter(0, at(d, -1), 1) }).
			bad(locus.ErrShape, "a source of another shape", func(d locus.Device) { d.Ones(3).Scatter(0, at(d, 0), d.Ones(2)) }).
			bad(locus.ErrDType, "two element types", func(d locus.Device) { d.Ones(3).Scatter(0, at(d, 0), at(d, 1)) }).
			bad(locus.ErrArgument, "what is no number", func(d locus.Device) { d.Ones(3).Scatter(0, at(d, 0), "1") }),
		(&Op{Name: "Tensor.IndexAdd", DTypes: dtype.Numbers, Run: func(c *Call) []*tensor { return one(c.In[0].IndexAdd(c.Int("axis"), c.In[1], c.In[2])) }}).
			bad(locus.ErrIndex, "an index outside", func(d locus.Device) { d.Ones(3, 2).IndexAdd(0, at(d, 3), d.Ones(1, 2)) }).
			bad(locus.ErrShape, "a source of another shape", func(d locus.Device) { d.Ones(3, 2).IndexAdd(0, at(d, 0), d.Ones(2, 2)) }),
		(&Op{Name: "Tensor.OneHot", DTypes: dtype.Ints, NoGrad: discrete, Run: func(c *Call) []*tensor { return one(c.In[0].OneHot(c.Int("n"))) },
			Waits: func(c *Call) bool { return c.Int("n") == -1 }}).
			bad(locus.ErrArgument, "a negative number of classes", func(d locus.Device) { at(d, 1).OneHot(-2) }),
		(&Op{Name: "Tensor.NonZero", DTypes: dtype.Any, NoGrad: discrete, Run: func(c *Call) []*tensor { return one(c.In[0].NonZero()) }}).waits(),
		(&Op{Name: "Tensor.MaskedSelect", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(c.In[0].MaskedSelect(c.In[1])) }}).waits().
			bad(locus.ErrDType, "a mask that is not bool", func(d locus.Device) { d.Ones(2).MaskedSelect(d.Ones(2)) }).
			bad(locus.ErrShape, "shapes that do not broadcast", func(d locus.Device) { d.Ones(2).MaskedSelect(d.As(locus.Bool).Ones(3)) }),
		(&Op{Name: "Tensor.Unique", DTypes: dtype.Any, NoGrad: "it only compares", Run: func(c *Call) []*tensor {
			v, i, n := c.In[0].Unique()
			return []*tensor{v, i, n}
		}}).waits(),
		(&Op{Name: "Tensor.SearchSorted", DTypes: dtype.Numbers, NoGrad: discrete, Run: func(c *Call) []*tensor {
			return one(c.In[0].SearchSorted(c.In[1], c.Bool("right")))
		}}).
			bad(locus.ErrShape, "a matrix", func(d locus.Device) { d.Ones(2, 2).SearchSorted(d.Ones(1), false) }).
			bad(locus.ErrDType, "two element types", func(d locus.Device) { d.Ones(2).SearchSorted(at(d, 1), false) }),
		(&Op{Name: "Concat", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(locus.Concat(c.Int("axis"), c.In...)) }}).
			bad(locus.ErrArgument, "nothing", func(d locus.Device) { locus.Concat(0) }).
			bad(locus.ErrShape, "sizes that differ on another axis", func(d locus.Device) { locus.Concat(0, d.Ones(2, 3), d.Ones(2, 2)) }).
			bad(locus.ErrShape, "two ranks", func(d locus.Device) { locus.Concat(0, d.Ones(2, 3), d.Ones(2)) }).
			bad(locus.ErrDType, "two element types", func(d locus.Device) { locus.Concat(0, d.Ones(2), at(d, 1)) }).
			bad(locus.ErrAxis, "scalars", func(d locus.Device) { locus.Concat(0, d.Ones(), d.Ones()) }),
		(&Op{Name: "Stack", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(locus.Stack(c.Int("axis"), c.In...)) }}).
			bad(locus.ErrArgument, "nothing", func(d locus.Device) { locus.Stack(0) }).
			bad(locus.ErrShape, "two shapes", func(d locus.Device) { locus.Stack(0, d.Ones(2), d.Ones(3)) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { locus.Stack(2, d.Ones(2), d.Ones(2)) }),
		(&Op{Name: "Tensor.Pad", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(c.In[0].Pad(c.Float("value"), c.Ints("amounts")...)) }}).
			bad(locus.ErrArgument, "an odd number of amounts", func(d locus.Device) { d.Ones(2).Pad(0, odd...) }).
			bad(locus.ErrShape, "cutting more than there is", func(d locus.Device) { d.Ones(2).Pad(0, -2, -1) }),
		(&Op{Name: "Tensor.CumSum", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(c.In[0].CumSum(c.Int("axis"))) }}).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(2).CumSum(1) }),
		cumulated("CumMax", (*tensor).CumMax),
		cumulated("CumMin", (*tensor).CumMin),
		sorted(&Op{Name: "Tensor.ArgSort", DTypes: dtype.Any, NoGrad: discrete, Run: func(c *Call) []*tensor { return one(c.In[0].ArgSort(c.Int("axis"), c.Bool("descending"))) }},
			func(t *tensor, axis int) { t.ArgSort(axis, false) }),
		sorted(&Op{Name: "Tensor.Sort", DTypes: dtype.Any, Run: func(c *Call) []*tensor {
			v, i := c.In[0].Sort(c.Int("axis"), c.Bool("descending"))
			return []*tensor{v, i}
		}}, func(t *tensor, axis int) { t.Sort(axis, false) }),
		sorted(&Op{Name: "Tensor.TopK", DTypes: dtype.Any, Run: func(c *Call) []*tensor {
			v, i := c.In[0].TopK(c.Int("k"), c.Int("axis"))
			return []*tensor{v, i}
		}}, func(t *tensor, axis int) { t.TopK(1, axis) }).
			bad(locus.ErrArgument, "more than there are", func(d locus.Device) { d.Ones(2).TopK(3, 0) }),
		sorted(&Op{Name: "Tensor.BottomK", DTypes: dtype.Any, Run: func(c *Call) []*tensor {
			v, i := c.In[0].BottomK(c.Int("k"), c.Int("axis"))
			return []*tensor{v, i}
		}}, func(t *tensor, axis int) { t.BottomK(1, axis) }).
			bad(locus.ErrArgument, "more than there are", func(d locus.Device) { d.Ones(2).BottomK(3, 0) }),
	)
}

func cumulated(name string, f func(t *tensor, axis int) (values, positions *tensor)) *Op {
	return (&Op{Name: "Tensor." + name, DTypes: dtype.Numbers, Run: func(c *Call) []*tensor {
		v, i := f(c.In[0], c.Int("axis"))
		return []*tensor{v, i}
	}}).
		bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2), 1) }).
		bad(locus.ErrAxis, "a scalar", func(d locus.Device) { f(d.Ones(), 0) })
}
