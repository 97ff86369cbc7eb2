package locus

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Range chooses elements of one axis for [Tensor.Slice]; make one with [R],
// [Tail], [All], [Reversed] or [At].
type Range struct {
	start, stop, step int
	hasStop, at       bool
}

// All chooses a whole axis.
func All() Range { return Range{step: 1} }

// At chooses one position and removes the axis.
func At(i int) Range { return Range{start: i, at: true} }

// R chooses from start to below stop, in steps if one is given. Negative
// positions count from the end. A negative step goes down from start to above
// stop.
func R(start, stop int, step ...int) Range {
	r := Range{start: start, stop: stop, step: 1, hasStop: true}
	if len(step) > 1 {
		failf("R", ErrArgument, nil, "takes start, stop and one step; got %d steps", len(step))
	}
	if len(step) > 0 {
		r.step = step[0]
	}
	return r
}

// Tail chooses from start to the end of the axis.
func Tail(start int) Range { return Range{start: start, step: 1} }

// Reversed chooses a whole axis from its end to its start.
func Reversed() Range { return Range{start: -1, step: -1} }

// Slice returns a view of the chosen elements: one [Range] per axis, in order; axes
// that are not named are whole. A range that reaches beyond the end is cut off, as
// in Python; a position out of range is an [ErrIndex].
func (t *Tensor) Slice(ranges ...Range) *Tensor {
	t.check("Slice")
	r := len(t.shape)
	if len(ranges) > r {
		failf("Slice", ErrAxis, []*Tensor{t}, "names %d axes of %d", len(ranges), r)
	}
	start, length, step := make([]int, r), slices.Clone(t.shape), make([]int, r)
	var dropped []int
	for i := range t.shape {
		step[i] = 1
		if i >= len(ranges) {
			continue
		}
		q, n := ranges[i], t.shape[i]
		if q.at {
			at := q.start
			if at < 0 {
				at += n
			}
			if at < 0 || at >= n {
				failf("Slice", ErrIndex, []*Tensor{t}, "position %d is outside axis %d of size %d", q.start, i, n)
			}
			start[i], length[i] = at, 1
			dropped = append(dropped, i)
			continue
		}
		if q.step == 0 {
			failf("Slice", ErrArgument, []*Tensor{t}, "a step of 0 on axis %d", i)
		}
		start[i], length[i] = resolveRange(q, n)
		step[i] = q.step
	}
	v := t.slice(start, length, step)
	if len(dropped) > 0 {
		return v.Squeeze(dropped...)
	}
	return v
}

// resolveRange returns the first position and the number of positions.
func resolveRange(q Range, n int) (start, count int) {
	clamp := func(p, lo, hi int) int {
		if p < 0 {
			p += n
		}
		return max(lo, min(p, hi))
	}
	if q.step > 0 {
		start = clamp(q.start, 0, n)
		stop := n
		if q.hasStop {
			stop = clamp(q.stop, 0, n)
		}
		if stop <= start {
			return start, 0
		}
		return start, (stop-start-1)/q.step + 1
	}
	start = clamp(q.start, -1, n-1)
	stop := -1
	if q.hasStop {
		stop = clamp(q.stop, -1, n-1)
	}
	if start <= stop {
		return max(start, 0), 0
	}
	return start, (start-stop-1)/-q.step + 1
}

// slice makes the view; everything is in range.
func (t *Tensor) slice(start, length, step []int) *Tensor {
	strides := make([]int, len(t.shape))
	offset := t.offset
	whole := true
	for i := range t.shape {
		strides[i] = t.strides[i] * step[i]
		if length[i] > 0 {
			offset += start[i] * t.strides[i]
		} else {
			start[i] = 0
		}
		whole = whole && length[i] == t.shape[i] && step[i] == 1
	}
	if whole {
		return t.alias()
	}
	attrs := op.Slice{Start: op.DimsOf(start), Len: op.DimsOf(length), Step: op.DimsOf(step)}
	return t.viewed(op.Sliced, attrs, length, strides, offset)
}

// Index returns the part at the given positions of the leading axes, which are
// removed: Index(i, j) of a matrix is one element, Index(i) a row.
func (t *Tensor) Index(at ...int) *Tensor {
	r := make([]Range, len(at))
	for i, p := range at {
		r[i] = At(p)
	}
	return t.Slice(r...)
}

// Narrow chooses from start to below stop of one axis. PyTorch's narrow takes a length in
// the place of stop.
func (t *Tensor) Narrow(axis, start, stop int) *Tensor {
	t.check("Narrow")
	a := t.axis("Narrow", axis)
	n := t.shape[a]
	if start < 0 || stop < start || stop > n {
		p := op.Problemf(ErrIndex, "%d to %d is outside axis %d of size %d", start, stop, a, n)
		if start >= 0 && stop >= 0 && stop < start { // as PyTorch's narrow is called
			p.Fix = fmt.Sprintf("the last argument says where to stop, not how many: for a length of %d Narrow(%d, %d, %d)", stop, axis, start, start+stop)
		}
		fail("Narrow", p, t)
	}
	return t.Slice(rangesFor(t, a, R(start, stop))...)
}

// rangesFor chooses on one axis and leaves the others whole.
func rangesFor(t *Tensor, axis int, r Range) []Range {
	l := make([]Range, axis+1)
	for i := range l {
		l[i] = All()
	}
	l[axis] = r
	return l
}

// Flip reverses the given axes, all if none is named.
func (t *Tensor) Flip(axes ...int) *Tensor {
	t.check("Flip")
	set, err := op.ResolveAxes(axes, len(t.shape))
	if err != nil {
		fail("Flip", err, t)
	}
	l := make([]Range, len(t.shape))
	for i := range l {
		l[i] = All()
		if set.Has(i) {
			l[i] = Reversed()
		}
	}
	return t.Slice(l...)
}
