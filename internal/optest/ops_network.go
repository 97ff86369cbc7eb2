package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// Pair returns one size for height and width, or two; 0 where the record has none.
func (c *Call) Pair(name string) locus.Pair {
	if !c.Has(name) {
		return 0
	}
	switch v := c.attr(name).(type) {
	case string:
		return locus.Same
	case []any:
		return locus.HW(int(toFloat(v[0])), int(toFloat(v[1])))
	}
	return locus.Pair(c.Int(name))
}

// operand returns operand i, or nil where the record has fewer.
func (c *Call) operand(i int) *tensor {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// network makes an op for floating-point tensors.
func network(name string, run func(c *Call) *tensor) *Op {
	return &Op{Name: name, DTypes: dtype.Floats, HalfTolerance: 4, Run: func(c *Call) []*tensor { return one(run(c)) }}
}

// positions describes pooling that says where the largest elements are.
func positions(name string, run func(c *Call) (y, at *tensor)) *Op {
	return &Op{Name: name, DTypes: dtype.Numbers, Run: func(c *Call) []*tensor {
		y, at := run(c)
		return []*tensor{y, at}
	}}
}

func activationOps() []*Op {
	plain := func(name string, f func(*tensor) *tensor) *Op {
		return network("Tensor."+name, func(c *Call) *tensor { return f(c.In[0]) })
	}
	along := func(name string, f func(t *tensor, axis int) *tensor) *Op {
		return network("Tensor."+name, func(c *Call) *tensor { return f(c.In[0], c.Int("axis")) }).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(2, 4), 2) })
	}
	return group("Activations",
		along("Softmax", (*tensor).Softmax),
		along("LogSoftmax", (*tensor).LogSoftmax),
		along("Softmin", (*tensor).Softmin),
		along("Glu", (*tensor).Glu).
			bad(locus.ErrShape, "an odd axis", func(d locus.Device) { d.Ones(3).Glu(0) }),
		network("Tensor.LeakyRelu", func(c *Call) *tensor { return c.In[0].LeakyRelu(c.Float("slope")) }),
		network("Tensor.Elu", func(c *Call) *tensor { return c.In[0].Elu(c.Float("alpha")) }),
		plain("Selu", (*tensor).Selu),
		network("Tensor.Celu", func(c *Call) *tensor { return c.In[0].Celu(c.Float("alpha")) }).
			bad(locus.ErrArgument, "an alpha of 0", func(d locus.Device) { d.Ones(2).Celu(0) }),
		network("Tensor.SoftplusWith", func(c *Call) *tensor { return c.In[0].SoftplusWith(c.Float("beta"), c.Float("threshold")) }).
			bad(locus.ErrArgument, "a beta of 0", func(d locus.Device) { d.Ones(2).SoftplusWith(0, 20) }),
		plain("Mish", (*tensor).Mish),
		network("Tensor.HardTanh", func(c *Call) *tensor { return c.In[0].HardTanh(c.Float("lo"), c.Float("hi")) }).
			bad(locus.ErrArgument, "an empty range", func(d locus.Device) { d.Ones(2).HardTanh(1, 1) }),
		plain("Relu6", (*tensor).Relu6),
		plain("HardSigmoid", (*tensor).HardSigmoid),
		plain("HardSwish", (*tensor).HardSwish),
		plain("Softsign", (*tensor).Softsign),
		plain("LogSigmoid", (*tensor).LogSigmoid),
		plain("TanhShrink", (*tensor).TanhShrink).with(func(o *Op) { o.HalfTolerance = 8 }),
		network("Tensor.SoftShrink", func(c *Call) *tensor { return c.In[0].SoftShrink(c.Float("by")) }).
			bad(locus.ErrArgument, "a negative amount", func(d locus.Device) { d.Ones(2).SoftShrink(-1) }),
		network("Tensor.HardShrink", func(c *Call) *tensor { return c.In[0].HardShrink(c.Float("limit")) }).
			bad(locus.ErrArgument, "a negative limit", func(d locus.Device) { d.Ones(2).HardShrink(-1) }),
		network("Tensor.Threshold", func(c *Call) *tensor { return c.In[0].Threshold(c.Float("threshold"), c.Float("value")) }).
			with(func(o *Op) { o.DTypes = dtype.Numbers }),
		network("Tensor.PRelu", func(c *Call) *tensor { return c.In[0].PRelu(c.In[1]) }).
			bad(locus.ErrShape, "a weight that is not one a channel", func(d locus.Device) { d.Ones(2, 3).PRelu(d.Ones(2)) }),
		network("Tensor.Logit", func(c *Call) *tensor { return c.In[0].Logit(c.FloatOr("eps", 0)) }).
			bad(locus.ErrArgument, "an eps of a half", func(d locus.Device) { d.Ones(2).Logit(0.5) }),
	)
}

