package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// alias returns another handle of the same elements.
func (t *Tensor) alias() *Tensor {
	v := &Tensor{shape: t.shape, strides: t.strides, offset: t.offset, dtype: t.dtype, place: t.place, block: t.block, node: t.node, lane: t.lane}
	v.scope.Store(t.scope.Load())
	return v
}

// borrow returns v, what a view method made of t, as a view also where there was
// nothing to do: to free it must not free t.
func (t *Tensor) borrow(v *Tensor) *Tensor {
	if v == t {
		return t.alias()
	}
	return v
}

// laid returns another view of t's memory.
func (t *Tensor) laid(shape, strides []int, offset int) *Tensor {
	return t.laidAs(new(Tensor), shape, strides, offset)
}

// laidAs makes v, which is new, that view.
func (t *Tensor) laidAs(v *Tensor, shape, strides []int, offset int) *Tensor {
	v.shape, v.strides, v.offset, v.dtype, v.place, v.block, v.lane = shape, strides, offset, t.dtype, t.place, t.block, t.lane
	v.scope.Store(t.scope.Load())
	return v
}

// viewed returns a view of t made by a view op.
func (t *Tensor) viewed(id op.ID, attrs op.Attrs, shape, strides []int, offset int) *Tensor {
	v := t.laid(shape, strides, offset)
	if tracked([]*Tensor{t}) {
		v.node = &node{def: op.Get(id), attrs: attrs, inputs: []*Tensor{t}, out: v}
	}
	return v
}

// Reshape returns the same elements in another shape; one size may be -1 and is
// then worked out. It is a view where strides allow, else a copy.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	t.check("Reshape")
	to, err := op.ResolveReshape(t.shape, shape)
	if err != nil {
		fail("Reshape", err, t)
	}
	return t.borrow(t.reshape(to))
}

func (t *Tensor) reshape(to []int) *Tensor {
	if sameShape(t.shape, to) {
		return t
	}
	strides, ok := reshapeStrides(t.shape, t.strides, to)
	if !ok {
		return apply(op.Copy, nil, t).reshape(to)
	}
	if t.node == nil { // attributes would be made for nothing
		return t.laid(to, strides, t.offset)
	}
	return t.viewed(op.Reshape, op.Shape{Shape: op.DimsOf(to)}, to, strides, t.offset)
}

// reshapeStrides works out how a reshaped view would lie in memory. It takes
// runs of old axes that lie without holes and cuts each into new axes; a new
// axis that would reach over the end of a run has no stride.
func reshapeStrides(from, strides, to []int) ([]int, bool) {
	if op.IsContiguous(from, strides) {
		return op.Strides(to), true
	}
	out := make([]int, len(to))
	j := len(to) - 1
	for i := len(from) - 1; i >= 0; {
		unit, run := strides[i], from[i]
		for i--; i >= 0 && (from[i] == 1 || run == 1 || strides[i] == run*unit); i-- {
			if run == 1 {
				unit = strides[i]
			}
			run *= from[i]
		}
		cut := 1
		for ; j >= 0 && (cut < run || to[j] == 1); j-- {
			out[j] = cut * unit
			cut *= to[j]
		}
		if cut != run {
			return nil, false
		}
	}
	return out, true
}

// contiguous returns t, or a copy of it whose elements lie in order without holes.
func (t *Tensor) contiguous() *Tensor {
	if t.IsContiguous() {
		return t
	}
	return apply(op.Copy, nil, t)
}

// Contiguous returns t itself if its elements lie in order without holes, else a
// copy in which they do. Ops do this themselves where they need it.
func (t *Tensor) Contiguous() *Tensor {
	t.check("Contiguous")
	return t.contiguous()
}

// Flatten merges all axes into one.
func (t *Tensor) Flatten() *Tensor { return t.Reshape(-1) }

// FlattenFrom merges the given axis and those after it into one: FlattenFrom(1)
// keeps the batch.
func (t *Tensor) FlattenFrom(axis int) *Tensor {
	t.check("FlattenFrom")
	a := t.axis("FlattenFrom", axis)
	return t.borrow(t.reshape(append(slices.Clone(t.shape[:a]), op.Elements(t.shape[a:]))))
}

// Permute puts the axes in another order: axis i of the result is axis axes[i].
func (t *Tensor) Permute(axes ...int) *Tensor {
	t.check("Permute")
	r := len(t.shape)
	if len(axes) != r {
		failf("Permute", ErrAxis, []*Tensor{t}, "names %d axes of %d", len(axes), r)
	}
	if _, err := op.ResolveAxes(axes, r); err != nil {
		fail("Permute", err, t)
	}
	perm, shape, strides := make([]int, r), make([]int, r), make([]int, r)
	for i := range axes {
		perm[i] = t.axis("Permute", axes[i])
		shape[i], strides[i] = t.shape[perm[i]], t.strides[perm[i]]
	}
	return t.viewed(op.Permutation, op.Permute{Perm: op.DimsOf(perm)}, shape, strides, t.offset)
}

