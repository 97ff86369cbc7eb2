package locus

import "github.com/locusml/locus/internal/op"

// ArgSort returns the positions that sort an axis, as int64. Equal elements keep
// their order; NaN counts as largest.
func (t *Tensor) ArgSort(axis int, descending bool) *Tensor {
	t.check("ArgSort")
	return apply(op.ArgSort, op.Axis{Axis: t.axis("ArgSort", axis), Reverse: descending}, t.detach())
}

// Sort returns an axis in order, and the positions the elements came from.
func (t *Tensor) Sort(axis int, descending bool) (values, positions *Tensor) {
	positions = t.ArgSort(axis, descending)
	return t.Gather(axis, positions), positions
}

// TopK returns the k largest elements along an axis, largest first, and their
// positions. [Tensor.BottomK] is PyTorch's topk with largest=False.
func (t *Tensor) TopK(k, axis int) (values, positions *Tensor) {
	return t.first("TopK", k, axis, true)
}

// BottomK returns the k smallest elements along an axis, smallest first, and
// their positions.
func (t *Tensor) BottomK(k, axis int) (values, positions *Tensor) {
	return t.first("BottomK", k, axis, false)
}

func (t *Tensor) first(name string, k, axis int, descending bool) (values, positions *Tensor) {
	t.check(name)
	a := t.axis(name, axis)
	if k < 0 || k > t.shape[a] {
		failf(name, ErrArgument, []*Tensor{t}, "k is %d; axis %d has %d elements", k, a, t.shape[a])
	}
	positions = t.ArgSort(a, descending).Narrow(a, 0, k).owned()
	return t.Gather(a, positions), positions
}

// SearchSorted returns, for every element of values, its place in t, a vector in
// ascending order: the first position whose element is not below it, or with right
// the first whose element is above it. The places are int64 from 0 to t's length.
func (t *Tensor) SearchSorted(values *Tensor, right bool) *Tensor {
	const name = "SearchSorted"
	in := []*Tensor{t, values}
	checkOperands(name, in)
	if len(t.shape) != 1 {
		failf(name, ErrShape, in, "needs a vector to search in, not %s", op.ShapeString(t.shape))
	}
	if t.dtype != values.dtype {
		failf(name, ErrDType, in, "elements are %s and %s; want one type", t.dtype, values.dtype)
	}
	if t.dtype == Bool {
		failf(name, ErrDType, in, "bools have no order")
	}
	return t.detach().search(values.detach(), right)
}

// search is a binary search along the last axis, for all values at once. The
// other axes of t are those of values, or there are none.
func (t *Tensor) search(values *Tensor, right bool) *Tensor {
	last := len(t.shape) - 1
	n := t.shape[last]
	id := op.Less // an element that lies before the place
	if right {
		id = op.LessEqual
	}
	place := values.beside(values.place.device.As(Int64).Zeros(values.shape...))
	step := 1
	for 2*step <= n {
		step *= 2
	}
	for ; n > 0 && step > 0; step /= 2 {
		next := place.Add(step)
		at := next.Minimum(n).Sub(1)
		var x *Tensor
		if last == 0 {
			x = t.take(0, at)
		} else {
			x = apply(op.Gather, op.Axis{Axis: last}, t, at)
		}
		before := apply(id, nil, x, values).And(next.Le(n))
		place = before.Where(next, place)
	}
	return place
}
