package locus

import "github.com/locusml/locus/internal/op"

// Conv3DOptions are the options of convolutions of volumes. The zero value is a stride
// of 1, no padding, no dilation, one group.
type Conv3DOptions struct {
	Stride   Triple // 0 means 1
	Padding  Triple // zeros on all sides, or Same
	Dilation Triple // 0 means 1
	Groups   int    // 0 means 1
}

// Conv3D returns the cross-correlation of volumes with a kernel: x (N, C, D, H, W) or
// (C, D, H, W), weight (O, C/groups, KD, KH, KW), bias (O) or nil, result
// (N, O, OD, OH, OW). For an activation see [Conv2D].
//
// It is computed as a [Conv2D] of the result's slices, whose channels are those of all
// slices of x that a kernel sees: that takes KD times the memory of x.
func Conv3D(x, weight, bias *Tensor, o Conv3DOptions, activation ...Activation) *Tensor {
	const name = "Conv3D"
	in := given(2, x, weight, bias)
	checkOperands(name, in)
	act := oneActivation(name, in, activation)
	x, restore := asVolume(name, in, x)
	if len(weight.shape) != 5 {
		failf(name, ErrShape, in, "weight has %d dimensions; want 5", len(weight.shape))
	}
	groups := max(o.Groups, 1)
	if o.Groups < 0 || x.shape[1] != weight.shape[1]*groups || weight.shape[0]%groups != 0 {
		failf(name, ErrShape, in, "x has %d channels; a weight of shape %s %s needs %d, and a number of output channels that is a multiple of the groups",
			x.shape[1], op.ShapeString(weight.shape), inGroups(o.Groups), weight.shape[1]*groups)
	}
	defer naming(name, in)
	g := kernel3D{kernel: [3]int(weight.shape[2:]), stride: o.Stride.or(1), dilation: o.Dilation.or(1), groups: groups}
	var extra [3]int
	if o.Padding == Same {
		if g.stride != [3]int{1, 1, 1} {
			failf(name, ErrArgument, in, "padding Same needs a stride of 1, not %s", o.Stride)
		}
		// Where the padding is odd, the side after the volume gets one more.
		for i, k := range g.kernel {
			total := g.dilation[i] * (k - 1)
			g.pad[i], extra[i] = total/2, total%2
		}
	} else {
		g.pad = o.Padding.or(0)
	}
	g.check(name, in)
	depth := x.shape[2] + 2*g.pad[0] + extra[0]
	if span := g.dilation[0]*(g.kernel[0]-1) + 1; depth < span {
		failf(name, ErrShape, in, "a kernel of size %d with dilation %d does not fit into %d elements with padding %d", g.kernel[0], g.dilation[0], x.shape[2], g.pad[0])
	}
	// Height and width are padded by the convolution of images, unevenly only here.
	// Before anything is laid out: what the kernel sees, and the result.
	places := g.places(depth)
	result := []int{x.shape[0], weight.shape[0], places}
	for i := 1; i < 3; i++ {
		result = append(result, max(0, op.ConvOut(x.shape[2+i]+extra[i], g.kernel[i], g.stride[i], g.pad[i], g.dilation[i])))
	}
	fits(x.place, name, x.dtype, result, in...)
	fits(x.place, name, x.dtype, []int{x.shape[0], places, g.kernel[0], x.shape[1], x.shape[3], x.shape[4]}, in...)
	padded := x.Permute(0, 2, 1, 3, 4)
	if g.pad[0] > 0 || extra != [3]int{} {
		padded = padded.Pad(0, 0, 0, g.pad[0], g.pad[0]+extra[0], 0, 0, 0, extra[1], 0, extra[2])
	}
	windows := g.windows(padded)
	padded.freeBetween(x, windows)
	y := convolve(g.image(), windows, g.flat(weight), bias, act)
	windows.freeBetween(x, y)
	s := y.shape
	return restore(y.reshape([]int{x.shape[0], g.places(depth), s[1], s[2], s[3]}).Permute(0, 2, 1, 3, 4))
}

