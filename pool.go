package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// PoolOptions are the options of pooling. The zero value moves the window by its
// own size, without padding or dilation.
type PoolOptions struct {
	Stride   Pair // 0 means the window's size
	Padding  Pair // at most half the window; it never wins a maximum
	Dilation Pair // max pooling only; 0 means 1
	Ceil     bool // a last window that sticks out counts too
	// ExcludePadding makes average pooling divide by the number of elements of
	// the image in the window, not by the window's size.
	ExcludePadding bool
}

// MaxPool2D returns the largest element of each window: x (N, C, H, W) or (C, H, W).
func MaxPool2D(x *Tensor, window Pair, o PoolOptions) *Tensor {
	return pool("MaxPool2D", op.MaxPool, x, window, o, 2)
}

// MaxPool1D returns the largest element of each window: x (N, C, L) or (C, L).
func MaxPool1D(x *Tensor, window int, o PoolOptions) *Tensor {
	return pool("MaxPool1D", op.MaxPool, x, Pair(window), o, 1)
}

// MaxPool2DWithPositions returns the largest element of each window, as
// [MaxPool2D] does, and where it is: the position h·W + w of the first of them in
// its channel, as int64.
func MaxPool2DWithPositions(x *Tensor, window Pair, o PoolOptions) (y, positions *Tensor) {
	return poolPositions("MaxPool2DWithPositions", x, window, o, 2)
}

// MaxPool1DWithPositions is [MaxPool2DWithPositions] for sequences: x (N, C, L) or
// (C, L).
func MaxPool1DWithPositions(x *Tensor, window int, o PoolOptions) (y, positions *Tensor) {
	return poolPositions("MaxPool1DWithPositions", x, Pair(window), o, 1)
}

// poolPositions reads the elements where they were found: one pass over x.
func poolPositions(name string, x *Tensor, window Pair, o PoolOptions, dims int) (y, positions *Tensor) {
	x.check(name)
	positions = pool(name, op.MaxPoolIndices, x.detach(), window, o, dims)
	lead := len(x.shape) - dims
	flat := append(slices.Clone(x.shape[:lead]), op.Elements(x.shape[lead:]))
	at := append(slices.Clone(positions.shape[:lead]), op.Elements(positions.shape[lead:]))
	y = apply(op.Gather, op.Axis{Axis: lead}, x.reshape(flat), positions.reshape(at))
	return y.reshape(positions.shape).owned(), positions
}

// AvgPool2D returns the average of each window: x (N, C, H, W) or (C, H, W).
func AvgPool2D(x *Tensor, window Pair, o PoolOptions) *Tensor {
	return pool("AvgPool2D", op.AvgPool, x, window, o, 2)
}

// AvgPool1D returns the average of each window: x (N, C, L) or (C, L).
func AvgPool1D(x *Tensor, window int, o PoolOptions) *Tensor {
	return pool("AvgPool1D", op.AvgPool, x, Pair(window), o, 1)
}

func pool(name string, id op.ID, x *Tensor, window Pair, o PoolOptions, dims int) *Tensor {
	in := []*Tensor{x}
	x.check(name)
	if window == 0 {
		failf(name, ErrArgument, in, "the window has size 0")
	}
	if id == op.AvgPool && o.Dilation != 0 && o.Dilation != 1 {
		failf(name, ErrArgument, in, "average pooling has no dilation")
	}
	image, restore := asImage(name, in, x, dims)
	if o.Stride == 0 {
		o.Stride = window
	}
	if dims == 1 {
		window, o.Stride = window.flat(0, 1), o.Stride.flat(0, 1)
		o.Padding, o.Dilation = o.Padding.flat(0, 0), o.Dilation.flat(1, 1)
	}
	defer naming(name, in)
	p := op.Pool{Kernel: window.or(0), Stride: o.Stride.or(0), Pad: o.Padding.or(0), Dilation: o.Dilation.or(1),
		CountPad: !o.ExcludePadding, CeilMode: o.Ceil}
	return restore(poolImage(id, p, image))
}

// poolImage pools a batch of images.
func poolImage(id op.ID, p op.Pool, image *Tensor) *Tensor {
	y := apply(id, p, image)
	if id == op.AvgPool && p.CeilMode && p.CountPad {
		y = y.overhang(p, image)
	}
	return y
}

// overhang corrects averages of windows that stick out over the padding: the
// primitive divides by the whole window, but what is out there does not count.
func (t *Tensor) overhang(p op.Pool, image *Tensor) *Tensor {
	for i := range 2 {
		k, end := p.Kernel[i], image.shape[2+i]+p.Pad[i]
		n := t.shape[2+i]
		if n == 0 || (n-1)*p.Stride[i]-p.Pad[i]+k <= end {
			continue
		}
		start := t.arange(n).Mul(p.Stride[i]).Sub(p.Pad[i])
		scale := start.Add(k).Minimum(end).Sub(start).Cast(t.dtype).Reciprocal().Mul(k)
		if i == 0 {
			scale = scale.Unsqueeze(1)
		}
		t = t.Mul(scale)
	}
	return t
}

