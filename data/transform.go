package data

import (
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// The transforms below change the first field of a batch, images of shape
// (n, channels, height, width); the other fields pass.

func onImages(f func(x *locus.Tensor, key locus.Key) *locus.Tensor) Transform {
	return func(batch []*locus.Tensor, key locus.Key) []*locus.Tensor {
		if len(batch) == 0 {
			panic(&locus.Error{Kind: locus.ErrArgument, Op: "data transform", Msg: "the batch has no fields"})
		}
		x := batch[0]
		if x.Rank() != 4 {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "data transform", Operands: []locus.Operand{{Shape: x.Shape(), DType: x.DType(), Device: x.Device()}},
				Msg: "images have 4 axes: examples, channels, height, width"})
		}
		return append([]*locus.Tensor{f(x, key)}, batch[1:]...)
	}
}

// maxPixels is the most that an image may have along one side.
const maxPixels = 1 << 16

// Normalize subtracts each channel's mean and divides by its standard deviation.
func Normalize(mean, std []float32) Transform {
	if len(mean) == 0 || len(mean) != len(std) {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "data.Normalize", Msg: fmt.Sprintf("%d means and %d standard deviations; want one of each for each channel", len(mean), len(std))})
	}
	mean, std = slices.Clone(mean), slices.Clone(std)
	return onImages(func(x *locus.Tensor, _ locus.Key) *locus.Tensor {
		if c := x.Dim(1); len(mean) != 1 && len(mean) != c {
			panic(&locus.Error{Kind: locus.ErrShape, Op: "data.Normalize", Msg: fmt.Sprintf("the images have %d channels; there are %d means and standard deviations", c, len(mean))})
		}
		d := x.Device()
		return x.Sub(d.From(mean, len(mean), 1, 1)).Div(d.From(std, len(std), 1, 1))
	})
}

// RandomFlip mirrors each image, left to right, with probability p.
func RandomFlip(p float64) Transform {
	if !(p >= 0 && p <= 1) {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "data.RandomFlip", Msg: fmt.Sprintf("the probability is %v; want 0 to 1", p)})
	}
	return onImages(func(x *locus.Tensor, key locus.Key) *locus.Tensor {
		s := newStream(key, 1)
		if x.Len() == 0 {
			return x
		}
		flip := make([]bool, x.Dim(0))
		for i := range flip {
			flip[i] = s.uniform() < p
		}
		return locus.Where(x.Device().From(flip, len(flip), 1, 1, 1), x.Flip(-1), x)
	})
}

// RandomCrop puts a border of zeros of the given width around each image and
// cuts out a part of the old size at a random place.
func RandomCrop(border int) Transform {
	gate.Check("data.RandomCrop", gate.Count("the border", border, 0, maxPixels))
	return onImages(func(x *locus.Tensor, key locus.Key) *locus.Tensor {
		s := newStream(key, 2)
		n, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
		if x.Len() == 0 {
			return x
		}
		wide := x.Pad(0, 0, 0, 0, 0, border, border, border, border)
		parts := make([]*locus.Tensor, n)
		for i := range parts {
			top, left := s.below(2*border+1), s.below(2*border+1)
			parts[i] = wide.Slice(locus.R(i, i+1), locus.All(), locus.R(top, top+h), locus.R(left, left+w))
		}
		return locus.Concat(0, parts...)
	})
}

// Resize changes the size of images by linear interpolation; shrinking averages
// over all pixels that become one, so that none is lost.
func Resize(height, width int) Transform {
	gate.Check("data.Resize", gate.Count("the height", height, 1, maxPixels), gate.Count("the width", width, 1, maxPixels))
	return onImages(func(x *locus.Tensor, _ locus.Key) *locus.Tensor {
		gate.Check("data.Resize", gate.Count("the height of an image", x.Dim(2), 1, maxPixels), gate.Count("the width of an image", x.Dim(3), 1, maxPixels))
		// Interpolation is linear: a matrix for the rows and one for the columns.
		rows := x.Device().From(interpolation(x.Dim(2), height), height, x.Dim(2))
		columns := x.Device().From(interpolation(x.Dim(3), width), width, x.Dim(3))
		return rows.MatMul(x.MatMul(columns.T()))
	})
}

// interpolation returns the weights of n old pixels in each of m new ones. Both
// rows of pixels cover the same length; a new pixel's weights fall off linearly
// with the distance from its center, over one old pixel or one new one,
// whichever is wider.
func interpolation(n, m int) []float32 {
	weights := make([]float32, m*n)
	scale := float64(n) / float64(m)
	reach := math.Max(scale, 1)
	for i := range m {
		center := (float64(i) + 0.5) * scale
		row := weights[i*n : (i+1)*n]
		sum := 0.0
		for j := range row {
			if w := 1 - math.Abs(float64(j)+0.5-center)/reach; w > 0 {
				row[j] = float32(w)
				sum += w
			}
		}
		for j := range row {
			row[j] /= float32(sum)
		}
	}
	return weights
}
