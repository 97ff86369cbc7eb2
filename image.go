package locus

import (
	"slices"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
)

// PixelShuffle rearranges C·r² channels into C channels of r times the height and
// width: (…, C·r², H, W) becomes (…, C, H·r, W·r).
func PixelShuffle(x *Tensor, r int) *Tensor {
	x.check("PixelShuffle")
	n := len(x.shape)
	if n < 3 || r < 1 || r > maxSide || x.shape[n-3]%(r*r) != 0 {
		failf("PixelShuffle", ErrShape, []*Tensor{x}, "needs (…, C·r², H, W) with r = %d", r)
	}
	lead, c, h, w := x.shape[:n-3], x.shape[n-3]/(r*r), x.shape[n-2], x.shape[n-1]
	m := op.Elements(lead)
	y := x.reshape([]int{m, c, r, r, h, w}).Permute(0, 1, 4, 2, 5, 3)
	return y.reshape(append(slices.Clone(lead), c, h*r, w*r)).fresh(x)
}

// PixelUnshuffle undoes [PixelShuffle]: (…, C, H·r, W·r) becomes (…, C·r², H, W).
func PixelUnshuffle(x *Tensor, r int) *Tensor {
	x.check("PixelUnshuffle")
	n := len(x.shape)
	if n < 3 || r < 1 || r > maxSide || x.shape[n-2]%r != 0 || x.shape[n-1]%r != 0 {
		failf("PixelUnshuffle", ErrShape, []*Tensor{x}, "needs (…, C, H·r, W·r) with r = %d", r)
	}
	lead, c, h, w := x.shape[:n-3], x.shape[n-3], x.shape[n-2]/r, x.shape[n-1]/r
	m := op.Elements(lead)
	y := x.reshape([]int{m, c, h, r, w, r}).Permute(0, 1, 3, 5, 2, 4)
	return y.reshape(append(slices.Clone(lead), c*r*r, h, w)).fresh(x)
}

// WindowOptions are the options of [Unfold] and [Fold]. The zero value is a
// stride of 1 without padding or dilation.
type WindowOptions struct {
	Stride   Pair // 0 means 1
	Padding  Pair // zeros on all sides
	Dilation Pair // 0 means 1
}

// windows are the places of a window over an image.
type windows struct {
	kernel, stride, pad, dilation [2]int
	padded, count                 [2]int // size of the padded image; number of places
}

func (o WindowOptions) windows(name string, in []*Tensor, window Pair, size [2]int) windows {
	w := windows{kernel: window.or(0), stride: o.Stride.or(1), pad: o.Padding.or(0), dilation: o.Dilation.or(1)}
	for i := range 2 {
		if w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || w.pad[i] < 0 {
			failf(name, ErrArgument, in, "window %v, stride %v and dilation %v must be positive, padding %v not negative", w.kernel, w.stride, w.dilation, w.pad)
		}
		w.padded[i] = size[i] + 2*w.pad[i]
		if w.padded[i] < w.dilation[i]*(w.kernel[i]-1)+1 {
			failf(name, ErrShape, in, "a window of size %d with dilation %d does not fit into %d elements with padding %d", w.kernel[i], w.dilation[i], size[i], w.pad[i])
		}
		// An image without elements takes no memory that would bound the loop over the window.
		if err := gate.Count("the number of a window's elements", w.kernel[0]*w.kernel[1], 1, gate.MaxParts); err != nil {
			fail(name, err, in...)
		}
		w.count[i] = op.ConvOut(size[i], w.kernel[i], w.stride[i], w.pad[i], w.dilation[i])
	}
	return w
}

// slice is where in n·c padded images the element (i, j) of all windows lies.
func (w windows) slice(n, c, i, j int) op.Slice {
	return op.Slice{
		Start: op.DimsOf([]int{0, 0, i * w.dilation[0], j * w.dilation[1]}),
		Len:   op.DimsOf([]int{n, c, w.count[0], w.count[1]}),
		Step:  op.DimsOf([]int{1, 1, w.stride[0], w.stride[1]}),
	}
}