// AdaptiveAvgPool2D returns averages of windows that are chosen so that the result
// has the given size: x (N, C, H, W) or (C, H, W).
func AdaptiveAvgPool2D(x *Tensor, size Pair) *Tensor {
	return adaptive("AdaptiveAvgPool2D", op.AvgPool, x, size, 2)
}

// AdaptiveAvgPool1D is [AdaptiveAvgPool2D] for sequences: x (N, C, L) or (C, L).
func AdaptiveAvgPool1D(x *Tensor, size int) *Tensor {
	return adaptive("AdaptiveAvgPool1D", op.AvgPool, x, Pair(size), 1)
}

// AdaptiveMaxPool2D returns the largest elements of windows that are chosen so
// that the result has the given size: x (N, C, H, W) or (C, H, W).
func AdaptiveMaxPool2D(x *Tensor, size Pair) *Tensor {
	return adaptive("AdaptiveMaxPool2D", op.MaxPool, x, size, 2)
}

// AdaptiveMaxPool1D is [AdaptiveMaxPool2D] for sequences: x (N, C, L) or (C, L).
func AdaptiveMaxPool1D(x *Tensor, size int) *Tensor {
	return adaptive("AdaptiveMaxPool1D", op.MaxPool, x, Pair(size), 1)
}

func adaptive(name string, id op.ID, x *Tensor, size Pair, dims int) *Tensor {
	in := []*Tensor{x}
	x.check(name)
	image, restore := asImage(name, in, x, dims)
	if dims == 1 {
		size = size.flat(0, 1)
	}
	defer naming(name, in)
	return restore(adaptiveImage(name, in, id, image, size.or(0)))
}

// adaptiveImage is adaptive pooling of a batch of images.
func adaptiveImage(name string, in []*Tensor, id op.ID, image *Tensor, out [2]int) *Tensor {
	x := image
	p := op.Pool{Dilation: [2]int{1, 1}, CountPad: true}
	fits(x.place, name, x.dtype, []int{image.shape[0], image.shape[1], out[0], out[1]}, in...)
	var scale *Tensor // where windows differ in size, what each average was too small by
	for i := range 2 {
		n := image.shape[2+i]
		if out[i] < 1 || n < 1 {
			failf(name, ErrShape, in, "cannot pool %d elements to %d", n, out[i])
		}
		if n%out[i] == 0 {
			p.Kernel[i], p.Stride[i] = n/out[i], n/out[i]
			continue
		}
		// Window i goes from ⌊i·n/out⌋ to below ⌈(i+1)·n/out⌉. They overlap and differ
		// in size by one: laid out one after the other, each with the size of the
		// largest, they can be pooled as others are.
		window := n/out[i] + 1
		if out[i]%(n%out[i]) != 0 { // some begin and end inside elements that others share
			window++
		}
		p.Kernel[i], p.Stride[i] = window, window
		at := x.arange(out[i])
		start := at.Mul(n).FloorDiv(out[i])
		stop := at.Add(1).Mul(n).Add(out[i] - 1).FloorDiv(out[i])
		index := start.Unsqueeze(1).Add(x.arange(window))
		last := stop.Unsqueeze(1).Sub(1)
		// What a smaller window has no element for repeats its last, which changes no
		// maximum; in an average it counts as zero.
		laid := image.Take(2+i, index.Minimum(last).Flatten())
		if id == op.AvgPool {
			inside := index.Le(last)
			size := stop.Sub(start).Cast(x.dtype)
			if i == 0 {
				inside, size = inside.Flatten().Unsqueeze(1), size.Unsqueeze(1)
			} else {
				inside = inside.Flatten()
			}
			laid = inside.Where(laid, 0)
			s := size.Reciprocal().Mul(window)
			if scale != nil {
				s = scale.Mul(s)
			}
			scale = s
		}
		image = laid
	}
	y := apply(id, p, image)
	if scale != nil {
		y = y.Mul(scale)
	}
	return y
}

// GlobalAvgPool returns the average of each channel: x (N, C, …), result (N, C).
func GlobalAvgPool(x *Tensor) *Tensor {
	return x.Mean(behindChannels("GlobalAvgPool", x)...)
}

// GlobalMaxPool returns the largest element of each channel: x (N, C, …), result
// (N, C).
func GlobalMaxPool(x *Tensor) *Tensor {
	return x.Max(behindChannels("GlobalMaxPool", x)...)
}

// behindChannels lists the axes behind (N, C).
func behindChannels(name string, x *Tensor) []int {
	x.check(name)
	if len(x.shape) < 3 {
		failf(name, ErrShape, []*Tensor{x}, "x has %d dimensions; want (N, C, …) with at least 3", len(x.shape))
	}
	axes := make([]int, len(x.shape)-2)
	for i := range axes {
		axes[i] = 2 + i
	}
	return axes
}
