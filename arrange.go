package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Roll moves elements along an axis by so many positions; what leaves at one end
// comes in at the other.
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

// PadMode says what [Tensor.PadWith] puts around a tensor.
type PadMode uint8

// The modes.
const (
	PadReflect   PadMode = iota // what lies behind the border element, mirrored: 2 1 | 0 1 2
	PadReplicate                // the border element again: 0 0 | 0 1 2
	PadCircular                 // what lies at the other end: 1 2 | 0 1 2
)

// PadWith puts elements of t itself before and after each axis: two amounts an
// axis, in order; axes that are not named stay. [Tensor.Pad] pads with a number.
func (t *Tensor) PadWith(mode PadMode, lowHigh ...int) *Tensor {
	in := []*Tensor{t}
	t.check("PadWith")
	if len(lowHigh)%2 != 0 || len(lowHigh) > 2*len(t.shape) {
		failf("PadWith", ErrArgument, in, "takes two amounts an axis, got %d numbers for %d axes", len(lowHigh), len(t.shape))
	}
	for a := range len(lowHigh) / 2 {
		lo, hi, n := lowHigh[2*a], lowHigh[2*a+1], t.shape[a]
		most := n // how much there is to put
		if mode == PadReflect {
			most = n - 1
		}
		if mode == PadReplicate && n > 0 {
			most = max(lo, hi)
		}
		if lo < 0 || hi < 0 || max(lo, hi) > max(most, 0) {
			failf("PadWith", ErrShape, in, "cannot put %d and %d elements around axis %d of size %d in this mode", lo, hi, a, n)
		}
		if lo == 0 && hi == 0 {
			continue
		}
		var before, after *Tensor
		switch mode {
		case PadReflect:
			before, after = t.Narrow(a, 1, 1+lo).Flip(a), t.Narrow(a, n-1-hi, n-1).Flip(a)
		case PadReplicate:
			size := t.Shape()
			size[a] = lo
			before = t.Narrow(a, 0, 1).expand(slices.Clone(size))
			size[a] = hi
			after = t.Narrow(a, n-1, n).expand(size)
		case PadCircular:
			before, after = t.Narrow(a, n-lo, n), t.Narrow(a, 0, hi)
		default:
			failf("PadWith", ErrArgument, in, "there is no mode %d", mode)
		}
		t = Concat(a, before, t, after)
	}
	return t
}

// Meshgrid gives the coordinates of a grid whose axes are the given vectors: as
// many tensors, each with an axis for every vector, in order, without copying.
func Meshgrid(axes ...*Tensor) []*Tensor {
	checkOperands("Meshgrid", axes)
	shape := make([]int, len(axes))
	for i, t := range axes {
		if len(t.shape) != 1 {
			failf("Meshgrid", ErrShape, axes, "wants vectors")
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
// whole numbers below n, one a slice; result (n, …). An id outside is an
// [ErrIndex], on a GPU at the next wait.
func SegmentSum(data, ids *Tensor, n int) *Tensor {
	segments("SegmentSum", data, ids, n)
	defer naming("SegmentSum", []*Tensor{data, ids})
	return segmentSum(data, ids, n)
}

// SegmentMean averages the slices of data along axis 0 that have the same id, as
// [SegmentSum] adds them up. The average of nothing is 0.
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
		failf(name, ErrShape, in, "wants one id for each slice of data along axis 0")
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