// Transpose exchanges two axes.
func (t *Tensor) Transpose(a, b int) *Tensor {
	t.check("Transpose")
	a, b = t.axis("Transpose", a), t.axis("Transpose", b)
	perm := make([]int, len(t.shape))
	for i := range perm {
		perm[i] = i
	}
	perm[a], perm[b] = b, a
	return t.Permute(perm...)
}

// T exchanges the last two axes: a matrix's transpose.
func (t *Tensor) T() *Tensor {
	t.check("T")
	if t.Rank() < 2 {
		failf("T", ErrShape, []*Tensor{t}, "a transpose needs at least two axes")
	}
	return t.Transpose(-2, -1)
}

// MoveAxis puts an axis in another position; the others keep their order.
func (t *Tensor) MoveAxis(from, to int) *Tensor {
	t.check("MoveAxis")
	from, to = t.axis("MoveAxis", from), t.axis("MoveAxis", to)
	var perm []int
	for i := range t.shape {
		if i != from {
			perm = append(perm, i)
		}
	}
	return t.Permute(slices.Insert(perm, to, from)...)
}

// Expand repeats axes of size 1, and adds axes in front, up to the given shape,
// without copying; -1 keeps an axis as it is.
func (t *Tensor) Expand(shape ...int) *Tensor {
	t.check("Expand")
	to := slices.Clone(shape)
	for i := range to {
		if j := i - (len(to) - len(t.shape)); to[i] == -1 && j >= 0 {
			to[i] = t.shape[j]
		}
	}
	if err := op.CheckShape(to); err != nil {
		fail("Expand", err, t)
	}
	return t.borrow(t.expand(to))
}

func (t *Tensor) expand(to []int) *Tensor {
	if sameShape(t.shape, to) {
		return t
	}
	attrs := op.Shape{Shape: op.DimsOf(to)}
	if _, err := op.Check(op.Expand, attrs, []op.Spec{t.spec()}); err != nil {
		fail("Expand", err, t)
	}
	return t.viewed(op.Expand, attrs, to, expandStrides(t.shape, t.strides, to), t.offset)
}

// Squeeze removes the given axes, which must have size 1; without arguments
// all that do.
func (t *Tensor) Squeeze(axes ...int) *Tensor {
	t.check("Squeeze")
	set, err := op.ResolveAxes(axes, len(t.shape))
	if err != nil {
		fail("Squeeze", err, t)
	}
	to := []int{}
	for i, n := range t.shape {
		switch {
		case n == 1 && set.Has(i):
		case len(axes) > 0 && set.Has(i):
			failf("Squeeze", ErrShape, []*Tensor{t}, "axis %d has size %d, not 1", i, n)
		default:
			to = append(to, n)
		}
	}
	return t.borrow(t.reshape(to))
}

// Unsqueeze puts an axis of size 1 in front of the given one; -1 puts it last.
func (t *Tensor) Unsqueeze(axis int) *Tensor {
	t.check("Unsqueeze")
	a, err := op.ResolveAxis(axis, len(t.shape)+1)
	if err != nil {
		fail("Unsqueeze", err, t)
	}
	if len(t.shape) == MaxRank {
		failf("Unsqueeze", ErrShape, []*Tensor{t}, "the tensor has the maximum number of dimensions already")
	}
	to := make([]int, len(t.shape)+1)
	copy(to, t.shape[:a])
	to[a] = 1
	copy(to[a+1:], t.shape[a:])
	return t.reshape(to)
}

// Diagonal returns the diagonal of two axes as a new last axis. offset > 0 is
// above the main diagonal.
func (t *Tensor) Diagonal(offset, a, b int) *Tensor {
	t.check("Diagonal")
	a, b = t.axis("Diagonal", a), t.axis("Diagonal", b)
	if a == b {
		failf("Diagonal", ErrAxis, []*Tensor{t}, "needs two different axes")
	}
	attrs := op.Diagonal{A: a, B: b, Offset: offset}
	spec, err := op.Check(op.DiagonalView, attrs, []op.Spec{t.spec()})
	if err != nil {
		fail("Diagonal", err, t)
	}
	var strides []int
	for i, s := range t.strides {
		if i != a && i != b {
			strides = append(strides, s)
		}
	}
	strides = append(strides, t.strides[a]+t.strides[b])
	at := t.offset
	if spec.Shape[len(spec.Shape)-1] > 0 {
		at += max(offset, 0)*t.strides[b] + max(-offset, 0)*t.strides[a]
	}
	return t.viewed(op.DiagonalView, attrs, spec.Shape, strides, at)
}
