package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Concat puts tensors one after the other along an axis. The result is always in
// memory of its own, also of one tensor.
func Concat(axis int, ts ...*Tensor) *Tensor {
	if len(ts) == 0 {
		failf("Concat", ErrArgument, nil, "needs at least one tensor")
	}
	ts[0].check("Concat")
	a := ts[0].axis("Concat", axis)
	if len(ts) == 1 {
		return apply(op.Copy, nil, ts[0])
	}
	return apply(op.Concat, op.Axis{Axis: a}, ts...)
}

// Stack puts tensors of one shape one after the other along a new axis. The result
// is always in memory of its own, also of one tensor.
func Stack(axis int, ts ...*Tensor) *Tensor {
	if len(ts) == 0 {
		failf("Stack", ErrArgument, nil, "needs at least one tensor")
	}
	first := ts[0].Unsqueeze(axis)
	l, views := make([]*Tensor, len(ts)), make([]Tensor, len(ts))
	for i, t := range ts {
		t.check("Stack")
		if !sameShape(t.shape, ts[0].shape) {
			failf("Stack", ErrShape, []*Tensor{ts[0], t}, "tensors have different shapes")
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

// Repeat returns t repeated along each axis: one count per axis.
func (t *Tensor) Repeat(counts ...int) *Tensor {
	t.check("Repeat")
	if len(counts) < len(t.shape) {
		failf("Repeat", ErrArgument, []*Tensor{t}, "takes one count per axis; got %d for %d axes", len(counts), len(t.shape))
	}
	lead := len(counts) - len(t.shape)
	split, to, out := []int{}, []int{}, []int{}
	for i, c := range counts {
		n := 1
		if i >= lead {
			n = t.shape[i-lead]
		}
		if c < 0 {
			failf("Repeat", ErrArgument, []*Tensor{t}, "the count %d is negative", c)
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

// RepeatInterleave returns t with every slice along an axis repeated: as often as
// repeats says, a Go int for all, or a vector of integers with one count for
// each. With a vector the result's size depends on its elements: it waits for
// them, which a compiled function cannot do.
func (t *Tensor) RepeatInterleave(repeats any, axis int) *Tensor {
	const name = "RepeatInterleave"
	t.check(name)
	a := t.axis(name, axis)
	switch n := repeats.(type) {
	case int:
		if n < 0 {
			failf(name, ErrArgument, []*Tensor{t}, "the count %d is negative", n)
		}
		to := slices.Clone(t.shape)
		to[a] *= n
		fits(t.place, name, t.dtype, to, t)
		before, size, after := op.Elements(t.shape[:a]), t.shape[a], op.Elements(t.shape[a+1:])
		return t.reshape([]int{before, size, 1, after}).expand([]int{before, size, n, after}).reshape(to).fresh(t)
	case *Tensor:
		in := []*Tensor{t, n}
		checkOperands(name, in)
		if !n.dtype.IsInt() {
			failf(name, ErrDType, in, "counts are integers, not %s", n.dtype)
		}
		if len(n.shape) != 1 || n.shape[0] != t.shape[a] {
			failf(name, ErrShape, in, "want a vector with one count for each of the %d slices of axis %d", t.shape[a], a)
		}
		n.single(name)
		countable(name)
		counts := n.detach().Cast(Int64)
		if counts.Len() == 0 {
			return t.Copy()
		}
		if low := counts.Min().Int(); low < 0 {
			failf(name, ErrArgument, in, "the count %d is negative", low)
		}
		ends := counts.CumSum(0)
		total := int(ends.Narrow(0, ends.Len()-1, ends.Len()).Int())
		to := slices.Clone(t.shape)
		to[a] = total
		fits(t.place, name, t.dtype, to, t)
		return t.take(a, ends.search(t.arange(total), true))
	}
	failf(name, ErrArgument, []*Tensor{t}, "repeats is a %T; want an int or a *Tensor", repeats)
	return nil
}