// freeBetween frees a step of a composition on the way from an operand to y, unless it is
// a view of one of them or a gradient may need it.
func (t *Tensor) freeBetween(x, y *Tensor) {
	if y.node == nil && t.block != nil && t.block != x.block && t.block != y.block {
		t.freeMemory()
	}
}

// ConvTranspose3DOptions are the options of transposed convolutions of volumes, as in
// [ConvTransposeOptions].
type ConvTranspose3DOptions struct {
	Stride        Triple // 0 means 1
	Padding       Triple // what the convolution pads, so that much is cut off here
	OutputPadding Triple // chooses among the sizes that the convolution maps to x's; less than the stride
	Dilation      Triple // 0 means 1
	Groups        int    // 0 means 1
}

// ConvTranspose3D returns the transpose of [Conv3D] as a map of volumes: x (N, C, D, H, W)
// or (C, D, H, W), weight (C, O/groups, KD, KH, KW), bias (O) or nil. For the sizes see
// [ConvTranspose2D].
func ConvTranspose3D(x, weight, bias *Tensor, o ConvTranspose3DOptions) *Tensor {
	const name = "ConvTranspose3D"
	in := given(2, x, weight, bias)
	checkOperands(name, in)
	x, restore := asVolume(name, in, x)
	if len(weight.shape) != 5 {
		failf(name, ErrShape, in, "weight has %d dimensions; want 5", len(weight.shape))
	}
	groups := max(o.Groups, 1)
	if o.Groups < 0 || x.shape[1] != weight.shape[0] || weight.shape[0]%groups != 0 {
		failf(name, ErrShape, in, "x has %d channels; a weight of shape %s %s needs %d, a multiple of the groups",
			x.shape[1], op.ShapeString(weight.shape), inGroups(o.Groups), weight.shape[0])
	}
	if o.Padding == Same {
		failf(name, ErrArgument, in, "padding Same is for convolutions; pass the padding as a number")
	}
	defer naming(name, in)
	g := kernel3D{kernel: [3]int(weight.shape[2:]), stride: o.Stride.or(1), pad: o.Padding.or(0), dilation: o.Dilation.or(1), groups: groups}
	g.check(name, in)
	more := o.OutputPadding.or(0)
	var size [3]int
	for i := range 3 {
		if more[i] < 0 || more[i] >= g.stride[i] {
			failf(name, ErrArgument, in, "output padding %s must be less than the stride %v", o.OutputPadding, g.stride)
		}
		size[i] = (x.shape[2+i]-1)*g.stride[i] - 2*g.pad[i] + g.dilation[i]*(g.kernel[i]-1) + more[i] + 1
		if size[i] < 1 {
			failf(name, ErrShape, in, "the result would have size %d", size[i])
		}
	}
	n, depth, channels := x.shape[0], x.shape[2], weight.shape[1]*groups
	fits(x.place, name, x.dtype, []int{n, channels, size[0], size[1], size[2]}, in...)
	c := g.image()
	c.Size = [2]int{size[1], size[2]}
	images := x.Permute(0, 2, 1, 3, 4).reshape([]int{n * depth, x.shape[1], x.shape[3], x.shape[4]})
	windows := apply(op.ConvGradInput, c, images, g.flat(weight))
	y := g.addWindows(windows, n, depth, size[0]+2*g.pad[0])
	y = y.Narrow(1, g.pad[0], g.pad[0]+size[0]).Permute(0, 2, 1, 3, 4)
	return restore(addBias(name, in, y, bias))
}

// kernel3D is how a kernel moves over volumes.
type kernel3D struct {
	kernel, stride, pad, dilation [3]int
	groups                        int
}

