package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Roll shifts elements along an axis by the given number of positions; those that
// leave at one end come in at the other.
func (t *Tensor) Roll(by, axis int) *Tensor {
	t.check("Roll")
	a := t.axis("Roll", axis)
	n := t.shape[a]
	if n == 0 {
		return t.alias()
	}
	by = (by%n + n) % n
	if by == 0 {
		return t.alias()
	}
	return Concat(a, t.Narrow(a, n-by, n), t.Narrow(a, 0, n-by))
}

// Meshgrid returns the coordinates of a grid whose axes are the given vectors: as
// many tensors, each with an axis for every vector, in order, without copying.
func Meshgrid(axes ...*Tensor) []*Tensor {
	checkOperands("Meshgrid", axes)
	shape := make([]int, len(axes))
	for i, t := range axes {
		if len(t.shape) != 1 {
			failf("Meshgrid", ErrShape, axes, "needs vectors")
		}
		shape[i] = t.shape[0]
	}
	if err := op.CheckShape(shape); err != nil {
		fail("Meshgrid", err, axes...)
	}
	grid := make([]*Tensor, len(axes))
	for i, t := range axes {
		own := slices.Repeat([]int{1}, len(axes))
		own[i] = shape[i]
		grid[i] = t.borrow(t.reshape(own).expand(slices.Clone(shape)))
	}
	return grid
}

// SegmentSum adds up the slices of data along axis 0 that have the same id: ids,
// integers below n, one per slice; result (n, …). An id out of range is an
// [ErrIndex], on a GPU at the next wait.
func SegmentSum(data, ids *Tensor, n int) *Tensor {
	segments("SegmentSum", data, ids, n)
	defer naming("SegmentSum", []*Tensor{data, ids})
	return segmentSum(data, ids, n)
}

// SegmentMean averages the slices of data along axis 0 that have the same id, as
// [SegmentSum] adds them up. The average of no slices is 0.
func SegmentMean(data, ids *Tensor, n int) *Tensor {
	segments("SegmentMean", data, ids, n)
	data.wantFloat("SegmentMean")
	defer naming("SegmentMean", []*Tensor{data, ids})
	each := slices.Repeat([]int{1}, len(data.shape))
	each[0] = data.shape[0]
	count := segmentSum(data.fullOf(1, each), ids, n)
	return segmentSum(data, ids, n).Div(count.Maximum(1))
}

func segments(name string, data, ids *Tensor, n int) {
	in := []*Tensor{data, ids}
	checkOperands(name, in)
	if len(ids.shape) != 1 || len(data.shape) == 0 || data.shape[0] != ids.shape[0] {
		failf(name, ErrShape, in, "needs one id per slice of data along axis 0")
	}
	if n < 0 {
		failf(name, ErrArgument, in, "the number of segments is %d", n)
	}
}

func segmentSum(data, ids *Tensor, n int) *Tensor {
	shape := data.Shape()
	shape[0] = n
	return data.fullOf(0, shape).IndexAdd(0, ids, data)
}
