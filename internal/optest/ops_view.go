package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

func view(name string, run func(c *Call) *tensor) *Op {
	return &Op{Name: "Tensor." + name, DTypes: dtype.Any, Run: func(c *Call) []*tensor { return one(run(c)) }}
}

// ranges reads three numbers per axis: from, to (99: the end) and step, where a
// step of 0 stands for one position.
func ranges(l []int) []locus.Range {
	var r []locus.Range
	for ; len(l) > 0; l = l[3:] {
		start, stop, step := l[0], l[1], l[2]
		switch {
		case step == 0:
			r = append(r, locus.At(start))
		case start == 99:
			r = append(r, locus.All())
		case stop == 99 && step == 1:
			r = append(r, locus.Tail(start))
		default:
			r = append(r, locus.R(start, stop, step))
		}
	}
	return r
}

func viewOps() []*Op {
	return group("Views and shapes",
		view("Reshape", func(c *Call) *tensor { return c.In[0].Reshape(c.Ints("shape")...) }).
			bad(locus.ErrShape, "another number of elements", func(d locus.Device) { d.Ones(2, 3).Reshape(4, 2) }).
			bad(locus.ErrShape, "two sizes of -1", func(d locus.Device) { d.Ones(2, 3).Reshape(-1, -1) }).
			bad(locus.ErrShape, "too many axes", func(d locus.Device) { d.Ones(1).Reshape(1, 1, 1, 1, 1, 1, 1, 1, 1) }),
		view("Flatten", func(c *Call) *tensor { return c.In[0].Flatten() }),
		view("FlattenFrom", func(c *Call) *tensor { return c.In[0].FlattenFrom(c.Int("axis")) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(2, 3).FlattenFrom(2) }),
		view("Permute", func(c *Call) *tensor { return c.In[0].Permute(c.Ints("axes")...) }).
			bad(locus.ErrAxis, "too few axes", func(d locus.Device) { d.Ones(2, 3).Permute(1) }).
			bad(locus.ErrAxis, "an axis named twice", func(d locus.Device) { d.Ones(2, 3).Permute(1, 1) }),
		view("Transpose", func(c *Call) *tensor { return c.In[0].Transpose(c.Int("a"), c.Int("b")) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(2, 3).Transpose(0, 2) }),
		view("T", func(c *Call) *tensor { return c.In[0].T() }).
			bad(locus.ErrShape, "a vector", func(d locus.Device) { d.Ones(3).T() }),
		view("MoveAxis", func(c *Call) *tensor { return c.In[0].MoveAxis(c.Int("a"), c.Int("b")) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(2, 3).MoveAxis(0, 2) }),
		view("Expand", func(c *Call) *tensor { return c.In[0].Expand(c.Ints("shape")...) }).
			bad(locus.ErrShape, "an axis that is not 1", func(d locus.Device) { d.Ones(2).Expand(3) }).
			bad(locus.ErrShape, "fewer axes", func(d locus.Device) { d.Ones(2, 3).Expand(3) }),
		view("Squeeze", func(c *Call) *tensor { return c.In[0].Squeeze(c.Ints("axes")...) }).
			bad(locus.ErrShape, "an axis that is not 1", func(d locus.Device) { d.Ones(2, 1).Squeeze(0) }),
		view("Unsqueeze", func(c *Call) *tensor { return c.In[0].Unsqueeze(c.Int("axis")) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(2).Unsqueeze(2) }).
			bad(locus.ErrShape, "too many axes", func(d locus.Device) { d.Ones(1, 1, 1, 1, 1, 1, 1, 1).Unsqueeze(0) }),
		view("Diagonal", func(c *Call) *tensor { return c.In[0].Diagonal(c.Int("offset"), c.Int("a"), c.Int("b")) }).
			bad(locus.ErrAxis, "one axis twice", func(d locus.Device) { d.Ones(2, 3).Diagonal(0, 1, -1) }),
		view("Contiguous", func(c *Call) *tensor { return c.In[0].Contiguous() }),
		view("Slice", func(c *Call) *tensor { return c.In[0].Slice(ranges(c.Ints("ranges"))...) }).
			bad(locus.ErrIndex, "a position outside", func(d locus.Device) { d.Ones(2, 3).Slice(locus.At(2)) }).
			bad(locus.ErrAxis, "too many axes", func(d locus.Device) { d.Ones(2).Slice(locus.All(), locus.All()) }).
			bad(locus.ErrArgument, "a step of 0", func(d locus.Device) { d.Ones(2).Slice(locus.R(0, 1, 0)) }),
		view("Index", func(c *Call) *tensor { return c.In[0].Index(c.Ints("at")...) }).
			bad(locus.ErrIndex, "a position outside", func(d locus.Device) { d.Ones(2, 3).Index(0, -4) }),
		view("Narrow", func(c *Call) *tensor { return c.In[0].Narrow(c.Int("axis"), c.Int("start"), c.Int("stop")) }).
			bad(locus.ErrIndex, "beyond the end", func(d locus.Device) { d.Ones(2, 3).Narrow(1, 2, 4) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(2, 3).Narrow(2, 0, 1) }),
		view("Flip", func(c *Call) *tensor { return c.In[0].Flip(c.Ints("axes")...) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(2, 3).Flip(2) }),
		(&Op{Name: "Tensor.Split", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return c.In[0].Split(c.Int("size"), c.Int("axis")) }}).
			bad(locus.ErrArgument, "parts of size 0", func(d locus.Device) { d.Ones(4).Split(0, 0) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(4).Split(1, 1) }),
		(&Op{Name: "Tensor.Chunk", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return c.In[0].Chunk(c.Int("n"), c.Int("axis")) }}).
			bad(locus.ErrArgument, "no parts", func(d locus.Device) { d.Ones(4).Chunk(0, 0) }),
		(&Op{Name: "Tensor.SplitSizes", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return c.In[0].SplitSizes(c.Ints("sizes"), c.Int("axis")) }}).
			bad(locus.ErrShape, "sizes that do not add up", func(d locus.Device) { d.Ones(4).SplitSizes([]int{1, 2}, 0) }).
			bad(locus.ErrShape, "a negative size", func(d locus.Device) { d.Ones(4).SplitSizes([]int{5, -1}, 0) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { d.Ones(4).SplitSizes([]int{4}, 1) }),
		(&Op{Name: "Tensor.Unbind", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return c.In[0].Unbind(c.Int("axis")) }}).
			bad(locus.ErrAxis, "a scalar", func(d locus.Device) { d.Ones().Unbind(0) }),
		(&Op{Name: "Tensor.RepeatInterleave", DTypes: dtype.Any, Run: func(c *Call) []*tensor {
			if c.Has("n") {
				return one(c.In[0].RepeatInterleave(c.Int("n"), c.Int("axis")))
			}
			return one(c.In[0].RepeatInterleave(c.In[1], c.Int("axis")))
		}, Waits: func(c *Call) bool { return !c.Has("n") }}).
				bad(locus.ErrArgument, "a negative count", func(d locus.Device) { d.Ones(2).RepeatInterleave(-1, 0) }).
				bad(locus.ErrArgument, "a count below 0 in a tensor", func(d locus.Device) { d.Ones(2).RepeatInterleave(d.From([]int64{1, -1}), 0) }).
				bad(locus.ErrArgument, "what is no count", func(d locus.Device) { d.Ones(2).RepeatInterleave("2", 0) }).
				bad(locus.ErrShape, "too few counts", func(d locus.Device) { d.Ones(2).RepeatInterleave(d.From([]int64{1}), 0) }).
				bad(locus.ErrDType, "fractions as counts", func(d locus.Device) { d.Ones(2).RepeatInterleave(d.Ones(2), 0) }).
				bad(locus.ErrShape, "more than there are addresses", func(d locus.Device) { d.Ones(2).RepeatInterleave(1<<62, 0) }),
		view("Repeat", func(c *Call) *tensor { return c.In[0].Repeat(c.Ints("counts")...) }).
			bad(locus.ErrArgument, "too few counts", func(d locus.Device) { d.Ones(2, 3).Repeat(2) }).
			bad(locus.ErrArgument, "a negative count", func(d locus.Device) { d.Ones(2).Repeat(-1) }),
	)
}
