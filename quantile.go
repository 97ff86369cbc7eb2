package locus

import (
	"fmt"
	"math"

	"github.com/locusml/locus/internal/op"
)

// Median returns the middle element of each line, the lower of the two middle
// ones as PyTorch's does; NaN if one is NaN. Without axes it is that of the whole
// tensor. The gradient flows to one element that has the value.
func (t *Tensor) Median(axes ...int) *Tensor { return t.median("Median", false, axes) }

// MedianKeep is [Tensor.Median] that keeps the axes.
func (t *Tensor) MedianKeep(axes ...int) *Tensor { return t.median("MedianKeep", true, axes) }

func (t *Tensor) median(name string, keep bool, axes []int) *Tensor {
	t.check(name)
	if t.dtype == Bool {
		failf(name, ErrDType, []*Tensor{t}, "bools have no order")
	}
	lines := t.asLines(name, axes)
	last := len(lines.shape) - 1
	n := lines.shape[last]
	order := apply(op.ArgSort, op.Axis{Axis: last}, lines.detach())
	at := order.Narrow(last, (n-1)/2, (n-1)/2+1)
	if t.dtype.IsFloat() { // NaN is sorted to the end
		end := order.Narrow(last, n-1, n)
		nan := apply(op.Gather, op.Axis{Axis: last}, lines.detach(), end).IsNaN()
		at = nan.Where(end, at)
	}
	return t.fromLines(apply(op.Gather, op.Axis{Axis: last}, lines, at), keep, axes)
}

// Quantile returns the value below which the fraction q of each line lies, 0 ≤ q ≤
// 1, between two neighbors in proportion, as PyTorch's does by default; NaN if
// one is NaN. Without axes it is that of the whole tensor.
func (t *Tensor) Quantile(q float64, axes ...int) *Tensor {
	return t.quantile("Quantile", q, false, axes)
}

// QuantileKeep is [Tensor.Quantile] that keeps the axes.
func (t *Tensor) QuantileKeep(q float64, axes ...int) *Tensor {
	return t.quantile("QuantileKeep", q, true, axes)
}

func (t *Tensor) quantile(name string, q float64, keep bool, axes []int) *Tensor {
	t.wantFloat(name)
	if !(q >= 0 && q <= 1) {
		fail(name, &op.Problem{Kind: ErrArgument, Msg: fmt.Sprintf("q is %v; want 0 to 1", q), Fix: "divide percentages by 100"}, t)
	}
	lines := t.asLines(name, axes)
	last := len(lines.shape) - 1
	n := lines.shape[last]
	order := apply(op.ArgSort, op.Axis{Axis: last}, lines.detach())
	pick := func(k int) *Tensor {
		return apply(op.Gather, op.Axis{Axis: last}, lines, order.Narrow(last, k, k+1))
	}
	below, part := math.Modf(q * float64(n-1))
	k := int(below)
	y := pick(k)
	if part > 0 {
		y = y.Mul(1 - part).Add(pick(k + 1).Mul(part))
	}
	if k < n-1 { // NaN is sorted to the end
		end := pick(n - 1)
		y = end.IsNaN().Where(end, y)
	}
	return t.fromLines(y, keep, axes)
}

// asLines moves the axes to reduce behind the others, as one, for ops that work
// along the last axis.
func (t *Tensor) asLines(name string, axes []int) *Tensor {
	set, err := op.ResolveAxes(axes, len(t.shape))
	if err != nil {
		fail(name, err, t)
	}
	var order, shape []int
	n := 1
	for i, size := range t.shape {
		if !set.Has(i) {
			order, shape = append(order, i), append(shape, size)
		}
	}
	for i, size := range t.shape {
		if set.Has(i) {
			order = append(order, i)
			n *= size
		}
	}
	if n == 0 {
		failf(name, ErrShape, []*Tensor{t}, "shape %s is empty along the reduced axes, so there is no value", op.ShapeString(t.shape))
	}
	if len(order) > 0 {
		t = t.Permute(order...)
	}
	return t.reshape(append(shape, n))
}

// fromLines returns y, computed from asLines with one element per line, the shape of
// a reduction of t.
func (t *Tensor) fromLines(y *Tensor, keep bool, axes []int) *Tensor {
	set, _ := op.ResolveAxes(axes, len(t.shape)) // asLines has checked them
	shape := []int{}
	for i, size := range t.shape {
		switch {
		case !set.Has(i):
			shape = append(shape, size)
		case keep:
			shape = append(shape, 1)
		}
	}
	return y.reshape(shape).fresh(t)
}
