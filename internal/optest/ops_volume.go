package optest

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

// Triple returns one size for depth, height and width, or three; 0 where the record has
// none.
func (c *Call) Triple(name string) locus.Triple {
	if !c.Has(name) {
		return 0
	}
	switch v := c.attr(name).(type) {
	case string:
		return locus.Same
	case []any:
		return locus.DHW(int(toFloat(v[0])), int(toFloat(v[1])), int(toFloat(v[2])))
	}
	return locus.Triple(c.Int(name))
}

func volumeOps() []*Op {
	options := func(c *Call) locus.Conv3DOptions {
		return locus.Conv3DOptions{Stride: c.Triple("stride"), Padding: c.Triple("padding"), Dilation: c.Triple("dilation"), Groups: c.IntOr("groups", 0)}
	}
	pool := func(c *Call) locus.Pool3DOptions {
		return locus.Pool3DOptions{Stride: c.Triple("stride"), Padding: c.Triple("padding"), Dilation: c.Triple("dilation"), Ceil: c.Bool("ceil"),
			ExcludePadding: c.Bool("exclude")}
	}
	numbers := func(o *Op) { o.DTypes = dtype.Numbers }
	const rank, window = "another rank", "a window of 0"
	volume := func(d locus.Device) *tensor { return d.Ones(1, 1, 4, 4, 4) }
	return group("Linear maps, convolution and pooling",
		network("Conv3D", func(c *Call) *tensor {
			return locus.Conv3D(c.In[0], c.In[1], c.operand(2), options(c), c.activation()...)
		}).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrShape, "channels that do not fit", func(d locus.Device) {
				locus.Conv3D(d.Ones(1, 3, 4, 4, 4), d.Ones(2, 2, 3, 3, 3), nil, locus.Conv3DOptions{})
			}).
			bad(locus.ErrShape, "a kernel deeper than the volume", func(d locus.Device) {
				locus.Conv3D(d.Ones(1, 1, 2, 4, 4), d.Ones(1, 1, 3, 3, 3), nil, locus.Conv3DOptions{})
			}).
			bad(locus.ErrShape, "a kernel wider than the volume", func(d locus.Device) {
				locus.Conv3D(d.Ones(1, 1, 4, 4, 2), d.Ones(1, 1, 3, 3, 3), nil, locus.Conv3DOptions{})
			}).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.Conv3D(d.Ones(2, 2), d.Ones(1, 1, 3, 3, 3), nil, locus.Conv3DOptions{}) }).
			bad(locus.ErrShape, "a kernel of another rank", func(d locus.Device) { locus.Conv3D(volume(d), d.Ones(1, 1, 3, 3), nil, locus.Conv3DOptions{}) }).
			bad(locus.ErrShape, "a bias that does not fit", func(d locus.Device) {
				locus.Conv3D(volume(d), d.Ones(2, 1, 3, 3, 3), d.Ones(3), locus.Conv3DOptions{})
			}).
			bad(locus.ErrDType, "a kernel of another type", func(d locus.Device) {
				locus.Conv3D(volume(d), d.As(locus.Float64).Ones(2, 1, 3, 3, 3), nil, locus.Conv3DOptions{})
			}).
			bad(locus.ErrArgument, "a negative stride", func(d locus.Device) {
				locus.Conv3D(volume(d), d.Ones(1, 1, 3, 3, 3), nil, locus.Conv3DOptions{Stride: -1})
			}).
			bad(locus.ErrArgument, "padding Same with a stride", func(d locus.Device) {
				locus.Conv3D(volume(d), d.Ones(1, 1, 3, 3, 3), nil, locus.Conv3DOptions{Stride: 2, Padding: locus.Same})
			}),
		network("ConvTranspose3D", func(c *Call) *tensor {
			o := options(c)
			return locus.ConvTranspose3D(c.In[0], c.In[1], c.operand(2), locus.ConvTranspose3DOptions{Stride: o.Stride, Padding: o.Padding, Dilation: o.Dilation,
				OutputPadding: c.Triple("output_padding"), Groups: o.Groups})
		}).with(func(o *Op) { o.Optional = 2 }).
			bad(locus.ErrShape, "channels that do not fit", func(d locus.Device) {
				locus.ConvTranspose3D(d.Ones(1, 3, 4, 4, 4), d.Ones(2, 3, 3, 3, 3), nil, locus.ConvTranspose3DOptions{})
			}).
			bad(locus.ErrArgument, "output padding as large as the stride", func(d locus.Device) {
				locus.ConvTranspose3D(volume(d), d.Ones(1, 1, 3, 3, 3), nil, locus.ConvTranspose3DOptions{OutputPadding: 1})
			}).
			bad(locus.ErrArgument, "padding Same", func(d locus.Device) {
				locus.ConvTranspose3D(volume(d), d.Ones(1, 1, 3, 3, 3), nil, locus.ConvTranspose3DOptions{Padding: locus.Same})
			}),
		network("MaxPool3D", func(c *Call) *tensor { return locus.MaxPool3D(c.In[0], c.Triple("window"), pool(c)) }).with(numbers).
			bad(locus.ErrArgument, window, func(d locus.Device) { locus.MaxPool3D(volume(d), 0, locus.Pool3DOptions{}) }).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.MaxPool3D(d.Ones(4, 4, 4), 2, locus.Pool3DOptions{}) }).
			bad(locus.ErrShape, "a window deeper than the volume", func(d locus.Device) { locus.MaxPool3D(d.Ones(1, 1, 2, 4, 4), 3, locus.Pool3DOptions{}) }).
			bad(locus.ErrArgument, "padding of more than half the window", func(d locus.Device) { locus.MaxPool3D(volume(d), 2, locus.Pool3DOptions{Padding: 2}) }),
		positions("MaxPool3DWithPositions", func(c *Call) (y, at *tensor) {
			return locus.MaxPool3DWithPositions(c.In[0], c.Triple("window"), pool(c))
		}).
			bad(locus.ErrArgument, window, func(d locus.Device) { locus.MaxPool3DWithPositions(volume(d), 0, locus.Pool3DOptions{}) }).
			bad(locus.ErrShape, "a window wider than the volume", func(d locus.Device) {
				locus.MaxPool3DWithPositions(d.Ones(1, 1, 4, 4, 2), 3, locus.Pool3DOptions{})
			}),
		network("AvgPool3D", func(c *Call) *tensor { return locus.AvgPool3D(c.In[0], c.Triple("window"), pool(c)) }).
			bad(locus.ErrArgument, "dilation", func(d locus.Device) { locus.AvgPool3D(volume(d), 2, locus.Pool3DOptions{Dilation: 2}) }),
		network("AdaptiveAvgPool3D", func(c *Call) *tensor { return locus.AdaptiveAvgPool3D(c.In[0], c.Triple("size")) }).
			bad(locus.ErrShape, "a size of 0", func(d locus.Device) { locus.AdaptiveAvgPool3D(volume(d), 0) }),
		network("AdaptiveMaxPool3D", func(c *Call) *tensor { return locus.AdaptiveMaxPool3D(c.In[0], c.Triple("size")) }).with(numbers).
			bad(locus.ErrShape, rank, func(d locus.Device) { locus.AdaptiveMaxPool3D(d.Ones(4, 4), 2) }),
	)
}

