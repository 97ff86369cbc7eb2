package locus

import "github.com/locusml/locus/internal/op"

// Pool3DOptions are the options of pooling of volumes, as in [PoolOptions].
type Pool3DOptions struct {
	Stride   Triple // 0 means the window's size
	Padding  Triple // at most half the window; it never wins a maximum
	Dilation Triple // max pooling only; 0 means 1
	Ceil     bool   // a last window that sticks out counts too
	// ExcludePadding makes average pooling divide by the number of elements of
	// the volume in the window, not by the window's size.
	ExcludePadding bool
}

// MaxPool3D returns the largest element of each window: x (N, C, D, H, W) or (C, D, H, W).
func MaxPool3D(x *Tensor, window Triple, o Pool3DOptions) *Tensor {
	return pool3D("MaxPool3D", op.MaxPool, x, window, o)
}

// AvgPool3D returns the average of each window: x (N, C, D, H, W) or (C, D, H, W).
func AvgPool3D(x *Tensor, window Triple, o Pool3DOptions) *Tensor {
	return pool3D("AvgPool3D", op.AvgPool, x, window, o)
}

// pool3D pools each slice, and then over the slices: windows are boxes, so that the
// largest of the largest is found, and the average of averages.
func pool3D(name string, id op.ID, x *Tensor, window Triple, o Pool3DOptions) *Tensor {
	in := []*Tensor{x}
	x.check(name)
	volume, restore := asVolume(name, in, x)
	defer naming(name, in)
	plane, depth := o.stages(name, in, id, window)
	y := poolImage(id, plane, planesOf(volume))
	h, w := y.shape[2], y.shape[3]
	y = columnsOf(y)
	if depth.Kernel[0] != 1 || depth.Stride[0] != 1 {
		y = poolImage(id, depth, y)
	}
	return restore(volumesOf(y, volume, h, w))
}

// MaxPool3DWithPositions returns the largest element of each window, as [MaxPool3D]
// does, and where it is: the position (d·H + h)·W + w of the first of them in its
// channel, as int64.
func MaxPool3DWithPositions(x *Tensor, window Triple, o Pool3DOptions) (y, positions *Tensor) {
	const name = "MaxPool3DWithPositions"
	in := []*Tensor{x}
	x.check(name)
	volume, restore := asVolume(name, in, x)
	defer naming(name, in)
	plane, depth := o.stages(name, in, op.MaxPool, window)
	flat := planesOf(volume.detach())
	inPlane := apply(op.MaxPoolIndices, plane, flat) // of each slice, h·W + w
	h, w := inPlane.shape[2], inPlane.shape[3]
	largest := columnsOf(poolGather(flat, inPlane))
	inColumn := apply(op.MaxPoolIndices, depth, largest) // d·(h·w) + where in the slice's result
	at := poolGather(columnsOf(inPlane), inColumn)
	at = inColumn.FloorDiv(max(h*w, 1)).Mul(volume.shape[3] * volume.shape[4]).Add(at)
	positions = volumesOf(at, volume, h, w)
	perChannel := func(t *Tensor) *Tensor {
		return t.reshape([]int{t.shape[0], t.shape[1], op.Elements(t.shape[2:])})
	}
	y = perChannel(volume).Gather(2, perChannel(positions)).reshape(positions.shape)
	return restore(y), restore(positions)
}

// stages are the pooling of each slice and that over the slices.
func (o Pool3DOptions) stages(name string, in []*Tensor, id op.ID, window Triple) (plane, depth op.Pool) {
	if window == 0 {
		failf(name, ErrArgument, in, "the window has size 0")
	}
	if id == op.AvgPool && o.Dilation != 0 && o.Dilation != 1 {
		failf(name, ErrArgument, in, "average pooling has no dilation")
	}
	if o.Stride == 0 {
		o.Stride = window
	}
	k, s, p, d := window.or(0), o.Stride.or(0), o.Padding.or(0), o.Dilation.or(1)
	for i := range 3 {
		if k[i] < 1 || s[i] < 1 || d[i] < 1 || p[i] < 0 || p[i] > k[i]/2 {
			failf(name, ErrArgument, in, "window %v, stride %v and dilation %v must be positive, padding %v between 0 and half the window", k, s, d, p)
		}
	}
	plane = op.Pool{Kernel: [2]int(k[1:]), Stride: [2]int(s[1:]), Pad: [2]int(p[1:]), Dilation: [2]int(d[1:]), CountPad: !o.ExcludePadding, CeilMode: o.Ceil}
	depth = plane
	depth.Kernel, depth.Stride, depth.Pad, depth.Dilation = [2]int{k[0], 1}, [2]int{s[0], 1}, [2]int{p[0], 0}, [2]int{d[0], 1}
	return plane, depth
}

// planesOf returns volumes (N, C, D, H, W) as images (N·C, D, H, W).
func planesOf(x *Tensor) *Tensor {
	s := x.shape
	return x.reshape([]int{s[0] * s[1], s[2], s[3], s[4]})
}

// columnsOf returns images (M, D, H, W) as images (M, 1, D, H·W), whose columns go
// through the slices.
func columnsOf(x *Tensor) *Tensor {
	s := x.shape
	return x.reshape([]int{s[0], 1, s[1], s[2] * s[3]})
}

// volumesOf returns columns of slices of the given size as volumes with x's batch and
// channels.
func volumesOf(y, x *Tensor, h, w int) *Tensor {
	return y.reshape([]int{x.shape[0], x.shape[1], y.shape[2], h, w})
}

// AdaptiveAvgPool3D returns averages of windows that are chosen so that the result
// has the given size: x (N, C, D, H, W) or (C, D, H, W).
func AdaptiveAvgPool3D(x *Tensor, size Triple) *Tensor {
	return adaptive3D("AdaptiveAvgPool3D", op.AvgPool, x, size)
}

// AdaptiveMaxPool3D returns the largest elements of windows that are chosen so
// that the result has the given size: x (N, C, D, H, W) or (C, D, H, W).
func AdaptiveMaxPool3D(x *Tensor, size Triple) *Tensor {
	return adaptive3D("AdaptiveMaxPool3D", op.MaxPool, x, size)
}

func adaptive3D(name string, id op.ID, x *Tensor, size Triple) *Tensor {
	in := []*Tensor{x}
	x.check(name)
	volume, restore := asVolume(name, in, x)
	defer naming(name, in)
	out := size.or(0)
	if out[0] < 1 || volume.shape[2] < 1 {
		failf(name, ErrShape, in, "cannot pool %d elements to %d", volume.shape[2], out[0])
	}
	fits(x.place, name, x.dtype, []int{volume.shape[0], volume.shape[1], out[0], out[1], out[2]}, in...)
	y := adaptiveImage(name, in, id, planesOf(volume), [2]int(out[1:]))
	y = adaptiveImage(name, in, id, columnsOf(y), [2]int{out[0], out[1] * out[2]})
	return restore(volumesOf(y, volume, out[1], out[2]))
}
