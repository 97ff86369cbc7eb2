package locus

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// ConvOptions are the options of convolutions. The zero value is a stride of 1,
// no padding, no dilation, one group.
type ConvOptions struct {
	Stride   Pair // 0 means 1
	Padding  Pair // zeros on all sides, or Same
	Dilation Pair // 0 means 1
	Groups   int  // 0 means 1
}

// Conv2D returns the cross-correlation of images with a kernel: x (N, C, H, W) or
// (C, H, W), weight (O, C/groups, KH, KW), bias (O) or nil, result (N, O, OH, OW).
// With an activation it returns the activation of that. Bias and activation need no
// further pass over the result where the device can fuse them.
func Conv2D(x, weight, bias *Tensor, o ConvOptions, activation ...Activation) *Tensor {
	return conv("Conv2D", x, weight, bias, o, 2, activation)
}

// Conv1D returns the cross-correlation of sequences with a kernel: x (N, C, L) or
// (C, L), weight (O, C/groups, K), bias (O) or nil, result (N, O, OL). For an
// activation see [Conv2D].
func Conv1D(x, weight, bias *Tensor, o ConvOptions, activation ...Activation) *Tensor {
	o.Stride, o.Padding, o.Dilation = o.Stride.flat(1, 1), o.Padding.flat(0, 0), o.Dilation.flat(1, 1)
	return conv("Conv1D", x, weight, bias, o, 1, activation)
}

// inGroups says how a convolution's channels are divided, for errors. 0 means one group.
func inGroups(groups int) string {
	if groups == 0 || groups == 1 {
		return "in one group"
	}
	return fmt.Sprintf("in %d groups", groups)
}

func conv(name string, x, weight, bias *Tensor, o ConvOptions, dims int, activation []Activation) *Tensor {
	in := given(2, x, weight, bias)
	checkOperands(name, in)
	act := oneActivation(name, in, activation)
	x, weight, restore := asImages(name, in, dims)
	groups := max(o.Groups, 1)
	if o.Groups < 0 || x.shape[1] != weight.shape[1]*groups || weight.shape[0]%groups != 0 {
		failf(name, ErrShape, in, "x has %d channels; a weight of shape %s %s needs %d, and a number of output channels that is a multiple of the groups",
			x.shape[1], op.ShapeString(in[1].shape), inGroups(o.Groups), weight.shape[1]*groups)
	}
	c := op.Conv{Stride: o.Stride.or(1), Dilation: o.Dilation.or(1), Groups: groups}
	if o.Padding == Same {
		if c.Stride != [2]int{1, 1} {
			failf(name, ErrArgument, in, "padding Same needs a stride of 1, not %s", o.Stride)
		}
		// Where the padding is odd, the side after the image gets one more.
		extra := make([]int, 8)
		for i := range 2 {
			total := c.Dilation[i] * (weight.shape[2+i] - 1)
			c.Pad[i] = total / 2
			extra[2*(2+i)+1] = total % 2
		}
		if slices.Max(extra) > 0 {
			x = x.Pad(0, extra...)
		}
	} else {
		c.Pad = o.Padding.or(0)
	}
	defer naming(name, in)
	return restore(convolve(c, x, weight, bias, act))
}

// convolve computes a convolution of images that has been checked.
func convolve(c op.Conv, x, weight, bias *Tensor, act Activation) *Tensor {
	if inPatches(c, x, weight) {
		return patches(c, x, weight, bias, act)
	}
	if bias == nil && act == NoActivation {
		return apply(op.Conv2D, c, x, weight)
	}
	operands := given(2, x, weight, bias)
	if act.needsOperand() && tracked(operands) {
		return apply(act.op(), nil, convAct(op.ConvEpilogue{Conv: c}, operands))
	}
	return convAct(op.ConvEpilogue{Conv: c, Act: act.op()}, operands)
}

// inPatches reports whether a convolution looks at every element once, and at enough at
// a time: then it is a product, which is faster on all devices.
func inPatches(c op.Conv, x, weight *Tensor) bool {
	kernel := [2]int{weight.shape[2], weight.shape[3]}
	return c.Groups == 1 && c.Pad == [2]int{} && c.Stride == kernel && kernel[0]*kernel[1] >= 16 && c.Dilation == [2]int{1, 1} &&
		x.shape[2] >= kernel[0] && x.shape[3] >= kernel[1] && x.Len() > 0 && x.dtype == weight.dtype
}

// patches computes such a convolution. Images come out with their channels side by side.
func patches(c op.Conv, x, weight, bias *Tensor, act Activation) *Tensor {
	n, in, out := x.shape[0], x.shape[1], weight.shape[0]
	h, w := x.shape[2]/c.Stride[0], x.shape[3]/c.Stride[1]
	x = x.Narrow(2, 0, h*c.Stride[0]).Narrow(3, 0, w*c.Stride[1])
	rows := x.Reshape(n, in, h, c.Stride[0], w, c.Stride[1]).Permute(0, 2, 4, 1, 3, 5).Reshape(n*h*w, in*c.Stride[0]*c.Stride[1])
	y := Linear(rows, weight.Reshape(out, -1), bias, act)
	return y.Reshape(n, h, w, out).Permute(0, 3, 1, 2).owned()
}