// activation returns what the record says a linear map or a convolution ends with.
func (c *Call) activation() []locus.Activation {
	if !c.Has("activation") {
		return nil
	}
	for a := locus.NoActivation; int(a) <= len(op.Activations); a++ {
		if a.String() == c.String("activation") {
			return []locus.Activation{a}
		}
	}
	panic("no activation is called " + c.String("activation"))
}

func convOps() []*Op {
	options := func(c *Call) locus.ConvOptions {
		return locus.ConvOptions{Stride: c.Pair("stride"), Padding: c.Pair("padding"), Dilation: c.Pair("dilation"), Groups: c.IntOr("groups", 0)}
	}
	transposed := func(c *Call) locus.ConvTransposeOptions {
		return locus.ConvTransposeOptions{Stride: c.Pair("stride"), Padding: c.Pair("padding"), Dilation: c.Pair("dilation"),
			OutputPadding: c.Pair("output_padding"), Groups: c.IntOr("groups", 0)}
	}
	pool := func(c *Call) locus.PoolOptions {
		return locus.PoolOptions{Stride: c.Pair("stride"), Padding: c.Pair("padding"), Dilation: c.Pair("dilation"), Ceil: c.Bool("ceil"),
			ExcludePadding: c.Bool("exclude")}
	}
	const rank, window = "another rank", "a window of 0"
	return group("Linear maps, convolution and pooling",
		network("Linear", func(c *Call) *tensor { return locus.Linear(c.In[0], c.In[1], c.operand(2), c.activation()...) }).with(func(o *Op) { o.DTypes, o.Optional = dtype.Numbers, 2 }).
			bad(locus.ErrShape, "features that do not fit", func(d locus.Device) { locus.Linear(d.Ones(2, 3), d.Ones(3, 2), nil) }).
			bad(locus.ErrShape, "a bias that does not fit", func(d locus.Device) { locus.Linear(d.Ones(2, 3), d.Ones(4, 3), d.Ones(3)) }).
			bad(locus.ErrShape, "a scalar", func(d locus.Device) { locus.Linear(d.Ones(), d.Ones(4, 1), nil) }).
			bad(locus.ErrShape, "a weight with three axes", func(d locus.Device) { locus.Linear(d.Ones(2, 3), d.Ones(1, 4, 3), nil) }).
			bad(locus.ErrShape, "integers that do not fit", func(d locus.Device) {
				locus.Linear(d.As(locus.Int64).Ones(2, 3), d.As(locus.Int64).Ones(3, 2), nil)
			}).
			bad(locus.ErrDType, "a bias of another type", func(d locus.Device) {
				locus.Linear(d.Ones(2, 3), d.Ones(4, 3), d.As(locus.Float64).Ones(4))
			}).
			bad(locus.ErrDType, "an activation of integers", func(d locus.Device) {
				locus.Linear(d.As(locus.Int64).Ones(2, 3), d.As(locus.Int64).Ones(4, 3), nil, locus.TanhActivation)
			}).
			bad(locus.ErrArgument, "two activations", func(d locus.Device) {
				locus.Linear(d.Ones(2, 3), d.Ones(4, 3), nil, locus.ReluActivation, locus.TanhActivation)
			}).
			bad(locus.ErrArgument, "an activation that there is not", func(d locus.Device) {
				locus.Linear(d.Ones(2, 3), d.Ones(4, 3), nil, locus.Activation(99))
			}),
		network("Bilinear", func(c *Call) *tensor { return locus.Bilinear(c.In[0], c.In[1], c.In[2], c.operand(3)) }).with(func(o *Op) { o.DTypes, o.Optional = dtype.Numbers, 3 }).
			bad(locus.ErrShape, "features that do not fit", func(d locus.Device) { locus.Bilinear(d.Ones(2, 3), d.Ones(2, 4), d.Ones(5, 4, 3), nil) }),
		network("Conv2D", func(c *Call) *tensor {
			return locus.Conv2D(c.In[0], c.In[1], c.operand(2), options(c), c.activation()...)
		}).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrShape, "channels that do not fit", func(d locus.Device) {
				locus.Conv2D(d.Ones(1, 3, 4, 4), d.Ones(2, 2, 3, 3), nil, locus.ConvOptions{})
			}).
			bad(locus.ErrShape, "a kernel larger than the image", func(d locus.Device) {
				locus.Conv2D(d.Ones(1, 1, 2, 2), d.Ones(1, 1, 3, 3), nil, locus.ConvOptions{})
			}).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.Conv2D(d.Ones(2, 2), d.Ones(1, 1, 3, 3), nil, locus.ConvOptions{}) }).
			bad(locus.ErrShape, "a bias that does not fit", func(d locus.Device) {
				locus.Conv2D(d.Ones(1, 1, 4, 4), d.Ones(2, 1, 3, 3), d.Ones(3), locus.ConvOptions{})
			}).
			bad(locus.ErrArgument, "two activations", func(d locus.Device) {
				locus.Conv2D(d.Ones(1, 1, 4, 4), d.Ones(1, 1, 3, 3), nil, locus.ConvOptions{}, locus.ReluActivation, locus.TanhActivation)
			}).
			bad(locus.ErrArgument, "a negative stride", func(d locus.Device) {
				locus.Conv2D(d.Ones(1, 1, 4, 4), d.Ones(1, 1, 3, 3), nil, locus.ConvOptions{Stride: -1})
			}).
			bad(locus.ErrArgument, "padding Same with a stride", func(d locus.Device) {
				locus.Conv2D(d.Ones(1, 1, 4, 4), d.Ones(1, 1, 3, 3), nil, locus.ConvOptions{Stride: 2, Padding: locus.Same})
			}),
		network("Conv1D", func(c *Call) *tensor {
			return locus.Conv1D(c.In[0], c.In[1], c.operand(2), options(c), c.activation()...)
		}).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.Conv1D(d.Ones(3), d.Ones(1, 1, 3), nil, locus.ConvOptions{}) }).
			bad(locus.ErrShape, "a bias that does not fit", func(d locus.Device) {
				locus.Conv1D(d.Ones(1, 1, 4), d.Ones(2, 1, 3), d.Ones(1), locus.ConvOptions{})
			}),
		network("ConvTranspose2D", func(c *Call) *tensor { return locus.ConvTranspose2D(c.In[0], c.In[1], c.operand(2), transposed(c)) }).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrShape, "channels that do not fit", func(d locus.Device) {
				locus.ConvTranspose2D(d.Ones(1, 3, 4, 4), d.Ones(2, 3, 3, 3), nil, locus.ConvTransposeOptions{})
			}).
			bad(locus.ErrArgument, "output padding as large as the stride", func(d locus.Device) {
				locus.ConvTranspose2D(d.Ones(1, 1, 4, 4), d.Ones(1, 1, 3, 3), nil, locus.ConvTransposeOptions{OutputPadding: 1})
			}),
		network("ConvTranspose1D", func(c *Call) *tensor { return locus.ConvTranspose1D(c.In[0], c.In[1], c.operand(2), transposed(c)) }).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrArgument, "padding Same", func(d locus.Device) {
				locus.ConvTranspose1D(d.Ones(1, 1, 4), d.Ones(1, 1, 3), nil, locus.ConvTransposeOptions{Padding: locus.Same})
			}),
		network("MaxPool2D", func(c *Call) *tensor { return locus.MaxPool2D(c.In[0], c.Pair("window"), pool(c)) }).with(func(o *Op) { o.DTypes = dtype.Numbers }).
			bad(locus.ErrArgument, window, func(d locus.Device) { locus.MaxPool2D(d.Ones(1, 1, 4, 4), 0, locus.PoolOptions{}) }).
			bad(locus.ErrShape, "a window larger than the image", func(d locus.Device) { locus.MaxPool2D(d.Ones(1, 1, 2, 2), 3, locus.PoolOptions{}) }),
		network("MaxPool1D", func(c *Call) *tensor { return locus.MaxPool1D(c.In[0], c.Int("window"), pool(c)) }).with(func(o *Op) { o.DTypes = dtype.Numbers }).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.MaxPool1D(d.Ones(4), 2, locus.PoolOptions{}) }),
		positions("MaxPool2DWithPositions", func(c *Call) (y, at *tensor) { return locus.MaxPool2DWithPositions(c.In[0], c.Pair("window"), pool(c)) }).
			bad(locus.ErrArgument, window, func(d locus.Device) { locus.MaxPool2DWithPositions(d.Ones(1, 1, 4, 4), 0, locus.PoolOptions{}) }).
			bad(locus.ErrShape, "a window larger than the image", func(d locus.Device) { locus.MaxPool2DWithPositions(d.Ones(1, 1, 2, 2), 3, locus.PoolOptions{}) }),
		positions("MaxPool1DWithPositions", func(c *Call) (y, at *tensor) { return locus.MaxPool1DWithPositions(c.In[0], c.Int("window"), pool(c)) }).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.MaxPool1DWithPositions(d.Ones(4), 2, locus.PoolOptions{}) }),
		network("AvgPool2D", func(c *Call) *tensor { return locus.AvgPool2D(c.In[0], c.Pair("window"), pool(c)) }).
			bad(locus.ErrArgument, "dilation", func(d locus.Device) { locus.AvgPool2D(d.Ones(1, 1, 4, 4), 2, locus.PoolOptions{Dilation: 2}) }),
		network("AvgPool1D", func(c *Call) *tensor { return locus.AvgPool1D(c.In[0], c.Int("window"), pool(c)) }).
			bad(locus.ErrArgument, window, func(d locus.Device) { locus.AvgPool1D(d.Ones(1, 1, 4), 0, locus.PoolOptions{}) }),
		network("AdaptiveAvgPool2D", func(c *Call) *tensor { return locus.AdaptiveAvgPool2D(c.In[0], c.Pair("size")) }).
			bad(locus.ErrShape, "a size of 0", func(d locus.Device) { locus.AdaptiveAvgPool2D(d.Ones(1, 1, 4, 4), 0) }),
		network("AdaptiveAvgPool1D", func(c *Call) *tensor { return locus.AdaptiveAvgPool1D(c.In[0], c.Int("size")) }),
		network("AdaptiveMaxPool2D", func(c *Call) *tensor { return locus.AdaptiveMaxPool2D(c.In[0], c.Pair("size")) }).with(func(o *Op) { o.DTypes = dtype.Numbers }),
		network("AdaptiveMaxPool1D", func(c *Call) *tensor { return locus.AdaptiveMaxPool1D(c.In[0], c.Int("size")) }).with(func(o *Op) { o.DTypes = dtype.Numbers }),
		network("GlobalAvgPool", func(c *Call) *tensor { return locus.GlobalAvgPool(c.In[0]) }).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.GlobalAvgPool(d.Ones(2, 3)) }),
		network("GlobalMaxPool", func(c *Call) *tensor { return locus.GlobalMaxPool(c.In[0]) }).with(func(o *Op) { o.DTypes = dtype.Any }).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.GlobalMaxPool(d.Ones(2, 3)) }),
	)
}
