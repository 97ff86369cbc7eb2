package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Gather chooses one element at a time along an axis: for axis 0 of a matrix,
// result[i][j] = t[index[i][j]][j].
func (t *Tensor) Gather(axis int, index *Tensor) *Tensor {
	t.check("gather")
	return apply(op.Gather, op.Axis{Axis: t.axis("gather", axis)}, t, index)
}

// Take chooses whole slices along an axis; index may have any shape, which takes
// the axis's place in the result. Take(0, index) looks rows up.
func (t *Tensor) Take(axis int, index *Tensor) *Tensor {
	t.check("take")
	return t.take(t.axis("take", axis), index)
}

func (t *Tensor) take(axis int, index *Tensor) *Tensor {
	y := apply(op.Take, op.Axis{Axis: axis}, t, index)
	if y.Len() == 0 {
		indices("take", t.shape[axis], index, t, index)
	}
	return y
}

// ScatterAdd gives t with src's elements added where index says: for axis 0 of
// a matrix, result[index[i][j]][j] += src[i][j].
func (t *Tensor) ScatterAdd(axis int, index, src *Tensor) *Tensor {
	t.check("scatter_add")
	return t.addAt(op.ScatterAdd, t.axis("scatter_add", axis), index, src)
}

// IndexAdd gives t with src's slices along an axis added at the positions that
// index names.
func (t *Tensor) IndexAdd(axis int, index, src *Tensor) *Tensor {
	t.check("index_add")
	return t.addAt(op.IndexAdd, t.axis("index_add", axis), index, src)
}

func (t *Tensor) addAt(id op.ID, axis int, index, src *Tensor) *Tensor {
	y := apply(id, op.Axis{Axis: axis}, t, index, src)
	if y.Len() == 0 {
		indices(op.Get(id).Name, t.shape[axis], index, t, index, src)
	}
	return y
}

// OneHot makes of every whole number i < n a row of n with a 1 at position i, in
// float32. A number outside gives a row of zeros.
func (t *Tensor) OneHot(n int) *Tensor {
	t.check("OneHot")
	if t.dtype.IsFloat() || t.dtype == Bool {
		failf("OneHot", ErrDType, []*Tensor{t}, "elements are %s; want whole numbers", t.dtype)
	}
	if n < 0 {
		failf("OneHot", ErrArgument, []*Tensor{t}, "n is %d", n)
	}
	fits(t.place, "OneHot", Float32, append(t.Shape(), n), t)
	classes := t.place.device.As(t.dtype).Arange(float64(n))
	return t.Unsqueeze(-1).Eq(classes).Cast(Float32)
}

// Concat puts tensors one after the other along an axis. The result is always in
// memory of its own, also of one tensor.
func Concat(axis int, ts ...*Tensor) *Tensor {
	if len(ts) == 0 {
		failf("concat", ErrArgument, nil, "needs at least one tensor")
	}
	ts[0].check("concat")
	a := ts[0].axis("concat", axis)
	if len(ts) == 1 {
		return apply(op.Copy, nil, ts[0])
	}
	return apply(op.Concat, op.Axis{Axis: a}, ts...)
}

// Stack puts tensors of one shape one after the other along a new axis. The result
// is always in memory of its own, also of one tensor.
func Stack(axis int, ts ...*Tensor) *Tensor {
	if len(ts) == 0 {
		failf("stack", ErrArgument, nil, "needs at least one tensor")
	}
	first := ts[0].Unsqueeze(axis)
	l, views := make([]*Tensor, len(ts)), make([]Tensor, len(ts))
	for i, t := range ts {
		t.check("stack")
		if !sameShape(t.shape, ts[0].shape) {
			failf("stack", ErrShape, []*Tensor{ts[0], t}, "tensors have different shapes")
		}
		if t.node == nil && first.node == nil && slices.Equal(t.strides, ts[0].strides) { // what the views of many have in common is made once
			l[i] = t.laidAs(&views[i], first.shape, first.strides, t.offset)
		} else {
			l[i] = t.Unsqueeze(axis)
		}
	}
	a, _ := op.ResolveAxis(axis, len(ts[0].shape)+1)
	return Concat(a, l...)
}