// ConvTransposeOptions are the options of transposed convolutions. They describe
// the convolution whose transpose is computed.
type ConvTransposeOptions struct {
	Stride        Pair // 0 means 1
	Padding       Pair // what the convolution pads, so that much is cut off here
	OutputPadding Pair // chooses among the sizes that the convolution maps to x's; less than the stride
	Dilation      Pair // 0 means 1
	Groups        int  // 0 means 1
}

// ConvTranspose2D returns the transpose of [Conv2D] as a map of images, as
// networks use it to enlarge them: x (N, C, H, W) or (C, H, W), weight (C,
// O/groups, KH, KW), bias (O) or nil. An axis of size n becomes
// (n-1)·stride - 2·padding + dilation·(k-1) + outputPadding + 1.
func ConvTranspose2D(x, weight, bias *Tensor, o ConvTransposeOptions) *Tensor {
	return convTranspose("ConvTranspose2D", x, weight, bias, o, 2)
}

// ConvTranspose1D returns the transpose of [Conv1D]: x (N, C, L) or (C, L), weight
// (C, O/groups, K), bias (O) or nil.
func ConvTranspose1D(x, weight, bias *Tensor, o ConvTransposeOptions) *Tensor {
	o.Stride, o.Padding, o.Dilation = o.Stride.flat(1, 1), o.Padding.flat(0, 0), o.Dilation.flat(1, 1)
	o.OutputPadding = o.OutputPadding.flat(0, 0)
	return convTranspose("ConvTranspose1D", x, weight, bias, o, 1)
}

func convTranspose(name string, x, weight, bias *Tensor, o ConvTransposeOptions, dims int) *Tensor {
	in := given(2, x, weight, bias)
	checkOperands(name, in)
	x, weight, restore := asImages(name, in, dims)
	groups := max(o.Groups, 1)
	if o.Groups < 0 || x.shape[1] != weight.shape[0] || weight.shape[0]%groups != 0 {
		failf(name, ErrShape, in, "x has %d channels; a weight of shape %s %s needs %d, a multiple of the groups",
			x.shape[1], op.ShapeString(in[1].shape), inGroups(o.Groups), weight.shape[0])
	}
	if o.Padding == Same {
		failf(name, ErrArgument, in, "padding Same is for convolutions; pass the padding as a number")
	}
	c := op.Conv{Stride: o.Stride.or(1), Pad: o.Padding.or(0), Dilation: o.Dilation.or(1), Groups: groups}
	more := o.OutputPadding.or(0)
	for i := range 2 {
		if more[i] < 0 || more[i] >= max(c.Stride[i], 1) {
			failf(name, ErrArgument, in, "output padding %s must be less than the stride %v", o.OutputPadding, c.Stride)
		}
		c.Size[i] = (x.shape[2+i]-1)*c.Stride[i] - 2*c.Pad[i] + c.Dilation[i]*(weight.shape[2+i]-1) + more[i] + 1
		if c.Size[i] < 1 {
			failf(name, ErrShape, in, "the result would have size %d", c.Size[i])
		}
	}
	defer naming(name, in)
	return restore(addBias(name, in, apply(op.ConvGradInput, c, x, weight), bias))
}

// asImages returns x and weight of a convolution over one or two axes as batches
// of images and kernels, and a function that brings the result to x's form.
func asImages(name string, in []*Tensor, dims int) (x, weight *Tensor, restore func(*Tensor) *Tensor) {
	x, weight = in[0], in[1]
	x, restore = asImage(name, in, x, dims)
	if len(weight.shape) != dims+2 {
		failf(name, ErrShape, in, "weight has %d dimensions; want %d", len(weight.shape), dims+2)
	}
	if dims == 1 {
		weight = weight.Unsqueeze(2)
	}
	return x, weight, restore
}

// asImage returns x, with or without a batch, of one or two axes behind the
// channels, as a batch of images, and a function that takes away again what was
// put in.
func asImage(name string, in []*Tensor, x *Tensor, dims int) (*Tensor, func(*Tensor) *Tensor) {
	batched := len(x.shape) == dims+2
	if !batched && len(x.shape) != dims+1 {
		failf(name, ErrShape, in, "x has %d dimensions; want %d, or %d without a batch", len(x.shape), dims+2, dims+1)
	}
	if !batched {
		x = x.Unsqueeze(0)
	}
	if dims == 1 {
		x = x.Unsqueeze(2)
	}
	return x, func(y *Tensor) *Tensor {
		if dims == 1 {
			y = y.Squeeze(2)
		}
		if !batched {
			y = y.Squeeze(0)
		}
		return y.fresh(x)
	}
}

func addBias(name string, in []*Tensor, y, bias *Tensor) *Tensor {
	if bias == nil {
		return y
	}
	if !sameShape(bias.shape, []int{y.shape[1]}) {
		failf(name, ErrShape, in, "bias has shape %s; want one number for each of %d channels", op.ShapeString(bias.shape), y.shape[1])
	}
	return y.addAndFree(perChannel(bias, len(y.shape)))
}
