package locus

import "github.com/locusml/locus/internal/op"

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