// Pad puts low elements of value before and high after each axis: Pad(0, 1, 1, 2, 0)
// puts one zero on both sides of axis 0 and two before axis 1. Axes that are not
// named stay; negative amounts cut off.
func (t *Tensor) Pad(value float64, lowHigh ...int) *Tensor {
	t.check("pad")
	if len(lowHigh)%2 != 0 || len(lowHigh) > 2*len(t.shape) {
		failf("pad", ErrArgument, []*Tensor{t}, "takes two amounts an axis, got %d numbers for %d axes", len(lowHigh), len(t.shape))
	}
	a := op.Pad{Low: op.Dims{N: len(t.shape)}, High: op.Dims{N: len(t.shape)}, Interior: op.Dims{N: len(t.shape)}, Value: value}
	cut := make([]Range, len(t.shape))
	for i, n := range t.shape {
		cut[i] = All()
		if 2*i >= len(lowHigh) {
			continue
		}
		lo, hi := max(lowHigh[2*i], -n-1), max(lowHigh[2*i+1], -n-1) // -n-1 is refused below as all less are
		a.Low.D[i], a.High.D[i] = max(lo, 0), max(hi, 0)
		if lo < 0 || hi < 0 {
			from, to := max(-lo, 0), n-max(-hi, 0)
			if from > to {
				failf("pad", ErrShape, []*Tensor{t}, "cannot cut %d and %d off axis %d of size %d", max(-lo, 0), max(-hi, 0), i, n)
			}
			cut[i] = R(from, to)
		}
	}
	return apply(op.Padded, a, t.Slice(cut...))
}

// CumSum gives running sums along an axis.
func (t *Tensor) CumSum(axis int) *Tensor {
	t.check("cumsum")
	return apply(op.CumSum, op.Axis{Axis: t.axis("cumsum", axis)}, t)
}

// ArgSort gives the positions that sort an axis, as int64. Equal elements keep
// their order; NaN counts as largest.
func (t *Tensor) ArgSort(axis int, descending bool) *Tensor {
	t.check("argsort")
	return apply(op.ArgSort, op.Axis{Axis: t.axis("argsort", axis), Reverse: descending}, t.detach())
}

// Sort gives an axis in order, and the positions the elements came from.
func (t *Tensor) Sort(axis int, descending bool) (values, positions *Tensor) {
	positions = t.ArgSort(axis, descending)
	return t.Gather(axis, positions), positions
}

// TopK gives the k largest elements along an axis, largest first, and their
// positions.
func (t *Tensor) TopK(k, axis int) (values, positions *Tensor) {
	t.check("topk")
	a := t.axis("topk", axis)
	if k < 0 || k > t.shape[a] {
		failf("topk", ErrArgument, []*Tensor{t}, "k is %d; axis %d has %d elements", k, a, t.shape[a])
	}
	positions = t.ArgSort(a, true).Narrow(a, 0, k).owned()
	return t.Gather(a, positions), positions
}

// Repeat gives t repeated along each axis: one count an axis.
func (t *Tensor) Repeat(counts ...int) *Tensor {
	t.check("repeat")
	if len(counts) < len(t.shape) {
		failf("repeat", ErrArgument, []*Tensor{t}, "takes one count an axis, got %d for %d", len(counts), len(t.shape))
	}
	lead := len(counts) - len(t.shape)
	split, to, out := []int{}, []int{}, []int{}
	for i, c := range counts {
		n := 1
		if i >= lead {
			n = t.shape[i-lead]
		}
		if c < 0 {
			failf("repeat", ErrArgument, []*Tensor{t}, "the count %d is negative", c)
		}
		split = append(split, 1, n)
		to = append(to, c, n)
		out = append(out, c*n)
	}
	if len(split) > MaxRank { // one axis at a time where the view would have too many
		r := t.Reshape(append(slices.Repeat([]int{1}, lead), t.shape...)...)
		for i, c := range counts {
			if c != 1 {
				before, n, after := op.Elements(r.shape[:i]), r.shape[i], op.Elements(r.shape[i+1:])
				to := slices.Clone(r.shape)
				to[i] = c * n
				r = r.reshape([]int{before, 1, n, after}).Expand(before, c, n, after).Reshape(to...)
			}
		}
		return r.fresh(t)
	}
	return t.Reshape(split...).Expand(to...).Reshape(out...).fresh(t)
}