func samplingOps() []*Op {
	options := func(c *Call) locus.GridSampleOptions {
		o := locus.GridSampleOptions{Corners: c.Bool("corners"), Nearest: c.Has("mode") && c.String("mode") == "nearest"}
		for c.Has("padding") && o.Padding.String() != c.String("padding") {
			o.Padding++
		}
		return o
	}
	return group("Images and volumes",
		network("GridSample", func(c *Call) *tensor { return locus.GridSample(c.In[0], c.In[1], options(c)) }).
			bad(locus.ErrShape, "a grid of another rank", func(d locus.Device) {
				locus.GridSample(d.Ones(1, 1, 3, 3), d.Ones(1, 2, 2), locus.GridSampleOptions{})
			}).
			bad(locus.ErrShape, "places with three numbers in images", func(d locus.Device) {
				locus.GridSample(d.Ones(1, 1, 3, 3), d.Ones(1, 2, 2, 3), locus.GridSampleOptions{})
			}).
			bad(locus.ErrShape, "batches that differ", func(d locus.Device) {
				locus.GridSample(d.Ones(2, 1, 3, 3), d.Ones(1, 2, 2, 2), locus.GridSampleOptions{})
			}).
			bad(locus.ErrShape, "images without elements", func(d locus.Device) {
				locus.GridSample(d.Ones(1, 1, 0, 3), d.Ones(1, 2, 2, 2), locus.GridSampleOptions{})
			}).
			bad(locus.ErrDType, "a grid of another type", func(d locus.Device) {
				locus.GridSample(d.Ones(1, 1, 3, 3), d.As(locus.Float64).Ones(1, 2, 2, 2), locus.GridSampleOptions{})
			}).
			bad(locus.ErrArgument, "a padding that there is not", func(d locus.Device) {
				locus.GridSample(d.Ones(1, 1, 3, 3), d.Ones(1, 2, 2, 2), locus.GridSampleOptions{Padding: 9})
			}),
		network("AffineGrid", func(c *Call) *tensor { return locus.AffineGrid(c.In[0], c.Bool("corners"), c.Ints("size")...) }).
			bad(locus.ErrShape, "a theta that does not fit", func(d locus.Device) { locus.AffineGrid(d.Ones(1, 3, 4), false, 2, 2) }).
			bad(locus.ErrShape, "a size of 0", func(d locus.Device) { locus.AffineGrid(d.Ones(1, 2, 3), false, 0, 2) }).
			bad(locus.ErrArgument, "one size", func(d locus.Device) { locus.AffineGrid(d.Ones(1, 2, 3), false, 2) }),
	)
}