// Unfold lays the windows of images out as columns: x (N, C, H, W), result
// (N, C·KH·KW, L) with L places of the window.
func Unfold(x *Tensor, window Pair, o WindowOptions) *Tensor {
	in := []*Tensor{x}
	x.check("Unfold")
	if len(x.shape) != 4 {
		failf("Unfold", ErrShape, in, "x has %d dimensions; want (N, C, H, W)", len(x.shape))
	}
	n, c := x.shape[0], x.shape[1]
	w := o.windows("Unfold", in, window, [2]int{x.shape[2], x.shape[3]})
	if w.pad != [2]int{} {
		x = x.Pad(0, 0, 0, 0, 0, w.pad[0], w.pad[0], w.pad[1], w.pad[1])
	}
	var parts []*Tensor
	for i := range w.kernel[0] {
		for j := range w.kernel[1] {
			s := w.slice(n, c, i, j)
			parts = append(parts, x.slice(s.Start.Slice(), s.Len.Slice(), s.Step.Slice()).Unsqueeze(2))
		}
	}
	return Concat(2, parts...).reshape([]int{n, c * len(parts), w.count[0] * w.count[1]}).owned()
}

// Fold adds up columns into images: the transpose of [Unfold]. x (N, C·KH·KW, L),
// result (N, C, H, W) with the given size.
func Fold(x *Tensor, size, window Pair, o WindowOptions) *Tensor {
	in := []*Tensor{x}
	x.check("Fold")
	image := size.or(0)
	w := o.windows("Fold", in, window, image)
	k, l := w.kernel[0]*w.kernel[1], w.count[0]*w.count[1]
	if len(x.shape) != 3 || x.shape[1]%k != 0 || x.shape[2] != l {
		failf("Fold", ErrShape, in, "want x (N, C·%d, %d) for images of size %s", k, l, size)
	}
	n, c := x.shape[0], x.shape[1]/k
	x = x.reshape([]int{n, c, k, w.count[0], w.count[1]})
	var sum *Tensor
	for i := range w.kernel[0] {
		for j := range w.kernel[1] {
			at := i*w.kernel[1] + j
			part := unslice(x.Narrow(2, at, at+1).Squeeze(2), []int{n, c, w.padded[0], w.padded[1]}, w.slice(n, c, i, j))
			if sum == nil {
				sum = part
			} else {
				sum = sum.Add(part)
			}
		}
	}
	return sum.Slice(All(), All(), R(w.pad[0], w.pad[0]+image[0]), R(w.pad[1], w.pad[1]+image[1])).owned()
}

// InterpolateMode says how [Interpolate] finds values between the elements.
type InterpolateMode uint8

// The modes.
const (
	InterpolateNearest  InterpolateMode = iota // the element at ⌊i·from/to⌋
	InterpolateBilinear                        // a weighted average of the four neighbors; pixels are squares, borders align
	InterpolateCorners                         // the same, with the centers of the corner pixels aligned
)

// Interpolate returns images of another size: x (N, C, H, W), result (N, C, height,
// width).
func Interpolate(x *Tensor, size Pair, mode InterpolateMode) *Tensor {
	in := []*Tensor{x}
	x.check("Interpolate")
	if len(x.shape) != 4 {
		failf("Interpolate", ErrShape, in, "x has %d dimensions; want (N, C, H, W)", len(x.shape))
	}
	if mode > InterpolateCorners {
		failf("Interpolate", ErrArgument, in, "there is no mode %d", mode)
	}
	if mode != InterpolateNearest {
		x.wantFloat("Interpolate")
	}
	to := size.or(0)
	fits(x.place, "Interpolate", x.dtype, []int{x.shape[0], x.shape[1], to[0], to[1]}, in...)
	for i := range 2 {
		n := x.shape[2+i]
		if n < 1 || to[i] < 1 {
			failf("Interpolate", ErrShape, in, "cannot make %d elements of %d", to[i], n)
		}
		if to[i] != n {
			x = x.resample(2+i, to[i], mode)
		}
	}
	return in[0].borrow(x)
}

// resample changes the size of one axis.
func (t *Tensor) resample(axis, to int, mode InterpolateMode) *Tensor {
	n := t.shape[axis]
	if mode == InterpolateNearest {
		return t.Take(axis, t.arange(to).Mul(n).FloorDiv(to))
	}
	at := t.arange(to).Cast(Float64) // where each element lies among those of t
	if mode == InterpolateCorners {
		step := 0.0
		if to > 1 {
			step = float64(n-1) / float64(to-1)
		}
		at = at.Mul(step)
	} else {
		at = at.Add(0.5).Mul(float64(n) / float64(to)).Sub(0.5).Maximum(0)
	}
	low := at.Floor().Minimum(n - 1)
	weight := at.Sub(low).Cast(t.dtype)
	if axis == 2 {
		weight = weight.Unsqueeze(1)
	}
	index := low.Cast(Int64)
	a, b := t.Take(axis, index), t.Take(axis, index.Add(1).Minimum(n-1))
	return a.Lerp(b, weight)
}
