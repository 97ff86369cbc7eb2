package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

func arrangeOps() []*Op {
	numbers := func(o *Op) { o.DTypes = dtype.Numbers }
	all := func(o *Op) { o.DTypes = dtype.Any }
	odd := []int{1}
	const vector, noAxis = "a vector", "an axis that is not there"
	window := func(c *Call) locus.WindowOptions {
		return locus.WindowOptions{Stride: c.Pair("stride"), Padding: c.Pair("padding"), Dilation: c.Pair("dilation")}
	}
	return group("Arranging and matrices",
		view("Roll", func(c *Call) *tensor { return c.In[0].Roll(c.Int("by"), c.Int("axis")) }).
			bad(locus.ErrAxis, noAxis, func(d locus.Device) { d.Ones(2).Roll(1, 1) }),
		view("PadWith", func(c *Call) *tensor {
			mode := map[string]locus.PadMode{"reflect": locus.PadReflect, "replicate": locus.PadReplicate, "circular": locus.PadCircular}[c.String("mode")]
			return c.In[0].PadWith(mode, c.Ints("amounts")...)
		}).
			bad(locus.ErrArgument, "an odd number of amounts", func(d locus.Device) { d.Ones(3).PadWith(locus.PadReflect, odd...) }).
			bad(locus.ErrShape, "more than there is", func(d locus.Device) { d.Ones(3).PadWith(locus.PadReflect, 3, 0) }).
			bad(locus.ErrArgument, "a mode that is none", func(d locus.Device) { d.Ones(3).PadWith(9, 1, 1) }),
		(&Op{Name: "Meshgrid", DTypes: dtype.Any, Run: func(c *Call) []*tensor { return locus.Meshgrid(c.In...) }}).
			bad(locus.ErrShape, "a matrix", func(d locus.Device) { locus.Meshgrid(d.Ones(2), d.Ones(2, 2)) }),
		network("SegmentSum", func(c *Call) *tensor { return locus.SegmentSum(c.In[0], c.In[1], c.Int("n")) }).with(numbers).
			bad(locus.ErrIndex, "an id outside", func(d locus.Device) { locus.SegmentSum(d.Ones(1), d.From([]int64{2}), 2) }).
			bad(locus.ErrShape, "too few ids", func(d locus.Device) { locus.SegmentSum(d.Ones(2), d.From([]int64{1}), 2) }).
			bad(locus.ErrArgument, "a negative number of segments", func(d locus.Device) { locus.SegmentSum(d.Ones(1), d.From([]int64{0}), -1) }),
		network("SegmentMean", func(c *Call) *tensor { return locus.SegmentMean(c.In[0], c.In[1], c.Int("n")) }).
			bad(locus.ErrIndex, "an id outside", func(d locus.Device) { locus.SegmentMean(d.Ones(1), d.From([]int64{2}), 2) }),
		view("Tril", func(c *Call) *tensor { return c.In[0].Tril(c.Int("offset")) }).
			bad(locus.ErrShape, vector, func(d locus.Device) { d.Ones(2).Tril(0) }),
		view("Triu", func(c *Call) *tensor { return c.In[0].Triu(c.Int("offset")) }).
			bad(locus.ErrShape, vector, func(d locus.Device) { d.Ones(2).Triu(0) }),
		view("Trace", func(c *Call) *tensor { return c.In[0].Trace() }).
			bad(locus.ErrShape, vector, func(d locus.Device) { d.Ones(2).Trace() }),
		view("Diag", func(c *Call) *tensor { return c.In[0].Diag(c.Int("offset")) }).with(numbers).
			bad(locus.ErrShape, "three axes", func(d locus.Device) { d.Ones(2, 2, 2).Diag(0) }),
		view("DiagEmbed", func(c *Call) *tensor { return c.In[0].DiagEmbed(c.Int("offset")) }).with(numbers).
			bad(locus.ErrShape, "a scalar", func(d locus.Device) { d.Ones().DiagEmbed(0) }),
		network("Tensor.Outer", func(c *Call) *tensor { return c.In[0].Outer(c.In[1]) }).with(numbers).
			bad(locus.ErrShape, "a matrix", func(d locus.Device) { d.Ones(2, 2).Outer(d.Ones(2)) }),
		network("Tensor.Kron", func(c *Call) *tensor { return c.In[0].Kron(c.In[1]) }).with(numbers).
			bad(locus.ErrShape, "too many axes", func(d locus.Device) { d.Ones(1, 1, 1, 1, 1).Kron(d.Ones(2)) }),
		network("Tensor.Cross", func(c *Call) *tensor { return c.In[0].Cross(c.In[1], c.Int("axis")) }).with(numbers).
			bad(locus.ErrShape, "an axis that is not 3", func(d locus.Device) { d.Ones(2).Cross(d.Ones(2), 0) }).
			bad(locus.ErrAxis, noAxis, func(d locus.Device) { d.Ones(3).Cross(d.Ones(3), 1) }),
		network("Tensor.Lerp", func(c *Call) *tensor {
			if c.Has("weight") {
				return c.In[0].Lerp(c.In[1], c.Float("weight"))
			}
			return c.In[0].Lerp(c.In[1], c.In[2])
		}).with(numbers).
			bad(locus.ErrShape, "shapes that do not broadcast", func(d locus.Device) { d.Ones(2).Lerp(d.Ones(3), 0.5) }),
		view("CumProd", func(c *Call) *tensor { return c.In[0].CumProd(c.Int("axis")) }).with(numbers).
			bad(locus.ErrAxis, noAxis, func(d locus.Device) { d.Ones(2).CumProd(1) }),
		network("Einsum", func(c *Call) *tensor { return locus.Einsum(c.String("formula"), c.In...) }).with(numbers).
			bad(locus.ErrShape, "sizes that differ", func(d locus.Device) { locus.Einsum("ij,jk->ik", d.Ones(2, 3), d.Ones(2, 3)) }).
			bad(locus.ErrShape, "letters that do not fit the axes", func(d locus.Device) { locus.Einsum("ij->i", d.Ones(2)) }).
			bad(locus.ErrArgument, "too few operands", func(d locus.Device) { locus.Einsum("i,i->", d.Ones(2)) }).
			bad(locus.ErrArgument, "a letter that is in no operand", func(d locus.Device) { locus.Einsum("i->j", d.Ones(2)) }),
		network("PixelShuffle", func(c *Call) *tensor { return locus.PixelShuffle(c.In[0], c.Int("r")) }).with(all).
			bad(locus.ErrShape, "channels that do not divide", func(d locus.Device) { locus.PixelShuffle(d.Ones(1, 3, 2, 2), 2) }),
		network("PixelUnshuffle", func(c *Call) *tensor { return locus.PixelUnshuffle(c.In[0], c.Int("r")) }).with(all).
			bad(locus.ErrShape, "an odd height", func(d locus.Device) { locus.PixelUnshuffle(d.Ones(1, 3, 3, 2), 2) }),
		network("Unfold", func(c *Call) *tensor { return locus.Unfold(c.In[0], c.Pair("window"), window(c)) }).with(all).
			bad(locus.ErrShape, "a window larger than the image", func(d locus.Device) { locus.Unfold(d.Ones(1, 1, 2, 2), 3, locus.WindowOptions{}) }).
			bad(locus.ErrArgument, "a window of 0", func(d locus.Device) { locus.Unfold(d.Ones(1, 1, 2, 2), 0, locus.WindowOptions{}) }),
		network("Fold", func(c *Call) *tensor { return locus.Fold(c.In[0], c.Pair("size"), c.Pair("window"), window(c)) }).with(numbers).
			bad(locus.ErrShape, "columns that do not fit", func(d locus.Device) { locus.Fold(d.Ones(1, 4, 3), 3, 2, locus.WindowOptions{}) }),
		network("Interpolate", func(c *Call) *tensor {
			mode := map[string]locus.InterpolateMode{"nearest": locus.InterpolateNearest, "bilinear": locus.InterpolateBilinear, "corners": locus.InterpolateCorners}[c.String("mode")]
			return locus.Interpolate(c.In[0], c.Pair("size"), mode)
		}).with(all).
			bad(locus.ErrShape, "a size of 0", func(d locus.Device) { locus.Interpolate(d.Ones(1, 1, 2, 2), 0, locus.InterpolateNearest) }).
			bad(locus.ErrDType, "integers between others", func(d locus.Device) {
				locus.Interpolate(d.As(locus.Int64).Ones(1, 1, 2, 2), 3, locus.InterpolateBilinear)
			}),
		network("ClipByValue", func(c *Call) *tensor { return locus.ClipByValue(c.In[0], c.Float("limit")) }).with(func(o *Op) { o.DTypes = dtype.Numbers &^ (1 << dtype.Uint8) }).
			bad(locus.ErrArgument, "a negative limit", func(d locus.Device) { locus.ClipByValue(d.Ones(2), -1) }),
		network("ClipByNorm", func(c *Call) *tensor { return locus.ClipByNorm(c.In[0], c.Float("limit")) }).
			bad(locus.ErrArgument, "a limit of 0", func(d locus.Device) { locus.ClipByNorm(d.Ones(2), 0) }),
		&Op{Name: "ClipGlobalNorm", DTypes: dtype.Floats, HalfTolerance: 4, NilOperands: true, Run: func(c *Call) []*tensor {
			l, _ := locus.ClipGlobalNorm(c.In, c.Float("limit"))
			return l
		}, Bad: []Bad{{locus.ErrArgument, "nothing", func(d locus.Device) { locus.ClipGlobalNorm(nil, 1) }}}},
		&Op{Name: "GlobalNorm", DTypes: dtype.Floats, HalfTolerance: 4, NilOperands: true, Run: func(c *Call) []*tensor { return one(locus.GlobalNorm(c.In).Cast(c.DType)) },
			Bad: []Bad{{locus.ErrArgument, "nothing", func(d locus.Device) { locus.GlobalNorm(nil) }}}},
		&Op{Name: "Device.TriangularMask", DTypes: dtype.Bools, NoGrad: noInput, Run: func(c *Call) []*tensor {
			return one(c.Device.TriangularMask(c.Int("rows"), c.Int("columns"), c.Int("offset")))
		}, Bad: []Bad{{locus.ErrShape, "a negative size", func(d locus.Device) { d.TriangularMask(-1, 2, 0) }}}},
	)
}