func alignmentOps() []*Op {
	reductions := map[string]locus.Reduction{"mean": locus.ReduceMean, "sum": locus.ReduceSum, "none": locus.ReduceNone}
	vector := func(c *Call) bool { return c.In[0].Rank() == 3 && c.In[1].Rank() == 1 }
	options := func(c *Call) locus.CTCOptions {
		o := locus.CTCOptions{Blank: c.IntOr("blank", 0), ZeroInfinity: c.Bool("zero")}
		if c.Has("reduction") {
			o.Reduction = reductions[c.String("reduction")]
		}
		return o
	}
	call := func(shape []int, targets []int, of []int, lengths, labels []int, o locus.CTCOptions) func(d locus.Device) {
		return func(d locus.Device) {
			locus.CTCLoss(d.Zeros(shape...), d.From(targets, of...), d.From(lengths), d.From(labels), o).Item()
		}
	}
	row := []int{1, 2}
	one := []int{1, 2} // the shape of one target of two labels
	return group("Losses",
		network("CTCLoss", func(c *Call) *tensor {
			return locus.CTCLoss(c.In[0], c.In[1], c.operand(2), c.operand(3), options(c))
		}).with(func(o *Op) { o.Optional, o.Waits = 2, vector }).
			bad(locus.ErrShape, "scores of one axis", func(d locus.Device) { locus.CTCLoss(d.Zeros(4), d.From(row), nil, nil, locus.CTCOptions{}) }).
			bad(locus.ErrShape, "targets of another batch", call([]int{4, 2, 3}, row, one, []int{4, 4}, []int{2, 2}, locus.CTCOptions{})).
			bad(locus.ErrShape, "a vector of targets without lengths", func(d locus.Device) {
				locus.CTCLoss(d.Zeros(4, 1, 3), d.From(row), nil, nil, locus.CTCOptions{})
			}).
			bad(locus.ErrShape, "a vector of targets that does not add up", call([]int{4, 1, 3}, row, nil, []int{4}, []int{1}, locus.CTCOptions{})).
			bad(locus.ErrShape, "lengths of another batch", call([]int{4, 1, 3}, row, one, []int{4, 4}, []int{2}, locus.CTCOptions{})).
			bad(locus.ErrDType, "targets that are not whole", func(d locus.Device) {
				locus.CTCLoss(d.Zeros(4, 1, 3), d.Ones(1, 2), nil, nil, locus.CTCOptions{})
			}).
			bad(locus.ErrArgument, "a blank that is no class", call([]int{4, 1, 3}, row, one, []int{4}, []int{2}, locus.CTCOptions{Blank: 3})).
			bad(locus.ErrIndex, "a label that is no class", call([]int{4, 1, 3}, []int{1, 3}, one, []int{4}, []int{2}, locus.CTCOptions{})).
			bad(locus.ErrIndex, "more steps than there are", call([]int{4, 1, 3}, row, one, []int{5}, []int{2}, locus.CTCOptions{})).
			bad(locus.ErrIndex, "more labels than there are", call([]int{4, 1, 3}, row, one, []int{4}, []int{3}, locus.CTCOptions{})),
	)
}