func (g kernel3D) check(name string, in []*Tensor) {
	for i := range 3 {
		if g.kernel[i] < 1 {
			failf(name, ErrShape, in, "the kernel has size %d on axis %d", g.kernel[i], i)
		}
		if g.stride[i] < 1 || g.dilation[i] < 1 || g.pad[i] < 0 {
			failf(name, ErrArgument, in, "stride %v and dilation %v must be positive, padding %v not negative", g.stride, g.dilation, g.pad)
		}
	}
}

// image is the convolution of slices.
func (g kernel3D) image() op.Conv {
	last := func(s [3]int) [2]int { return [2]int(s[1:]) }
	return op.Conv{Stride: last(g.stride), Pad: last(g.pad), Dilation: last(g.dilation), Groups: g.groups}
}

// places returns how many slices the result has for the given number of padded ones.
func (g kernel3D) places(depth int) int {
	return op.ConvOut(depth, g.kernel[0], g.stride[0], 0, g.dilation[0])
}

// at returns the slices that the kernel sees at each of its places, one place after
// the other.
func (g kernel3D) at(t *Tensor, places int) *Tensor {
	first := t.arange(places).Mul(g.stride[0])
	return first.Unsqueeze(1).Add(t.arange(g.kernel[0]).Mul(g.dilation[0])).Flatten()
}

// apart reports whether the kernel sees every slice once.
func (g kernel3D) apart() bool {
	return g.stride[0] == g.kernel[0] && (g.dilation[0] == 1 || g.kernel[0] == 1)
}

// windows makes of padded slices (N, D, C, H, W) images (N·OD, KD·C, H, W), whose
// channels are group by group those of all slices that the kernel sees.
func (g kernel3D) windows(x *Tensor) *Tensor {
	n, c, h, w := x.shape[0], x.shape[2], x.shape[3], x.shape[4]
	k, places := g.kernel[0], g.places(x.shape[1])
	if g.apart() {
		x = x.Narrow(1, 0, places*k)
	} else {
		x = x.take(1, g.at(x, places))
	}
	if g.groups > 1 && k > 1 {
		x = x.reshape([]int{n, places, k, g.groups, c / g.groups, h * w}).Permute(0, 1, 3, 2, 4, 5)
	}
	return x.reshape([]int{n * places, k * c, h, w})
}

// addWindows is the transpose of windows: it adds images up to slices (N, depth, C, H, W)
// where the kernel has that many places.
func (g kernel3D) addWindows(x *Tensor, n, places, depth int) *Tensor {
	k := g.kernel[0]
	c, h, w := x.shape[1]/k, x.shape[2], x.shape[3]
	if g.groups > 1 && k > 1 {
		x = x.reshape([]int{n, places, g.groups, k, c / g.groups, h * w}).Permute(0, 1, 3, 2, 4, 5)
	}
	x = x.reshape([]int{n, places * k, c, h, w})
	if g.apart() && depth == places*k {
		return x
	}
	return x.fullOf(0, []int{n, depth, c, h, w}).IndexAdd(1, g.at(x, places), x)
}

// flat makes of a kernel of volumes one of images with the channels of windows.
func (g kernel3D) flat(weight *Tensor) *Tensor {
	s := weight.shape
	return weight.Permute(0, 2, 1, 3, 4).reshape([]int{s[0], s[2] * s[1], s[3], s[4]})
}

// asVolume returns x, with or without a batch, as a batch of volumes, and a function that
// brings a result to x's form.
func asVolume(name string, in []*Tensor, x *Tensor) (*Tensor, func(*Tensor) *Tensor) {
	batched := len(x.shape) == 5
	if !batched && len(x.shape) != 4 {
		failf(name, ErrShape, in, "x has %d dimensions; want (N, C, D, H, W), or (C, D, H, W) without a batch", len(x.shape))
	}
	if !batched {
		x = x.Unsqueeze(0)
	}
	return x, func(y *Tensor) *Tensor {
		if !batched {
			y = y.Squeeze(0)
		}
		return y.fresh(x)
	}
}