func sequenceOps() []*Op {
	weights := func(c *Call, first int) locus.CellWeights {
		return locus.CellWeights{Input: c.In[first], Hidden: c.In[first+1], InputBias: c.operand(first + 2), HiddenBias: c.operand(first + 3)}
	}
	ones := func(d locus.Device, gates int) (x, h *tensor, w locus.CellWeights) {
		return d.Ones(2, 3), d.Ones(2, 4), locus.CellWeights{Input: d.Ones(gates*4, 3), Hidden: d.Ones(gates*4, 3)}
	}
	const wrong = "weights of another shape"
	return group("Attention and recurrent cells",
		network("Attention", func(c *Call) *tensor {
			return locus.Attention(c.In[0], c.In[1], c.In[2], locus.AttentionOptions{Mask: c.operand(3), Causal: c.Bool("causal"), Scale: c.FloatOr("scale", 0), Grouped: c.Bool("grouped")})
		}).with(func(o *Op) { o.Optional, o.HalfTolerance, o.Tolerance = 3, 8, 4 }).
			bad(locus.ErrShape, "sizes that do not fit", func(d locus.Device) {
				locus.Attention(d.Ones(2, 3), d.Ones(4, 2), d.Ones(4, 3), locus.AttentionOptions{})
			}).
			bad(locus.ErrShape, "a mask that does not broadcast", func(d locus.Device) {
				locus.Attention(d.Ones(2, 3), d.Ones(4, 3), d.Ones(4, 3), locus.AttentionOptions{Mask: d.As(locus.Bool).Ones(3, 4)})
			}).
			bad(locus.ErrDType, "a mask of integers", func(d locus.Device) {
				locus.Attention(d.Ones(2, 3), d.Ones(4, 3), d.Ones(4, 3), locus.AttentionOptions{Mask: d.As(locus.Int64).Ones(2, 4)})
			}),
		network("AttentionWeights", func(c *Call) *tensor {
			return locus.AttentionWeights(c.In[0], c.In[1], locus.AttentionOptions{Mask: c.operand(2), Causal: c.Bool("causal"), Scale: c.FloatOr("scale", 0), Grouped: c.Bool("grouped")})
		}).with(func(o *Op) { o.Optional, o.HalfTolerance, o.Tolerance = 2, 8, 4 }).
			bad(locus.ErrShape, "sizes that do not fit", func(d locus.Device) {
				locus.AttentionWeights(d.Ones(2, 3), d.Ones(4, 2), locus.AttentionOptions{})
			}).
			bad(locus.ErrShape, "a mask that does not broadcast", func(d locus.Device) {
				locus.AttentionWeights(d.Ones(2, 3), d.Ones(4, 3), locus.AttentionOptions{Mask: d.As(locus.Bool).Ones(3, 4)})
			}).
			bad(locus.ErrShape, "heads that do not divide", func(d locus.Device) {
				locus.AttentionWeights(d.Ones(3, 2, 3), d.Ones(2, 4, 3), locus.AttentionOptions{Grouped: true})
			}),
		network("RNNCell", func(c *Call) *tensor {
			if c.Bool("relu") {
				return locus.RNNCell(c.In[0], c.In[1], weights(c, 2), (*tensor).Relu)
			}
			return locus.RNNCell(c.In[0], c.In[1], weights(c, 2), nil)
		}).with(func(o *Op) { o.Optional = 4 }).
			bad(locus.ErrShape, wrong, func(d locus.Device) {
				x, h, w := ones(d, 1)
				locus.RNNCell(x, h, w, nil)
			}),
		(&Op{Name: "LSTMCell", DTypes: dtype.Floats, HalfTolerance: 4, Optional: 5, Run: func(c *Call) []*tensor {
			h, s := locus.LSTMCell(c.In[0], c.In[1], c.In[2], weights(c, 3))
			return []*tensor{h, s}
		}}).
			bad(locus.ErrShape, wrong, func(d locus.Device) {
				x, h, w := ones(d, 4)
				locus.LSTMCell(x, h, h, w)
			}),
		network("GRUCell", func(c *Call) *tensor { return locus.GRUCell(c.In[0], c.In[1], weights(c, 2)) }).with(func(o *Op) { o.Optional = 4 }).
			bad(locus.ErrShape, wrong, func(d locus.Device) {
				x, h, w := ones(d, 3)
				locus.GRUCell(x, h, w)
			}),
		network("RNNSequence", func(c *Call) *tensor {
			return locus.RNNSequence(c.In[0], c.In[1], weights(c, 2), locus.SequenceOptions{Reverse: c.Bool("reverse"), Relu: c.Bool("relu")})
		}).with(func(o *Op) { o.Optional = 4 }).
			bad(locus.ErrShape, wrong, func(d locus.Device) {
				_, h, w := ones(d, 1)
				locus.RNNSequence(d.Ones(5, 2, 3), h, w, locus.SequenceOptions{})
			}).
			bad(locus.ErrShape, "no steps", func(d locus.Device) {
				locus.RNNSequence(d.Ones(0, 2, 3), d.Ones(2, 4), locus.CellWeights{Input: d.Ones(4, 3), Hidden: d.Ones(4, 4)}, locus.SequenceOptions{})
			}).
			bad(locus.ErrShape, "a matrix", func(d locus.Device) {
				locus.RNNSequence(d.Ones(2, 3), d.Ones(2, 4), locus.CellWeights{Input: d.Ones(4, 3), Hidden: d.Ones(4, 4)}, locus.SequenceOptions{})
			}).
			bad(locus.ErrArgument, "one bias", func(d locus.Device) {
				locus.RNNSequence(d.Ones(5, 2, 3), d.Ones(2, 4), locus.CellWeights{Input: d.Ones(4, 3), Hidden: d.Ones(4, 4), InputBias: d.Ones(4)}, locus.SequenceOptions{})
			}),
		(&Op{Name: "LSTMSequence", DTypes: dtype.Floats, HalfTolerance: 4, Optional: 5, Run: func(c *Call) []*tensor {
			y, s := locus.LSTMSequence(c.In[0], c.In[1], c.In[2], weights(c, 3), locus.SequenceOptions{Reverse: c.Bool("reverse")})
			return []*tensor{y, s}
		}}).
			bad(locus.ErrShape, wrong, func(d locus.Device) {
				_, h, w := ones(d, 4)
				locus.LSTMSequence(d.Ones(5, 2, 3), h, h, w, locus.SequenceOptions{})
			}).
			bad(locus.ErrArgument, "an RNN's option", func(d locus.Device) {
				locus.LSTMSequence(d.Ones(5, 2, 3), d.Ones(2, 4), d.Ones(2, 4), locus.CellWeights{Input: d.Ones(16, 3), Hidden: d.Ones(16, 4)}, locus.SequenceOptions{Relu: true})
			}),
		network("GRUSequence", func(c *Call) *tensor {
			return locus.GRUSequence(c.In[0], c.In[1], weights(c, 2), locus.SequenceOptions{Reverse: c.Bool("reverse")})
		}).with(func(o *Op) { o.Optional = 4 }).
			bad(locus.ErrShape, wrong, func(d locus.Device) {
				_, h, w := ones(d, 3)
				locus.GRUSequence(d.Ones(5, 2, 3), h, w, locus.SequenceOptions{})
			}),
	)
}
