package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

const perChannelBad = "a weight that is not one a channel"

func normOps() []*Op {
	affine := func(o *Op, first int) *Op { return o.with(func(o *Op) { o.Optional, o.Tolerance = first, 4 }) }
	return group("Normalization, dropout and embedding",
		affine(network("LayerNorm", func(c *Call) *tensor {
			return locus.LayerNorm(c.In[0], c.Ints("shape"), c.operand(1), c.operand(2), c.Float("eps"))
		}), 1).
			bad(locus.ErrShape, "another shape", func(d locus.Device) { locus.LayerNorm(d.Ones(2, 3), []int{2}, nil, nil, 1e-5) }).
			bad(locus.ErrShape, "a weight of another shape", func(d locus.Device) { locus.LayerNorm(d.Ones(2, 3), []int{3}, d.Ones(2), nil, 1e-5) }),
		affine(network("RMSNorm", func(c *Call) *tensor { return locus.RMSNorm(c.In[0], c.Ints("shape"), c.operand(1), c.Float("eps")) }), 1).
			bad(locus.ErrShape, "another shape", func(d locus.Device) { locus.RMSNorm(d.Ones(2, 3), []int{2}, nil, 1e-5) }),
		affine(network("GroupNorm", func(c *Call) *tensor {
			return locus.GroupNorm(c.In[0], c.Int("groups"), c.operand(1), c.operand(2), c.Float("eps"))
		}), 1).
			bad(locus.ErrArgument, "groups that do not divide the channels", func(d locus.Device) { locus.GroupNorm(d.Ones(2, 3, 4), 2, nil, nil, 1e-5) }).
			bad(locus.ErrShape, perChannelBad, func(d locus.Device) { locus.GroupNorm(d.Ones(2, 4, 3), 2, d.Ones(3), nil, 1e-5) }),
		affine(network("InstanceNorm", func(c *Call) *tensor { return locus.InstanceNorm(c.In[0], c.operand(1), c.operand(2), c.Float("eps")) }), 1).
			bad(locus.ErrShape, "nothing behind the channels", func(d locus.Device) { locus.InstanceNorm(d.Ones(2, 3), nil, nil, 1e-5) }),
		affine(&Op{Name: "BatchNorm", DTypes: dtype.Floats, HalfTolerance: 4, Detached: []int{1, 2}, Run: func(c *Call) []*tensor {
			y, mean, variance := locus.BatchNorm(c.In[0], c.operand(1), c.operand(2), c.Float("eps"))
			t := c.In[0].DType() // that of the records; the statistics of half precision are float32
			return []*tensor{y, mean.Cast(t), variance.Cast(t)}
		}}, 1).
			bad(locus.ErrShape, "one example", func(d locus.Device) { locus.BatchNorm(d.Ones(1, 3), nil, nil, 1e-5) }).
			bad(locus.ErrShape, perChannelBad, func(d locus.Device) { locus.BatchNorm(d.Ones(2, 3), d.Ones(2), nil, 1e-5) }),
		affine(network("BatchNormWith", func(c *Call) *tensor {
			return locus.BatchNormWith(c.In[0], c.In[1], c.In[2], c.operand(3), c.operand(4), c.Float("eps"))
		}), 3).
			bad(locus.ErrShape, perChannelBad, func(d locus.Device) { locus.BatchNormWith(d.Ones(2, 3), d.Ones(2), d.Ones(3), nil, nil, 1e-5) }),
		network("Normalize", func(c *Call) *tensor { return locus.Normalize(c.In[0], c.Float("p"), c.Int("axis"), c.Float("eps")) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { locus.Normalize(d.Ones(2), 2, 1, 1e-12) }).
			bad(locus.ErrArgument, "a negative p", func(d locus.Device) { locus.Normalize(d.Ones(2), -1, 0, 1e-12) }),
		network("LocalResponseNorm", func(c *Call) *tensor {
			return locus.LocalResponseNorm(c.In[0], c.Int("size"), c.Float("alpha"), c.Float("beta"), c.Float("k"))
		}).
			bad(locus.ErrArgument, "no neighbors", func(d locus.Device) { locus.LocalResponseNorm(d.Ones(2, 3), 0, 1, 1, 1) }),
		network("CosineSimilarity", func(c *Call) *tensor { return locus.CosineSimilarity(c.In[0], c.In[1], c.Int("axis"), c.Float("eps")) }).
			bad(locus.ErrShape, "shapes that do not broadcast", func(d locus.Device) { locus.CosineSimilarity(d.Ones(2), d.Ones(3), 0, 1e-8) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { locus.CosineSimilarity(d.Ones(2), d.Ones(2), 1, 1e-8) }),
		network("PairwiseDistance", func(c *Call) *tensor { return locus.PairwiseDistance(c.In[0], c.In[1], c.Float("p"), c.Float("eps")) }).
			bad(locus.ErrShape, "shapes that do not broadcast", func(d locus.Device) { locus.PairwiseDistance(d.Ones(2), d.Ones(3), 2, 1e-6) }),
		dropout("Dropout", locus.Dropout),
		dropout("DropoutChannels", locus.DropoutChannels).
			bad(locus.ErrShape, "nothing behind the channels", func(d locus.Device) { locus.DropoutChannels(d.Ones(2, 3), 0.5, locus.NewKey(1)) }),
		dropout("AlphaDropout", locus.AlphaDropout),
		network("Embedding", func(c *Call) *tensor { return locus.Embedding(c.In[0], c.In[1], c.Ints("padding")...) }).with(func(o *Op) { o.DTypes = dtype.Any }).
			bad(locus.ErrIndex, "an index outside", func(d locus.Device) { locus.Embedding(d.Ones(3, 2), d.From([]int64{3})) }).
			bad(locus.ErrShape, "a vector as weight", func(d locus.Device) { locus.Embedding(d.Ones(3), d.From([]int64{0})) }).
			bad(locus.ErrArgument, "padding outside", func(d locus.Device) { locus.Embedding(d.Ones(3, 2), d.From([]int64{0}), 3) }),
	)
}

// dropout is compared with PyTorch where nothing is left to chance: with
// probability 0 and 1. What it drops is tested beside it.
func dropout(name string, f func(x *tensor, p float64, key locus.Key) *tensor) *Op {
	return network(name, func(c *Call) *tensor { return f(c.In[0], c.Float("p"), locus.NewKey(7)) }).
		bad(locus.ErrArgument, "a probability above 1", func(d locus.Device) { f(d.Ones(2, 3, 4), 1.5, locus.NewKey(1)) })
}

// Reduction returns a loss's reduction.
func (c *Call) Reduction() locus.Reduction {
	if !c.Has("reduction") {
		return locus.ReduceMean
	}
	switch c.String("reduction") {
	case "sum":
		return locus.ReduceSum
	case "none":
		return locus.ReduceNone
	case "batchmean":
		return locus.ReduceBatchMean
	}
	return locus.ReduceMean
}

// loss makes the op of a loss whose operands must have one shape.
func loss(name string, n int, f func(c *Call, in []*tensor, r locus.Reduction) *tensor) *Op {
	return network(name, func(c *Call) *tensor { return f(c, c.In, c.Reduction()) }).
		bad(locus.ErrShape, "shapes that differ", func(d locus.Device) {
			in := make([]*tensor, n)
			for i := range in {
				in[i] = d.Ones(2, 3)
			}
			in[n-1] = d.Ones(1, 3)
			f(&Call{Device: d, In: in, attrs: map[string]any{"delta": 1.0, "beta": 1.0, "margin": 1.0, "p": 2.0, "eps": 1e-6}}, in, locus.ReduceMean)
		})
}

func lossOps() []*Op {
	bce := func(f func(p, target *tensor, o locus.BCEOptions) *tensor) func(c *Call, in []*tensor, r locus.Reduction) *tensor {
		return func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			o := locus.BCEOptions{Reduction: r}
			if c.Bool("weight") {
				o.Weight = in[2]
			}
			if c.Bool("pos") {
				o.PosWeight = in[len(in)-1]
			}
			return f(in[0], in[1], o)
		}
	}
	ignore := func(c *Call) *int {
		if !c.Has("ignore") {
			return nil
		}
		return new(c.Int("ignore"))
	}
	classes := []int64{0, 3}
	return group("Losses",
		loss("MSELoss", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor { return locus.MSELoss(in[0], in[1], r) }).
			bad(locus.ErrArgument, "a reduction that is none", func(d locus.Device) { locus.MSELoss(d.Ones(2), d.Ones(2), 9) }),
		loss("L1Loss", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor { return locus.L1Loss(in[0], in[1], r) }),
		loss("HuberLoss", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			return locus.HuberLoss(in[0], in[1], c.Float("delta"), r)
		}).
			bad(locus.ErrArgument, "a delta of 0", func(d locus.Device) { locus.HuberLoss(d.Ones(2), d.Ones(2), 0, locus.ReduceMean) }),
		loss("SmoothL1Loss", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			return locus.SmoothL1Loss(in[0], in[1], c.Float("beta"), r)
		}).
			bad(locus.ErrArgument, "a negative beta", func(d locus.Device) { locus.SmoothL1Loss(d.Ones(2), d.Ones(2), -1, locus.ReduceMean) }),
		loss("BCELoss", 2, bce(locus.BCELoss)).
			bad(locus.ErrShape, "a weight that does not broadcast", func(d locus.Device) {
				locus.BCELoss(d.Ones(2), d.Ones(2), locus.BCEOptions{Weight: d.Ones(3)})
			}),
		loss("BCEWithLogits", 2, bce(locus.BCEWithLogits)).
			bad(locus.ErrShape, "a weight that does not broadcast", func(d locus.Device) {
				locus.BCEWithLogits(d.Ones(2), d.Ones(2), locus.BCEOptions{PosWeight: d.Ones(3)})
			}),
		loss("KLDiv", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor { return locus.KLDiv(in[0], in[1], r) }),
		loss("KLDivLog", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor { return locus.KLDivLog(in[0], in[1], r) }),
		loss("HingeEmbedding", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			return locus.HingeEmbedding(in[0], in[1], c.Float("margin"), r)
		}),
		loss("MarginRanking", 3, func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			return locus.MarginRanking(in[0], in[1], in[2], c.Float("margin"), r)
		}),
		loss("SoftMargin", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor { return locus.SoftMargin(in[0], in[1], r) }),
		loss("CosineEmbedding", 3, func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			return locus.CosineEmbedding(in[0], in[1], in[2], c.Float("margin"), r)
		}),
		loss("TripletMargin", 3, func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			return locus.TripletMargin(in[0], in[1], in[2], c.Float("margin"), c.Float("p"), r)
		}),
		loss("PoissonNLL", 2, func(c *Call, in []*tensor, r locus.Reduction) *tensor { return locus.PoissonNLL(in[0], in[1], r) }),
		loss("GaussianNLL", 3, func(c *Call, in []*tensor, r locus.Reduction) *tensor {
			return locus.GaussianNLL(in[0], in[1], in[2], c.Float("eps"), r)
		}).
			bad(locus.ErrArgument, "an eps of 0", func(d locus.Device) {
				locus.GaussianNLL(d.Ones(2), d.Ones(2), d.Ones(2), 0, locus.ReduceMean)
			}),
		network("CrossEntropy", func(c *Call) *tensor {
			loss := locus.CrossEntropy(c.In[0], c.In[1], locus.CrossEntropyOptions{Weight: c.operand(2), IgnoreIndex: ignore(c),
				LabelSmoothing: c.FloatOr("smoothing", 0), Reduction: c.Reduction()})
			return loss.Cast(c.In[0].DType()) // in half precision PyTorch's loss is, too; ours is float32
		}).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrIndex, "a class outside", func(d locus.Device) {
				locus.CrossEntropy(d.Ones(2, 3), d.From(classes), locus.CrossEntropyOptions{})
			}).
			bad(locus.ErrShape, "a target of another shape", func(d locus.Device) {
				locus.CrossEntropy(d.Ones(3, 5), d.From(classes), locus.CrossEntropyOptions{})
			}).
			bad(locus.ErrArgument, "smoothing above 1", func(d locus.Device) {
				locus.CrossEntropy(d.Ones(2, 5), d.From(classes), locus.CrossEntropyOptions{LabelSmoothing: 2})
			}).
			bad(locus.ErrArgument, "an ignored class with probabilities", func(d locus.Device) {
				locus.CrossEntropy(d.Ones(2, 5), d.Ones(2, 5), locus.CrossEntropyOptions{IgnoreIndex: new(1)})
			}),
		network("NLLLoss", func(c *Call) *tensor {
			return locus.NLLLoss(c.In[0], c.In[1], locus.NLLOptions{Weight: c.operand(2), IgnoreIndex: ignore(c), Reduction: c.Reduction()})
		}).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrIndex, "a class outside", func(d locus.Device) { locus.NLLLoss(d.Ones(2, 3), d.From(classes), locus.NLLOptions{}) }).
			bad(locus.ErrDType, "fractions as classes", func(d locus.Device) { locus.NLLLoss(d.Ones(2, 3), d.Ones(2), locus.NLLOptions{}) }),
	)
}
